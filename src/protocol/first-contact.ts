import type { Claim } from "../ports/bucket-store.ts";
import type { ProtocolContext } from "./context.ts";
import { drive, type Machine, type ReadAction } from "./drive.ts";
import { mustReadConfig } from "./job.ts";
import { RETRY } from "./retry-policy.ts";

/** The claims on buckets that this process must hear of before it writes; all of them where it does not know the time. */
export function withoutContact({ caches, env }: ProtocolContext, claims: readonly Claim[]): readonly Claim[] {
  if (!env.serverTime.isKnown()) return claims;
  let unknown: Claim[] | undefined;
  for (const claim of claims) {
    if (!caches.of(claim.bucket).isUnknown) continue;
    unknown ??= [];
    unknown.push(claim);
  }
  return unknown ?? NO_CLAIMS;
}

/**
 * The claims on buckets that would be made, by configuration that was not read for them: better known before anything is asked.
 * None while a level is scarce: it goes first, and where it refuses, nothing is made.
 */
export function withoutConfig({ caches }: ProtocolContext, claims: readonly Claim[], nowMs: number): readonly Claim[] {
  if (claims.length > 1 && claims.some(({ bucket }) => caches.of(bucket).isScarce(nowMs))) return NO_CLAIMS;
  return claims.filter((claim) => {
    return mustReadConfig(claim, "take") && caches.of(claim.bucket).seen(0)?.image === undefined;
  });
}

/** One read for all buckets that nothing is known of. Throws `RateLimiterUnavailable` where they cannot be read. */
export function makeContact(
  context: ProtocolContext,
  claims: readonly Claim[],
  { nowMs, untilMs }: { readonly nowMs: number; readonly untilMs: number },
): Promise<void> {
  const keys = claims.map(({ bucket }) => ({ bucket, shard: 0 }));
  const sets = claims.map(({ set }) => set);
  const machine: Machine<"unread" | "read", ReadAction, void> = {
    ended: (progress) => (progress === "read" ? { result: undefined } : undefined),
    next: () => ({ do: "read", keys, consistent: false, atMs: nowMs, sets }),
    on: (_, __, event) => {
      if (event.kind === "unread") throw event.cause;
      return "read";
    },
    untilMs: () => untilMs,
    throttled: () => {},
  };
  // A read that may be old is no attempt, and it is not repeated: a caller that cannot be answered is told so.
  return drive(machine, "unread", { policy: RETRY.take, attemptsMax: 1, caller: undefined }, context);
}

const NO_CLAIMS: readonly Claim[] = Object.freeze([]);
