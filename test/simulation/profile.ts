import { checkLimits, type Limit, limitMakers } from "../../src/domain/limits/limit.ts";
import type { ScheduleEntry } from "../../src/domain/limits/schedule.ts";
import { SeededRandom } from "../../src/testing/random.ts";
import { calendar } from "./calendar.ts";

/** The stories that clients live, each as often as its weight says. */
export const STORY_NAMES = [
  "hold",
  "body",
  "sync",
  "greedy",
  "look",
  "limits",
  "entities",
  "policies",
  "operator",
  "resize",
  "again",
  "back",
  "prompt",
  "totals",
  "plans",
  "correct",
] as const;

export type StoryName = (typeof STORY_NAMES)[number];

/** It was never created as an entity. */
export const STRANGER = "stranger";

/** What kind of world a seed is: drawn once, so that each world has a character of its own. Data, so that it can be kept. */
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
  /** How often each story is begun; 0: never. */
  readonly weights: Readonly<Record<StoryName, number>>;
  /** Whether requests bring limits of their own. */
  readonly limitsGiven: boolean;
  /** Whether limits reach the largest numbers there are. */
  readonly large: boolean;
  /** Whether limits are of all kinds; otherwise they drip. */
  readonly kinds: boolean;
  /** Whether requests are small beside what there is, as they are where many share a bucket. */
  readonly modest: boolean;
  /** How likely more is asked of a limit than it can hold; absent: never. */
  readonly beyond?: number;
  /** How likely nothing is asked of a limit; absent: as of any amount. */
  readonly nothing?: number;
  /** Whether every level has limits of its own; otherwise some have. */
  readonly everyLevel?: boolean;
  /** The limits that entities have at first; absent: they are drawn. */
  readonly begins?: Readonly<Record<string, readonly Limit[]>>;
  /** How long a moment may be, at most. */
  readonly momentMs: number;
  readonly entities: readonly string[];
  readonly resources: readonly string[];
  /** Sets of limits that come again and again; none: each is drawn afresh. */
  readonly palette: readonly (readonly Limit[])[];
  /** The zone of all limits; undefined: each bucket has its own. */
  readonly zone?: string | undefined;
  /** What limits count that are drawn afresh, by their name; absent: in this world every limit counts what it is called. */
  readonly measures?: Readonly<Record<string, string>>;
  /** How many limiters each process has, on one way to the store; absent: one. */
  readonly limiters?: number;
  /** How many buckets a process remembers at most, so that it forgets those it uses; absent: more than there are. */
  readonly bucketsMax?: number;
  /** How likely a request must leave something; absent: in this world none must. */
  readonly floors?: number;
  /** How likely a request is for further entities, too; absent: none is. */
  readonly parts?: number;
  /** How likely a request says for how long it holds slots; absent: in this world there are none. */
  readonly slots?: number;
  /** How likely a set has an end; absent: in this world nothing has. */
  readonly ends?: number;
  /** Totals, plans, and how levels go together; absent: in this world nobody uses them. */
  readonly levels?: Levels;
}

/** What there is of levels besides limits of entities on resources. */
export interface Levels {
  readonly plans: readonly string[];
  /** Sets of totals that come again and again. */
  readonly totals: readonly (readonly Limit[])[];
  /** How likely a level adds to those after it. */
  readonly inherits: number;
  /** How likely a level is for callers only. */
  readonly callersOnly: number;
}

/** `zone`: of all limits, where a store knows only one. */
export function drawProfile(random: SeededRandom, zone: string | undefined): Profile {
  const character = random.weighted([
    [6, drawSmall],
    [3.5, drawBusy],
    [2, drawSplit],
    [2, drawChanging],
    [2, drawSettled],
    [1, drawLarge],
    [1.5, drawSwitched],
    [1, drawWaiting],
    [0.7, drawBeyond],
    [1.5, drawLevels],
  ])(random, zone);
  const profile: Profile = { beyond: random.pick([0, 0, 0.02, 0.1]), ...character };
  // Last, so that the rest of a world is the same whether or not its limits count what they are called.
  const counted = random.chance(0.35) ? counting(random, profile) : profile;
  return crowded(random, random.chance(0.3) ? withLevels(random, counted) : counted);
}

