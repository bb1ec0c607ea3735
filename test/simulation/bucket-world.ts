import type { SeededRandom } from "../../src/testing/random.ts";
import type { Rule } from "./promised-limit.ts";

export const BUCKET_STORES = ["bucket-memory", "bucket-sqlite", "bucket-conditional"] as const;

export type BucketStoreKind = (typeof BUCKET_STORES)[number];

/** How much is asked for: tokens, a part of the capacity, or a little more than may be there. */
export type Ask = number | "all" | "tooMuch";

/** One thing that happens to the bucket. Data, so that a story can be kept, shortened and played again. */
export type Happening =
  | { readonly do: "take"; readonly by: number; readonly asks: readonly (readonly [limit: string, ask: Ask])[] }
  | { readonly do: "giveBack" | "debit"; readonly by: number; readonly lease: number; readonly tokens: number }
  | { readonly do: "limits"; readonly set: number }
  | { readonly do: "pass"; readonly ms: number }
  /** To an instant so far before or after the next full hour. */
  | { readonly do: "passToHour"; readonly offMs: number }
  | { readonly do: "topUp"; readonly by: number; readonly limit: string; readonly tokens: number }
  | { readonly do: "reset"; readonly by: number; readonly limits: readonly string[] | undefined }
  /** Others come by, and what has expired is removed. */
  | { readonly do: "sweep" }
  | { readonly do: "delete" }
  | { readonly do: "split"; readonly by: number }
  | { readonly do: "join"; readonly by: number }
  | { readonly do: "announce"; readonly by: number }
  /** The next so many calls of this kind come through, then one fails. */
  | {
      readonly do: "fail";
      readonly by: number;
      readonly call: "write" | "transact";
      readonly how: Fault;
      readonly after: number;
    }
  | { readonly do: "restart"; readonly by: number }
  | { readonly do: "together"; readonly all: readonly Happening[] };

export type Fault = "refused" | "lostBefore" | "lostAfter" | "late";

/** A world with one bucket: the sets of limits that come again and again, and what happens. */
export interface BucketWorld {
  readonly store: BucketStoreKind;
  readonly startMs: number;
  readonly sets: readonly (readonly Rule[])[];
  readonly processes: number;
  readonly exact: boolean;
  readonly coalesce: boolean;
  readonly happenings: readonly Happening[];
}

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const PERIODS_MS = [1_000, 1_000, 7_000, 60_000, HOUR_MS];
const NAMES = ["a", "b"] as const;

export function drawBucketWorld(store: BucketStoreKind, random: SeededRandom): BucketWorld {
  const processes = random.integer(1, 2);
  const sets = drawSets(random);
  const weights = drawWeights(store, random);
  const drawOne = (): Happening =>
    random.weighted<() => Happening>([
      [weights.take, () => ({ do: "take", by: by(), asks: drawAsks(random, sets) })],
      [weights.giveBack, () => ({ do: "giveBack", by: by(), lease: random.integer(0, 9), tokens: drawTokens(random) })],
      [weights.debit, () => ({ do: "debit", by: by(), lease: random.integer(0, 9), tokens: drawTokens(random) })],
      [weights.limits, () => ({ do: "limits", set: random.integer(0, sets.length - 1) })],
      [weights.pass, () => drawPassing(random)],
      [weights.topUp, () => ({ do: "topUp", by: by(), limit: random.pick(NAMES), tokens: random.integer(1, 12) })],
      [weights.reset, () => ({ do: "reset", by: by(), limits: random.pick([undefined, [random.pick(NAMES)]]) })],
      [weights.sweep, () => ({ do: "sweep" })],
      [weights.delete, () => ({ do: "delete" })],
      [weights.split, () => ({ do: "split", by: by() })],
      [weights.join, () => ({ do: "join", by: by() })],
      [weights.announce, () => ({ do: "announce", by: by() })],
      [weights.fail, () => drawFault(random, by())],
      [weights.restart, () => ({ do: "restart", by: by() })],
    ])();
  const by = () => random.integer(0, processes - 1);
  const drawHappening = (): Happening => {
    if (!random.chance(weights.together)) return drawOne();
    return { do: "together", all: Array.from({ length: random.integer(2, 3) }, drawOne).filter(isShared) };
  };
  const length = random.integer(8, 40);
  return {
    store,
    startMs: Date.UTC(2026, 2, 15, random.pick([12, 22, 23]), random.integer(0, 59), random.integer(0, 59)),
    sets,
    processes,
    exact: random.chance(0.5),
    coalesce: random.chance(0.5),
    happenings: Array.from({ length }, drawHappening),
  };
}

type Weights = Record<Exclude<Happening["do"], "passToHour">, number>;

