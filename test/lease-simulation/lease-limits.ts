import { type BucketKey, bucketKey } from "../../src/domain/bucket/bucket-key.ts";
import { Limit } from "../../src/entry/index.ts";
import type { SeededRandom } from "../../src/testing/random.ts";

/** One limit that leases of the world are charged to. */
export interface ChargedLimit {
  /** `entity/resource/limit`. */
  readonly place: string;
  readonly bucket: BucketKey;
  readonly limit: Limit;
  /** Tokens that are spent before anything happens: a limit that drips is never full, so that nothing is cut off. */
  readonly drained: number;
}

/** What all limits of one measure have in common: requests are taken from each of them alike. */
interface Measure {
  readonly capacity: number;
  readonly drained: number;
  readonly mayDrip: boolean;
}

const VAST: Measure = { capacity: 1_000_000, drained: 500_000, mayDrip: true };

/** Every limit that is charged, and its measure. */
const PLACES = [
  ["key", "api", "rpm"],
  ["key", "api", "tpm"],
  ["org", "api", "tpm"],
  ["key", "gpu", "slots"],
] as const;

/** Some worlds have limits that nobody ever reaches, so that every call is granted; others refuse, and take from several shards. */
export function drawCharged(random: SeededRandom): readonly ChargedLimit[] {
  const tight = { drained: 0, mayDrip: false };
  const measures: Readonly<Record<string, Measure>> = {
    rpm: VAST,
    tpm: random.pick([VAST, { ...tight, capacity: 150 }, { ...tight, capacity: 60 }]),
    slots: random.pick([VAST, { ...tight, capacity: 12 }, { ...tight, capacity: 8 }]),
  };
  return PLACES.map(([entityId, resource, name]) => {
    const measure = measures[name] as Measure;
    return {
      place: `${entityId}/${resource}/${name}`,
      bucket: bucketKey(entityId, resource),
      limit: drawLimit(name, measure, random),
      drained: measure.drained,
    };
  });
}

function drawLimit(name: string, { capacity, mayDrip }: Measure, random: SeededRandom): Limit {
  const soft = random.chance(0.15) ? { soft: true } : {};
  return random.weighted<() => Limit>([
    [
      mayDrip ? 2 : 0,
      () => Limit.custom(name, { capacity, refillAmount: 3, refillPeriodMs: random.pick([7_000, 86_400_000]) }),
    ],
    [4, () => Limit.quota(name, capacity, { reset: { cron: random.pick(RESETS) }, ...soft })],
    [1, () => Limit.quota(name, capacity, { resetAfterMs: random.pick([10_000, 60_000]), ...soft })],
  ])();
}

/** Every other minute, every hour, and not in this story. */
const RESETS = ["*/2 * * * *", "*/2 * * * *", "0 * * * *", "0 0 1 1 *"];

export function isQuota({ limit }: Pick<ChargedLimit, "limit">): boolean {
  return limit.reset !== undefined || limit.resetAfterMs !== undefined;
}