/** In every thirteenth world requests are for several entities, so that all others stay as they are, and the bugs that were found in them. */
export function withParts(seed: number, profile: Profile): Profile {
  return seed % 13 === 4 ? { ...profile, parts: 0.5 } : profile;
}

/** Every eleventh world has floors, so that all others stay as they are, and the bugs that were found in them. */
export function hasFloors(seed: number): boolean {
  return seed % 11 === 7;
}

/** The same world where some requests must leave something, if it is one of those. */
export function withFloors(seed: number, profile: Profile): Profile {
  if (!hasFloors(seed)) return profile;
  const { weights, faultRate, limiters } = profile;
  // Who waits is served by what it must leave; that is seen where nothing else keeps it.
  const isCalm = faultRate === 0 && limiters === undefined;
  return { ...profile, floors: 0.4, weights: isCalm ? { ...weights, prompt: Math.max(2, weights.prompt) } : weights };
}

/** Every thirteenth world has limits that tell, for the same reason. */
export function hasThresholds(seed: number): boolean {
  return seed % 13 === 5;
}

/** The same world where most limits tell percentages that are used, if it is one of those. */
export function withThresholds(seed: number, profile: Profile): Profile {
  if (!hasThresholds(seed)) return profile;
  const random = new SeededRandom(seed + 2 ** 43);
  // Every fourth of them, so that the others stay as they are.
  if (Math.floor(seed / 13) % 4 === 2) return underShort(random, profile);
  const { palette, levels, weights } = profile;
  const telling = (sets: Profile["palette"]) => sets.map((set) => tellingIn(set, random));
  return {
    ...profile,
    palette: telling(palette.length === 0 ? drawPalette(random, profile) : palette),
    // Some things that end a period, or do not, are rare elsewhere.
    weights: { ...weights, operator: Math.max(1, weights.operator), greedy: Math.max(3, weights.greedy) },
    ...(levels === undefined ? {} : { levels: { ...levels, totals: telling(levels.totals) } }),
  };
}

/** The same world where limits tell of a key whose parent is short again and again: most of what the key took is undone. */
function underShort(random: SeededRandom, { levels: _, measures: __, ...profile }: Profile): Profile {
  const tz = zoneOf(random, profile);
  const capacity = random.integer(10, 60);
  const own = random.pick([
    make.quota("rpm", capacity, { reset: { cron: random.pick(["0 * * * *", "0 0 * * *"]), tz } }),
    make.quota("rpm", capacity, { resetAfterMs: 1_800_000 }),
    make.custom("rpm", { capacity, refillAmount: capacity, refillPeriodMs: 60_000 }),
  ]);
  const key = [{ ...own, notifyAt: random.pick(NOTIFIES) }];
  const short = [make.custom("rpm", { capacity, refillAmount: capacity, refillPeriodMs: 3_600_000 })];
  return {
    ...profile,
    steps: random.integer(40, 90),
    weights: { ...QUIET, hold: 8, body: 4, greedy: 4, operator: random.pick([0, 0.5]) },
    limitsGiven: false,
    modest: false,
    momentMs: random.pick([15_000, 60_000, 900_000]),
    entities: ["team-1", "key-1", "key-2"],
    resources: ["api"],
    palette: [key, short],
    everyLevel: true,
    begins: { "team-1": short, "key-1": key, "key-2": key },
  };
}

function tellingIn(limits: readonly Limit[], random: SeededRandom): readonly Limit[] {
  return checkLimits(
    limits.map((limit) => (random.chance(0.8) ? { ...limit, notifyAt: random.pick(NOTIFIES) } : limit)),
    calendar,
  );
}

const NOTIFIES = [[80, 95], [50], [1, 50, 99, 100], [100], [5, 30]];

