import type { BucketState } from "../../domain/bucket/bucket-state.ts";
import { asksNever } from "../../domain/bucket/earliest.ts";
import { RateLimiterUnavailable } from "../../domain/names/errors.ts";
import type { Answer, Claim } from "../../ports/bucket-store.ts";
import { installLimits } from "../config/apply.ts";
import type { ProtocolContext } from "../context.ts";
import { isWhole, type Whole } from "../decide/transact.ts";
import type { Image } from "../item/codec.ts";
import type { BucketCache, Seen } from "../process/bucket-cache.ts";
import { isKnownShort } from "../process/known-short.ts";
import { RETRY } from "../process/retry-policy.ts";
import type { BackgroundTasks } from "../shards/background-tasks.ts";
import { wholeState } from "../shards/gather.ts";
import { readWhole } from "../shards/whole.ts";
import { admit } from "../take/admission.ts";
import { jobOfClaim } from "../take/job.ts";

/** A call as far as its refusal is concerned. */
interface Asking {
  readonly nowMs: number;
  readonly untilMs: number;
  readonly signal?: AbortSignal | undefined;
  /** The last observation when it began: later ones are true of it. */
  readonly askedAtSequence: number;
}

/** Nothing is known of the claim: it was not asked, or not decided in time. */
export const UNSEEN: Answer = Object.freeze({ kind: "unseen" });

/**
 * What a refusal says of the buckets that did not decide it. A claim that was not sent, because another one refused, is looked at:
 * one consistent read for all of them. Where that is spared, or fails, the answer says when the bucket was seen, or that it was
 * not. An unknown bucket counts as nothing, never as full.
 */
export class Looks {
  readonly #context: ProtocolContext;
  readonly #denyMemoryMs: number;
  readonly #background: BackgroundTasks;

  constructor(context: ProtocolContext, denyMemoryMs: number, background: BackgroundTasks) {
    this.#context = context;
    this.#background = background;
    this.#denyMemoryMs = denyMemoryMs;
  }

