/** Where worlds begin in `npm test`: the same ones in each run. */
const FIRST_SEED = 1;

/** Each day has so many seeds of its own. */
const SEEDS_A_DAY = 10_000;

const DAY_MS = 86_400_000;

/**
 * How much a run looks at. `npm test` has each subject once; `npm run test:deep` has every variant, whole ranges, and worlds that nobody has
 * played before. Tests ask here for their variants and their number of worlds; none asks the environment by itself.
 */
export const isDeep: boolean = process.env.ZAEL_DEPTH === "deep";

/** What a test takes in `npm test`, and what it takes in `npm run test:deep`: a number of worlds, a list of variants. */
export function atDepth<Value>(quick: Value, deep: Value): Value {
  return isDeep ? deep : quick;
}

/** How often a property is tried, of the number that proves something: a tenth in `npm test`, twice as often in `npm run test:deep`. */
export function runs(count: number): number {
  return atDepth(Math.ceil(count / 10), 2 * count);
}

/** The seed of the first world: of `npm run test:deep` one that moves with the date. `ZAEL_SEED` plays those of another day again. */
export function firstSeed(nowMs: number = Date.now()): number {
  const { ZAEL_SEED: given } = process.env;
  if (given) return seedIn(given);
  return isDeep ? seedOfDay(nowMs) : FIRST_SEED;
}

/** The seed that the worlds of a day begin with. */
export function seedOfDay(nowMs: number): number {
  return Math.floor(nowMs / DAY_MS) * SEEDS_A_DAY;
}

/** The environment of a process that looks deep, at worlds that are always the same. */
export const DEEP_FROM_FIRST = { ZAEL_DEPTH: "deep", ZAEL_SEED: String(FIRST_SEED) } as const;

/** The seeds of so many worlds, from the first of this run on. */
export function seeds(quick: number, deep: number): number[] {
  const from = firstSeed();
  return Array.from({ length: atDepth(quick, deep) }, (_, i) => from + i);
}

function seedIn(given: string): number {
  const seed = Number(given);
  if (Number.isSafeInteger(seed) && seed > 0) return seed;
  throw new Error(
    `ZAEL_SEED is ${JSON.stringify(given)}; give a whole number above 0, as a run of the tests prints it.`,
  );
}
