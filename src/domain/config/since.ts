import { type ChangeTime, numberOfInstant } from "./change-number.ts";

/** Since when something is so that was changed. */
export interface Since {
  /** 0: before all changes that are kept; since when is not known. */
  readonly fromMs: number;
  /** Of the change; absent where the store does not count them. */
  readonly number?: number;
}

/** By this number it comes before or after others. */
export function numberOf({ fromMs, number }: Since): number {
  return number ?? numberOfInstant(fromMs);
}

/** Since when the next one is so that follows on those that are known. */
export function sinceAfter(known: readonly Since[], { atMs, number }: ChangeTime): Since {
  // By a clock that is behind, too, a later change comes after an earlier one.
  const fromMs = Math.max(atMs, (known.at(-1)?.fromMs ?? 0) + 1);
  return number === undefined ? { fromMs } : { fromMs, number };
}

/** As it is stored; throws where that is something else. */
export function sinceFrom(fromMs: unknown, number: unknown): Since {
  if (!isCount(fromMs)) throw new RangeError(`${fromMs} is not an instant.`);
  if (number === undefined) return { fromMs };
  if (!isCount(number)) throw new RangeError(`${number} is not the number of a change.`);
  return { fromMs, number };
}

/** The number for a list that is stored; nothing where there is none. */
export function numberIn({ number }: Since): readonly number[] {
  return number === undefined ? [] : [number];
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}
