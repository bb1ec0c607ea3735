import { Limit } from "../../src/domain/limit.ts";
import type { SeededRandom } from "../../src/testing/random.ts";

/** What kind of world a seed is: drawn once, so that each world has a character of its own. */
export interface Profile {
  readonly steps: number;
  readonly clients: number;
  /** How likely a call of the store fails, where calls fail at all. */
  readonly faultRate: number;
  /** How far clocks are off and how far they jump; together below an hour, as the stores assume. */
  readonly skewMs: number;
  readonly jumps: boolean;
  readonly crashes: boolean;
  /** How often configuration changes rather than tokens. */
  readonly changeWeight: number;
  /** Whether requests bring limits of their own. */
  readonly limitsGiven: boolean;
  /** Whether limits reach the largest numbers there are. */
  readonly large: boolean;
  readonly resources: readonly string[];
}

export function drawProfile(random: SeededRandom): Profile {
  return {
    steps: random.integer(120, 260),
    clients: random.integer(1, 4),
    faultRate: random.pick([0, 0, 0.03, 0.1, 0.25]),
    skewMs: random.pick([0, 300, 20_000, 600_000]),
    jumps: random.chance(0.4),
    crashes: random.chance(0.4),
    changeWeight: random.pick([0, 0.5, 0.5, 3]),
    limitsGiven: random.chance(0.3),
    large: random.chance(0.1),
    resources: random.pick([["api"], ["api"], ["api", "web"]]),
  };
}

export const LIMIT_NAMES = ["rpm", "tpm", "rpd"] as const;

/** Refill periods for which the model is exact. */
const PERIODS_MS = [1_000, 7_000, 11_000, 60_000, 3_600_000, 86_400_000];

const TOKENS_MAX = 9_000_000_000_000;

/** One to three limits, in any order, from starving to generous. */
export function drawLimits(random: SeededRandom, { large }: Profile): Limit[] {
  const names = LIMIT_NAMES.filter(() => random.chance(0.6));
  if (names.length === 0) names.push("rpm");
  if (random.chance(0.3)) names.reverse();
  return names.map((name) => {
    const tokens = () =>
      large && random.chance(0.6) ? random.integer(TOKENS_MAX - 5, TOKENS_MAX) : drawTokens(random);
    return Limit.custom(name, { capacity: tokens(), refillAmount: tokens(), refillPeriodMs: random.pick(PERIODS_MS) });
  });
}

function drawTokens(random: SeededRandom): number {
  return random.integer(1, random.pick([3, 12, 60, 500]));
}

/** A time that passes: mostly moments, now and then long enough to fill any bucket. */
export function drawPassingMs(random: SeededRandom): number {
  return random.integer(0, random.pick([0, 5, 60, 1_000, 1_000, 15_000, 120_000, 7_200_000]));
}
