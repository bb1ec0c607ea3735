import { checkLimits, type Limit, limitMakers } from "../../src/domain/limits/limit.ts";
import { SeededRandom } from "../../src/testing/random.ts";
import { calendar } from "./calendar.ts";
import { drawPalette, type Profile } from "./profile.ts";

const make = limitMakers(calendar);

const SLOTS = [1, 1, 2, 3, 5, 12];
/** Short beside what passes in a world, so that holds end by themselves. */
const HOLDS_MS = [1_000, 4_000, 8_000, 20_000, 60_000];
/** How long requests want to hold their slots: some for longer than a limit lets them. */
const OWN_HOLDS_MS = [1_000, 1_000, 2_000, 3_000, 30_000];
const WINDOWS = ["*/15 * * * *", "*/2 * * * *", "0-29 * * * *", "* 9-17 * * *"];

/** Two of twenty-one worlds have slots, so that all others stay as they are, and the bugs that were found in them. */
export function hasSlots(seed: number): boolean {
  return seed % 7 === 3 && seed % 3 !== 0;
}

/** The same world where some limits are on how many are at once, if it is one of those: of several numbers, and of another kind now and then. */
export function withSlots(seed: number, profile: Profile): Profile {
  // Trillions of slots are not held: what a soft limit is owed beyond the largest number is not counted, so no give-back belongs to it.
  if (!hasSlots(seed) || profile.large) return profile;
  const random = new SeededRandom(seed + 2 ** 47);
  const { weights, levels, measures, momentMs } = profile;
  const others = profile.palette.length === 0 ? drawPalette(random, profile) : profile.palette;
  const countsRequests = random.chance(0.4);
  const draws = { random, profile, countsRequests };
  const slotted = others.map((set, i) => withSome(set, i === 0 ? 0.8 : 0.5, draws));
  const changed = withOtherNumbers(random.pick(slotted), draws);
  return {
    ...profile,
    palette: [...slotted, changed, random.pick(others)],
    slots: random.pick([0.1, 0.4]),
    momentMs: random.pick([momentMs, 2_000, 15_000, 60_000]),
    ...(countsRequests ? { measures: measures ?? {} } : {}),
    weights: {
      ...weights,
      hold: Math.max(8, weights.hold),
      body: Math.max(3, weights.body),
      limits: Math.max(random.pick([0, 1.5]), weights.limits),
      operator: Math.max(0.8, weights.operator),
      again: Math.max(2, weights.again),
    },
    ...(levels === undefined
      ? {}
      : { levels: { ...levels, totals: levels.totals.map((set) => withSome(set, 0.5, draws)) } }),
  };
}

/** How long a request wants to hold its slots. */
export function drawHoldMs(random: SeededRandom): number {
  return random.pick(OWN_HOLDS_MS);
}

interface Draws {
  readonly random: SeededRandom;
  readonly profile: Profile;
  readonly countsRequests: boolean;
}

function withSome(set: readonly Limit[], share: number, draws: Draws): readonly Limit[] {
  const { random } = draws;
  const all = set.map((limit) => (random.chance(share) ? drawSlots(limit, zoneIn(set, draws), draws) : limit));
  return checkLimits(all, calendar);
}

/** The same slots, more or fewer of them, for longer or shorter. */
function withOtherNumbers(set: readonly Limit[], draws: Draws): readonly Limit[] {
  const { random } = draws;
  const other = (limit: Limit) => {
    if (limit.holdMs === undefined) return limit;
    const [capacity, holdMs] = [random.pick(SLOTS), random.pick(HOLDS_MS)];
    return random.chance(0.7) ? { ...limit, capacity, holdMs } : drawSlots(limit, zoneIn(set, draws), draws);
  };
  return checkLimits(set.map(other), calendar);
}

function drawSlots({ name, counts }: Limit, tz: string, { random, countsRequests }: Draws): Limit {
  const measure = countsRequests && random.chance(0.5) ? "requests" : counts;
  const window = random.chance(0.5) ? { capacity: random.pick(SLOTS) } : { scale: random.pick([0.25, 0.5, 2]) };
  return make.concurrent(name, random.pick(SLOTS), {
    holdMs: random.pick(HOLDS_MS),
    ...(measure === undefined ? {} : { counts: measure }),
    ...(random.chance(0.15) ? { soft: true } : {}),
    ...(random.chance(0.25) ? { schedule: [{ cron: random.pick(WINDOWS), tz, ...window }] } : {}),
  });
}

/** The limits of one bucket share a zone. */
function zoneIn(set: readonly Limit[], { profile }: Draws): string {
  const zones = set.flatMap(({ reset, schedule }) => reset?.tz ?? schedule?.[0]?.tz ?? []);
  return profile.zone ?? zones[0] ?? "UTC";
}
