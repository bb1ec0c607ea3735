import { DEBT_MAX_MILLI } from "../../bucket/balance.ts";
import { advanced, type BucketState, findLimit, type LimitState } from "../../domain/bucket-state.ts";
import type { Calendar } from "../../domain/calendar.ts";
import { fullestMilli } from "../../domain/limit-state.ts";
import { always, freed, isNeverCut, type Piece, pieceFor, raised } from "./piece.ts";

/** How one limit gets from its state on the item to its state after a rebase. */
export interface Fold {
  readonly name: string;
  /** Undefined where the item lacks the limit. */
  readonly before: LimitState | undefined;
  /** Undefined where it need not be remembered any longer. */
  readonly after: LimitState | undefined;
  readonly piece: Piece;
}

/**
 * What a rebase does to each limit. Time, boundaries, resets and changed terms are one function of the stored tokens,
 * x -> min(x + A, B): min and plus compose. So it is enough to ask what becomes of a limit deep in debt (that shows A) and of
 * one that holds more than any capacity (that shows B). Which of the two the item calls for is seen from the image.
 *
 * `rebased` must treat each limit by itself. Up to `atMs` it goes by the terms on the item; other limits count from then on.
 */
export function foldsOf(
  state: BucketState,
  rebased: (state: BucketState) => BucketState,
  atMs: number,
  calendar: Calendar,
): readonly Fold[] {
  const seen = rebased(state);
  const deep = rebased(withAll(state, DEEP_MILLI));
  const high = rebased(withAll(state, HIGH_MILLI));
  const drips = advanced(withAll(state, DEEP_MILLI), atMs, calendar);
  const folds = state.limits.map((before): Fold => {
    const { name, tokensMilli } = before;
    const after = findLimit(seen, name);
    if (after !== undefined && isNeverCut(before, after)) return { name, before, after, piece: freed(before, after) };
    const pieces = piecesOf({
      before,
      deep: findLimit(deep, name),
      high: findLimit(high, name),
      risen: tokensOf(drips, name) - DEEP_MILLI,
      becomes: (tokens) => tokensOf(rebased(withAll(state, tokens)), name),
    });
    return { name, before, after, piece: pieceFor(pieces, tokensMilli) };
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

/** Deeper than any debt, and higher than any capacity. */
export const DEEP_MILLI = -DEBT_MAX_MILLI;
export const HIGH_MILLI = Number.MAX_SAFE_INTEGER;

interface Probes {
  readonly before: LimitState;
  readonly deep: LimitState | undefined;
  readonly high: LimitState | undefined;
  /** What was refilled before its terms change. */
  readonly risen: number;
  /** What becomes of some tokens. */
  readonly becomes: (tokensMilli: number) => number;
}

function piecesOf({ before, deep, high, risen, becomes }: Probes): readonly Piece[] {
  // Forgotten whatever it holds, or full whatever it held: a reset, or so much time that any debt is paid.
  if (deep === undefined) return [always(0)];
  if (deep.tokensMilli === high?.tokensMilli) return [always(deep.tokensMilli)];
  const forgives = before.limit.soft === true && !deep.limit.soft;
  const rise = forgives ? risen + becomes(-risen) : deep.tokensMilli - DEEP_MILLI;
  const rising = raised(rise);
  // The debt of a soft limit is forgiven when it is made hard.
  const owing: Piece = { from: undefined, below: -risen, how: "set", milli: deep.tokensMilli };
  const below = forgives ? [owing, { ...rising, from: -risen }] : [rising];
  if (high !== undefined) return stacked(below, [cutTo(high.tokensMilli, rise)]);
  // It is forgotten where it holds as much as it can in the largest of its windows.
  const fullMilli = fullestMilli(before.limit, before.part) - risen;
  const forgotten: Piece = { from: fullMilli, below: undefined, how: "set", milli: 0 };
  return stacked(below, [cutTo(becomes(fullMilli - 1), rise), forgotten]);
}

/** What would rise above so much becomes that. */
function cutTo(mostMilli: number, rise: number): Piece {
  return { from: mostMilli - rise, below: undefined, how: "set", milli: mostMilli };
}

/** The pieces in their order, each ending where the next begins. */
function stacked(below: readonly Piece[], above: readonly Piece[]): readonly Piece[] {
  const all = [...below, ...above];
  return all
    .map((piece, i) => ({ ...piece, below: all[i + 1]?.from ?? piece.below }))
    .filter(({ from, below: end }) => from === undefined || end === undefined || from < end);
}

function withAll(state: BucketState, tokensMilli: number): BucketState {
  return { ...state, limits: state.limits.map((limit) => ({ ...limit, tokensMilli })) };
}

function tokensOf(state: BucketState, name: string): number {
  return findLimit(state, name)?.tokensMilli ?? 0;
}
