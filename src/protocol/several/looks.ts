import { fits } from "../../domain/bucket/bucket-questions.ts";
import { type BucketState, findLimit } from "../../domain/bucket/bucket-state.ts";
import { asksNever } from "../../domain/bucket/earliest.ts";
import { rulesOf } from "../../domain/limits/kinds/table.ts";
import { knowsMore } from "../../domain/limits/limit-set.ts";
import { RateLimiterUnavailable } from "../../domain/names/errors.ts";
import type { Answer, Claim } from "../../ports/bucket-store.ts";
import { installLimits } from "../config/apply.ts";
import type { ProtocolContext } from "../context.ts";
import { isWhole, type Whole } from "../decide/transact.ts";
import type { Image } from "../item/codec.ts";
import type { BucketCache, Seen } from "../process/bucket-cache.ts";
import type { Called } from "../process/call.ts";
import { RETRY } from "../process/retry-policy.ts";
import { wholeState } from "../shards/gather.ts";
import { readWhole } from "../shards/whole.ts";
import { admit } from "../take/admission.ts";
import { jobOfClaim } from "../take/job.ts";

/**
 * True if a bucket was just seen to have too little for a claim, so that it need not be asked: an image refuses, it never admits.
 *
 * The engine remembers refusals too (engine/acquire/deny-memory.ts), but only its own, and as a whole. This goes by the latest
 * image from any call, also one that took or gave back. Without it a level that is known to be short costs its siblings a write
 * and a give-back each (test/protocol/costs.test.ts).
 */
function isKnownShort(
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
  // A claim that can never fit is sent: another process may have bought, or raised the limit, and "never" must be certain.
  if (refusedAtMs < seen.atMs || fits(state, take, nowMs, leavePercent)) return false;
  const besideSlots = take.filter(({ limit }) => !isOfSlots(state, limit));
  if (ageMs >= SLOTS_MEMORY_MS && fits(state, besideSlots, nowMs, leavePercent)) return false;
  return !asksNever(state, take, leavePercent);
}

function isOfSlots(state: BucketState, limit: string): boolean {
  const held = findLimit(state, limit);
  return held !== undefined && rulesOf(held.limit).holdsSlots;
}

/** Slots may come back at any moment: a claim that is only short of slots is refused from memory for no longer than this. */
const SLOTS_MEMORY_MS = 100;

/** Nothing is known of the claim: it was not asked, or not decided in time. */
export const UNSEEN: Answer = Object.freeze({ kind: "unseen" });

/**
 * Completes refusals with the buckets that did not decide them. Claims that were not sent, because another one refused, are
 * looked at with one consistent read. If that is skipped or fails, the answer says when the bucket was seen, or that it was not.
 * An unknown bucket counts as nothing, never as full.
 */
export class Looks {
  readonly #context: ProtocolContext;
  readonly #denyMemoryMs: number;

  constructor(context: ProtocolContext, denyMemoryMs: number) {
    this.#context = context;
    this.#denyMemoryMs = denyMemoryMs;
  }

