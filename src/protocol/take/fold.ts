import { type BucketState, findLimit } from "../../domain/bucket/bucket-state.ts";
import { foldsAround } from "./fold-around.ts";
import {
  always,
  DEEP_MILLI,
  type Fold,
  freed,
  HIGH_MILLI,
  isNeverCut,
  newIn,
  type Piece,
  pieceFor,
  raised,
} from "./piece.ts";

/**
 * What a rebase does to each limit. Time, boundaries and resets are one function of the stored tokens, x -> min(x + A, B): min and
 * plus compose. So it is enough to ask what becomes of a limit deep in debt (that shows A) and of one that holds more than any
 * capacity (that shows B). Which of the two the item calls for is seen from the image. Other limits may do more: they are asked about
 * around the tokens of the image.
 *
 * `rebased` must treat each limit by itself.
 */
export function foldsOf(state: BucketState, rebased: (state: BucketState) => BucketState): readonly Fold[] {
  const seen = rebased(state);
  if (seen.signature !== state.signature) return foldsAround(state, rebased);
  const deep = rebased(withAll(state, DEEP_MILLI));
  const high = rebased(withAll(state, HIGH_MILLI));
  const folds = state.limits.map((before): Fold => {
    const { name, tokensMilli } = before;
    const after = findLimit(seen, name);
    if (after !== undefined && isNeverCut(before, after)) return { name, before, after, piece: freed(before, after) };
    const pieces = piecesOf(tokensOf(deep, name), tokensOf(high, name));
    return { name, before, after, piece: pieceFor(pieces, tokensMilli) };
  });
  return [...folds, ...newIn(seen, state)];
}

function piecesOf(deepMilli: number, highMilli: number): readonly Piece[] {
  // Full whatever it held: a reset, or so much time that any debt is paid.
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
