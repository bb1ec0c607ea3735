import type { BucketKey } from "../../domain/bucket/bucket-key.ts";
import { isMade, type Limit } from "../../domain/limits/limit.ts";
import { type LimitSet, limitSet, type SetOrigin } from "../../domain/limits/limit-set.ts";
import { BoundedMap } from "../../domain/names/bounded-map.ts";
import type { EngineDeps } from "../limiter/settings.ts";
import type { ChainLink } from "./config-cache.ts";
import { checkSupported } from "./limits-supported.ts";

/** What limits are worked out for: something that is written by them, or a question, which changes nothing. */
export type Purpose = "write" | "question";

/** Since when this process goes by which set. */
interface Since {
  readonly set: LimitSet;
  readonly asOfMs: number;
  /** The link that it stands in for, as last asked for, and what was made of it: most requests ask for the same again. */
  of?: ChainLink;
  link?: ChainLink;
}

/** A list of limits that was checked. */
interface CheckedList {
  readonly given: readonly Limit[];
  readonly set: LimitSet;
}

/**
 * Limits given in a request stand in for the stored ones. On a bucket that sees both, or different ones from two
 * processes, the newer wins; so it is remembered since when this process goes by which set on which bucket.
 */
export class RequestLimits {
  readonly #since: BoundedMap<Since>;
  /** Lists that were checked, by their first limit. Whoever gave one may change it since; its limits are those of makers, and cannot. */
  readonly #checked = new WeakMap<Limit, CheckedList>();
  /** Whether limits were ever given: until then stored ones need no look here. */
  #used = false;
  readonly #deps: Pick<EngineDeps, "calendar" | "store">;

  constructor(deps: Pick<EngineDeps, "calendar" | "store">, bucketsMax: number) {
    this.#deps = deps;
    this.#since = new BoundedMap(bucketsMax / 2);
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
        ? this.#override(link, this.#setOf(given), nowMs, purpose)
        : this.#stored(link, nowMs, purpose),
    );
  }

  /**
   * The one level of a chain as it counts now, where that is quickly said: by limits that were checked before, or by the stored ones
   * of a bucket that saw no others lately.
   */
  inPlace(link: ChainLink, given: readonly Limit[] | undefined, nowMs: number): ChainLink | undefined {
    if (given === undefined) {
      return this.#used && this.#since.get(link.bucket.id) !== undefined ? undefined : link;
    }
    const set = this.#setKnown(given);
    return set === undefined ? undefined : this.#override(link, set, nowMs, "write");
  }

  #setOf(limits: readonly Limit[]): LimitSet {
    const known = this.#setKnown(limits);
    if (known !== undefined) return known;
    const given: readonly Limit[] = Array.isArray(limits) ? [...limits] : limits;
    const set = limitSet(checkSupported(given, this.#deps));
    if (given.every(isMade)) this.#checked.set(given[0] as Limit, { given, set });
    return set;
  }

  #setKnown(limits: readonly Limit[]): LimitSet | undefined {
    if (!Array.isArray(limits)) return undefined;
    const checked = this.#checked.get(limits[0]);
    if (checked === undefined || checked.given.length !== limits.length) return undefined;
    for (let i = 1; i < limits.length; i++) if (limits[i] !== checked.given[i]) return undefined;
    return checked.set;
  }

  #override(link: ChainLink, given: LimitSet, nowMs: number, purpose: Purpose): ChainLink {
    const since = this.#sinceWhen(link.bucket, given, nowMs, purpose);
    if (since.of === link && since.link !== undefined) return since.link;
    const { set, asOfMs } = since;
    const { reading, changeNumber } = link.origin;
    const origin: SetOrigin = {
      asOfMs,
      generation: null,
      ...(reading === undefined ? {} : { reading, given: true as const }),
      // Stored limits do not count on the bucket meanwhile: what was changed of them by now is over when they return.
      ...(changeNumber === undefined ? {} : { changeNumber }),
    };
    since.of = link;
    since.link = { ...link, set, limits: set.limits, charged: set, origin };
    return since.link;
  }

  #stored(link: ChainLink, nowMs: number, purpose: Purpose): ChainLink {
    if (this.#since.get(link.bucket.id) === undefined) return link;
    const { asOfMs } = this.#sinceWhen(link.bucket, link.set, nowMs, purpose);
    return { ...link, origin: { ...link.origin, asOfMs: Math.max(asOfMs, link.origin.asOfMs) } };
  }

  #sinceWhen(bucket: BucketKey, set: LimitSet, nowMs: number, purpose: Purpose): Since {
    const last = this.#since.get(bucket.id);
    if (last?.set.signature === set.signature) return last;
    const now: Since = { set, asOfMs: nowMs };
    if (purpose === "write") {
      this.#used = true;
      this.#since.set(bucket.id, now);
    }
    return now;
  }
}
