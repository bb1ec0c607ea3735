import type { Tokens, Uncounted } from "../domain/charge/amounts.ts";
import type { Limit } from "../domain/limits/limit.ts";
import { BoundedMap } from "../domain/names/bounded-map.ts";
import {
  LimiterError,
  RateLimitExceeded,
  RateLimiterUnavailable,
  ResourceDisabled,
  ValidationError,
} from "../domain/names/errors.ts";
import { given } from "../domain/names/given.ts";
import { resourceOf } from "../domain/names/text-names.ts";
import type { Acquiring } from "../engine/acquire/acquiring.ts";
import { tellDegraded } from "../middleware/degraded.ts";
import {
  type CheckedOptions,
  checkOptions,
  type LimitModelOptions,
  type ModelCall,
  type ModelCallInfo,
} from "./adapter-options.ts";
import { estimateTokens, outputWithin } from "./estimate-tokens.ts";
import { LimitedCall, type TakenLease, takeCounted } from "./limited-call.ts";
import { checkUsage, decimalOf, type ExactWeights, type TokenUsage } from "./meter.ts";
import { type ProviderBucket, ProviderDrain } from "./provider-drain.ts";

/** Decides about calls of a model before they are sent, for every adapter. */
export class LimitedCalls {
  readonly #options: CheckedOptions;
  readonly #ownLimits = new OwnLimits();
  readonly #drain: ProviderDrain;
  readonly #adapter: string;

  constructor(options: LimitModelOptions, adapter: string) {
    this.#options = checkOptions(options, adapter);
    this.#adapter = adapter;
    this.#drain = new ProviderDrain(this.#options.clampMaxMs);
    // Each call reports a limiter that could not be opened. Without a listener the rejection would end the process before.
    if (options.limiter instanceof Promise) options.limiter.catch(() => {});
  }

  /** Takes the leases of a call. Throws a `LimiterError` where it must not be sent; nothing is held then. */
  async begin(call: ModelCall): Promise<LimitedCall> {
    const { limiter: opening, weightsOf, count, estimate, outputDefault, provider, hasWeights } = this.#options;
    const limiter = await opening;
    const { model, params } = call;
    const entityId = call.entityId ?? (await this.#chosen("entityId", this.#options.entityId, { model, params }));
    const resource = await this.#resource({ model, params });
    const isShadow = await this.#isShadow({ model, params });
    const limits = () => this.#ownLimits.of(limiter, entityId, resource);
    const weights = await this.#asking("weights", async () => weightsOf(model));
    const estimated = await this.#asking("estimate", () =>
      estimateUsage({ call, resource, weights, estimate, outputDefault, limits }),
    );
    const amountsOf = (usage: TokenUsage) => count(usage, model);
    const consume = amountsOf(estimated);
    // With default weights the caller has not said that a limit must count them.
    const own: TakenFrom = { entityId, resource, consume, uncounted: hasWeights ? "report" : "ignore" };
    const ofProvider = provider && { entityId: provider.entityId, resource: provider.resource ?? resource };
    const taken = await this.#take(limiter, own, ofProvider, { call, isShadow });
    if (call.signal?.aborted) {
      // The lease publishes what it could not give back, and that counts as used.
      await taken?.lease.rollback().catch(() => {});
      throw call.signal.reason;
    }
    const drain = this.#drain;
    return new LimitedCall({ call, entityId, resource, taken, estimated, amountsOf, limiter, estimate, drain });
  }

