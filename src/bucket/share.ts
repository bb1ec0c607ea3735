import { DEBT_MAX_MILLI } from "./balance.ts";
import { addMulDiv } from "./integers.ts";

/** Part `index` of `count` of a whole number, so that the parts differ by at most one and add up to it exactly. */
export function share(whole: number, index: number, count: number): number {
  return part(whole, index + 1, count) - part(whole, index, count);
}

/** Which part of how many. */
export interface Part {
  readonly index: number;
  readonly count: number;
  /** `exact`: the parts add up to the whole. `floor`: all are alike, each rounded down, as the original has them. */
  readonly rounding: "exact" | "floor";
  /** Of a quota, on a table that the original writes too: how many parts there were when it was last full. */
  readonly grantedAmong?: number;
}

/** A part of a whole number. */
export function divided(whole: number, { index, count, rounding, grantedAmong }: Part): number {
  return rounding === "floor" ? Math.floor(whole / (grantedAmong ?? count)) : share(whole, index, count);
}

/** What a limit may owe at most; of a part as much less as there are parts, so that they can be joined. */
export function debtMaxMilli(part: Part | undefined): number {
  return part === undefined ? DEBT_MAX_MILLI : Math.floor(DEBT_MAX_MILLI / part.count);
}

function part(whole: number, index: number, count: number): number {
  return addMulDiv(0, whole, index, 0, count, Number.MAX_SAFE_INTEGER);
}
