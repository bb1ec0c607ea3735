import { addMulDiv } from "./integers.ts";

/** Part `index` of `count` of a whole number, so that the parts differ by at most one and add up to it exactly. */
export function share(whole: number, index: number, count: number): number {
  return part(whole, index + 1, count) - part(whole, index, count);
}

/** Which part of how many. */
export interface Part {
  readonly index: number;
  readonly count: number;
  /** All parts alike, rounded down, as the original has them; otherwise they add up to the whole. */
  readonly even: boolean;
  /** Of a quota, on a table shared with the original: how many parts there were when it was last full. */
  readonly granted?: number;
}

/** A part of a whole number. */
export function divided(whole: number, { index, count, even, granted }: Part): number {
  return even ? Math.floor(whole / (granted ?? count)) : share(whole, index, count);
}

function part(whole: number, index: number, count: number): number {
  return addMulDiv(0, whole, index, 0, count, Number.MAX_SAFE_INTEGER);
}