/** The same world where a process has several limiters, or forgets what it knows of buckets while it uses them. */
function crowded(random: SeededRandom, profile: Profile): Profile {
  const [limiters, bucketsMax] = [random.pick([1, 1, 1, 2]), random.pick([undefined, undefined, undefined, 2])];
  // Who waits is woken by what its own limiter gives back.
  const isShared = limiters > 1 && profile.weights.prompt === 0;
  return { ...profile, ...(isShared ? { limiters } : {}), ...(bucketsMax === undefined ? {} : { bucketsMax }) };
}

/** The same world with totals and plans, mostly over several resources; some are changed while nobody asks. */
function withLevels(random: SeededRandom, profile: Profile): Profile {
  const { measures, resources, weights } = profile;
  const totals = drawPalette(random, profile);
  const changes = { totals: random.pick([0.5, 1, 3]), plans: random.pick([0, 1, 3]) };
  const settled = { ...QUIET, hold: 4, body: 1, greedy: 3, limits: 4, totals: 4, plans: 6, again: 0.5 };
  const isSettled = random.chance(0.25);
  return {
    ...profile,
    weights: isSettled ? settled : { ...weights, ...changes },
    resources: random.pick([resources, ["api", "web"], ["api", "web"], ["api", "web", "gpu"]]),
    entities: random.pick([profile.entities, profile.entities, ["org", "key-1"]]),
    levels: {
      plans: random.pick([["gold"], ["gold", "free"], ["gold", "free"]]),
      totals: measures === undefined ? totals : totals.map((set) => countedBy(set, drawMeasures(random))),
      inherits: random.pick([0, 0.3, 0.6]),
      callersOnly: random.pick([0, 0.2, 0.5]),
    },
  };
}

/** The same world where limits count other measures than their names: several one, some the requests, in each set others. */
function counting(random: SeededRandom, profile: Profile): Profile {
  const palette = profile.palette.map((set) => countedBy(set, drawMeasures(random)));
  return { ...profile, palette, measures: drawMeasures(random) };
}

function drawMeasures(random: SeededRandom): Readonly<Record<string, string>> {
  return Object.fromEntries(LIMIT_NAMES.map((name) => [name, random.pick([name, ...MEASURES])]));
}

function countedBy(limits: readonly Limit[], measures: Readonly<Record<string, string>>): readonly Limit[] {
  return checkLimits(
    limits.map((limit) => ({ ...limit, counts: measures[limit.name] ?? limit.name })),
    calendar,
  );
}

/** Few buckets, few limits that come again: what happens, happens to the same thing. */
function drawSmall(random: SeededRandom, zone: string | undefined): Profile {
  const kinds = random.chance(0.75);
  const large = random.chance(0.05);
  return {
    startMs: random.pick(kinds ? STARTS : STARTS.slice(0, 1)) + random.integer(0, 59_999),
    steps: random.integer(20, random.pick([40, 70])),
    clients: random.integer(1, 3),
    faultRate: random.pick([0, 0, 0.05, 0.25]),
    skewMs: random.pick([0, 0, 300, 20_000, 600_000]),
    jumps: random.chance(0.3),
    crashes: random.chance(0.3),
    weights: drawWeights(random),
    limitsGiven: random.chance(0.2),
    large,
    kinds,
    modest: random.chance(0.1),
    momentMs: random.pick([1_000, 60_000, 100_000_000, 100_000_000]),
    entities: random.pick([["org"], ["org"], ["org", "key-1"], ["org", "team-1", "key-1"]]),
    resources: random.pick([["api"], ["api"], ["api"], ["api", "web"]]),
    palette: drawPalette(random, { large, kinds, zone }),
    zone,
  };
}

/** Each story takes part or not, and as often as the world likes it. */
function drawWeights(random: SeededRandom): Profile["weights"] {
  const some = (weight: number) => (random.chance(0.5) ? 0 : weight * random.pick([0.5, 1, 3]));
  return {
    hold: random.pick([4, 12]),
    body: some(4),
    sync: some(1),
    greedy: some(2),
    look: some(0.5),
    limits: some(1.5),
    entities: random.chance(0.7) ? 0 : some(1),
    policies: random.chance(0.6) ? 0 : some(1),
    operator: some(0.8),
    resize: some(2),
    again: random.pick([1, 4]),
    back: some(0.8),
    prompt: 0,
    totals: 0,
    plans: 0,
    correct: 0,
  };
}

