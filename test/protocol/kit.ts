import { TRUSTED_CLOCK } from "../../src/clock/clock-bounds.ts";
import { bucketKey } from "../../src/domain/bucket/bucket-key.ts";
import { assembled, type BucketState } from "../../src/domain/bucket/bucket-state.ts";
import type { LimitState } from "../../src/domain/bucket/limit-state.ts";
import type { Limit } from "../../src/domain/limits/limit.ts";
import { type LimitSet, limitSet, type SetOrigin } from "../../src/domain/limits/limit-set.ts";
import type { Item, ItemKey, ItemValue } from "../../src/ports/item-store.ts";
import type { ProtocolBuckets } from "../../src/protocol/buckets.ts";
import { namesOf } from "../../src/protocol/item/attributes.ts";
import { type Image, readableImage } from "../../src/protocol/item/codec.ts";
import { OWN, SOFT_FOREVER_MS } from "../../src/protocol/item/dialect.ts";
import { newItem } from "../../src/protocol/item/encode-item.ts";
import type { Env } from "../../src/protocol/take/intent.ts";
import { SeededRandom } from "../../src/testing/random.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import type { ConditionalLine } from "../kit/conditional-line.ts";
import {
  type ConditionalProcess,
  type ConditionalStore,
  conditionalWorld,
  openConditional,
} from "../kit/conditional-store.ts";
import { T0, TestedNamespace } from "../kit/contract-kit.ts";
import { anyLimit, anyState, calendar, ODD_NUMBERS } from "../limits/kind-arbitraries.ts";
import { fc } from "../properties.ts";

export const ENV: Env = {
  calendar,
  dialect: OWN,
  serverTime: TRUSTED_CLOCK,
  softUntilMs: () => SOFT_FOREVER_MS,
  usageKeptS: () => 90 * 24 * 3_600,
};
export const KEY: ItemKey = { bucket: bucketKey("ada", "api"), shard: 0 };

/** The four kinds mixed, in one zone, as configuration demands it. */
export const anyZone = fc.constantFrom("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata");
export const anyEpoch = fc.integer({ min: Date.UTC(2024, 0, 1), max: Date.UTC(2028, 0, 1) });

/** From a moment to some days, and a little backwards: clocks disagree. */
export const anyElapsed = fc.oneof(
  fc.integer({ min: -2_000, max: 2_000 }),
  fc.integer({ min: 0, max: 90_000 }),
  fc.integer({ min: 0, max: 8 * 3_600_000 }),
  fc.integer({ min: 0, max: 3 * 86_400_000 }),
);

export function namedIn(limit: Limit, name: string, tz: string): Limit {
  const { schedule, reset, ...rest } = limit;
  return {
    ...rest,
    name,
    ...(schedule === undefined ? {} : { schedule: schedule.map((entry) => ({ ...entry, tz })) }),
    ...(reset === undefined ? {} : { reset: { ...reset, tz } }),
  };
}

/** Limits `l0`, `l1`, ... of any kinds. */
export function anyLimits(tz: string, most: number): fc.Arbitrary<readonly Limit[]> {
  return fc
    .array(anyLimit("fine", ODD_NUMBERS), { minLength: 1, maxLength: most })
    .map((limits) => limits.map((limit, i) => namedIn(limit, `l${i}`, tz)));
}

/** A bucket of any limits, in any state that it may get into: spent, in debt, over the brim by give-backs. */
export function anyBucketOf(limits: readonly Limit[], epochMs: number): fc.Arbitrary<BucketState> {
  return fc
    .tuple(
      ...limits.map((limit) =>
        fc.record({
          held: anyState(limit, epochMs, true),
          over: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 3_000_000 })),
          resets: fc.constantFrom(0, 0, 2),
        }),
      ),
    )
    .map((drawn) => {
      const states = drawn.map(({ held, over, resets }): LimitState => {
        if (isClosed(held)) return held;
        const quota = held.quota && { ...held.quota, resets };
        return { ...held, tokensMilli: held.tokensMilli + over, quota };
      });
      const origin: SetOrigin = { asOfMs: epochMs - 1_000, generation: null };
      return assembled({ epochMs, limits: states, signature: limitSet(limits).signature, origin }, calendar);
    });
}

export interface Scene {
  readonly tz: string;
  readonly state: BucketState;
  readonly set: LimitSet;
}

export function anyScene(most: number): fc.Arbitrary<Scene> {
  return fc
    .record({ tz: anyZone, epochMs: anyEpoch })
    .chain(({ tz, epochMs }) =>
      anyLimits(tz, most).chain((limits) =>
        anyBucketOf(limits, epochMs).map((state) => ({ tz, state, set: limitSet(limits) })),
      ),
    );
}

