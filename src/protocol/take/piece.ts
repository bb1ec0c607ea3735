import { DEBT_MAX_MILLI } from "../../bucket/balance.ts";
import { type BucketState, findLimit, type LimitState } from "../../domain/bucket/bucket-state.ts";
import { rulesOf } from "../../domain/limits/kinds/table.ts";

/**
 * What becomes of the tokens of one limit, for all stored tokens from `from` to below `below`: something is added to them,
 * or they become a certain number, whatever they were. Bounds that are undefined do not bind.
 */
export interface Piece {
  readonly from: number | undefined;
  readonly below: number | undefined;
  readonly how: "add" | "set";
  readonly milli: number;
}

/** How one limit gets from its state on the item to its state after a rebase. */
export interface Fold {
  readonly name: string;
  /** Undefined where the item lacks the limit. */
  readonly before: LimitState | undefined;
  /** Undefined where it need not be remembered any longer. */
  readonly after: LimitState | undefined;
  readonly piece: Piece;
}

/** Deeper than any debt, and higher than any capacity. */
export const DEEP_MILLI = -DEBT_MAX_MILLI;
export const HIGH_MILLI = Number.MAX_SAFE_INTEGER;

/** Limits that the item lacks. */
export function newIn(seen: BucketState, state: BucketState): readonly Fold[] {
  return seen.limits.flatMap((after): Fold[] => {
    if (findLimit(state, after.name) !== undefined) return [];
    return [{ name: after.name, before: undefined, after, piece: always(after.tokensMilli) }];
  });
}

/** The piece in which these tokens lie. */
export function pieceFor(pieces: readonly Piece[], tokensMilli: number): Piece {
  const found = pieces.find(
    ({ from, below }) => (from === undefined || tokensMilli >= from) && (below === undefined || tokensMilli < below),
  );
  if (found === undefined) throw new RangeError(`No piece holds ${tokensMilli} millitokens; the pieces have a gap.`);
  return found;
}

/** Tokens below the brim stay as they are; more than that becomes the brim. */
export function cutAt(brimMilli: number): readonly [below: Piece, over: Piece] {
  return [
    { from: undefined, below: brimMilli, how: "add", milli: 0 },
    { from: brimMilli, below: undefined, how: "set", milli: brimMilli },
  ];
}

/** Whether a limit counts slots before and after: what is free of them only moves, and is cut nowhere. */
export function isNeverCut(before: LimitState, after: LimitState): boolean {
  return rulesOf(before.limit).holdsSlots && rulesOf(after.limit).holdsSlots;
}

/** What slots that end, and another number of them, add to what is free: not the number in the image, which others change meanwhile. */
export function freed(before: LimitState, after: LimitState): Piece {
  return raised(after.tokensMilli - before.tokensMilli);
}

export function raised(milli: number): Piece {
  return { from: undefined, below: undefined, how: "add", milli };
}

export function always(milli: number): Piece {
  return { from: undefined, below: undefined, how: "set", milli };
}
