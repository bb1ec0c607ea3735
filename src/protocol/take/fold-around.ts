import { type BucketState, findLimit, type LimitState } from "../../domain/bucket/bucket-state.ts";
import { fullestMilli } from "../../domain/bucket/limit-state.ts";
import { DEEP_MILLI, type Fold, freed, HIGH_MILLI, isNeverCut, newIn, type Piece } from "./piece.ts";

/**
 * What a rebase does to each limit, like `foldsOf`, for one that brings other limits, or several in turn. A soft limit that is made hard, a session
 * that begins or does not, a quota that keeps what was used, a limit that is forgotten and comes back: each leaves a step somewhere, and which of them is left at the end is not
 * seen at the ends. So it is asked around the tokens that the image has, how far the same becomes of them.
 */
export function foldsAround(state: BucketState, rebased: (state: BucketState) => BucketState): readonly Fold[] {
  const seen = rebased(state);
  const folds = state.limits.map((before): Fold => {
    const { name } = before;
    const becomes = (tokens: number) =>
      findLimit(rebased({ ...state, limits: [{ ...before, tokensMilli: tokens }] }), name);
    const after = findLimit(seen, name);
    if (after !== undefined && isNeverCut(before, after)) return { name, before, after, piece: freed(before, after) };
    return { name, before, after, piece: pieceAround(before, becomes) };
  });
  return [...folds, ...newIn(seen, state)];
}

type Becomes = (tokensMilli: number) => LimitState | undefined;

/**
 * The widest run of tokens around some of which the same becomes: all rise alike, or all become the same. Where a run that rises meets one
 * that becomes the same, the number at which they meet is in the latter.
 */
function pieceAround({ tokensMilli, limit, part }: LimitState, asked: Becomes): Piece {
  const becomes = remembering(asked);
  const after = becomes(tokensMilli);
  const thereMilli = after?.tokensMilli ?? 0;
  const isAlike = (x: number, y: number) => marksOf(becomes(x)) === marksOf(becomes(y));
  const valueAt = (tokens: number) => becomes(tokens)?.tokensMilli ?? 0;
  const stays = (x: number, y: number) => valueAt(x) === valueAt(y) && isAlike(x, y);
  const rises = (x: number, y: number) =>
    valueAt(x) - x === valueAt(y) - y && becomes(x) !== undefined && isAlike(x, y);
  const around = [tokensMilli - 1, tokensMilli + 1];
  const isRising = !around.some((next) => stays(tokensMilli, next)) && around.some((next) => rises(tokensMilli, next));
  const isSame = (tokens: number) => (isRising ? rises : stays)(tokensMilli, tokens);
  // What is forgotten was full. There two lines meet: on one of them all rise, on the other all become the same.
  const fullMilli = fullestMilli(limit, part);
  const levelAt = (tokens: number) => becomes(tokens)?.tokensMilli ?? fullMilli;
  const meets = (end: number) => {
    const [rising, same] = isRising ? [tokensMilli, end] : [end, tokensMilli];
    return levelAt(same) - levelAt(rising) + rising;
  };
  const edgeTowards = (end: number) => {
    if (isSame(end)) return undefined;
    const last = lastWhere(tokensMilli, end, isSame, { meets, strideMilli: Math.max(1, Math.ceil(fullMilli)) });
    const next = last + Math.sign(end - last);
    return isRising && last !== tokensMilli && stays(last, next) ? last - Math.sign(end - last) : last;
  };
  const from = edgeTowards(DEEP_MILLI);
  const top = edgeTowards(HIGH_MILLI);
  const below = top === undefined ? undefined : top + 1;
  const milli = isRising ? thereMilli - tokensMilli : thereMilli;
  return { from, below, how: isRising ? "add" : "set", milli };
}

/** Asks once for each number. */
function remembering(becomes: Becomes): Becomes {
  const known = new Map<number, LimitState | undefined>();
  return (tokens) => {
    if (!known.has(tokens)) known.set(tokens, becomes(tokens));
    return known.get(tokens);
  };
}

/**
 * The last number on the way from one, where something holds, to another, where it does not. It is most often where what becomes of the two
 * `meets`, so that is asked first; else some strides further, so that the other comes to lie next to it.
 */
function lastWhere(
  holdsAt: number,
  failsAt: number,
  holds: (value: number) => boolean,
  { meets, strideMilli }: { readonly meets: (failsAt: number) => number; readonly strideMilli: number },
): number {
  let [good, bad, stride] = [holdsAt, failsAt, strideMilli];
  const towards = Math.sign(failsAt - holdsAt);
  const ask = (value: number) => {
    if (value <= Math.min(good, bad) || value >= Math.max(good, bad)) return;
    const before = value - towards;
    // Beyond a step another line may cross the first at one number: a number counts with the one before it.
    if (!holds(before)) bad = before;
    else if (holds(value)) good = value;
    else bad = value;
  };
  for (; Math.abs(bad - good) > 1; stride *= 2) {
    const guess = meets(bad);
    for (const value of [guess, guess + towards, guess - towards]) ask(value);
    ask(good + towards * Math.min(stride, Math.floor(Math.abs(bad - good) / 2)));
  }
  return good;
}

/** What of a limit is written besides its tokens, as far as it can depend on them. */
function marksOf(limit: LimitState | undefined): string {
  if (limit === undefined) return "";
  const { quota, remainder, resetsBefore, configured } = limit;
  const { windowStartMs, topUpMilli, resets, countedFromMilli } = quota ?? {};
  return [windowStartMs, topUpMilli, resets, countedFromMilli, remainder, resetsBefore, configured].join();
}
