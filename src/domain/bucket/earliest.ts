import { levelMilli } from "../../bucket/level.ts";
import type { Amount } from "../charge/amounts.ts";
import { isHard } from "../limits/limit.ts";
import { neededMilli } from "../limits/limit-numbers.ts";
import { type BucketState, changedLimit, findLimit, type LimitState } from "./bucket-state.ts";
import { advanceLimit, boundaryAfter, termsAt } from "./limit-state.ts";
import {
  boughtUntil,
  type Demanded,
  type Found,
  isNever,
  LimitWalk,
  type Search,
  SPAN_MAX_MS,
  UntouchedWalk,
  Walk,
} from "./search.ts";

/** A limit of a bucket, and how much of it is wanted. */
export interface Wanted extends Demanded {
  readonly state: BucketState;
  readonly limit: LimitState;
}

/** Whether a bucket, as it was seen, can never grant all of the amounts. */
export function asksNever(state: BucketState, amounts: readonly Amount[], leavePercent: number | undefined): boolean {
  return amounts.some(({ limit: name, milli }) => {
    const limit = findLimit(state, name);
    return limit !== undefined && isNever(limit, { milli, leavePercent: leavePercent ?? 0 });
  });
}

/** A limit of a bucket on its way through time, by steps that all walks of a search share. A bucket in shards goes by what they have together. */
export function walkOf(wanted: Wanted, search: Search): Walk {
  const { state, limit } = wanted;
  if (state.untouched) return new UntouchedWalk(limit, wanted, search);
  if (state.shards === undefined || !isHard(limit.limit)) return new LimitWalk(limit, state.epochMs, wanted, search);
  const parts = state.shards.flatMap((shard): Part[] => {
    const held = findLimit(shard, limit.name);
    return held === undefined ? [] : [{ held, epochMs: shard.epochMs }];
  });
  return new ShardsWalk(parts, limit, wanted, search);
}

/** A limit on one shard, and the epoch that its tokens are relative to. */
interface Part {
  readonly held: LimitState;
  readonly epochMs: number;
}

/**
 * Between two boundaries what the shards hold together never falls, so the first instant at which it suffices can be searched for
 * by halves. At a boundary a window may clip it, or a reset fill it.
 */
class ShardsWalk extends Walk {
  #parts: readonly Part[];
  #atMs = Number.NEGATIVE_INFINITY;
  readonly #whole: LimitState;

  constructor(parts: readonly Part[], whole: LimitState, demanded: Demanded, search: Search) {
    super(demanded, search);
    this.#parts = parts;
    this.#whole = whole;
  }

  protected begin(fromMs: number): void {
    const { limit } = this.#whole;
    const { calendar } = this.search;
    this.#parts = this.#parts.map((part) => {
      const epochMs = Math.max(part.epochMs, fromMs);
      const held = advanceLimit(part.held, part.epochMs, epochMs, calendar);
      // A shard that has not heard of the newest limit yet does with the next claim: the wait is by that one.
      return { held: held.limit === limit ? held : changedLimit(held, limit, epochMs, calendar), epochMs };
    });
  }

  protected find(fromMs: number): Found {
    const { calendar } = this.search;
    if (!this.#advance(fromMs)) return { atMs: fromMs, found: false };
    if (heldAt(this.#parts, fromMs) >= this.#neededMilli()) return { atMs: fromMs, found: true };
    if (isNever(this.#whole, this.demanded)) return { atMs: Number.POSITIVE_INFINITY, found: true };
    const bought = boughtUntil(this.#whole, this.demanded, fromMs, calendar);
    if (bought !== undefined) return bought;
    for (;;) {
      const atMs = this.#atMs;
      const milli = this.#neededMilli();
      const nextMs = Math.min(
        ...this.#parts.map(({ held, epochMs }) => boundaryAfter(held, Math.max(epochMs, atMs), calendar)),
      );
      const fitsMs = firstIn(this.#parts, milli, { afterMs: atMs, beforeMs: nextMs });
      if (fitsMs !== undefined) return { atMs: fitsMs, found: true };
      if (nextMs === Number.POSITIVE_INFINITY) {
        // The largest limits only take longer to fill than is searched; what there is no room for never comes.
        const roomMilli = this.#parts.reduce((sum, { held }) => sum + held.terms.capacityMilli, 0);
        const drips = this.#parts.some(({ held }) => held.terms.refillAmountMilli > 0);
        return drips && roomMilli >= milli ? { atMs: atMs + SPAN_MAX_MS, found: false } : { atMs: nextMs, found: true };
      }
      if (!this.#advance(nextMs)) return { atMs: nextMs, found: false };
      if (heldAt(this.#parts, nextMs) >= this.#neededMilli()) return { atMs: nextMs, found: true };
    }
  }

  /** The millitokens that the shards must hold together, by the capacity that is in force where the search stands. */
  #neededMilli(): number {
    const { milli, leavePercent } = this.demanded;
    if (leavePercent === 0) return milli;
    const topUpMilli = this.#parts.reduce((sum, { held }) => sum + (held.quota?.topUpMilli ?? 0), 0);
    const { capacityMilli } = termsAt(this.#whole.limit, topUpMilli, this.#atMs, this.search.calendar);
    return neededMilli(milli, capacityMilli, leavePercent);
  }

  /** False where the steps do not suffice. */
  #advance(toMs: number): boolean {
    const parts: Part[] = [];
    for (const { held, epochMs } of this.#parts) {
      const then = this.search.advance(held, epochMs, toMs);
      if (then === undefined) return false;
      parts.push({ held: then, epochMs: Math.max(epochMs, toMs) });
    }
    this.#parts = parts;
    this.#atMs = toMs;
    return true;
  }
}

function heldAt(parts: readonly Part[], atMs: number): number {
  let sumMilli = 0;
  for (const { held, epochMs } of parts) sumMilli += levelMilli(held, held.terms, atMs - epochMs);
  return sumMilli;
}

/** The first instant after one and before another at which they hold so much; undefined where they never do. */
function firstIn(
  parts: readonly Part[],
  milli: number,
  { afterMs, beforeMs }: { readonly afterMs: number; readonly beforeMs: number },
): number | undefined {
  let [early, late] = [afterMs, afterMs];
  for (let spanMs = 1; heldAt(parts, late) < milli; spanMs *= 2) {
    if (late >= beforeMs - 1 || spanMs > SPAN_MAX_MS) return undefined;
    early = late;
    late = Math.min(afterMs + spanMs, beforeMs - 1);
  }
  while (late - early > 1) {
    const middleMs = Math.floor((early + late) / 2);
    if (heldAt(parts, middleMs) >= milli) late = middleMs;
    else early = middleMs;
  }
  return late;
}
