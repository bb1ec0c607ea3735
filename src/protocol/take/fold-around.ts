import { DEBT_MAX_MILLI } from "../../bucket/balance.ts";
import { type BucketState, findLimit, type LimitState } from "../../domain/bucket-state.ts";
import type { Fold } from "./fold.ts";
import { always, freed, isNeverCut, type Piece } from "./piece.ts";

/** Deeper than any debt, and higher than any capacity. */
export const DEEP_MILLI = -DEBT_MAX_MILLI;
export const HIGH_MILLI = Number.MAX_SAFE_INTEGER;

/**
 * What a rebase does to each limit, like `foldsOf`, for one that brings other limits, or several in turn. A soft limit that is made hard, a session
 * that begins or does not, a quota that keeps what was used, a limit that is forgotten and comes back: each leaves a step somewhere, and which of them is left at the end is not
 * seen at the ends. So it is asked around the tokens that the image has, how far the same becomes of them.
 */
export function foldsAround(state: BucketState, rebased: (state: BucketState) => BucketState): readonly Fold[] {
  const seen = rebased(state);
  const folds = state.limits.map((before): Fold => {
    const { name, tokensMilli } = before;
    const becomes = (tokens: number) =>
      findLimit(rebased({ ...state, limits: [{ ...before, tokensMilli: tokens }] }), name);
    const after = findLimit(seen, name);
    if (after !== undefined && isNeverCut(before, after)) return { name, before, after, piece: freed(before, after) };
    return { name, before, after, piece: pieceAround(tokensMilli, becomes) };
  });
  return [...folds, ...newIn(seen, state)];
}

/** Limits that the item lacks. */
export function newIn(seen: BucketState, state: BucketState): readonly Fold[] {
  return seen.limits.flatMap((after): Fold[] => {
    if (findLimit(state, after.name) !== undefined) return [];
    return [{ name: after.name, before: undefined, after, piece: always(after.tokensMilli) }];
  });
}

/** The widest run of tokens around some of which the same becomes: all rise alike, or all become the same. */
function pieceAround(tokensMilli: number, becomes: (tokensMilli: number) => LimitState | undefined): Piece {
  const after = becomes(tokensMilli);
  const marks = marksOf(after);
  const there = after?.tokensMilli ?? 0;
  const rises = (tokens: number) => {
    const then = becomes(tokens);
    return marksOf(then) === marks && then !== undefined && then.tokensMilli - tokens === there - tokensMilli;
  };
  const stays = (tokens: number) => {
    const then = becomes(tokens);
    return marksOf(then) === marks && (then?.tokensMilli ?? 0) === there;
  };
  const isRising = rises(tokensMilli - 1) || rises(tokensMilli + 1);
  const isSame = isRising ? rises : stays;
  const from = isSame(DEEP_MILLI) ? undefined : lastWhere(tokensMilli, DEEP_MILLI, isSame);
  const top = isSame(HIGH_MILLI) ? undefined : lastWhere(tokensMilli, HIGH_MILLI, isSame);
  const below = top === undefined ? undefined : top + 1;
  return isRising ? { from, below, how: "add", milli: there - tokensMilli } : { from, below, how: "set", milli: there };
}

/** The last number on the way from one, where something holds, to another, where it does not. */
function lastWhere(holdsAt: number, failsAt: number, holds: (value: number) => boolean): number {
  let [good, bad] = [holdsAt, failsAt];
  while (Math.abs(bad - good) > 1) {
    const middle = Math.trunc(good / 2 + bad / 2);
    const next = middle === good || middle === bad ? good + Math.sign(bad - good) : middle;
    if (holds(next)) good = next;
    else bad = next;
  }
  return good;
}

/** What of a limit is written besides its tokens, as far as it can depend on them. */
function marksOf(limit: LimitState | undefined): string {
  if (limit === undefined) return "";
  const { quota, remainder, resetsBefore, configured } = limit;
  const { windowStartMs, topUpMilli, resets } = quota ?? {};
  return [windowStartMs, topUpMilli, resets, remainder, resetsBefore, configured].join();
}
