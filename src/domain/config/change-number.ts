/** The time of a change of stored limits or of an entity's plan. */
export interface ChangeTime {
  /** The reading of the process that made it. */
  readonly atMs: number;
  /** Absent where the store does not count its changes. */
  readonly number?: number;
}

/** The number of the change that made a generation of configuration: of two changes the later one has the higher number, whatever clocks show. */
export function numberOfGeneration(generation: number): number {
  return SPACED_FROM + generation * SPACE;
}

/**
 * The number of the end of an override. Where changes are counted it is the `rank`th after the last change before it, `after`; else it is
 * that of its instant. `before`: the first change after it, for an end whose earlier changes are no longer kept.
 */
export function numberOfEnd(
  atMs: number,
  { after, rank, before }: { readonly after: number | undefined; readonly rank: number; readonly before?: number },
): number {
  if (after !== undefined) return after >= COUNTED_FROM ? after + Math.min(rank, SPACE - 1) : numberOfInstant(atMs);
  return before !== undefined && before >= COUNTED_FROM ? before - 1 : numberOfInstant(atMs);
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

/** The highest number of a change at an instant, where the store does not count them. */
export function lastNumberOf(atMs: number): number {
  return numberOfInstant(atMs) + NUMBERS_PER_MS - 1;
}

const NUMBERS_PER_MS = 64;

/** Counted changes have numbers above those of all instants: a history that began without numbers goes on with them. */
const COUNTED_FROM = 2 ** 52;

/** Between two counted changes there is room for ends. Releases before there were ends counted from `COUNTED_FROM` on, without room. */
const SPACED_FROM = COUNTED_FROM + 2 ** 51;
const SPACE = 1_024;

/** Changes that are not counted are told apart up to the year 4199. */
const INSTANT_MAX_MS = COUNTED_FROM / NUMBERS_PER_MS - 1;

/** The change since which something is so. */
export interface Since {
  /** 0: before all changes that are kept; since when is not known. */
  readonly fromMs: number;
  /** The number of the change; absent where the store does not count them, and for an end. */
  readonly number?: number;
  /** The end of an override: it comes by itself, and lies ahead when it is written down. */
  readonly isEnd?: true;
}

/** The number by which a change comes before or after others. */
export function numberOf({ fromMs, number }: Since): number {
  return number ?? numberOfInstant(fromMs);
}

/** The beginning of what follows on those that are known. */
export function sinceAfter(known: readonly Since[], { atMs, number }: ChangeTime): Since {
  // A later change comes after an earlier one, also by a clock that is behind.
  const fromMs = Math.max(atMs, (known.at(-1)?.fromMs ?? 0) + 1);
  return number === undefined ? { fromMs } : { fromMs, number };
}

/** Reads what is stored; throws where that is something else. */
export function sinceFrom(fromMs: unknown, number: unknown): Since {
  if (!isCount(fromMs)) throw new RangeError(`${fromMs} is not an instant.`);
  if (number === undefined) return { fromMs };
  if (number === END) return { fromMs, isEnd: true };
  if (!isCount(number)) throw new RangeError(`${number} is not the number of a change.`);
  return { fromMs, number };
}

/** The number for a list that is stored; nothing where there is none. */
export function numberIn({ number, isEnd }: Since): readonly (number | typeof END)[] {
  if (isEnd === true) return [END];
  return number === undefined ? [] : [number];
}

/** Stands for the number of an end. */
export const END = "end";

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}
