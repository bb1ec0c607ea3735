import type { BucketKey } from "../../domain/bucket/bucket-key.ts";
import { checkLimits, isMade, type Limit } from "../../domain/limits/limit.ts";
import { type LimitSet, limitSet, type SetOrigin } from "../../domain/limits/limit-set.ts";
import { BoundedMap } from "../../domain/names/bounded-map.ts";
import { ValidationError } from "../../domain/names/errors.ts";
import { given } from "../../domain/names/given.ts";
import type { EngineDeps } from "../limiter/settings.ts";
import type { ChainLink } from "./chain-link.ts";

/** Checks limits. A limit that the store cannot keep is refused rather than ignored. */
export function checkSupported<Name extends string, Measure extends string>(
  given: readonly Limit<Name, Measure>[],
  {
    calendar,
    store,
  }: Pick<EngineDeps, "calendar"> & { readonly store: Pick<EngineDeps["store"], "name" | "tellsThresholds"> },
): readonly Limit<Name, Measure>[] {
  const limits = checkLimits(given, calendar);
  const telling = store.tellsThresholds === true ? undefined : limits.find(({ notifyAt }) => notifyAt !== undefined);
  if (telling === undefined) return limits;
  throw new ValidationError(
    "notify_unsupported",
    `Limit "${telling.name}" has notifyAt, and the store ${store.name} keeps no marks of what was told. Leave notifyAt out, or use another store.`,
  );
}

/** The limits are used for a write, or for a question, which changes nothing. */
export type Purpose = "write" | "question";

/** The set that this process applies to a bucket, and since when. */
interface Since {
  readonly set: LimitSet;
  readonly asOfMs: number;
  /** The last stored link and the link made of it: most requests ask for the same one again. */
  of?: ChainLink;
  link?: ChainLink;
}

/** A list of limits that was checked. */
interface CheckedList {
  readonly given: readonly Limit[];
  readonly set: LimitSet;
}

/**
 * Limits of a request replace the stored ones. If a bucket sees both, or different ones from two processes, the newer set wins.
 * So this class remembers since when this process applies which set to which bucket.
 */
export class RequestLimits {
  readonly #since: BoundedMap<Since>;
  /** Checked lists by their first limit. A caller may change its list later, but not limits that came from a maker. */
  readonly #checked = new WeakMap<Limit, CheckedList>();
  /** True once a request gave limits. Until then, links are returned as they are. */
  #used = false;
  readonly #deps: Pick<EngineDeps, "calendar" | "store">;

  constructor(deps: Pick<EngineDeps, "calendar" | "store">, bucketsMax: number) {
    this.#deps = deps;
    this.#since = new BoundedMap(bucketsMax / 2);
  }

  /**
   * The chain as it applies now. The first level gets the given limits, if any. The other levels keep their stored limits, marked
   * as newer than limits that earlier requests brought to the bucket.
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
   * `inForce` for a chain of one level, without work: for limits that were checked before, or the stored ones of a bucket that saw
   * no others. Undefined otherwise.
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

  #override(link: ChainLink, instead: LimitSet, nowMs: number, purpose: Purpose): ChainLink {
    const since = this.#sinceWhen(link.bucket, instead, nowMs, purpose);
    if (since.of === link && since.link !== undefined) return since.link;
    const { set, asOfMs } = since;
    const { reading, changeNumber } = link.origin;
    const origin: SetOrigin = {
      asOfMs,
      generation: null,
      ...(reading === undefined ? {} : { reading, given: true as const }),
      // The stored limits do not apply meanwhile. When they return, earlier changes of them must not be replayed.
      ...given({ changeNumber }),
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
