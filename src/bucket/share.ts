import { addMulDiv } from "./integers.ts";

/** Part `index` of `count` of a whole number, so that the parts differ by at most one and add up to it exactly. */
export function share(whole: number, index: number, count: number): number {
  return part(whole, index + 1, count) - part(whole, index, count);
}

function part(whole: number, index: number, count: number): number {
  return addMulDiv(0, whole, index, 0, count, Number.MAX_SAFE_INTEGER);
}
