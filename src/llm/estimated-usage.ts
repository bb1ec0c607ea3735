import type { Limit } from "../domain/limits/limit.ts";
import type { LimitModelOptions } from "./adapter-options.ts";
import { decimalOf } from "./decimal.ts";
import { estimateTokens } from "./estimate-tokens.ts";
import { checkUsage, type TokenUsage } from "./kinds.ts";
import type { ExactWeights } from "./meter.ts";
import type { ModelCall } from "./model-call.ts";
import { outputWithin } from "./output-bound.ts";

const WHOLE = decimalOf(1);

/** What the usage of a call is estimated by. */
interface Estimating {
  readonly call: ModelCall;
  readonly resource: string;
  readonly weights: readonly ExactWeights[];
  readonly estimate: LimitModelOptions["estimate"];
  readonly outputDefault: number;
  /** Those of the entity on the resource. */
  readonly limits: () => Promise<readonly Limit[]>;
}

/** What a call is charged before it is sent, by kind; `requests` is 1. */
export async function estimatedUsage(about: Estimating): Promise<TokenUsage> {
  const { call, resource, weights, estimate, outputDefault, limits: read } = about;
  if (typeof estimate === "function") {
    const usage = await estimate(call.params);
    checkUsage(usage);
    return { requests: 1, ...usage };
  }
  const besides: TokenUsage = { requests: 1, input: estimateTokens(call.params) };
  if (call.output === "none") return { ...besides, output: 0 };
  const limits = await read();
  const { outputMax } = call;
  const most = outputWithin({ limits, weights, besides, share: WHOLE });
  const plainOutput = Math.min(outputMax ?? outputDefault, most);
  const output = estimate?.outputFor({ resource, weights, limits, outputMax, plainOutput }) ?? plainOutput;
  return { ...besides, output };
}
