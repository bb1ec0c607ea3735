import { leavingOut, type Tokens, type Uncounted } from "../domain/charge/amounts.ts";
import { ValidationError } from "../domain/names/errors.ts";
import type { Acquiring } from "../engine/acquire/acquiring.ts";
import type { AcquireRequest } from "../engine/acquire/request.ts";
import type { Lease } from "../engine/lease/lease.ts";
import { closeTracked, type StreamEnd, type TrackableLease } from "../engine/lease/track.ts";
import { isGivenBack, type WorkEnd } from "../engine/lease/work-end.ts";
import { inShadow } from "../engine/refusal/refused.ts";
import { tellDegraded } from "../middleware/degraded.ts";
import type { LimitModelOptions, ModelCall } from "./adapter-options.ts";
import { estimateTokens } from "./estimate-tokens.ts";
import { outputTokens, type TokenUsage } from "./meter.ts";
import type { ProviderBucket, ProviderDrain } from "./provider-drain.ts";
import { bestKnown, type StreamedCall, type StreamedUsage, trackUsage } from "./track-usage.ts";

/** A call that was let through, with what it holds. */
interface Admission {
  readonly call: ModelCall;
  readonly entityId: string;
  readonly resource: string;
  /** Undefined if the call passed uncounted. */
  readonly taken: TakenLease | undefined;
  readonly estimated: TokenUsage;
  readonly amountsOf: (usage: TokenUsage) => Tokens;
  readonly limiter: Acquiring;
  readonly drain: ProviderDrain;
  readonly estimate: LimitModelOptions["estimate"];
}

const NEVER = new AbortController().signal;

/** A call of a model that is under way. It is closed once, whichever way it ends. */
export class LimitedCall implements TrackableLease {
  readonly signal: AbortSignal;
  readonly #of: Admission;

  constructor(of: Admission) {
    this.#of = of;
    this.signal = of.call.signal ?? NEVER;
  }

  /** Undefined if the call passed uncounted. */
  get lease(): Lease | undefined {
    return this.#of.taken?.lease;
  }

  /** The provider has answered in one piece. `usage` is undefined if it did not say what the call used. */
  async answered(usage: TokenUsage | undefined): Promise<void> {
    await this.#closeBy({ kind: "ended" }, "answered", usage ?? {});
  }

  /** The call got no answer, or an error for one. What was sent and abandoned costs one request and its input. */
  async unanswered(work: WorkEnd): Promise<void> {
    if (isGivenBack(work)) await this.rollback().catch(() => {});
    else await this.#closeBy({ kind: "left" }, work, {});
  }

  async #closeBy(end: StreamEnd, work: WorkEnd, reported: TokenUsage): Promise<void> {
    const known = bestKnown({ end, estimated: this.#charged(), reported, characters: 0, isWhole: true });
    this.#closing({ end, work, ...known });
    const totals = known.by === "estimated" ? {} : this.#of.amountsOf(known.usage);
    await closeTracked(this, { end, work, totals });
  }

  /** The estimate, with a part of it as input if it names none: a call that is abandoned costs its input. */
  #charged(): TokenUsage {
    const { estimated, call } = this.#of;
    const { input, cachedInput, cacheWrite } = estimated;
    if (input !== undefined || cachedInput !== undefined || cacheWrite !== undefined) return estimated;
    return { ...estimated, input: Math.min(estimateTokens(call.params), outputTokens(estimated)) };
  }

  /** Passes a streamed answer on, and settles by its usage, or by the best known number where its reader leaves. */
  track<Chunk>(
    stream: ReadableStream<Chunk>,
    reading: Pick<StreamedCall<Chunk>, "usageOf" | "outputOf" | "isEnd" | "isError" | "isWhole">,
  ): ReadableStream<Chunk> {
    const { amountsOf } = this.#of;
    const estimated = this.#charged();
    const closed = (streamed: StreamedUsage) => this.#closing(streamed);
    return trackUsage(this, stream, { estimated, amountsOf, closed, ...reading });
  }

  /** The provider throttles the caller. `toldMs`: how long it wants to be left alone, if it says so. */
  async throttled(toldMs: number | undefined): Promise<void> {
    const { taken, drain, limiter } = this.#of;
    if (taken === undefined) return;
    const { lease, provider } = taken;
    const closed = provider === undefined ? lease.rollback() : drain.close(limiter, provider, lease, toldMs);
    await closed.catch(() => {});
  }

  /** Settles each part of the lease by those of the totals that it was charged by. */
  async settle(totals?: Tokens): Promise<void> {
    const { taken } = this.#of;
    if (taken === undefined) return;
    const { lease, measures, provider } = taken;
    if (totals === undefined) return lease.settle();
    const among = (charged: readonly string[]) =>
      Object.fromEntries(charged.map((measure) => [measure, totals[measure] ?? 0]));
    if (provider === undefined) return lease.settle(among(measures));
    const { entityId, resource } = provider;
    return lease.settle(among(measures), { also: [{ entityId, resource, consume: among(provider.measures) }] });
  }

  async rollback(): Promise<void> {
    await this.#of.taken?.lease.rollback();
  }

  #closing({ end, work, by, usage }: StreamedUsage): void {
    if (isGivenBack(work)) return;
    const { taken, entityId, estimate, estimated, resource, call, drain, limiter } = this.#of;
    if (work === "answered" && taken?.provider !== undefined) drain.answered(taken.provider);
    if (by === "estimated") {
      const cause = new Error(`The provider of ${call.model} reported no usage.`);
      tellDegraded(limiter, { entityId, resource }, "other", "a call is charged as estimated", cause);
    }
    if (by !== "reported" || end.kind !== "ended" || typeof estimate !== "object") return;
    const { outputMax } = call;
    estimate.settled({ resource, outputMax, estimated: outputTokens(estimated), actual: outputTokens(usage) });
  }
}

/** The lease of a call, and the measures of the request that it was charged by. */
export interface TakenLease {
  readonly lease: Lease;
  readonly measures: readonly string[];
  /** The part of the provider's own budget, if there is one. */
  readonly provider: (ProviderBucket & { readonly measures: readonly string[] }) | undefined;
}

/**
 * Takes what is asked for, without the measures that no level counts: a key without a budget is not limited by one. Undefined: there are
 * limits, and none of them counts a measure of the request.
 */
export async function takeCounted(
  limiter: Acquiring,
  request: AcquireRequest & { readonly consume: Tokens },
  {
    isShadow,
    uncounted,
    provider,
  }: {
    readonly isShadow: boolean;
    readonly uncounted: Uncounted;
    readonly provider: ProviderBucket | undefined;
  },
): Promise<TakenLease | undefined> {
  const asked = leavingOut(request, uncounted);
  try {
    const lease = await limiter.acquire(isShadow ? inShadow(asked) : asked);
    // A stream may outlast the hold of a service's lease.
    lease.keep();
    const named = Object.keys(request.consume);
    const chargedTo = ({ consumed }: Pick<Lease, "consumed">) =>
      named.filter((measure) => Object.hasOwn(consumed, measure));
    // A lease of a service that could not be reached has no parts.
    const isHeld = provider !== undefined && lease.parts.length > 1;
    const measures = isHeld ? chargedTo(lease.part(provider)) : [];
    return { lease, measures: chargedTo(lease), provider: isHeld ? { ...provider, measures } : undefined };
  } catch (error) {
    if (error instanceof ValidationError && error.code === "consume_empty") return undefined;
    throw error;
  }
}
