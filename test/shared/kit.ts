import assert from "node:assert/strict";
import type { Tokens } from "../../src/domain/charge/amounts.ts";
import type { Limit } from "../../src/domain/limits/limit.ts";
import type { Item, ItemValue } from "../../src/ports/item-store.ts";
import type { ProtocolBuckets } from "../../src/protocol/buckets.ts";
import { ConfigReadings } from "../../src/protocol/config/config-readings.ts";
import { RF, SHARD_COUNT } from "../../src/protocol/item/attributes.ts";
import { SHARED } from "../../src/protocol/shared/dialect.ts";
import { SeededRandom } from "../../src/testing/random.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import type { LineOptions } from "../kit/conditional-line.ts";
import { conditionalWorld, openConditional } from "../kit/conditional-store.ts";
import type { ConditionalTable } from "../kit/conditional-table.ts";
import { amountsOf } from "../kit/contract-kit.ts";
import { calendar } from "../limits/calendar-kit.ts";
import { OriginalClient, type OriginalOptions } from "../simulation/original-client.ts";
import { bucket, MORNING_MS } from "../simulation/original-kit.ts";
import { CACHE_MS, type OurLease, OurProcess } from "./our-process.ts";
import { Truth } from "./truth.ts";

export { bucket } from "../simulation/original-kit.ts";

export const NAMESPACE = "ns";

/** One bucket that both write, as configuration has it; every client reads it again after a minute. */
export class Together {
  readonly clock = new SimulatedClock(MORNING_MS);
  readonly truth: Truth;
  readonly table: ConditionalTable;
  readonly #world;
  readonly #random = new SeededRandom(11);

  constructor(...limits: Limit[]) {
    const now = () => this.clock.now();
    this.truth = new Truth(now);
    this.truth.set(bucket, { limits });
    const options = { now, random: this.#random.fork(), writesPerSecond: Number.POSITIVE_INFINITY, staleMs: 0 };
    this.#world = conditionalWorld(options, calendar);
    this.table = this.#world.table;
  }

  our(given: { readonly line?: LineOptions } = {}): Ours {
    const readings = new ConfigReadings();
    const random = this.#random.fork();
    const { clock, truth } = this;
    const store = openConditional(this.#world, {
      clock,
      random: () => random.next(),
      dialect: SHARED,
      readings,
      ...(given.line === undefined ? {} : { line: given.line }),
    });
    const buckets = store.bucketsOf(NAMESPACE);
    const trip = async () => {};
    return new Ours({ clock, buckets, readings, truth, staleMs: 0, random: () => 0, trip, onRead: () => {} });
  }

  their(given: Partial<OriginalOptions> = {}, line: LineOptions = {}): OriginalClient {
    const { clock, truth } = this;
    let known: { readonly limits: readonly Limit[]; readonly atMs: number } | undefined;
    return new OriginalClient(this.table.lineTo(NAMESPACE, line), {
      now: () => clock.now(),
      random: () => this.#random.next(),
      calendar,
      resolve: () => {
        if (known === undefined || clock.now() - known.atMs >= CACHE_MS) {
          known = { limits: truth.get(bucket).limits, atMs: clock.now() };
        }
        return known.limits;
      },
      ...given,
    });
  }

  item(shard = 0): Item {
    return this.table.get(NAMESPACE, { bucket, shard }) ?? {};
  }

  /** Changes attributes behind everybody's back; undefined removes one. */
  tamper(attributes: Readonly<Record<string, ItemValue | undefined>>, shard = 0): void {
    const item = { ...this.item(shard), ...attributes };
    const kept = Object.entries(item).filter((entry): entry is [string, ItemValue] => entry[1] !== undefined);
    this.table.put(NAMESPACE, { bucket, shard }, Object.fromEntries(kept));
  }

  /** The shards that there are. */
  shards(): number[] {
    return this.table.entries(NAMESPACE).map(([key]) => key.shard);
  }

  /** As the original leaves it when it has just doubled: shard 0 says so, the others come when somebody needs them. */
  split(count: number): void {
    this.tamper({ [SHARD_COUNT]: count, [RF]: this.clock.now(), ttl: undefined });
  }
}

/** A process of ours, in few words. */
export class Ours extends OurProcess {
  get buckets(): ProtocolBuckets {
    return this.options.buckets;
  }

  async kind(tokens: Tokens): Promise<string> {
    return (await this.take(bucket, () => amountsOf(tokens))).kind;
  }

  async lease(tokens: Tokens): Promise<OurLease> {
    const answer = await this.take(bucket, () => amountsOf(tokens));
    assert.ok(answer.kind === "taken", `answered with ${answer.kind}`);
    return answer.lease;
  }

  /** How many of so many requests are admitted, one after the other. */
  async admitted(tokens: Tokens, requests: number): Promise<number> {
    let count = 0;
    for (let i = 0; i < requests; i++) if ((await this.kind(tokens)) === "taken") count++;
    return count;
  }

  async gives(lease: OurLease, tokens: Tokens): Promise<string> {
    return (await this.credit(lease, amountsOf(tokens))).reply.kind;
  }

  async owes(lease: OurLease, tokens: Tokens): Promise<string> {
    return (await this.debit(lease, amountsOf(tokens))).reply.kind;
  }
}

/** How many of so many requests the original admits, one after the other. */
export async function admits(client: OriginalClient, tokens: Readonly<Record<string, number>>, requests: number) {
  let count = 0;
  for (let i = 0; i < requests; i++) if (!(await client.acquire(bucket, tokens)).refused) count++;
  return count;
}
