import type { Tokens } from "../domain/charge/amounts.ts";
import type { Acquiring } from "../engine/acquire/acquiring.ts";
import { closeTracked, type TrackableLease } from "../engine/lease/track.ts";
import type { StreamEnd } from "../engine/lease/tracked-stream.ts";
import { isGivenBack, type WorkEnd } from "../engine/lease/work-end.ts";
import { tellDegraded } from "../middleware/degraded.ts";
import type { LimitModelOptions } from "./adapter-options.ts";
import { estimateTokens } from "./estimate-tokens.ts";
import { outputTokens, type TokenUsage } from "./kinds.ts";
import type { ModelCall } from "./model-call.ts";
import type { ProviderBucket, ProviderDrain } from "./provider-drain.ts";
import type { TakenLease } from "./take-counted.ts";
import { bestKnown, type StreamedCall, type StreamedUsage, trackUsage } from "./track-usage.ts";

/** A lease of a call. `provider`: it is of the provider's own budget. */
export interface ChargedLease extends TakenLease {
  readonly provider: ProviderBucket | undefined;
}

/** A call that was let through, with what it holds. */
interface Admission {
  readonly call: ModelCall;
  readonly entityId: string;
  readonly resource: string;
  /** Empty: it passed uncounted. */
  readonly leases: readonly ChargedLease[];
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

  /** The provider has answered in one piece. Undefined: it did not say what the call used. */
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

  /** What it was estimated at. Of an estimate without any input, some is: a call that is abandoned costs its input. */
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

  /** The provider has enough of it (429, 529). `toldMs`: when it wants to be asked again, if it says so. */
  async throttled(toldMs: number | undefined): Promise<void> {
    const { leases, drain, limiter } = this.#of;
    await Promise.allSettled(
      leases.map(({ lease, provider }) =>
        provider === undefined ? lease.rollback() : drain.close(limiter, provider, lease, toldMs),
      ),
    );
  }

  /** Settles every lease by those of the totals that it was charged by. */
  async settle(totals?: Tokens): Promise<void> {
    await this.#each(({ lease, measures }) => {
      if (totals === undefined) return lease.settle();
      return lease.settle(Object.fromEntries(measures.map((measure) => [measure, totals[measure] ?? 0])));
    });
  }

  /** Gives everything back. */
  async rollback(): Promise<void> {
    await this.#each(({ lease }) => lease.rollback());
  }

  #closing({ end, work, by, usage }: StreamedUsage): void {
    if (isGivenBack(work)) return;
    const { leases, entityId, estimate, estimated, resource, call, drain, limiter } = this.#of;
    if (work === "answered") for (const { provider } of leases) if (provider !== undefined) drain.answered(provider);
    if (by === "estimated") {
      const cause = new Error(`The provider of ${call.model} reported no usage.`);
      tellDegraded(limiter, { entityId, resource }, "other", "a call is charged as estimated", cause);
    }
    if (by !== "reported" || end.kind !== "ended" || typeof estimate !== "object") return;
    const { outputMax } = call;
    estimate.settled({ resource, outputMax, estimated: outputTokens(estimated), actual: outputTokens(usage) });
  }

  /** All are tried; the first failure is thrown afterwards. */
  async #each(change: (lease: ChargedLease) => Promise<void>): Promise<void> {
    const done = await Promise.allSettled(this.#of.leases.map(change));
    for (const one of done) if (one.status === "rejected") throw one.reason;
  }
}
