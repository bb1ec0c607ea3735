import type { Tokens } from "../domain/charge/amounts.ts";
import type { Uncounted } from "../domain/charge/leaving-out.ts";
import {
  LimiterError,
  RateLimitExceeded,
  RateLimiterUnavailable,
  ResourceDisabled,
  ValidationError,
} from "../domain/names/errors.ts";
import { resourceOf } from "../domain/names/text-names.ts";
import type { Acquiring } from "../engine/acquire/acquiring.ts";
import type { AcquireRequest } from "../engine/acquire/request.ts";
import { tellDegraded } from "../middleware/degraded.ts";
import { type CheckedOptions, checkOptions, type LimitModelOptions, type ModelCallInfo } from "./adapter-options.ts";
import { estimatedUsage } from "./estimated-usage.ts";
import type { TokenUsage } from "./kinds.ts";
import { type ChargedLease, LimitedCall } from "./limited-call.ts";
import type { ModelCall } from "./model-call.ts";
import { OwnLimits } from "./own-limits.ts";
import { ProviderDrain } from "./provider-drain.ts";
import { takeCounted } from "./take-counted.ts";

/** What all adapters share: decides about calls of a model before they are sent. */
export class LimitedCalls {
  readonly #options: CheckedOptions;
  readonly #ownLimits = new OwnLimits();
  readonly #drain: ProviderDrain;
  readonly #adapter: string;

  constructor(options: LimitModelOptions, adapter: string) {
    this.#options = checkOptions(options, adapter);
    this.#adapter = adapter;
    this.#drain = new ProviderDrain(this.#options.clampMaxMs);
    // A limiter that could not be opened is told by each call; without a listener it would end the process before.
    if (options.limiter instanceof Promise) options.limiter.catch(() => {});
  }

  /** Takes the leases of a call. Throws a `LimiterError` where it must not be sent; nothing is held then. */
  async begin(call: ModelCall): Promise<LimitedCall> {
    const { limiter: given, weightsOf, count, estimate, outputDefault, provider, hasWeights } = this.#options;
    const limiter = await given;
    const { model, params } = call;
    const entityId = call.entityId ?? (await this.#chosen("entityId", this.#options.entityId, { model, params }));
    const resource = await this.#resource({ model, params });
    const isShadow = await this.#isShadow({ model, params });
    const weights = await this.#asking("weights", async () => weightsOf(model));
    const estimated = await this.#asking("estimate", () =>
      estimatedUsage({
        ...{ call, resource, weights, estimate, outputDefault },
        limits: () => this.#ownLimits.of(limiter, entityId, resource),
      }),
    );
    const amountsOf = (usage: TokenUsage) => count(usage, model);
    const consume = amountsOf(estimated);
    // Default weights are nobody's word for a limit on them.
    const own: TakenFrom = { entityId, resource, consume, uncounted: hasWeights ? "report" : "ignore" };
    // A provider counts what it counts; what else a call costs is the tenant's.
    const ofProvider: TakenFrom | undefined = provider && {
      ...{ entityId: provider.entityId, resource: provider.resource ?? resource, consume },
      uncounted: "ignore",
    };
    const leases = await this.#take(limiter, own, ofProvider, { call, isShadow });
    if (call.signal?.aborted) {
      await givenBack(leases);
      throw call.signal.reason;
    }
    return new LimitedCall({
      ...{ call, entityId, resource, leases, estimated, amountsOf, limiter, estimate },
      drain: this.#drain,
    });
  }

  /** The tenant's lease, then the provider's: both or none. */
  async #take(
    limiter: Acquiring,
    own: TakenFrom,
    ofProvider: TakenFrom | undefined,
    how: Attempt,
  ): Promise<readonly ChargedLease[]> {
    const first = await this.#takeOne(limiter, own, how);
    if (ofProvider === undefined || first === "passed") return first === "passed" ? [] : first;
    let second: readonly ChargedLease[] | "passed";
    try {
      second = await this.#takeOne(limiter, ofProvider, how);
    } catch (error) {
      await givenBack(first);
      throw error;
    }
    if (second !== "passed") return [...first, ...second.map((one) => ({ ...one, provider: ofProvider }))];
    await givenBack(first);
    return [];
  }

  /** `"passed"`: the call is let through, and nothing is charged for it. */
  async #takeOne(
    limiter: Acquiring,
    { entityId, resource, consume, uncounted }: TakenFrom,
    { call: { signal }, isShadow }: Attempt,
  ): Promise<readonly ChargedLease[] | "passed"> {
    const { wait, onUnavailable, leavePercent } = this.#options;
    const request: AcquireRequest & { readonly consume: Tokens } = {
      ...{ entityId, resource, consume },
      ...(leavePercent === undefined ? {} : { leavePercent }),
      ...(wait === undefined || isShadow ? {} : { wait }),
      ...(signal === undefined ? {} : { signal }),
    };
    try {
      const taken = await takeCounted(limiter, request, { isShadow, uncounted });
      if (taken === undefined) return [];
      const { degraded } = taken.lease;
      if (degraded === false || onUnavailable !== "block" || isShadow) return [{ ...taken, provider: undefined }];
      await givenBack([taken]);
      throw new RateLimiterUnavailable(
        `The store could not count the call of ${entityId} on ${resource}: ${degraded}.`,
      );
    } catch (error) {
      if (isShadow && isRefusal(error)) return "passed";
      if (!(error instanceof RateLimiterUnavailable) || (!isShadow && onUnavailable !== "allow")) throw error;
      tellDegraded(limiter, request, "other", "a call passed uncounted", error);
      return "passed";
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

  /** What a function of the options throws is told as its own mistake: clients would take it for a broken connection. */
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

/** What shadow mode lets pass: a decision about the call, not a mistake in it. */
function isRefusal(error: unknown): boolean {
  if (error instanceof RateLimitExceeded || error instanceof ResourceDisabled) return true;
  return error instanceof ValidationError && error.code === "amount_above_capacity";
}

async function givenBack(leases: readonly Pick<ChargedLease, "lease">[]): Promise<void> {
  // What could not be given back was published by the lease, and counts as used.
  await Promise.allSettled(leases.map(({ lease }) => lease.rollback()));
}