/** Each world has its own: what happens often, seldom, or not at all. */
function drawWeights(store: BucketStoreKind, random: SeededRandom): Weights {
  const some = (most: number) => (random.chance(0.5) ? 0 : random.pick([0.2, 1, 3]) * most);
  const isSplit = store === "bucket-conditional";
  // Some worlds are about one thing: leases that live through changed rules, resets and other shards.
  if (random.chance(0.15)) {
    const moved = isSplit ? { split: 1.5, join: 1.5 } : {};
    return { ...NOTHING, take: 6, giveBack: 3, limits: 2, reset: 1.5, pass: random.pick([0, 1]), ...moved };
  }
  return {
    take: random.pick([4, 8]),
    limits: random.pick([0, 1, 3, 3]),
    pass: random.pick([1, 3]),
    giveBack: some(1.5),
    debit: some(0.5),
    topUp: some(0.3),
    reset: some(0.4),
    sweep: some(1),
    delete: some(0.15),
    split: isSplit ? some(1) : 0,
    join: isSplit ? some(0.8) : 0,
    announce: isSplit ? some(0.2) : 0,
    fail: isSplit ? some(1) : 0,
    restart: isSplit ? some(0.3) : 0,
    together: isSplit && random.chance(0.4) ? 0.2 : 0,
  };
}

const NOTHING: Weights = {
  take: 0,
  giveBack: 0,
  debit: 0,
  limits: 0,
  pass: 0,
  topUp: 0,
  reset: 0,
  sweep: 0,
  delete: 0,
  split: 0,
  join: 0,
  announce: 0,
  fail: 0,
  restart: 0,
  together: 0,
};

/** Two to four, alike: lowered, raised, of another kind, or gone and back again. */
function drawSets(random: SeededRandom): Rule[][] {
  const base = NAMES.slice(0, random.integer(1, 2)).map((name) => drawRule(name, random));
  const sets = [base];
  for (let more = random.integer(1, 3); more > 0; more--) {
    const from = random.pick(sets);
    const next = from.flatMap((rule) =>
      random.weighted<() => Rule[]>([
        [2, () => [rule]],
        [2, () => [{ ...rule, capacity: Math.max(1, Math.ceil(rule.capacity / random.pick([2, 10, 20]))) }]],
        [1, () => [{ ...rule, capacity: rule.capacity * 2 }]],
        [2, () => [drawRule(rule.name, random)]],
        [2, () => []],
      ])(),
    );
    sets.push(next.length === 0 ? [drawRule(random.pick(["b", "c"]), random)] : next);
  }
  return sets;
}

function drawRule(name: string, random: SeededRandom): Rule {
  const capacity = random.pick([2, 5, 10, 10, 39, 100]);
  return random.weighted<() => Rule>([
    [3, () => ({ name, capacity, refill: random.pick([1, capacity]), periodMs: random.pick(PERIODS_MS) })],
    [2, () => ({ name, capacity, refill: 0, periodMs: 1_000, everyMs: random.pick([HOUR_MS / 4, HOUR_MS, DAY_MS]) })],
    [1, () => ({ name, capacity, refill: 0, periodMs: 1_000, sessionMs: random.pick([60_000, HOUR_MS]) })],
  ])();
}

function drawAsks(random: SeededRandom, sets: readonly (readonly Rule[])[]): [string, Ask][] {
  const names = [...new Set(sets.flatMap((set) => set.map(({ name }) => name)))];
  const some = names.filter(() => random.chance(0.7));
  return some.map((name) => [name, random.pick<Ask>([0, 1, 2, 5, 9, 30, "all", "tooMuch", "tooMuch"])]);
}

function drawTokens(random: SeededRandom): number {
  return random.pick([1, 2, 5, 1_000]);
}

function drawPassing(random: SeededRandom): Happening {
  if (random.chance(0.2)) return { do: "passToHour", offMs: random.pick([-1, 0, 1, 5_000]) };
  return {
    do: "pass",
    ms: random.integer(0, random.pick([1, 900, 5_000, 60_000, HOUR_MS, 3 * HOUR_MS, 30 * HOUR_MS])),
  };
}

function drawFault(random: SeededRandom, by: number): Happening {
  const how = random.pick(["refused", "lostBefore", "lostAfter", "late"] as const);
  return {
    do: "fail",
    by,
    call: random.pick(["write", "write", "transact"]),
    how,
    after: random.pick([0, 0, 0, 1, 2]),
  };
}

/** What may be under way beside something else: from outside one cannot see what came before a reset and what after. */
function isShared({ do: what }: Happening): boolean {
  return ["take", "giveBack", "debit", "split", "join", "announce"].includes(what);
}
