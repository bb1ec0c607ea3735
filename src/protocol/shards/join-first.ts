import { rulesOf } from "../../domain/limits/kinds/table.ts";
import { isWhole } from "../../domain/limits/limit-kinds.ts";
import { RateLimiterUnavailable } from "../../domain/names/errors.ts";
import type { Answer, Claim } from "../../ports/bucket-store.ts";
import { installLimits } from "../config/apply.ts";
import type { ProtocolContext } from "../context.ts";
import type { BucketCache } from "../process/bucket-cache.ts";
import { UNSEEN } from "../several/looks.ts";
import type { BackgroundTasks } from "./background-tasks.ts";
import { wholeState } from "./gather.ts";
import { joinInTime } from "./resize.ts";

/** A call whose caller must have an answer at `untilMs`. */
interface Called {
  readonly nowMs: number;
  readonly untilMs: number;
}

/**
 * Some limits stand once for the whole bucket, as the window of a session does, which opens with the first use: shards that the
 * bucket has from before are joined first. In the caller's time; what is left of it then goes on without the caller.
 */
export class JoinFirst {
  readonly #context: ProtocolContext;
  readonly #background: BackgroundTasks;

  constructor(context: ProtocolContext, background: BackgroundTasks) {
    this.#context = context;
    this.#background = background;
  }

  /** The answers, where the request ends with it; undefined when the claims can be taken. */
  async before(claims: readonly Claim[], call: Called): Promise<readonly Answer[] | undefined> {
    const { caches } = this.#context;
    for (const claim of claims) {
      if (!mustJoin(claim, caches.of(claim.bucket))) continue;
      const answers = await caches.holding([claim.bucket], () => this.#join(claim, claims, call));
      if (answers !== undefined) return answers;
    }
    return undefined;
  }

  async #join(claim: Claim, claims: readonly Claim[], call: Called): Promise<readonly Answer[] | undefined> {
    const { caches, clock } = this.#context;
    const cache = caches.of(claim.bucket);
    const joined = await this.#joined(claim, call);
    if (joined.kind === "done") return undefined;
    this.#background.resize(cache, 1, call.nowMs);
    if (joined.kind === "unavailable") return claims.map(() => joined);
    if (clock.now() < call.untilMs) return undefined;
    const lastFault = lastFaultOf(cache);
    if (lastFault !== undefined) return claims.map(() => ({ kind: "unavailable", cause: lastFault }));
    // Others wrote to the shards each time: it could not be decided among many.
    const { seen } = joined;
    const state = seen.length === 0 ? undefined : wholeState(this.#context, claim, { images: seen }, call.nowMs);
    return claims.map((one) => (one === claim && state !== undefined ? { kind: "contended", state } : UNSEEN));
  }

  /**
   * Shards that go by different limits are not joined. Takes bring the limits of now to each of them; but slots are taken from no shard, and
   * shadows decide by none, so for those that is done here.
   */
  async #joined({ bucket, set, origin }: Claim, call: Called): ReturnType<typeof joinInTime> {
    const { clock } = this.#context;
    const joined = await joinInTime(this.#context, bucket, call);
    const decidesByAll = set.limits.some((limit) => rulesOf(limit).holdsSlots || limit.shadow === true);
    if (joined.kind !== "not done" || !decidesByAll || clock.now() >= call.untilMs) return joined;
    try {
      const at = { readingMs: call.nowMs, untilMs: call.untilMs };
      await installLimits(this.#context, { bucket, set, origin, configConfirmed: false, ...at });
    } catch (cause) {
      if (cause instanceof RateLimiterUnavailable) return { kind: "unavailable", cause };
      throw cause;
    }
    return joinInTime(this.#context, bucket, call);
  }
}

/** By the limits of the claim, or by those of the shards, which may have heard of a change that the claim has not. */
function mustJoin({ set }: Claim, cache: BucketCache): boolean {
  if (cache.shardCount === 1) return false;
  return (
    set.limits.some(isWhole) || cache.images().some(({ state }) => state.limits.some(({ limit }) => isWhole(limit)))
  );
}

/** Why the store did not answer about one of the shards. */
function lastFaultOf(cache: BucketCache): unknown {
  for (let shard = 0; shard < cache.shardCount; shard++) {
    const lastFault = cache.lastFault(shard);
    if (lastFault !== undefined) return lastFault;
  }
  return undefined;
}
