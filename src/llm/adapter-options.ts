import type { OnUnavailable } from "../domain/config/config.ts";
import { checkLeave } from "../domain/limits/floor.ts";
import { ValidationError } from "../domain/names/errors.ts";
import { KnownNames } from "../domain/names/known-names.ts";
import { shown } from "../domain/names/names.ts";
import type { Acquiring } from "../engine/acquire/acquiring.ts";
import type { TokenUsage } from "./kinds.ts";
import type { LearnedEstimate } from "./learned-estimate.ts";
import { type ExactWeights, type Meter, meter, type Weights, weightsByModel } from "./meter.ts";

/** A call of a model that is about to be sent. */
export interface ModelCallInfo {
  /** The model's id, as the call names it. */
  readonly model: string;
  /** The parameters of the call: the JSON body, or the options of the AI SDK. */
  readonly params: Readonly<Record<string, unknown>>;
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
   * What a token of each kind weighs, by measure. A measure that no level counts is left out. Default: `rpm` counts
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
   * The provider's own budget, taken as a second lease after the first. A 429 of the provider empties it for as long as
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
  /** How many percent of every hard limit a call must leave, from 0 to 99, of the provider's too. Default: 0. */
  readonly leavePercent?: number;
  /** How long a call waits for tokens before it is refused, in ms. Default: no wait. */
  readonly wait?: { readonly maxMs: number };
  /** `"block"`: an outage of the store refuses the call. `"allow"`: it passes uncounted. Default: what the limiter says. */
  readonly onUnavailable?: OnUnavailable;
  /** Decide, and refuse nothing: what does not fit passes without a lease. Default: `false`. */
  readonly shadow?: boolean | ((call: ModelCallInfo) => boolean | Promise<boolean>);
}

/** The options, checked, with their defaults. */
export interface CheckedOptions extends LimitModelOptions {
  /** Whether the weights are those of the caller. */
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
const WEIGHTS_DEFAULT: Weights = { rpm: { requests: 1 }, tpm: ALL_TOKENS };

/** Throws a `ValidationError` when the adapter is made, not at its first call. */
export function checkOptions(given: LimitModelOptions, adapter: string): CheckedOptions {
  const options = OPTIONS.check(given, `The options of ${adapter}`);
  const { limiter, entityId, resource, estimate, outputDefault = 1024, provider, clampMaxMs = 60_000 } = options;
  const fail = (name: string, value: unknown, remedy: string): never => {
    throw new ValidationError("options_invalid", `${name} of ${adapter} is ${shown(value)}; ${remedy}.`);
  };
  if (!isLimiter(limiter)) fail("limiter", limiter, "give a RateLimiter, a LimiterClient or a promise of one");
  if (!isText(entityId) && typeof entityId !== "function") fail("entityId", entityId, "give an id or a function");
  if (resource !== undefined && !isText(resource) && typeof resource !== "function") {
    fail("resource", resource, "give a name or a function");
  }
  if (estimate !== undefined && typeof estimate !== "function" && typeof estimate?.outputFor !== "function") {
    fail("estimate", estimate, "give a function of the parameters, or learnedEstimate()");
  }
  if (!Number.isSafeInteger(outputDefault) || outputDefault < 0) {
    fail("outputDefault", outputDefault, "give a whole number of tokens, 0 or more");
  }
  if (typeof clampMaxMs !== "number" || !(clampMaxMs >= 0))
    fail("clampMaxMs", clampMaxMs, "give milliseconds, 0 or more");
  checkProvider(provider, adapter, fail);
  checkPolicies(options, adapter, fail);
  const { weights = WEIGHTS_DEFAULT } = options;
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

type Fail = (name: string, value: unknown, remedy: string) => never;

function checkProvider(provider: LimitModelOptions["provider"], adapter: string, fail: Fail): void {
  if (provider === undefined) return;
  const { entityId, resource } = PROVIDER.check(provider, `provider of ${adapter}`);
  if (!isText(entityId)) fail("provider.entityId", entityId, "give the entity that stands for the provider");
  if (resource !== undefined && !isText(resource)) fail("provider.resource", resource, "give a name");
}

function checkPolicies(options: LimitModelOptions, adapter: string, fail: Fail): void {
  const { wait, onUnavailable, shadow, leavePercent } = options;
  checkLeave(leavePercent);
  if (wait !== undefined) {
    const { maxMs } = WAIT.check(wait, `wait of ${adapter}`);
    if (typeof maxMs !== "number" || !(maxMs >= 0)) fail("wait.maxMs", maxMs, "give milliseconds, 0 or more");
  }
  if (onUnavailable !== undefined && onUnavailable !== "block" && onUnavailable !== "allow") {
    fail("onUnavailable", onUnavailable, 'give "block" or "allow"');
  }
  if (shadow !== undefined && typeof shadow !== "boolean" && typeof shadow !== "function") {
    fail("shadow", shadow, "give true, false or a function");
  }
}

function isLimiter(limiter: unknown): boolean {
  if (typeof limiter !== "object" || limiter === null) return false;
  const { acquire, then } = limiter as { readonly acquire?: unknown; readonly then?: unknown };
  return typeof acquire === "function" || typeof then === "function";
}

function isText(value: unknown): boolean {
  return typeof value === "string" && value !== "";
}
