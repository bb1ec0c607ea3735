import { limitMakers } from "../../src/domain/limits/limit.ts";
import { SeededRandom } from "../../src/testing/random.ts";
import { calendar } from "./calendar.ts";
import { type Profile, QUIET, zoneOf } from "./profile.ts";

const make = limitMakers(calendar);

/** Every nineteenth world has quotas whose amount changes again and again within a period, so that all others stay as they are. */
export function hasRepriced(seed: number): boolean {
  return seed % 19 === 4;
}

/** The same world with such quotas, if it is one of those: somebody buys, leases live through changes, and shards are split and joined. */
export function withRepriced(seed: number, profile: Profile): Profile {
  if (!hasRepriced(seed)) return profile;
  const random = new SeededRandom(seed + 2 ** 44);
  const tz = zoneOf(random, profile);
  const capacity = random.integer(20, 200);
  const soft = random.chance(0.4) ? { soft: true } : {};
  const cron = random.pick(["0 * * * *", "0 0 * * *", "0 0 * * *"]);
  const quota = random.chance(0.75)
    ? make.quota("rpm", capacity, { reset: { cron, tz }, ...soft })
    : make.quota("rpm", capacity, { resetAfterMs: 1_800_000, ...soft });
  const times = random.pick([
    [1, 2, 0.5],
    [1, 10, 0.1],
    [1, 0.75],
  ]);
  return {
    ...profile,
    steps: random.integer(50, 100),
    weights: {
      ...QUIET,
      hold: 8,
      body: 3,
      greedy: 1,
      again: 1,
      limits: 3,
      operator: 2,
      resize: random.pick([0, 6, 6]),
    },
    limitsGiven: random.chance(0.2),
    modest: random.chance(0.5),
    beyond: 0,
    momentMs: random.pick([1_000, 15_000, 60_000]),
    entities: random.pick([["org"], ["org"], ["org", "key-1"]]),
    resources: ["api"],
    palette: times.map((by) => [{ ...quota, capacity: Math.ceil(capacity * by) }]),
  };
}
