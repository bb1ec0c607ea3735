import { createCalendar } from "../../src/adapters/system/calendar.ts";
import { bucketKey } from "../../src/domain/bucket/bucket-key.ts";
import { type Lease, type Limit, RateLimiter } from "../../src/entry/index.ts";
import type { ItemStore, ItemWrite } from "../../src/ports/item-store.ts";
import type { ProtocolBuckets } from "../../src/protocol/buckets.ts";
import { SeededRandom } from "../../src/testing/random.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import {
  type ConditionalProcess,
  type ConditionalWorld,
  conditionalWorld,
  openConditional,
} from "../../test/kit/conditional-store.ts";

/** Noon of a day in the middle of a month. */
export const NOON_MS = Date.UTC(2026, 2, 15, 12);
export const SECOND_MS = 1_000;
export const MINUTE_MS = 60_000;
export const HOUR_MS = 3_600_000;

/** The bucket that all stories are about. */
export const BUCKET = bucketKey("ada", "api");

/** One call of the store: a write, or the writes of a transaction. */
export interface Sent {
  readonly call: "write" | "transaction";
  readonly writes: readonly ItemWrite[];
}

/** A process with a limiter, as an application has one. */
export interface Process {
  readonly limiter: RateLimiter;
  readonly buckets: ProtocolBuckets;
  /** The way to the table on which nothing is noted: for what other programs do to it. */
  readonly line: ItemStore;
}

/**
 * A table, its clock and processes on it, in which every write that reaches the table is noted. The limiters are real, and so is
 * the protocol below them; only the table is simulated.
 */
export class Stage {
  readonly clock = new SimulatedClock(NOON_MS);
  readonly #random = new SeededRandom(7);
  readonly #world: ConditionalWorld = conditionalWorld(
    { now: () => this.clock.now(), random: this.#random, writesPerSecond: Number.POSITIVE_INFINITY, staleMs: 0 },
    createCalendar(),
  );
  #noted: Sent[] = [];

  async process(given: Partial<ConditionalProcess> = {}): Promise<Process> {
    const random = this.#random.fork();
    const through = (line: ItemStore): ItemStore => this.#noting(line);
    const store = openConditional(this.#world, { clock: this.clock, random: () => random.next(), through, ...given });
    const limiter = await RateLimiter.open({ store, clock: given.clock ?? this.clock });
    const namespaceId = (await store.namespaces.get("default"))?.id ?? "";
    return { limiter, buckets: store.bucketsOf(namespaceId), line: store.lineTo(namespaceId) };
  }

  /** A process, and limits for everybody on the resource. */
  async with(...limits: readonly Limit[]): Promise<Process> {
    const process = await this.process();
    await process.limiter.setResourceDefaults(BUCKET.resource, limits);
    return process;
  }

  /** Time passes, up to so long after noon. */
  async until(ms: number): Promise<void> {
    await this.clock.advance(NOON_MS + ms - this.clock.now());
  }

  /** What reaches the table while the work is done. */
  async sentBy(work: () => Promise<unknown>): Promise<readonly Sent[]> {
    this.#noted = [];
    await work();
    return this.#noted;
  }

  #noting(line: ItemStore): ItemStore {
    const note = (sent: Sent, kind: string) => {
      if (kind === "applied") this.#noted.push(sent);
    };
    return {
      write: async (write, call) => {
        const answer = await line.write(write, call);
        note({ call: "write", writes: [write] }, answer.kind);
        return answer;
      },
      transact: async (writes, options, call) => {
        const answer = await line.transact(writes, options, call);
        note({ call: "transaction", writes }, answer.kind);
        return answer;
      },
      read: (keys, options, call) => line.read(keys, options, call),
      listKeys: (owner, page) => line.listKeys(owner, page),
      listBuckets: (resource, page) => line.listBuckets(resource, page),
    };
  }
}

/** Takes tokens for ada on the resource. */
export function take(limiter: RateLimiter, consume: Readonly<Record<string, number>>): Promise<Lease> {
  return limiter.acquire({ entityId: BUCKET.entityId, resource: BUCKET.resource, consume });
}