/** No story at all. */
export const QUIET = Object.fromEntries(STORY_NAMES.map((name) => [name, 0])) as Record<StoryName, number>;

/** Several processes on one bucket that drips fast, at half of its rate and more. */
function drawBusy(random: SeededRandom, zone: string | undefined): Profile {
  const rate = random.pick([200, 1_000]);
  const limit = (capacity: number) => make.custom("rpm", { capacity, refillAmount: rate, refillPeriodMs: 1_000 });
  const palette = random.chance(0.7) ? [[limit(rate)]] : [[limit(rate)], [limit(2 * rate)]];
  return {
    startMs: (STARTS[0] as number) + random.integer(0, 59_999),
    steps: random.integer(90, 160),
    clients: random.integer(2, 4),
    faultRate: random.pick([0, 0, 0.1]),
    skewMs: random.pick([0, 0, 300]),
    jumps: false,
    crashes: random.chance(0.2),
    weights: { ...QUIET, hold: 8, limits: palette.length - 1, resize: random.pick([0, 0, 0, 12, 30]), again: 0.5 },
    limitsGiven: false,
    large: false,
    kinds: false,
    modest: true,
    momentMs: random.pick([20, 40, 80]),
    entities: ["org"],
    resources: ["api"],
    palette,
    zone,
  };
}

/** One bucket that is split and joined again and again, under leases that live through it. */
function drawSplit(random: SeededRandom, zone: string | undefined): Profile {
  const small = drawSmall(random, zone);
  return {
    ...small,
    steps: random.integer(40, 90),
    clients: random.integer(2, 3),
    weights: { ...small.weights, hold: 8, greedy: 3, resize: random.pick([4, 8]) },
    momentMs: random.pick([5_000, 60_000, 900_000]),
    entities: ["org"],
    resources: ["api"],
  };
}

/** One bucket whose limits are others again and again, lowered, left out and back, while leases of each are held. */
function drawChanging(random: SeededRandom, zone: string | undefined): Profile {
  const small = drawSmall(random, zone);
  const kind = { large: false, kinds: true, zone };
  return {
    ...small,
    ...kind,
    steps: random.integer(60, 140),
    weights: { ...small.weights, hold: 8, body: 2, greedy: 2, limits: random.pick([0, 4]) },
    limitsGiven: true,
    palette: random.chance(0.5) ? drawLadder(random, kind) : drawSlowLadder(random, kind),
    momentMs: random.pick([1_000, 60_000, 900_000]),
    entities: ["org"],
    resources: ["api"],
  };
}

/** Limits that are changed at several levels while nobody asks, and requests that come long after. */
function drawSettled(random: SeededRandom, zone: string | undefined): Profile {
  const small = drawSmall(random, zone);
  const kind = { large: false, kinds: random.chance(0.7), zone };
  return {
    ...small,
    ...kind,
    steps: random.integer(40, 90),
    faultRate: random.pick([0, 0, 0.05]),
    weights: {
      ...QUIET,
      hold: 4,
      body: 1,
      greedy: 3,
      limits: random.pick([6, 12]),
      again: 0.5,
      operator: random.pick([0, 0.3]),
    },
    limitsGiven: random.chance(0.1),
    palette: random.chance(0.5) ? drawLadder(random, kind) : drawPalette(random, kind),
    momentMs: random.pick([15_000, 900_000, 100_000_000]),
    entities: random.pick([["org"], ["org"], ["org", "key-1"]]),
    resources: ["api"],
  };
}

/** A few levels that are switched off and on again, by clients that remember how it was. */
function drawSwitched(random: SeededRandom, zone: string | undefined): Profile {
  const small = drawSmall(random, zone);
  return {
    ...small,
    steps: random.integer(40, 80),
    clients: random.integer(2, 3),
    faultRate: random.pick([0, 0, 0.05]),
    weights: { ...QUIET, hold: 8, body: 4, again: 1, policies: random.pick([3, 6]) },
    momentMs: random.pick([1_000, 15_000]),
    entities: random.pick([["org"], ["org", "key-1"], ["org", "team-1", "key-1"]]),
    resources: ["api"],
  };
}