  isShort(claim: Claim, nowMs: number): boolean {
    if (this.#denyMemoryMs === 0) return false;
    return isKnownShort(this.#context.caches.of(claim.bucket), claim, nowMs, this.#denyMemoryMs);
  }

  /**
   * The refusal of claims of which one is known to be short; undefined when none is. It writes nothing. The others are read
   * once in `denyMemoryMs`: who asks again and again must not cost a read each time.
   */
  remembered(claims: readonly Claim[], asking: Asking): Promise<readonly Answer[]> | undefined {
    const { nowMs } = asking;
    const answers = claims.map((claim): Answer => {
      const cache = this.#context.caches.of(claim.bucket);
      const isShort = this.isShort(claim, nowMs);
      const isKnown = isShort || (this.#isLookedAt(cache, nowMs) && allSeen(cache)?.every(isCertain) === true);
      const known = isKnown ? this.#lastSeen(claim, cache, nowMs) : undefined;
      // "Never" is read, not remembered.
      if (known !== undefined && !claim.bypass && asksNever(known.state, claim.take, claim.leavePercent)) return UNSEEN;
      return known === undefined ? UNSEEN : { kind: isShort ? "short" : "skipped", ...known };
    });
    return answers.some(({ kind }) => kind === "short") ? this.complete(claims, answers, asking) : undefined;
  }

  /** The answers of a call. Where they refuse it, every level of it has been looked at. */
  async complete(claims: readonly Claim[], answers: readonly Answer[], asking: Asking): Promise<readonly Answer[]> {
    // Nothing is said of the buckets where all were taken, or where configuration or the store is in doubt.
    if (answers.every(isTaken) || answers.some(isDoubtful)) return answers;
    const { caches, clock } = this.#context;
    const unseen = claims.filter((claim, i) => this.#isUnseen(caches.of(claim.bucket), answers[i] as Answer, asking));
    if (unseen.length === 0) return answers;
    const isHeard = clock.now() < asking.untilMs && !asking.signal?.aborted;
    const read = isHeard ? await this.#read(unseen, asking) : [];
    return answers.map((answer, i) => {
      const claim = claims[i] as Claim;
      const whole = read[unseen.indexOf(claim)];
      if (!unseen.includes(claim) || whole === undefined) return this.#unread(claim, answer, asking);
      this.#tellLimits(claim, whole, asking.nowMs);
      const state = wholeState(this.#context, claim, whole, asking.nowMs);
      // What was taken is still out of what was read.
      return answer.kind === "taken" ? { ...answer, state } : { kind: "skipped", state };
    });
  }

  /** Of a claim that could not be decided among many: how its bucket was last seen. It is not read: many more are waiting. */
  undecided(claim: Claim, asking: Asking): Answer {
    const cache = this.#context.caches.of(claim.bucket);
    const known = this.#lastSeen(claim, cache, asking.nowMs);
    if (known === undefined) return UNSEEN;
    const { state } = known;
    return isSeenSince(cache, asking.askedAtSequence) ? { kind: "contended", state } : { kind: "contended", ...known };
  }

  /** Limits that changed reach a bucket also with a claim that is refused elsewhere: its wait counts from now by them. */
  #tellLimits(claim: Claim, { images }: Whole, readingMs: number): void {
    const { bucket, set, origin } = claim;
    const jobs = [jobOfClaim(claim, readingMs)];
    const at = { readingMs, configConfirmed: false };
    if (claim.bypass || !images.some((image) => admit(image, jobs, at, this.#context.env).installsLimits)) return;
    const work = installLimits(this.#context, { bucket, set, origin, ...at });
    this.#background.track(work, bucket, "other", "changed limits could not be stored");
  }

  async #read(claims: readonly Claim[], { nowMs, untilMs }: Asking): Promise<readonly (Whole | undefined)[]> {
    const keys = claims.map(({ bucket }) => bucket);
    try {
      const wholes = await readWhole(this.#context, keys, { readingMs: nowMs, untilMs, policy: RETRY.readWhole });
      return wholes.map((whole) => {
        if (!isWhole(whole)) return undefined;
        whole.cache.noteLook(nowMs);
        return whole;
      });
    } catch (error) {
      // The refusal is certain all the same.
      if (error instanceof RateLimiterUnavailable) return [];
      throw error;
    }
  }

  #isUnseen(cache: BucketCache, answer: Answer, { askedAtSequence }: Asking): boolean {
    if (answer.kind === "unseen") return true;
    // One shard gave it; what the others hold is remembered.
    return answer.kind === "taken" && cache.shardCount > 1 && !isSeenSince(cache, askedAtSequence);
  }

  #unread(claim: Claim, answer: Answer, { nowMs, askedAtSequence }: Asking): Answer {
    if (answer.kind !== "unseen") return answer;
    const cache = this.#context.caches.of(claim.bucket);
    const known = this.#lastSeen(claim, cache, nowMs);
    if (known === undefined) return answer;
    return { kind: "skipped", ...(isSeenSince(cache, askedAtSequence) ? { state: known.state } : known) };
  }

  /** Whether it was read for a refusal lately. What this process has seen of it since is newer. */
  #isLookedAt(cache: BucketCache, nowMs: number): boolean {
    const ageMs = nowMs - cache.lookedAtMs;
    return ageMs >= 0 && ageMs < this.#denyMemoryMs;
  }

  /** Undefined where not all of it is known. */
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

/** How every shard was last seen; undefined where one is not known. */
function allSeen(cache: BucketCache): readonly Seen[] | undefined {
  const shards: Seen[] = [];
  for (let shard = 0; shard < cache.shardCount; shard++) {
    const seen = cache.seen(shard);
    if (seen === undefined) return undefined;
    // Only a bucket that does not exist has no item; a shard that is missing is being joined or split.
    if (seen.image === undefined ? cache.shardCount > 1 : seen.image.shardCount !== cache.shardCount) return undefined;
    shards.push(seen);
  }
  return shards;
}

/** Whether all of it was seen after an observation of this process. */
function isSeenSince(cache: BucketCache, sequence: number): boolean {
  return allSeen(cache)?.every((seen) => isCertain(seen) && seen.order > sequence) ?? false;
}

function isCertain({ eventuallyConsistent }: Seen): boolean {
  return !eventuallyConsistent;
}
