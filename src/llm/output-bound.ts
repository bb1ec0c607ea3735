import { measureOf } from "../domain/charge/measures.ts";
import type { Limit } from "../domain/limits/limit.ts";
import { type Decimal, wholeUnits } from "./decimal.ts";
import type { TokenUsage } from "./kinds.ts";
import type { ExactWeights } from "./meter.ts";

/** What a call is charged to, and how much of it its output may fill. */
export interface OutputBound {
  /** The entity's own, on the resource of the call. */
  readonly limits: readonly Limit[];
  /** Of the model of the call: see `weightsByModel`. */
  readonly weights: readonly ExactWeights[];
  /** What the call uses besides its output, by kind. */
  readonly besides: TokenUsage;
  /** The share of each capacity that may be filled, from 0 to 1. */
  readonly share: Decimal;
}

/**
 * The most output tokens that a call can be estimated at, so that no limit is filled over its share; `Infinity` where no
 * limit counts output. Not below 0.
 */
export function outputWithin({ limits, weights, besides, share }: OutputBound): number {
  let least = Number.POSITIVE_INFINITY;
  for (const limit of limits) {
    const measure = measureOf(limit);
    const kinds = weights.find((one) => one.measure === measure)?.kinds ?? [];
    const output = kinds.find(({ kind }) => kind === "output")?.weight;
    if (output === undefined || output.units === 0n) continue;
    const scale = Math.max(share.scale, ...kinds.map(({ weight }) => weight.scale));
    const spent = kinds.reduce(
      (sum, { kind, weight }) =>
        sum + (kind === "output" ? 0n : wholeUnits(weight, scale) * BigInt(besides[kind] ?? 0)),
      0n,
    );
    const left = BigInt(limit.capacity) * wholeUnits(share, scale) - spent;
    least = Math.min(least, left <= 0n ? 0 : Number(left / wholeUnits(output, scale)));
  }
  return least;
}
