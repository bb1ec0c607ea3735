import { LimiterError, RateLimiterUnavailable } from "../domain/errors.ts";
import type { CallContext, Claim, CreditContext, MaybePromise, WriteReply } from "../ports/bucket-store.ts";
import type { GaveBackEvent } from "../ports/events.ts";

/** One call to the store that changes a bucket. */
export type Send = (context: CallContext) => MaybePromise<WriteReply>;

export async function replyOf(send: () => MaybePromise<WriteReply>): Promise<WriteReply> {
  try {
    return await send();
  } catch (error) {
    // The work of a lease is done; that somebody closed the store meanwhile is no fault of its caller.
    if (error instanceof LimiterError && error.code === "closed") {
      return { kind: "unavailable", applied: "no", cause: error };
    }
    if (!(error instanceof RateLimiterUnavailable)) throw error;
    return { kind: "unavailable", applied: "unknown", cause: error };
  }
}

/** What each reason of a give-back means to the store: of slots, whether they were used. */
export const CREDITS: Readonly<Record<GaveBackEvent["reason"], Pick<CreditContext, "undoes" | "slotsUsed">>> = {
  refused: { undoes: "request" },
  rollback: {},
  release: { slotsUsed: true },
  adjust: { slotsUsed: true },
  settle: { slotsUsed: true },
};

/**
 * The claim of a lease: it keeps the limits it was taken under, so the store must not ask for its configuration to be read again. It
 * may be the first that tells a shard of changes that were made before the lease was taken: they count from their instants there, too.
 */
export function withoutConfigCheck(claim: Claim): Claim {
  const { reading, ...origin } = claim.origin;
  return reading === undefined ? claim : { ...claim, origin };
}
