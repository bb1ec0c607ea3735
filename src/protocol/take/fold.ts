import { DEBT_MAX_MILLI } from "../../bucket/balance.ts";
import { type BucketState, findLimit, type LimitState } from "../../domain/bucket/bucket-state.ts";
import { fullestMilli } from "../../domain/bucket/limit-state.ts";
import { rulesOf } from "../../domain/limits/kinds/table.ts";

/**
 * The effect on the tokens of one limit, for stored tokens from `from` to below `below`: an addition, or a fixed result.
 * Undefined bounds do not bind.
 */
export interface Piece {
  readonly from: number | undefined;
  readonly below: number | undefined;
  readonly how: "add" | "set";
  readonly milli: number;
}

/** The step of one limit from its state on the item to its state after a rebase. */
export interface Fold {
  readonly name: string;
  /** Undefined if the item lacks the limit. */
  readonly before: LimitState | undefined;
  /** Undefined if it need not be remembered any longer. */
  readonly after: LimitState | undefined;
  readonly piece: Piece;
}

/** Deeper than any debt, and higher than any capacity. */
const DEEP_MILLI = -DEBT_MAX_MILLI;
const HIGH_MILLI = Number.MAX_SAFE_INTEGER;

/** The folds of a rebase that makes `seen` of `state`. Free slots of a limit that counts slots before and after are never cut. */
function foldsWith(state: BucketState, seen: BucketState, pieceOf: (before: LimitState) => Piece): readonly Fold[] {
  const folds = state.limits.map((before): Fold => {
    const { name } = before;
    const after = findLimit(seen, name);
    const isNeverCut = after !== undefined && rulesOf(before.limit).holdsSlots && rulesOf(after.limit).holdsSlots;
    // Slices that end, or another capacity, change the free slots by a number; others change them meanwhile.
    const piece = isNeverCut ? raised(after.tokensMilli - before.tokensMilli) : pieceOf(before);
    return { name, before, after, piece };
  });
  const added = seen.limits.filter(({ name }) => findLimit(state, name) === undefined);
  return [
    ...folds,
    ...added.map((after) => ({ name: after.name, before: undefined, after, piece: always(after.tokensMilli) })),
  ];
}

export function pieceFor(pieces: readonly Piece[], tokensMilli: number): Piece {
  const found = pieces.find(
    ({ from, below }) => (from === undefined || tokensMilli >= from) && (below === undefined || tokensMilli < below),
  );
  if (found === undefined) throw new RangeError(`No piece holds ${tokensMilli} millitokens; the pieces have a gap.`);
  return found;
}

/** Tokens below the capacity stay; more than that is cut. */
export function cutAt(brimMilli: number): readonly [below: Piece, over: Piece] {
  return [
    { from: undefined, below: brimMilli, how: "add", milli: 0 },
    { from: brimMilli, below: undefined, how: "set", milli: brimMilli },
  ];
}

export function raised(milli: number): Piece {
  return { from: undefined, below: undefined, how: "add", milli };
}

export function always(milli: number): Piece {
  return { from: undefined, below: undefined, how: "set", milli };
}

/**
 * Folds for a rebase that changes limits, perhaps several times. A soft limit that becomes hard, a session that begins or not, a
 * quota that keeps its usage, a limit that is forgotten and comes back: each leaves a step somewhere that the two ends do not
 * show. So it searches around the tokens of the image for the range in which the same happens.
 */
export function foldsAround(state: BucketState, rebased: (state: BucketState) => BucketState): readonly Fold[] {
  return foldsWith(state, rebased(state), (before) => {
    const at = (tokensMilli: number) => rebased({ ...state, limits: [{ ...before, tokensMilli }] });
    return pieceAround(before, (tokens) => findLimit(at(tokens), before.name));
  });
}

type Becomes = (tokensMilli: number) => LimitState | undefined;

/**
 * The widest range around the tokens in which the same happens: all rise alike, or all become the same. The number at which a
 * rising range meets a constant one is in the latter.
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
  // A forgotten limit was full. Two lines meet there: a rising one and a constant one.
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

function remembering(becomes: Becomes): Becomes {
  const known = new Map<number, LimitState | undefined>();
  return (tokens) => {
    if (!known.has(tokens)) known.set(tokens, becomes(tokens));
    return known.get(tokens);
  };
}

/**
 * The last number on the way from one where `holds` is true to one where it is not. It is usually where the two lines meet, so
 * `meets` is tried first; else some strides further, so that the other end comes close.
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
    // Beyond a step another line may cross the first at one number: a number counts only with the one before it.
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

/** The values of a limit, besides its tokens, that may depend on them. */
function marksOf(limit: LimitState | undefined): string {
  if (limit === undefined) return "";
  const { quota, remainder, resetsBefore, configured } = limit;
  const { windowStartMs, topUpMilli, resets, countedFromMilli } = quota ?? {};
  return [windowStartMs, topUpMilli, resets, countedFromMilli, remainder, resetsBefore, configured].join();
}

/**
 * The effect of a rebase on each limit. Time, boundaries and resets are one function of the stored tokens, x -> min(x + A, B):
 * min and plus compose. So two probes are enough: a limit deep in debt shows A, one above any capacity shows B. The image tells
 * which of the two applies. Changed limits may do more: they are probed around the tokens of the image.
 *
 * `rebased` must treat each limit by itself.
 */
export function foldsOf(state: BucketState, rebased: (state: BucketState) => BucketState): readonly Fold[] {
  const seen = rebased(state);
  if (seen.signature !== state.signature) return foldsAround(state, rebased);
  const deep = rebased(withAll(state, DEEP_MILLI));
  const high = rebased(withAll(state, HIGH_MILLI));
  return foldsWith(state, seen, ({ name, tokensMilli }) =>
    pieceFor(piecesOf(tokensOf(deep, name), tokensOf(high, name)), tokensMilli),
  );
}

function piecesOf(deepMilli: number, highMilli: number): readonly Piece[] {
  // It is full in any case: a reset, or enough time to pay any debt.
  if (deepMilli === highMilli) return [always(deepMilli)];
  const rise = deepMilli - DEEP_MILLI;
  const brimMilli = highMilli - rise;
  return [
    { ...raised(rise), below: brimMilli },
    { from: brimMilli, below: undefined, how: "set", milli: highMilli },
  ];
}

function withAll(state: BucketState, tokensMilli: number): BucketState {
  return { ...state, limits: state.limits.map((limit) => ({ ...limit, tokensMilli })) };
}

function tokensOf(state: BucketState, name: string): number {
  return findLimit(state, name)?.tokensMilli ?? 0;
}
