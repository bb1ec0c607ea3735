import type { OnUnavailable } from "../domain/config/config.ts";
import { checkLeave } from "../domain/limits/limit-numbers.ts";
import { ValidationError } from "../domain/names/errors.ts";
import { KnownNames } from "../domain/names/known-names.ts";
import { shown } from "../domain/names/names.ts";
import type { Acquiring } from "../engine/acquire/acquiring.ts";
import type { LearnedEstimate } from "./learned-estimate.ts";
import { type ExactWeights, type Meter, meter, type TokenUsage, type Weights, weightsByModel } from "./meter.ts";
import { fieldOf, wholeOf } from "./wire-fields.ts";

/** A call of a model that is about to be sent. */
export interface ModelCallInfo {
  /** The model's id, as the call names it. */
  readonly model: string;
  /** The parameters of the call: the JSON body, or the options of the AI SDK. */
  readonly params: Readonly<Record<string, unknown>>;
}

/** A call as an adapter has read it. */
export interface ModelCall extends ModelCallInfo {
  /** The entity that this call names; undefined: the options name it. */
  readonly entityId: string | undefined;
  /** The most output tokens that the call allows; undefined: it does not say. */
  readonly outputMax: number | undefined;
  /** `"none"`: the call has no output, as embeddings. */
  readonly output: "text" | "none";
  readonly signal: AbortSignal | undefined;
}

/** Options of `limitOpenAI`, `limitAnthropic` and `rateLimitMiddleware`. */
export interface LimitModelOptions {
  /** A `RateLimiter` or a `LimiterClient`, or a promise of one. */
  readonly limiter: Acquiring | Promise<Acquiring>;
  /** The entity that is charged, or a function of the call. One call can name another. */
  readonly entityId: string | ((call: ModelCallInfo) => string | Promise<string>);
  /** The resource that is charged, or a function of the call. Default: the model's id. */
  readonly resource?: string | ((call: ModelCallInfo) => string | Promise<string>);
  /**
   * The weight of a token of each kind, by measure. A measure that no level counts is left out. Default: `rpm` counts
   * requests, `tpm` all tokens.
   */
  readonly weights?: Weights;
  /**
   * The usage by kind that a call is charged before it is sent, or `learnedEstimate()`. Default: 1 input token for 4
   * characters of text and 1,000 for an image or file; as output the call's own maximum, else `outputDefault`, at most
   * what the limits of the entity can hold.
   */
  readonly estimate?:
    | ((params: Readonly<Record<string, unknown>>) => TokenUsage | Promise<TokenUsage>)
    | LearnedEstimate;
  /** Output tokens that a call without a maximum of its own is estimated at. Default: 1024. */
  readonly outputDefault?: number;
  /**
   * The provider's own budget, taken in the same take as the tenant's: both or none. A 429 of the provider empties it for as long as
   * the provider says. Default: none.
   */
  readonly provider?: {
    /** The entity that stands for the provider. */
    readonly entityId: string;
    /** The resource that it is charged on. Default: that of the call. */
    readonly resource?: string;
  };
  /** The longest time that a provider's 429 is believed, in ms. Default: 60000. */
  readonly clampMaxMs?: number;
  /** The share of every hard limit that a call must leave, in percent from 0 to 99, of the provider's too. Default: 0. */
  readonly leavePercent?: number;
  /** The longest wait of a call for tokens before it is refused, in ms. Default: no wait. */
  readonly wait?: { readonly maxMs: number };
  /** `"block"`: an outage of the store refuses the call. `"allow"`: it passes uncounted. Default: what the limiter says. */
  readonly onUnavailable?: OnUnavailable;
  /** Decide, and refuse nothing: what does not fit passes without a lease. Default: `false`. */
  readonly shadow?: boolean | ((call: ModelCallInfo) => boolean | Promise<boolean>);
}