/** Some limits stay, some change, some go, one may be new; newer than what the bucket has, or older. */
export function anyChange({ tz: before, state, set }: Scene): fc.Arbitrary<{ set: LimitSet; origin: SetOrigin }> {
  const others = anyLimit("fine", ODD_NUMBERS);
  return fc
    .record({
      fates: fc.array(fc.constantFrom("stays", "changes", "goes", "hardens"), {
        minLength: set.limits.length,
        maxLength: set.limits.length,
      }),
      fresh: fc.array(others, { minLength: set.limits.length + 1, maxLength: set.limits.length + 1 }),
      adds: fc.boolean(),
      older: fc.integer({ min: 0, max: 4 }),
      moves: fc.integer({ min: 0, max: 4 }),
      elsewhere: anyZone,
    })
    .map(({ fates, fresh, adds, older, moves, elsewhere }) => {
      // All limits of a set are in one zone; what is remembered of before may be in another.
      const tz = moves === 0 ? elsewhere : before;
      const limits = set.limits.flatMap((limit, i): Limit[] => {
        const { soft: _, ...hard } = limit;
        switch (fates[i]) {
          case "goes":
            return [];
          case "changes":
            return [namedIn(fresh[i] as Limit, limit.name, tz)];
          case "hardens":
            return [namedIn(hard, limit.name, tz)];
          default:
            return [tz === before ? limit : namedIn(limit, limit.name, tz)];
        }
      });
      if (adds || limits.length === 0) limits.push(namedIn(fresh.at(-1) as Limit, "new", tz));
      const asOfMs = older === 0 ? state.epochMs - 2_000 : state.epochMs + 1;
      return { set: limitSet(limits), origin: { asOfMs, generation: null } };
    });
}

/** A session that has not begun is full: nobody takes from it without opening it. */
export function isClosed({ limit, quota }: LimitState): boolean {
  return limit.resetAfterMs !== undefined && quota?.windowStartMs === undefined;
}

export function imageOf(item: Item, key: ItemKey = KEY): Image {
  return readableImage(key, item, { calendar, dialect: OWN, like: undefined, set: undefined });
}

export function itemOf(state: BucketState): Record<string, ItemValue> {
  return newItem(state, undefined, ENV);
}

export function tokensOn(item: Item, limit: string): number {
  return item[namesOf(limit).tk] as number;
}

export function withTokens(state: BucketState, name: string, tokensMilli: number): BucketState {
  return { ...state, limits: state.limits.map((held) => (held.name === name ? { ...held, tokensMilli } : held)) };
}

/** What a limit holds at an instant, in units of a millitoken over its refill period: fractions count too. */
export function fineLevel({ tokensMilli, remainder, terms }: LimitState, elapsedMs: number): bigint {
  const period = BigInt(terms.refillPeriodMs);
  const dripped = BigInt(Math.max(0, elapsedMs)) * BigInt(terms.refillAmountMilli) + BigInt(remainder);
  const level = BigInt(tokensMilli) * period + dripped;
  const brim = BigInt(terms.capacityMilli) * period;
  return level > brim ? brim : level;
}

/** Processes that share one table, on one clock: each is told apart by nothing but what it remembers. */
export class Cluster {
  readonly clock = new SimulatedClock(T0);
  readonly random = new SeededRandom(11);
  readonly world = conditionalWorld(
    { now: () => this.clock.now(), random: this.random, writesPerSecond: Number.POSITIVE_INFINITY, staleMs: 0 },
    calendar,
  );
  /** How often an item was rebased. */
  rebases = 0;

  constructor() {
    this.world.table.watch(({ before, after, trace }) => {
      if (trace?.form === "rebase" && before?.rf !== after?.rf) this.rebases++;
    });
  }

  async open(given: Partial<ConditionalProcess> = {}): Promise<Process> {
    const random = this.random.fork();
    const store = openConditional(this.world, { clock: this.clock, random: () => random.next(), ...given });
    const place = await TestedNamespace.in(store);
    const { namespaceId } = place;
    const { clock } = this;
    return { place, store, clock, buckets: store.bucketsOf(namespaceId), line: store.lineTo(namespaceId) };
  }

  item(namespaceId: string, entityId: string, shard = 0): Item | undefined {
    return this.world.table.get(namespaceId, { bucket: bucketKey(entityId, "api"), shard });
  }

  /** What the table has counted since the last time it was asked. */
  spent(): { writes: number; transactions: number; reads: number } {
    const { writes, transactions, reads } = this.world.table.counts;
    const since = {
      writes: writes - this.#counted.writes,
      transactions: transactions - this.#counted.transactions,
      reads: reads - this.#counted.reads,
    };
    this.#counted = { writes, transactions, reads };
    return since;
  }

  #counted = { writes: 0, transactions: 0, reads: 0 };
}

export interface Process {
  readonly place: TestedNamespace;
  readonly store: ConditionalStore;
  readonly clock: SimulatedClock;
  readonly buckets: ProtocolBuckets;
  readonly line: ConditionalLine;
}
