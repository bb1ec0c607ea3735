import { BoundedMap } from "../domain/bounded-map.ts";
import type { BucketKey } from "../domain/bucket-key.ts";
import type { CronCheck } from "../domain/calendar.ts";
import { checkLimits, type Limit } from "../domain/limit.ts";
import { type LimitSet, limitSet, type SetOrigin } from "../domain/limit-set.ts";
import type { ChainLink } from "./config-cache.ts";

/** What limits are worked out for: something that is written by them, or a question, which changes nothing. */
export type Purpose = "write" | "question";

/** Since when this process goes by which set. */
interface Since {
  readonly set: LimitSet;
  readonly asOfMs: number;
}

/**
 * Limits given in a request stand in for the stored ones. On a bucket that sees both, or different ones from two
 * processes, the newer wins; so it is remembered since when this process goes by which set on which bucket.
 */
export class RequestLimits {
  readonly #since: BoundedMap<Since>;
  /** Whether limits were ever given: until then stored ones need no look here. */
  #used = false;
  readonly #calendar: CronCheck;

  constructor(calendar: CronCheck, bucketsMax: number) {
    this.#calendar = calendar;
    this.#since = new BoundedMap(bucketsMax / 2);
  }

  /** Whether limits were given for this bucket lately. */
  knows(bucketId: string): boolean {
    return this.#used && this.#since.get(bucketId) !== undefined;
  }

  /**
   * A chain as it counts now: its first level by the limits that were given, if any were; every other level by its stored ones,
   * newer than those that earlier requests brought to the bucket, whether as the asker's own, a parent's or a further resource's.
   */
  inForce(
    chain: readonly ChainLink[],
    given: readonly Limit[] | undefined,
    nowMs: number,
    purpose: Purpose,
  ): readonly ChainLink[] {
    if (given === undefined && !this.#used) return chain;
    return chain.map((link, level) =>
      level === 0 && given !== undefined
        ? this.#override(link, given, nowMs, purpose)
        : this.#stored(link, nowMs, purpose),
    );
  }

  #override(link: ChainLink, limits: readonly Limit[], nowMs: number, purpose: Purpose): ChainLink {
    const given = limitSet(checkLimits(limits, this.#calendar));
    const { set, asOfMs } = this.#sinceWhen(link.bucket, given, nowMs, purpose);
    const { reading, changedMs } = link.origin;
    const origin: SetOrigin = {
      asOfMs,
      generation: null,
      ...(reading === undefined ? {} : { reading, given: true as const }),
      // Stored limits do not count on the bucket meanwhile: what was changed of them by now is over when they return.
      ...(changedMs === undefined ? {} : { changedMs }),
    };
    return { ...link, set, limits: set.limits, charged: set, origin };
  }

  #stored(link: ChainLink, nowMs: number, purpose: Purpose): ChainLink {
    if (this.#since.get(link.bucket.id) === undefined) return link;
    const { asOfMs } = this.#sinceWhen(link.bucket, link.set, nowMs, purpose);
    return { ...link, origin: { ...link.origin, asOfMs: Math.max(asOfMs, link.origin.asOfMs) } };
  }

  #sinceWhen(bucket: BucketKey, set: LimitSet, nowMs: number, purpose: Purpose): Since {
    const last = this.#since.get(bucket.id);
    if (last?.set.signature === set.signature) return last;
    const now = { set, asOfMs: nowMs };
    if (purpose === "write") {
      this.#used = true;
      this.#since.set(bucket.id, now);
    }
    return now;
  }
}