  /** Takes of the tenant's limits and of the provider's, of both or of none. Undefined: the call is let through, and nothing is charged for it. */
  async #take(
    limiter: Acquiring,
    { entityId, resource, consume, uncounted }: TakenFrom,
    provider: ProviderBucket | undefined,
    { call: { signal }, isShadow }: Attempt,
  ): Promise<TakenLease | undefined> {
    const { wait, onUnavailable, leavePercent } = this.#options;
    const waiting = isShadow ? undefined : wait;
    // Measures that the provider's limits do not count are charged to the tenant alone.
    const also = provider && [{ ...provider, consume }];
    const request = given({ entityId, resource, consume, also, leavePercent, wait: waiting, signal });
    try {
      const taken = await takeCounted(limiter, request, { isShadow, uncounted, provider });
      const degraded = taken?.lease.degraded ?? false;
      if (degraded === false || onUnavailable !== "block" || isShadow) return taken;
      await taken?.lease.rollback().catch(() => {});
      throw new RateLimiterUnavailable(
        `The store could not count the call of ${entityId} on ${resource}: ${degraded}.`,
      );
    } catch (error) {
      if (isShadow && isRefusal(error)) return undefined;
      if (!(error instanceof RateLimiterUnavailable) || (!isShadow && onUnavailable !== "allow")) throw error;
      tellDegraded(limiter, request, "other", "a call passed uncounted", error);
      return undefined;
    }
  }

  async #resource(info: ModelCallInfo): Promise<string> {
    const { resource } = this.#options;
    if (resource !== undefined) return this.#chosen("resource", resource, info);
    if (info.model !== "") return resourceOf(info.model);
    throw new ValidationError(
      "model_missing",
      `The call names no model, so there is no resource to charge; give \`resource\` to ${this.#adapter}.`,
    );
  }

  async #isShadow(info: ModelCallInfo): Promise<boolean> {
    const { shadow = false } = this.#options;
    return typeof shadow === "function" ? this.#asking("shadow", async () => shadow(info)) : shadow;
  }

  async #chosen(
    name: string,
    chosen: string | ((info: ModelCallInfo) => string | Promise<string>),
    info: ModelCallInfo,
  ): Promise<string> {
    return typeof chosen === "function" ? this.#asking(name, async () => chosen(info)) : chosen;
  }

  /** An error that a function of the options throws gets a code of its own: clients would take it for a broken connection. */
  async #asking<Value>(name: string, ask: () => Promise<Value>): Promise<Value> {
    try {
      return await ask();
    } catch (error) {
      if (error instanceof LimiterError) throw error;
      const reason = error instanceof Error ? error.message : String(error);
      throw new ValidationError("option_threw", `${name} of ${this.#adapter} threw: ${reason}`, { cause: error });
    }
  }
}

interface TakenFrom {
  readonly entityId: string;
  readonly resource: string;
  readonly consume: Tokens;
  readonly uncounted: Uncounted;
}

interface Attempt {
  readonly call: ModelCall;
  readonly isShadow: boolean;
}

/** Shadow mode lets these pass: they are decisions about the call, not mistakes in it. */
function isRefusal(error: unknown): boolean {
  if (error instanceof RateLimitExceeded || error instanceof ResourceDisabled) return true;
  return error instanceof ValidationError && error.code === "amount_above_capacity";
}

const WHOLE = decimalOf(1);

/** The facts by which the usage of a call is estimated. */
interface Estimating {
  readonly call: ModelCall;
  readonly resource: string;
  readonly weights: readonly ExactWeights[];
  readonly estimate: LimitModelOptions["estimate"];
  readonly outputDefault: number;
  /** Reads the limits of the entity on the resource. */
  readonly limits: () => Promise<readonly Limit[]>;
}

/** Estimates what a call is charged before it is sent, by kind; `requests` is 1. */
async function estimateUsage(about: Estimating): Promise<TokenUsage> {
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

/** Limits are remembered for this long, in ms. Only estimates use them, so a change need not be seen at once. */
const REMEMBERED_MS = 60_000;
const KEYS_MAX = 1_000;

/** The limits of entities on resources, for estimates. They are remembered, so that a call costs no read. */
class OwnLimits {
  #known = new BoundedMap<readonly Limit[]>(KEYS_MAX);
  #forgetting: ReturnType<typeof setTimeout> | undefined;

  /** Returns none if they cannot be read. A token without the right is remembered; the take reports an outage. */
  async of(limiter: Acquiring, entityId: string, resource: string): Promise<readonly Limit[]> {
    const key = JSON.stringify([entityId, resource]);
    const known = this.#known.get(key);
    if (known !== undefined) return known;
    try {
      const { limits } = await limiter.resolveLimits(entityId, resource);
      this.#remember(key, limits);
      return limits;
    } catch (error) {
      if (!(error instanceof RateLimiterUnavailable)) this.#remember(key, []);
      return [];
    }
  }

  #remember(key: string, limits: readonly Limit[]): void {
    this.#known.set(key, limits);
    if (this.#forgetting !== undefined) return;
    const timer = setTimeout(() => {
      this.#known = new BoundedMap(KEYS_MAX);
      this.#forgetting = undefined;
    }, REMEMBERED_MS);
    // The timer must not keep the process alive. In browsers and workers it is a number, which has no `unref`.
    (timer as { unref?(): void }).unref?.();
    this.#forgetting = timer;
  }
}
