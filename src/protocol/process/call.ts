import type { Amount } from "../../domain/charge/amounts.ts";
import { RateLimiterUnavailable } from "../../domain/names/errors.ts";
import type { Answer, CallContext, Claim, Held } from "../../ports/bucket-store.ts";
import type { ProtocolContext } from "../context.ts";
import { type Job, mustReadConfig } from "../take/job.ts";
import { readOnce } from "./drive.ts";
import type { ReadAction } from "./machine.ts";
import { RETRY } from "./retry-policy.ts";

/** A call with its deadline. */
export interface Called extends CallContext {
  readonly untilMs: number;
  readonly askedAtSequence: number;
}

export type CallTime = Pick<Called, "nowMs" | "untilMs">;

export function beginCall(
  { clock, env, caches }: ProtocolContext,
  { nowMs, timeoutMs, signal, undecided }: CallContext,
): Called {
  const untilMs = clock.now() + timeoutMs;
  // A reading from before the clock was corrected may lie ahead of the server's time.
  const readingMs = Math.min(nowMs, env.serverTime.latestMs());
  return { nowMs: readingMs, timeoutMs, signal, undecided, untilMs, askedAtSequence: caches.sequence };
}

export function jobOf(
  { caches }: ProtocolContext,
  of: Claim | Held,
  kind: Job["kind"],
  amounts: readonly Amount[],
  { nowMs, untilMs }: Called,
): Job {
  return { of, kind, amounts, readingMs: nowMs, untilMs, askedAtSequence: caches.sequence };
}

/**
 * The claims whose buckets do not exist and whose configuration was not just read: it is better to know before other levels are
 * asked. A bucket that another request is creating is left out: it will be there.
 */
export function withoutConfig({ caches }: ProtocolContext, claims: readonly Claim[]): readonly Claim[] {
  return claims.filter((claim) => {
    const cache = caches.of(claim.bucket);
    return mustReadConfig(claim, "take") && cache.seen(0)?.image === undefined && !cache.isBusy;
  });
}

/** The call, once its unknown buckets have been read: none is written before. Reads all if the server's time is unknown. */
export async function readFirstContact(
  context: ProtocolContext,
  claims: readonly Claim[],
  call: Called,
): Promise<Called> {
  const { clock, env, caches } = context;
  const wasKnown = env.serverTime.isKnown();
  const unknown = wasKnown ? claims.filter(({ bucket }) => caches.of(bucket).isUnknown) : claims;
  // If the first answer corrects the clock, the time it took cannot be measured: half of the time is left.
  const halfMs = wasKnown ? 0 : Math.floor(call.timeoutMs / 2);
  if (unknown.length > 0) await readTogether(context, unknown, { ...call, untilMs: call.untilMs - halfMs });
  if (wasKnown || !env.serverTime.isKnown()) return call;
  // A reading and a deadline from before the server's time was known may be off by any amount.
  return beginCall(context, { ...call, nowMs: clock.now(), timeoutMs: Math.max(1, halfMs) });
}

/**
 * One read for all unknown buckets, shared by all requests that come for them meanwhile: they go on in their order. Throws
 * `RateLimiterUnavailable` if they cannot be read.
 */
async function readTogether(context: ProtocolContext, claims: readonly Claim[], at: CallTime): Promise<void> {
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
    await withDeadline(context, Promise.all(underWay), at.untilMs);
  } catch (error) {
    // The other request may have had less time.
    if (!(error instanceof RateLimiterUnavailable) || context.clock.now() >= at.untilMs) throw error;
    await readFirst(context, claims, at);
  }
}

/** The read of another request may take longer than this one has. */
async function withDeadline({ clock }: ProtocolContext, reading: Promise<unknown>, untilMs: number): Promise<void> {
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

async function readFirst(context: ProtocolContext, claims: readonly Claim[], at: CallTime): Promise<void> {
  const keys = claims.map(({ bucket }) => ({ bucket, shard: 0 }));
  const sets = claims.map(({ set }) => set);
  // A read that may be old is no attempt, and is not repeated: the caller gets the error.
  const read: ReadAction = { do: "read", keys, consistent: false, atMs: at.nowMs, sets };
  await readOnce(context, read, at.untilMs, RETRY.take);
}

/** The answers of a call, with the reading they went by if it is not the caller's. */
export function withReadings(
  answers: readonly Answer[],
  { nowMs }: { readonly nowMs: number },
  askedMs: number,
): readonly Answer[] {
  if (nowMs === askedMs) return answers;
  return answers.map((answer) => ("state" in answer ? { readingMs: nowMs, ...answer } : answer));
}

/** The answer of a job, with its reading if the clock was corrected on the way. */
export function withReading<A extends Decided>(answer: A, readingMs: number, { nowMs }: { readonly nowMs: number }): A {
  return readingMs < nowMs ? { ...answer, readingMs } : answer;
}

type Decided = Extract<Answer, { readonly kind: "taken" | "short" }>;