  isShort(claim: Claim, nowMs: number): boolean {
    if (this.#denyMemoryMs === 0) return false;
    return isKnownShort(this.#context.caches.of(claim.bucket), claim, nowMs, this.#denyMemoryMs);
  }

  /**
   * The refusal of claims of which one is known to be short; undefined if none is. It writes nothing. The others are read once in
   * `denyMemoryMs`: repeated requests must not cost a read each time.
   */
  remembered(claims: readonly Claim[], call: Called): Promise<readonly Answer[]> | undefined {
    const { nowMs } = call;
    const answers = claims.map((claim): Answer => {
      const cache = this.#context.caches.of(claim.bucket);
      const isShort = this.isShort(claim, nowMs);
      const isKnown = isShort || (this.#isLookedAt(cache, nowMs) && allSeen(cache)?.every(isCertain) === true);
      const known = isKnown ? this.#lastSeen(claim, cache, nowMs) : undefined;
      // "Never" is read, not remembered.
      if (known !== undefined && !claim.bypass && asksNever(known.state, claim.take, claim.leavePercent)) return UNSEEN;
      return known === undefined ? UNSEEN : { kind: isShort ? "short" : "skipped", ...known };
    });
    return answers.some(({ kind }) => kind === "short") ? this.complete(claims, answers, call) : undefined;
  }

  /** Completes the answers of a call. If they refuse it, every level has been looked at. */
  async complete(claims: readonly Claim[], answers: readonly Answer[], call: Called): Promise<readonly Answer[]> {
    // If all were taken, or configuration or the store is in doubt, nothing is said of the buckets.
    if (answers.every(isTaken) || answers.some(isDoubtful)) return answers;
    const { caches, clock } = this.#context;
    const unseen = claims.filter((claim, i) => this.#isUnseen(caches.of(claim.bucket), answers[i] as Answer, call));
    if (unseen.length === 0) return answers;
    const isHeard = clock.now() < call.untilMs && !call.signal?.aborted;
    const read = isHeard ? await this.#read(unseen, call) : [];
    return answers.map((answer, i) => {
      const claim = claims[i] as Claim;
      const whole = read[unseen.indexOf(claim)];
      if (!unseen.includes(claim) || whole === undefined) return this.#unread(claim, answer, call);
      this.#tellLimits(claim, whole, call.nowMs);
      const state = wholeState(this.#context, claim, whole, call.nowMs);
      // The read does not include what this request took.
      return answer.kind === "taken" ? { ...answer, state } : { kind: "skipped", state };
    });
  }

  /** Answers a contended claim from the cache. A read would make the contention worse. */
  undecided(claim: Claim, call: Called): Answer {
    const cache = this.#context.caches.of(claim.bucket);
    const known = this.#lastSeen(claim, cache, call.nowMs);
    if (known === undefined) return UNSEEN;
    const { state } = known;
    return isSeenSince(cache, call.askedAtSequence) ? { kind: "contended", state } : { kind: "contended", ...known };
  }

  /** Changed limits reach a bucket also with a claim that is refused elsewhere: its wait counts from now by them. */
  #tellLimits(claim: Claim, { images }: Whole, readingMs: number): void {
    const { bucket, set, origin } = claim;
    const jobs = [jobOfClaim(claim, readingMs)];
    const at = { readingMs, configConfirmed: false };
    if (claim.bypass || !images.some((image) => admit(image, jobs, at, this.#context.env).installsLimits)) return;
    const work = installLimits(this.#context, { bucket, set, origin, ...at });
    this.#context.background.track(work, bucket, "other", "changed limits could not be stored");
  }

  async #read(claims: readonly Claim[], { nowMs, untilMs }: Called): Promise<readonly (Whole | undefined)[]> {
    const keys = claims.map(({ bucket }) => bucket);
    try {
      const wholes = await readWhole(this.#context, keys, { readingMs: nowMs, untilMs, policy: RETRY.readWhole });
      return wholes.map((whole) => {
        if (!isWhole(whole)) return undefined;
        whole.cache.lookedAtMs = nowMs;
        return whole;
      });
    } catch (error) {
      // The refusal is certain all the same.
      if (error instanceof RateLimiterUnavailable) return [];
      throw error;
    }
  }

  #isUnseen(cache: BucketCache, answer: Answer, { askedAtSequence }: Called): boolean {
    if (answer.kind === "unseen") return true;
    // One shard gave it; the others are only cached.
    return answer.kind === "taken" && cache.shardCount > 1 && !isSeenSince(cache, askedAtSequence);
  }

  #unread(claim: Claim, answer: Answer, { nowMs, askedAtSequence }: Called): Answer {
    if (answer.kind !== "unseen") return answer;
    const cache = this.#context.caches.of(claim.bucket);
    const known = this.#lastSeen(claim, cache, nowMs);
    if (known === undefined) return answer;
    return { kind: "skipped", ...(isSeenSince(cache, askedAtSequence) ? { state: known.state } : known) };
  }

  /** True if it was read for a refusal lately. Later observations of this process are newer. */
  #isLookedAt(cache: BucketCache, nowMs: number): boolean {
    const ageMs = nowMs - cache.lookedAtMs;
    return ageMs >= 0 && ageMs < this.#denyMemoryMs;
  }

  /** Undefined if a shard is unknown. */
  #lastSeen(
    claim: Claim,
    cache: BucketCache,
    nowMs: number,
  ): { readonly state: BucketState; readonly seenAtMs: number } | undefined {
    const shards = allSeen(cache);
    if (shards === undefined) return undefined;
    const images = shards.flatMap(({ image }): Image[] => (image === undefined ? [] : [image]));
    const state = wholeState(this.#context, claim, { images }, nowMs);
    return { state, seenAtMs: Math.min(...shards.map(({ atMs }) => atMs)) };
  }
}

export function isTaken({ kind }: Answer): boolean {
  return kind === "taken";
}

function isDoubtful({ kind }: Answer): boolean {
  return kind === "configSuspect" || kind === "unavailable";
}

/** Every shard as it was last seen; undefined if one is unknown. */
function allSeen(cache: BucketCache): readonly Seen[] | undefined {
  const shards: Seen[] = [];
  for (let shard = 0; shard < cache.shardCount; shard++) {
    const seen = cache.seen(shard);
    if (seen === undefined) return undefined;
    // Only a bucket that does not exist has no item; a missing shard is being joined or split.
    if (seen.image === undefined ? cache.shardCount > 1 : seen.image.shardCount !== cache.shardCount) return undefined;
    shards.push(seen);
  }
  return shards;
}

/** True if all of it was seen after this observation. */
function isSeenSince(cache: BucketCache, sequence: number): boolean {
  return allSeen(cache)?.every((seen) => isCertain(seen) && seen.order > sequence) ?? false;
}

function isCertain({ eventuallyConsistent }: Seen): boolean {
  return !eventuallyConsistent;
}
