import { BoundedMap } from "../domain/bounded-map.ts";
import type { BucketKey } from "../domain/bucket-key.ts";
import type { CronCheck } from "../domain/calendar.ts";
import { checkLimits, type Limit } from "../domain/limit.ts";
import { type LimitSet, limitSet, type SetOrigin } from "../domain/limit-set.ts";
import type { ChainLink } from "./config-cache.ts";

/**
 * Limits given in a request stand in for the stored ones. On a bucket that sees both, or different ones from two
 * processes, the newer wins; so it is remembered since when this process goes by which set on which bucket.
 */
export class RequestLimits {
  readonly #since: BoundedMap<{ readonly set: LimitSet; readonly asOfMs: number }>;
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

  /** The level with the limits of this request in place of its own. */
  override(link: ChainLink, limits: readonly Limit[], nowMs: number): ChainLink {
    this.#used = true;
    const { set, asOfMs } = this.#sinceWhen(link.bucket, limitSet(checkLimits(limits, this.#calendar)), nowMs);
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

  /** The level with its stored limits, newer than given ones that this process used before on the bucket. */
  stored(link: ChainLink, nowMs: number): ChainLink {
    if (!this.#used) return link;
    const last = this.#since.get(link.bucket.id);
    if (last === undefined) return link;
    const { asOfMs } = this.#sinceWhen(link.bucket, link.set, nowMs);
    return { ...link, origin: { ...link.origin, asOfMs: Math.max(asOfMs, link.origin.asOfMs) } };
  }

  #sinceWhen(bucket: BucketKey, set: LimitSet, nowMs: number): { readonly set: LimitSet; readonly asOfMs: number } {
    const last = this.#since.get(bucket.id);
    if (last?.set.signature === set.signature) return last;
    const now = { set, asOfMs: nowMs };
    this.#since.set(bucket.id, now);
    return now;
  }
}
