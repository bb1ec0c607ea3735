import { fits } from "../../domain/bucket/bucket-questions.ts";
import { type BucketState, findLimit } from "../../domain/bucket/bucket-state.ts";
import { asksNever } from "../../domain/bucket/earliest.ts";
import { rulesOf } from "../../domain/limits/kinds/table.ts";
import { knowsMore } from "../../domain/limits/limit-set.ts";
import type { Claim } from "../../ports/bucket-store.ts";
import type { BucketCache } from "./bucket-cache.ts";

/**
 * Whether a bucket was just seen to have too little for a claim, so that it need not be asked: an image refuses, it never
 * admits.
 *
 * The engine remembers refusals too (engine/acquire/deny-memory.ts), but only those that it gave itself, and as a whole. This goes by
 * the latest image, whichever call saw it, also one that took from the bucket or gave back. Without it a level that is known
 * to be short costs its siblings a write and a give-back each (test/protocol/costs.test.ts).
 */
export function isKnownShort(
  cache: BucketCache,
  { set, origin, take, bypass, leavePercent }: Claim,
  nowMs: number,
  denyMemoryMs: number,
): boolean {
  const { refusedAtMs } = cache;
  if (refusedAtMs === Number.NEGATIVE_INFINITY) return false;
  const seen = cache.seen(0);
  if (bypass || cache.shardCount !== 1 || seen?.image === undefined || seen.eventuallyConsistent) return false;
  const ageMs = nowMs - seen.atMs;
  const { state } = seen.image;
  if (ageMs < 0 || ageMs >= denyMemoryMs || nowMs >= state.renewAtMs) return false;
  if (state.signature !== set.signature || knowsMore(origin, state.origin)) return false;
  // What can never fit is asked: another process may have bought, or raised the limit, and "never" must be certain.
  if (refusedAtMs < seen.atMs || fits(state, take, nowMs, leavePercent)) return false;
  const besideSlots = take.filter(({ limit }) => !isOfSlots(state, limit));
  if (ageMs >= SLOTS_MEMORY_MS && fits(state, besideSlots, nowMs, leavePercent)) return false;
  return !asksNever(state, take, leavePercent);
}

function isOfSlots(state: BucketState, limit: string): boolean {
  const held = findLimit(state, limit);
  return held !== undefined && rulesOf(held.limit).holdsSlots;
}

/** Others give slots back at any moment: who is short of nothing else is refused from memory for no longer than this. */
const SLOTS_MEMORY_MS = 100;
