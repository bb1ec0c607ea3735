import { isWhole } from "../../domain/limits/changed-limit.ts";
import { rulesOf } from "../../domain/limits/kinds/table.ts";
import type { Answer, Claim } from "../../ports/bucket-store.ts";
import { installLimits } from "../config/apply.ts";
import type { ProtocolContext } from "../context.ts";
import type { BucketCache } from "../process/bucket-cache.ts";
import type { CallTime } from "../process/call.ts";
import { UNSEEN } from "../several/looks.ts";
import { wholeState } from "./gather.ts";
import { joinInTime, orUnavailable, resizeInBackground } from "./resize.ts";

/**
 * Joins shards before a take. Some limits exist once for the whole bucket, such as the window of a session, which opens with the
 * first use. It joins within the caller's time; the rest goes on without the caller. Returns the answers, if the request ends here;
 * undefined if the claims can be taken.
 */
export async function joinFirst(
  context: ProtocolContext,
  claims: readonly Claim[],
  call: CallTime,
): Promise<readonly Answer[] | undefined> {
  const { caches, clock } = context;
  for (const claim of claims) {
    const cache = caches.of(claim.bucket);
    if (!mustJoin(claim, cache)) continue;
    const joined = await caches.holding([claim.bucket], () => join(context, claim, call));
    if (joined.kind === "done") continue;
    resizeInBackground(context, cache, 1, call.nowMs);
    if (joined.kind === "unavailable") return claims.map(() => joined);
    if (clock.now() < call.untilMs) continue;
    const lastFault = cache.lastFaults.slice(0, cache.shardCount).find((fault) => fault !== undefined);
    if (lastFault !== undefined) return claims.map(() => ({ kind: "unavailable", cause: lastFault }));
    // Others wrote to the shards each time: contention.
    const { seen } = joined;
    const state = seen.length === 0 ? undefined : wholeState(context, claim, { images: seen }, call.nowMs);
    return claims.map((one) => (one === claim && state !== undefined ? { kind: "contended", state } : UNSEEN));
  }
  return undefined;
}

/**
 * Shards with different limits are not joined. Takes install the current limits on each of them; but slots are taken from no
 * shard, and shadows decide by none, so it is done here for those.
 */
async function join(
  context: ProtocolContext,
  { bucket, set, origin }: Claim,
  call: CallTime,
): ReturnType<typeof joinInTime> {
  const joined = await joinInTime(context, bucket, call);
  const decidesByAll = set.limits.some((limit) => rulesOf(limit).holdsSlots || limit.shadow === true);
  if (joined.kind !== "not done" || !decidesByAll || context.clock.now() >= call.untilMs) return joined;
  const at = { readingMs: call.nowMs, untilMs: call.untilMs, configConfirmed: false };
  const installed = await installLimits(context, { bucket, set, origin, ...at }).catch(orUnavailable);
  return typeof installed === "object" ? installed : joinInTime(context, bucket, call);
}

/** The limits of the claim count, and those of the shards, which may know a change that the claim does not. */
function mustJoin({ set }: Claim, cache: BucketCache): boolean {
  if (cache.shardCount === 1) return false;
  return (
    set.limits.some(isWhole) || cache.images().some(({ state }) => state.limits.some(({ limit }) => isWhole(limit)))
  );
}