export interface CheckedOptions extends LimitModelOptions {
  /** True: the caller gave the weights; false: they are the default. */
  readonly hasWeights: boolean;
  readonly weightsOf: (model: string | undefined) => readonly ExactWeights[];
  readonly count: Meter;
  readonly outputDefault: number;
  readonly clampMaxMs: number;
}

const OPTIONS = new KnownNames<LimitModelOptions>({
  ...{ limiter: true, entityId: true, resource: true, weights: true, estimate: true, outputDefault: true },
  ...{ provider: true, clampMaxMs: true, leavePercent: true, wait: true, onUnavailable: true, shadow: true },
});

const PROVIDER = new KnownNames<NonNullable<LimitModelOptions["provider"]>>({ entityId: true, resource: true });
const WAIT = new KnownNames<{ readonly maxMs: number }>({ maxMs: true });

const ALL_TOKENS = { input: 1, cachedInput: 1, cacheWrite: 1, output: 1, reasoning: 1 };
export const WEIGHTS_DEFAULT = { rpm: { requests: 1 }, tpm: ALL_TOKENS } as const satisfies Weights;

/** Throws a `ValidationError` when the adapter is made, not at its first call. */
export function checkOptions(given: LimitModelOptions, adapter: string): CheckedOptions {
  const options = OPTIONS.check(given, `The options of ${adapter}`);
  const { limiter, entityId, resource, estimate, outputDefault = 1024, provider, clampMaxMs = 60_000 } = options;
  const { wait, onUnavailable, shadow, weights = WEIGHTS_DEFAULT } = options;
  const check = (name: string, value: unknown, isValid: boolean, wanted: string): void => {
    if (isValid) return;
    throw new ValidationError("options_invalid", `${name} of ${adapter} is ${shown(value)}; give ${wanted}.`);
  };
  const optional = (name: string, value: unknown, isValid: (value: unknown) => boolean, wanted: string): void =>
    check(name, value, value === undefined || isValid(value), wanted);
  check("limiter", limiter, isLimiter(limiter), "a RateLimiter, a LimiterClient or a promise of one");
  check("entityId", entityId, isTextOrFunction(entityId), "an id or a function");
  optional("resource", resource, isTextOrFunction, "a name or a function");
  optional("estimate", estimate, isEstimate, "a function of the parameters, or learnedEstimate()");
  check("outputDefault", outputDefault, wholeOf(outputDefault) !== undefined, "a whole number of tokens, 0 or more");
  check("clampMaxMs", clampMaxMs, isMs(clampMaxMs), "milliseconds, 0 or more");
  if (provider !== undefined) {
    const own = PROVIDER.check(provider, `provider of ${adapter}`);
    check("provider.entityId", own.entityId, isText(own.entityId), "the entity that stands for the provider");
    optional("provider.resource", own.resource, isText, "a name");
  }
  checkLeave(options.leavePercent);
  if (wait !== undefined) {
    const { maxMs } = WAIT.check(wait, `wait of ${adapter}`);
    check("wait.maxMs", maxMs, isMs(maxMs), "milliseconds, 0 or more");
  }
  optional("onUnavailable", onUnavailable, (value) => value === "block" || value === "allow", '"block" or "allow"');
  optional("shadow", shadow, (value) => ["boolean", "function"].includes(typeof value), "true, false or a function");
  const hasWeights = options.weights !== undefined;
  return {
    ...options,
    hasWeights,
    weightsOf: weightsByModel(weights),
    count: meter(weights),
    outputDefault,
    clampMaxMs,
  };
}

function isLimiter(limiter: unknown): boolean {
  return typeof fieldOf(limiter, "acquire") === "function" || typeof fieldOf(limiter, "then") === "function";
}

function isEstimate(estimate: unknown): boolean {
  return typeof estimate === "function" || typeof fieldOf(estimate, "outputFor") === "function";
}

function isTextOrFunction(value: unknown): boolean {
  return typeof value === "function" || isText(value);
}

function isText(value: unknown): boolean {
  return typeof value === "string" && value !== "";
}

function isMs(value: unknown): boolean {
  return typeof value === "number" && value >= 0;
}
