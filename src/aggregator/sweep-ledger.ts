import type { Attributes } from "../adapters/dynamodb/codec.ts";
import type { Records } from "../adapters/dynamodb/records.ts";
import { any, type Condition, isStill, missing, texts, updateRecord } from "../adapters/dynamodb/records-write.ts";
import { OWNER, UNTIL } from "../adapters/dynamodb/schema.ts";
import { runnerIndexKeys, sweepKey } from "../adapters/dynamodb/schema-runner.ts";
import type { Clock } from "../ports/system.ts";

/** Where a pass over all namespaces is. */
export interface SweepPosition {
  /** When the pass began. */
  readonly startedAtMs: number;
  readonly afterHours: number;
  /** The namespace it is in; undefined: at the beginning. */
  readonly namespaceId: string | undefined;
  /** The last bucket of it that is done. */
  readonly key: string | undefined;
  /** Of its buckets until there: the earliest hour that is still open, in hours since 1970. */
  readonly openHour: number | undefined;
  /** One of them could not be closed. */
  readonly hasFailed: boolean;
}

const NAMESPACE = "namespace";
const KEY = "key";
const STARTED_AT = "started_at";
const AFTER_HOURS = "after_hours";
const OPEN_HOUR = "open_hour";
const FAILED = "failed";
const POSITION = [NAMESPACE, KEY, STARTED_AT, AFTER_HOURS, OPEN_HOUR, FAILED];

/** Longer than any step takes. A sweep that was killed is gone on with after this. */
const LEASE_MS = 120_000;

/**
 * Where the sweep is, in the table: one that was cut off is gone on with, and two do not do the same work. Two at once would
 * change nothing but the cost.
 */
export class SweepLedger {
  readonly #records: Records;
  readonly #owner: string;
  readonly #clock: Clock;

  constructor(records: Records, owner: string, clock: Clock) {
    this.#records = records;
    this.#owner = owner;
    this.#clock = clock;
  }

  /** Takes the sweep over; "busy": somebody else is at it. Undefined: a new pass begins. */
  async begin({ anew }: { readonly anew: boolean }): Promise<SweepPosition | undefined | "busy"> {
    const owner = this.#owner;
    const over: Condition = (e) => `${e.name(UNTIL)} < ${e.value({ N: String(this.#clock.now()) })}`;
    const free = any(missing, isStill(OWNER, undefined), isStill(OWNER, { S: owner }), over);
    const change = { set: { ...texts(runnerIndexKeys()), ...this.#lease() } };
    const reply = await this.#records.transact([updateRecord(sweepKey(), change, anew ? undefined : free)]);
    if (reply.kind === "failed") return "busy";
    return anew ? undefined : positionOf(await this.#records.get(sweepKey()));
  }

  /** False: somebody else has taken it over. */
  async save({ startedAtMs, afterHours, namespaceId, key, openHour, hasFailed }: SweepPosition): Promise<boolean> {
    const set: Attributes = {
      ...this.#lease(),
      [STARTED_AT]: { N: String(startedAtMs) },
      [AFTER_HOURS]: { N: String(afterHours) },
      [FAILED]: { BOOL: hasFailed },
      ...(namespaceId === undefined ? {} : { [NAMESPACE]: { S: namespaceId } }),
      ...(key === undefined ? {} : { [KEY]: { S: key } }),
      ...(openHour === undefined ? {} : { [OPEN_HOUR]: { N: String(openHour) } }),
    };
    const remove = POSITION.filter((name) => !(name in set));
    return this.#write({ set, remove });
  }

  /** The pass is whole: the next sweep begins a new one. */
  async finish(): Promise<void> {
    await this.#write({ remove: [OWNER, UNTIL, ...POSITION] });
  }

  /** Leaves the rest to the next sweep. */
  async release(): Promise<void> {
    await this.#write({ remove: [OWNER, UNTIL] });
  }

  #lease(): Attributes {
    return { [OWNER]: { S: this.#owner }, [UNTIL]: { N: String(this.#clock.now() + LEASE_MS) } };
  }

  async #write(change: Parameters<typeof updateRecord>[1]): Promise<boolean> {
    const mine = isStill(OWNER, { S: this.#owner });
    return (await this.#records.transact([updateRecord(sweepKey(), change, mine)])).kind === "applied";
  }
}

function positionOf(item: Attributes | undefined): SweepPosition | undefined {
  if (item?.[STARTED_AT]?.N === undefined) return undefined;
  const openHour = item[OPEN_HOUR]?.N;
  return {
    startedAtMs: Number(item[STARTED_AT].N),
    afterHours: Number(item[AFTER_HOURS]?.N ?? 0),
    namespaceId: item[NAMESPACE]?.S,
    key: item[KEY]?.S,
    openHour: openHour === undefined ? undefined : Number(openHour),
    hasFailed: item[FAILED]?.BOOL === true,
  };
}