/** Requests that wait for what others of their process give back. */
function drawWaiting(random: SeededRandom, zone: string | undefined): Profile {
  const small = drawSmall(random, zone);
  return {
    ...small,
    faultRate: 0,
    skewMs: 0,
    jumps: false,
    weights: { ...QUIET, hold: 1, again: 1, prompt: 12 },
    limitsGiven: false,
    entities: random.pick([["org"], ["org", "key-1"], ["org", "team-1", "key-1"]]),
  };
}

/** Quotas of which more is asked than they can hold, while somebody buys. */
function drawBeyond(random: SeededRandom, zone: string | undefined): Profile {
  const small = drawSmall(random, zone);
  const tz = zoneOf(random, small);
  const quota = () => make.quota("rpm", drawTokens(random), { reset: { cron: random.pick(RESETS), tz } });
  const session = make.quota("rpm", drawTokens(random), { resetAfterMs: random.pick(SESSIONS_MS) });
  return {
    ...small,
    clients: random.integer(2, 3),
    weights: { ...QUIET, hold: 10, body: 2, again: 1, operator: 3, limits: random.pick([0, 0, 0.5]) },
    beyond: 0.5,
    limitsGiven: false,
    palette: [[quota()], [quota(), drawLimit("tpm", tz, random, small)], [session]],
    momentMs: random.pick([100, 300, 1_000]),
    entities: random.pick([["org"], ["org", "key-1"]]),
    resources: ["api"],
  };
}

/** Levels of which one refuses and others do not: generous sessions below or above what starves, and nothing asked of some. */
function drawLevels(random: SeededRandom, zone: string | undefined): Profile {
  const small = drawSmall(random, zone);
  const session = make.quota("rpm", random.integer(20, 500), { resetAfterMs: random.pick(SESSIONS_MS) });
  const starving = (name: string) =>
    make.custom(name, { capacity: random.integer(1, 6), refillAmount: 1, refillPeriodMs: random.pick(PERIODS_MS) });
  const wide = make.custom("tpm", { capacity: 500, refillAmount: 100, refillPeriodMs: 1_000 });
  return {
    ...small,
    steps: random.integer(40, 80),
    weights: { ...QUIET, hold: 8, body: 3, again: random.pick([1, 4]), back: 1, limits: random.pick([0, 0, 0.5]) },
    nothing: random.pick([0, 0.2, 0.5]),
    everyLevel: true,
    limitsGiven: false,
    palette: [[session, wide], [starving("rpm")], [starving("rpm"), wide], [session], [session, starving("tpm")]],
    momentMs: random.pick([300, 1_000, 15_000, 60_000]),
    entities: random.pick([
      ["org", "key-1"],
      ["org", "team-1", "key-1"],
    ]),
  };
}

/** A whole tree, several resources, limits that are always others. */
function drawLarge(random: SeededRandom, zone: string | undefined): Profile {
  const small = drawSmall(random, zone);
  return {
    ...small,
    steps: random.integer(60, 160),
    clients: random.integer(1, 4),
    entities: ["org", "team-1", "team-2", "key-1", "key-2", "key-3", STRANGER],
    resources: random.pick([["api"], ["api", "web"], ["api", "web", "gpu"]]),
    palette: [],
  };
}

/** Two to four sets: each follows from another, by a limit that is lowered, raised, of another kind, or left out. */
export function drawPalette(random: SeededRandom, kind: Kinds): Limit[][] {
  const sets = [drawFresh(random, kind)];
  for (let more = random.integer(1, 3); more > 0; more--) {
    const changed = random.pick(sets).flatMap((limit) =>
      random.weighted<() => Limit[]>([
        [2, () => [limit]],
        [2, () => [withCapacity(limit, Math.max(1, Math.ceil(limit.capacity / random.pick([2, 10]))))]],
        [1, () => [withCapacity(limit, Math.min(TOKENS_MAX, limit.capacity * 2))]],
        [2, () => [drawLimit(limit.name, zoneOf(random, kind), random, kind)]],
        [2, () => []],
      ])(),
    );
    sets.push(changed.length === 0 ? drawFresh(random, kind) : oneZone(changed));
  }
  return sets;
}

