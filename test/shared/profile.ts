import { type BucketKey, bucketKey } from "../../src/domain/bucket/bucket-key.ts";
import type { Limit } from "../../src/domain/limits/limit.ts";
import type { SeededRandom } from "../../src/testing/random.ts";
import { make } from "../simulation/original-kit.ts";

/** What a seed makes of the world. */
export interface Profile {
  readonly startMs: number;
  readonly buckets: readonly BucketKey[];
  readonly limits: ReadonlyMap<string, readonly Limit[]>;
  readonly ours: number;
  readonly theirs: number;
  /** By how much each clock may be off, at most. */
  readonly errorMs: number;
  readonly faults: number;
  readonly conflicts: number;
  readonly staleMs: number;
  /** How many shards buckets are set up with; 1: none is sharded. */
  readonly shards: number;
  readonly doubles: boolean;
  /** Whether items made by the original expire. */
  readonly expires: boolean;
  readonly coalesce: boolean;
  readonly exact: boolean;
  readonly changes: boolean;
  readonly disables: boolean;
}

export const RESET = { cron: "0 * * * *", tz: "UTC" };

export function profileOf(random: SeededRandom): Profile {
  const buckets = Array.from({ length: random.integer(1, 3) }, (_, i) => bucketKey(`e${i}`, "api"));
  const isSharded = random.chance(0.15);
  const isQuota = random.chance(0.35);
  const limits = new Map(buckets.map((bucket) => [bucket.id, limitsBy(random, isQuota)]));
  return {
    // Ten seconds before an hour begins, or somewhen.
    startMs: Date.UTC(2026, 5, 1, 10) - (random.chance(0.5) ? 10_000 : random.integer(0, 3_000_000)),
    buckets,
    limits,
    ours: random.integer(1, 3),
    theirs: random.integer(1, 3),
    errorMs: random.chance(0.4) ? random.integer(1, 3_000) : 0,
    faults: random.chance(0.5) ? random.integer(1, 15) / 100 : 0,
    conflicts: random.chance(0.3) ? 0.2 : 0,
    staleMs: random.chance(0.5) ? 500 : 0,
    shards: isSharded ? random.pick([2, 4]) : 1,
    doubles: isSharded && random.chance(0.5),
    expires: random.chance(0.4),
    coalesce: random.chance(0.8),
    exact: random.chance(0.3),
    changes: random.chance(0.5),
    disables: random.chance(0.15),
  };
}

/** Other numbers for the same limits; now and then one more, or one less. */
export function changedLimits(random: SeededRandom, limits: readonly Limit[]): readonly Limit[] {
  const changed = limits.map((limit) => {
    if (random.chance(0.3)) return limit;
    if (limit.reset !== undefined) return quota(random, limit.name);
    return drip(random, limit.name, limit.soft === true);
  });
  const others = ["a", "b", "c"].filter((name) => !changed.some((limit) => limit.name === name));
  if (random.chance(0.15) && others.length > 0) return [...changed, drip(random, random.pick(others), false)];
  if (random.chance(0.15) && changed.length > 1) return changed.slice(0, -1);
  return changed;
}

function limitsBy(random: SeededRandom, isQuota: boolean): readonly Limit[] {
  const limits: Limit[] = [];
  const count = random.integer(1, 3);
  if (isQuota) limits.push(quota(random, "q"));
  if (limits.length < count && random.chance(0.2)) limits.push(drip(random, "s", true));
  for (const name of ["a", "b", "c"]) if (limits.length < count) limits.push(drip(random, name, false));
  return limits;
}

function drip(random: SeededRandom, name: string, soft: boolean): Limit {
  const [capacity, refillAmount, seconds] = random.pick(DRIPS);
  return make.custom(name, { capacity, refillAmount, refillPeriodMs: seconds * 1000, ...(soft ? { soft } : {}) });
}

function quota(random: SeededRandom, name: string): Limit {
  return make.quota(name, random.pick([5, 20, 60]), { reset: RESET });
}

const DRIPS: readonly (readonly [capacity: number, amount: number, seconds: number])[] = [
  [10, 10, 1],
  [10, 1, 1],
  [50, 100, 1],
  [100, 100, 60],
  [20, 7, 3],
  [5, 1, 7],
  [30, 30, 3600],
];
