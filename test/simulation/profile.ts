import { type Limit, limitMakers } from "../../src/domain/limit.ts";
import type { ScheduleEntry } from "../../src/domain/schedule.ts";
import type { SeededRandom } from "../../src/testing/random.ts";
import { calendar } from "./calendar.ts";

/** What kind of world a seed is: drawn once, so that each world has a character of its own. */
export interface Profile {
  /** When the world begins: some begin just before something happens to clocks or calendars. */
  readonly startMs: number;
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
  /** Whether limits are of all kinds; otherwise they drip. */
  readonly kinds: boolean;
  /** How often operators buy and reset. */
  readonly operatorWeight: number;
  /** How often access and cascading change. */
  readonly policyWeight: number;
  readonly resources: readonly string[];
  /** The zone of all limits; undefined: each bucket has its own. */
  readonly zone?: string | undefined;
}

export function drawProfile(random: SeededRandom): Profile {
  const kinds = random.chance(0.75);
  return {
    startMs: random.pick(kinds ? STARTS : STARTS.slice(0, 1)) + random.integer(0, 59_999),
    steps: random.integer(120, 260),
    clients: random.integer(1, 4),
    faultRate: random.pick([0, 0, 0.03, 0.1, 0.25]),
    skewMs: random.pick([0, 300, 20_000, 600_000]),
    jumps: random.chance(0.4),
    crashes: random.chance(0.4),
    changeWeight: random.pick([0, 0.5, 0.5, 3]),
    limitsGiven: random.chance(0.3),
    large: random.chance(0.1),
    kinds,
    operatorWeight: kinds ? random.pick([0, 0.5, 1.5]) : 0,
    policyWeight: random.pick([0, 0, 0.4, 1.2]),
    resources: random.pick([["api"], ["api", "web"], ["api", "web", "gpu"]]),
  };
}

export const LIMIT_NAMES = ["rpm", "tpm", "rpd"] as const;

/** Refill periods for which the model is exact. */
const PERIODS_MS = [1_000, 7_000, 11_000, 60_000, 3_600_000, 86_400_000];

const TOKENS_MAX = 9_000_000_000_000;

/** Ten minutes before: an hour ends; a day; the working day begins; Berlin and New York put their clocks. */
const STARTS = [
  Date.UTC(2026, 2, 15, 12, 50),
  Date.UTC(2026, 2, 15, 12, 50),
  Date.UTC(2026, 4, 31, 23, 50),
  Date.UTC(2026, 4, 31, 8, 50),
  Date.UTC(2026, 2, 29, 0, 50),
  Date.UTC(2026, 9, 25, 0, 50),
  Date.UTC(2026, 2, 8, 6, 50),
];

export const ZONES = ["UTC", "Europe/Berlin", "Europe/Berlin", "America/New_York", "Asia/Kolkata"];
const WINDOWS = ["*/15 * * * *", "0 * * * *", "0-29 * * * *", "* 9-17 * * *", "* 2 * * *", "30-59 1-2 * * *"];
const RESETS = ["*/15 * * * *", "0 * * * *", "0 0 * * *", "30 2 * * *", "* 9-17 * * *"];
const SESSIONS_MS = [60_000, 300_000, 1_800_000];
const SCALES = [0.001, 0.25, 0.333, 0.5, 0.75];

const make = limitMakers(calendar);

/** One to three limits, in any order, of any kind, from starving to generous. */
export function drawLimits(random: SeededRandom, profile: Profile): Limit[] {
  const names = LIMIT_NAMES.filter(() => random.chance(0.6));
  if (names.length === 0) names.push("rpm");
  if (random.chance(0.3)) names.reverse();
  // The limits of one bucket share a zone.
  const own = random.pick(ZONES);
  const tz = profile.zone ?? own;
  return names.map((name) => drawLimit(name, tz, random, profile));
}

function drawLimit(name: string, tz: string, random: SeededRandom, { large, kinds }: Profile): Limit {
  const tokens = () => (large && random.chance(0.6) ? random.integer(TOKENS_MAX - 5, TOKENS_MAX) : drawTokens(random));
  const drips = !kinds || random.chance(0.5);
  const kind = {
    ...(kinds && random.chance(0.15) ? { soft: true } : {}),
    ...(kinds && random.chance(0.35) ? { schedule: drawSchedule(tz, drips, random, large) } : {}),
  };
  if (drips) {
    const terms = { capacity: tokens(), refillAmount: tokens(), refillPeriodMs: random.pick(PERIODS_MS) };
    return make.custom(name, { ...terms, ...kind });
  }
  return random.chance(0.5)
    ? make.quota(name, tokens(), { reset: { cron: random.pick(RESETS), tz }, ...kind })
    : make.quota(name, tokens(), { resetAfterMs: random.pick(SESSIONS_MS), ...kind });
}

function drawSchedule(tz: string, drips: boolean, random: SeededRandom, large: boolean): ScheduleEntry[] {
  return Array.from({ length: random.integer(1, 2) }, () => {
    const window = { cron: random.pick(WINDOWS), tz };
    // No window may hold more than the largest limit.
    if (random.chance(0.5)) return { ...window, scale: random.pick(large ? SCALES : [...SCALES, 1.5, 3]) };
    return {
      ...window,
      ...(!drips || random.chance(0.7) ? { capacity: drawTokens(random) } : { refillAmount: drawTokens(random) }),
      ...(drips && random.chance(0.3) ? { refillPeriodMs: random.pick(PERIODS_MS) } : {}),
    };
  });
}

function drawTokens(random: SeededRandom): number {
  return random.integer(1, random.pick([3, 12, 60, 500]));
}

/** A time that passes: mostly moments, now and then long enough to fill any bucket, or for a day to end. */
export function drawPassingMs(random: SeededRandom, { kinds }: Profile): number {
  const moments = [0, 5, 60, 1_000, 1_000, 15_000, 120_000, 7_200_000];
  if (!kinds) return random.integer(0, random.pick(moments));
  return random.integer(0, random.pick([...moments, 120_000, 900_000, 900_000, random.pick([3_600_000, 100_000_000])]));
}