/** One limit as it is, much lower, by another rule, and not at all, each beside another limit that stays. */
function drawLadder(random: SeededRandom, kind: Kinds): Limit[][] {
  const tz = zoneOf(random, kind);
  const [changed, stays] = [drawLimit("rpm", tz, random, kind), drawLimit("tpm", tz, random, kind)];
  const lower = withCapacity(changed, Math.max(1, Math.ceil(changed.capacity / 10)));
  return [[changed, stays], [lower, stays], [drawLimit("rpm", tz, random, kind), stays], [stays]];
}

/** The same of a limit that is long not full once something was taken: as it is, so low that it seems full, and not at all. */
function drawSlowLadder(random: SeededRandom, kind: Kinds): Limit[][] {
  const tz = zoneOf(random, kind);
  const capacity = random.integer(20, 500);
  const slow = random.pick([
    make.custom("rpm", { capacity, refillAmount: 1, refillPeriodMs: 60_000 }),
    make.quota("rpm", capacity, { reset: { cron: "0 0 * * *", tz } }),
    make.quota("rpm", capacity, { resetAfterMs: 1_800_000 }),
  ]);
  const stays = drawLimit("tpm", tz, random, kind);
  return [[slow, stays], [withCapacity(slow, 1), stays], [stays]];
}

function withCapacity(limit: Limit, capacity: number): Limit {
  // A window of its own may hold more than the largest limit when it is scaled.
  return limit.schedule === undefined ? { ...limit, capacity } : limit;
}

/** The limits of one bucket share a zone. */
function oneZone(limits: readonly Limit[]): Limit[] {
  const zones = limits.map(({ reset, schedule }) => reset?.tz ?? schedule?.[0]?.tz).filter((tz) => tz !== undefined);
  return limits.filter(({ reset, schedule }) => {
    const tz = reset?.tz ?? schedule?.[0]?.tz;
    return tz === undefined || tz === zones[0];
  });
}

interface Kinds {
  readonly large: boolean;
  readonly kinds: boolean;
  readonly zone?: string | undefined;
}

export const LIMIT_NAMES = ["rpm", "tpm", "rpd"] as const;

/** What limits count besides their names. */
const MEASURES = ["requests", "tokens", "tpm"] as const;

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

/** The limits of one bucket: of those that come again in this world, mostly. */
export function drawLimits(random: SeededRandom, profile: Profile): readonly Limit[] {
  const { palette, measures } = profile;
  if (palette.length > 0) return random.pick(palette);
  const fresh = drawFresh(random, profile);
  return measures === undefined ? fresh : countedBy(fresh, measures);
}

/** One to three limits, in any order, of any kind, from starving to generous. */
function drawFresh(random: SeededRandom, kind: Kinds): Limit[] {
  const names = LIMIT_NAMES.filter(() => random.chance(0.5));
  if (names.length === 0) names.push("rpm");
  if (random.chance(0.3)) names.reverse();
  const tz = zoneOf(random, kind);
  return names.map((name) => drawLimit(name, tz, random, kind));
}

export function zoneOf(random: SeededRandom, { zone }: Kinds): string {
  const own = random.pick(ZONES);
  return zone ?? own;
}

function drawLimit(name: string, tz: string, random: SeededRandom, { large, kinds }: Kinds): Limit {
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
export function drawPassingMs(random: SeededRandom, { kinds, momentMs }: Profile): number {
  const moments = [0, 5, 60, 1_000, 1_000, 15_000, 120_000, 7_200_000];
  const long = [120_000, 900_000, 900_000, random.pick([3_600_000, 100_000_000])];
  return random.integer(0, Math.min(momentMs, random.pick(kinds ? [...moments, ...long] : moments)));
}
