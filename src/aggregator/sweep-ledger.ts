import type { Attributes } from "../adapters/dynamodb/codec.ts";
import type { Records } from "../adapters/dynamodb/records.ts";
import { isStill, texts, updateRecord } from "../adapters/dynamodb/records-write.ts";
import { OWNER, REGISTRY, systemIndexKeys, UNTIL } from "../adapters/dynamodb/schema.ts";
import { sweepKey } from "../adapters/dynamodb/schema-leases.ts";
import { given } from "../domain/names/given.ts";
import type { Clock } from "../ports/system.ts";
import { isLeasable, leaseAttributes } from "./checkpoints.ts";

/** The position of a pass over all namespaces. */
export interface SweepPosition {
  readonly startedAtMs: number;
  readonly afterHours: number;
  /** The current namespace; undefined at the beginning. */
  readonly namespaceId: string | undefined;
  /** The last bucket that is done. */
  readonly key: string | undefined;
  /** The earliest hour of its buckets so far that is still open, in hours since 1970. */
  readonly openHour: number | undefined;
  /** True if one of its buckets could not be closed. */
  readonly hasFailed: boolean;
}

const NAMESPACE = "namespace";
const KEY = "key";
const STARTED_AT = "started_at";
const AFTER_HOURS = "after_hours";
const OPEN_HOUR = "open_hour";
const FAILED = "failed";
const POSITION = [NAMESPACE, KEY, STARTED_AT, AFTER_HOURS, OPEN_HOUR, FAILED];

/** Longer than any step takes. After this time a killed sweep is continued by another. */
const LEASE_MS = 120_000;

/**
 * The position of the sweep, in the table: an interrupted sweep is continued, and two sweeps do not repeat each other's
 * work. Two at once would only cost more.
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

  /** Takes over the sweep. "busy": another process has it. Undefined: a new pass begins. */
  async begin({ anew }: { readonly anew: boolean }): Promise<SweepPosition | undefined | "busy"> {
    const free = isLeasable(this.#owner, this.#clock.now());
    const change = { set: { ...texts(systemIndexKeys(REGISTRY)), ...this.#lease() } };
    const reply = await this.#records.transact([updateRecord(sweepKey(), change, anew ? undefined : free)]);
    if (reply.kind === "failed") return "busy";
    return anew ? undefined : positionOf(await this.#records.get(sweepKey()));
  }

  /** Saves the position. False: another process has taken over. */
  async save({ startedAtMs, afterHours, namespaceId, key, openHour, hasFailed }: SweepPosition): Promise<boolean> {
    const set: Attributes = {
      ...this.#lease(),
      [STARTED_AT]: { N: String(startedAtMs) },
      [AFTER_HOURS]: { N: String(afterHours) },
      [FAILED]: { BOOL: hasFailed },
      ...texts(given({ [NAMESPACE]: namespaceId, [KEY]: key })),
      ...(openHour === undefined ? {} : { [OPEN_HOUR]: { N: String(openHour) } }),
    };
    const remove = POSITION.filter((name) => !(name in set));
    return this.#write({ set, remove });
  }

  /** Ends the pass; the next sweep begins a new one. */
  async finish(): Promise<void> {
    await this.#write({ remove: [OWNER, UNTIL, ...POSITION] });
  }

  /** Leaves the rest to the next sweep. */
  async release(): Promise<void> {
    await this.#write({ remove: [OWNER, UNTIL] });
  }

  #lease(): Attributes {
    return leaseAttributes(this.#owner, this.#clock.now() + LEASE_MS);
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
