import { RateLimiterUnavailable } from "../../domain/names/errors.ts";
import type { Claim } from "../../ports/bucket-store.ts";
import type { ProtocolContext } from "../context.ts";
import { mustReadConfig } from "../take/job.ts";
import { type Called, called } from "./call.ts";
import type { ReadAction } from "./machine.ts";
import { readOnce } from "./read-items.ts";
import { RETRY } from "./retry-policy.ts";

/** The claims on buckets that this process must hear of before it writes; all of them where it does not know the time. */
function bucketsToRead({ caches, env }: ProtocolContext, claims: readonly Claim[]): readonly Claim[] {
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
 * The claims on buckets that would be made, by configuration that was not read for them: better known before other levels are asked.
 * Not while the bucket is being made for another request: whoever waits for that finds it there.
 */
export function withoutConfig({ caches }: ProtocolContext, claims: readonly Claim[]): readonly Claim[] {
  return claims.filter((claim) => {
    const cache = caches.of(claim.bucket);
    return mustReadConfig(claim, "take") && cache.seen(0)?.image === undefined && !cache.isBusy;
  });
}

/** The call, once this process has heard of its buckets: it writes to none before. */
export async function inContact(context: ProtocolContext, claims: readonly Claim[], call: Called): Promise<Called> {
  const { clock, env } = context;
  const wasKnown = env.serverTime.isKnown();
  const unknown = bucketsToRead(context, claims);
  // Where the clock may be put by what is heard, nobody can tell afterwards how long that took: half of the time is left.
  const halfMs = wasKnown ? 0 : Math.floor(call.timeoutMs / 2);
  if (unknown.length > 0) await readTogether(context, unknown, { ...call, untilMs: call.untilMs - halfMs });
  if (wasKnown || !env.serverTime.isKnown()) return call;
  // A reading, and a deadline, from before the server's time was known may be off by any amount.
  return called(context, { ...call, nowMs: clock.now(), timeoutMs: Math.max(1, halfMs) });
}

/** By which reading buckets are read, and until when. */
interface ContactTime {
  readonly nowMs: number;
  readonly untilMs: number;
}

/**
 * One read for all buckets that nothing is known of, and for all requests that come for them meanwhile: they go on in their order.
 * Throws `RateLimiterUnavailable` where they cannot be read.
 */
async function readTogether(context: ProtocolContext, claims: readonly Claim[], at: ContactTime): Promise<void> {
  const caches = claims.map(({ bucket }) => context.caches.of(bucket));
  const underWay = new Set(caches.flatMap(({ contact }) => contact ?? []));
  const unasked = claims.filter((_, i) => caches[i]?.contact === undefined);
  const own = unasked.length === 0 ? undefined : readFirst(context, unasked, at);
  for (const { bucket } of unasked) {
    const cache = context.caches.of(bucket);
    cache.contact = own?.finally(() => {
      cache.contact = undefined;
    });
    cache.contact?.catch(() => {});
  }
  await own;
  if (underWay.size === 0) return;
  try {
    await inTime(context, Promise.all(underWay), at.untilMs);
  } catch (error) {
    // That was the time of another request.
    if (!(error instanceof RateLimiterUnavailable) || context.clock.now() >= at.untilMs) throw error;
    await readFirst(context, claims, at);
  }
}

/** The read of another request may take longer than this one has. */
async function inTime({ clock }: ProtocolContext, reading: Promise<unknown>, untilMs: number): Promise<void> {
  const over = new AbortController();
  const late = clock.sleep(Math.max(1, untilMs - clock.now()), over.signal).then(() => {
    throw new RateLimiterUnavailable("The store did not answer the first read of the bucket in time.");
  });
  late.catch(() => {});
  try {
    await Promise.race([reading, late]);
  } finally {
    over.abort();
  }
}

async function readFirst(context: ProtocolContext, claims: readonly Claim[], at: ContactTime): Promise<void> {
  const keys = claims.map(({ bucket }) => ({ bucket, shard: 0 }));
  const sets = claims.map(({ set }) => set);
  // A read that may be old is no attempt, and it is not repeated: a caller that cannot be answered is told so.
  const read: ReadAction = { do: "read", keys, consistent: false, atMs: at.nowMs, sets };
  await readOnce(context, read, at.untilMs, RETRY.take);
}

const NO_CLAIMS: readonly Claim[] = Object.freeze([]);
