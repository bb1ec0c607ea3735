/** When a change of stored limits or of an entity's plan was made. */
export interface ChangeTime {
  /** By the clock of whoever made it. */
  readonly atMs: number;
  /** Absent where the store does not count its changes. */
  readonly number?: number;
}

/** The number of the change that made a generation of configuration: of two changes the later one has the higher number, whatever clocks show. */
export function numberOfGeneration(generation: number): number {
  return COUNTED_FROM + generation;
}

/** The number of a change where the store does not count them: by its instant. Two of one instant have the same; see `numberOfAll`. */
export function numberOfInstant(atMs: number): number {
  return Math.min(atMs, INSTANT_MAX_MS) * NUMBERS_PER_MS;
}

/**
 * The number of the changes that have one number, `count` levels together. Where changes are not counted, it grows with each level that
 * changes in the same millisecond: so a bucket that has met one of them has not met the next.
 */
export function numberOfAll(number: number, count: number): number {
  return number >= COUNTED_FROM ? number : number + Math.min(count, NUMBERS_PER_MS) - 1;
}

/** The highest number of a change at an instant, by the same. */
export function lastNumberOf(atMs: number): number {
  return numberOfInstant(atMs) + NUMBERS_PER_MS - 1;
}

const NUMBERS_PER_MS = 64;

/** Above the numbers of all instants: a history that began without numbers goes on with them. */
const COUNTED_FROM = 2 ** 52;

/** Changes that are not counted are told apart up to the year 4199. */
const INSTANT_MAX_MS = COUNTED_FROM / NUMBERS_PER_MS - 1;
