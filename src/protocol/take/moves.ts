import { DEBT_MAX_MILLI } from "../../bucket/balance.ts";
import { debtMaxMilli } from "../../bucket/share.ts";
import type { BucketState, LimitState } from "../../domain/bucket/bucket-state.ts";
import type { Amount } from "../../domain/charge/amounts.ts";
import type { WriteTrace } from "../../ports/item-store.ts";
import { BN, RF } from "../item/attributes.ts";
import type { Image } from "../item/codec.ts";
import { WriteBuilder } from "../item/write-builder.ts";
import { neededOf } from "./floors.ts";
import type { Intent, Move } from "./intent.ts";
import type { Piece } from "./piece.ts";

/**
 * A move as a limit allows it: a soft limit goes into debt instead of refusing. `tooDeep`: a soft limit owes as much as can be
 * measured, and is left as it is. A hard limit that would owe more than that by a debit is short.
 */
export function fitting(held: LimitState, levelMilli: number, move: Move): Move | "short" | "tooDeep" {
  const { milli } = move;
  if (move.whenShort === "refuse" && milli >= 0 && held.limit.soft !== true)
    return levelMilli < neededOf(move, held) ? "short" : move;
  const isCounted = milli <= 0 || levelMilli - milli >= -debtMaxMilli(held.part);
  if (isCounted) return { limit: move.limit, milli, whenShort: "owe" };
  return held.limit.soft ? "tooDeep" : "short";
}

/** The higher of two bounds, among the exact numbers. */
export function leastMilli(one: number, other: number): number {
  return Math.max(one, other, -Number.MAX_SAFE_INTEGER);
}

/** What happens to the stored tokens of one limit in a write. */
interface TokenMove {
  /** What time does to them, on the side of the capacity that they are expected on. */
  readonly piece: Piece;
  readonly move: Move;
  /** What must be there, of a move that may be refused. */
  readonly neededMilli: number;
  /** What was refilled on top of them and may be spent. */
  readonly refilledMilli: number;
}

/** The condition and the effect of a move on stored tokens. */
export function moveTokens(builder: WriteBuilder, tk: string, of: TokenMove): void {
  const { piece, move, neededMilli, refilledMilli } = of;
  const { from, below, how, milli } = piece;
  if (how === "set") {
    atLeast(builder, tk, from);
    isBelow(builder, tk, below);
    // What is given back above the capacity is cut off later; until then it must stay among the exact numbers.
    builder.set(tk, Math.min(STORED_MAX_MILLI, milli - move.milli));
    return;
  }
  const added = milli - move.milli;
  // So much may be given back that it leaves the exact numbers: it stands above the capacity until the next take.
  if (added > UNCHECKED_MAX_MILLI) builder.where(tk, "<=", STORED_MAX_MILLI - added);
  // What is taken must be there when the write is applied, not only when the item was seen.
  const least = move.whenShort === "refuse" ? neededMilli - milli - refilledMilli : undefined;
  const lowest = from === undefined ? least : Math.max(from, least ?? from);
  atLeast(builder, tk, lowest);
  isBelow(builder, tk, below);
  // An addition to an attribute that is not there would make it.
  if (lowest === undefined && below === undefined) builder.present(tk);
  builder.add(tk, added);
}

/** A bound beyond the exact numbers is left out: no stored number reaches it. */
export function atLeast(builder: WriteBuilder, tk: string, milli: number | undefined): void {
  if (milli !== undefined && milli >= -Number.MAX_SAFE_INTEGER) builder.where(tk, ">=", milli);
}

export function isBelow(builder: WriteBuilder, tk: string, milli: number | undefined): void {
  if (milli === undefined || milli > Number.MAX_SAFE_INTEGER) return;
  builder.where(tk, "<", Math.max(milli, -Number.MAX_SAFE_INTEGER));
}

/** No capacity is higher. What stands above it may be stored as this, with room left for what is given back on top. */
export const STORED_MAX_MILLI = DEBT_MAX_MILLI;

/** An addition so large that it might leave the exact numbers. */
export const UNCHECKED_MAX_MILLI = 1_000_000_000;

/** A write whose numbers are relative to the epoch of an image: it fails on any other epoch, and on a bucket made anew. */
export function relativeTo(image: Image): WriteBuilder {
  return pinEpoch(new WriteBuilder(), image);
}

export function pinEpoch(builder: WriteBuilder, { item, state }: Image): WriteBuilder {
  // One that was deleted and made anew may have the same epoch, by a clock that is behind.
  return builder.where(RF, "=", state.epochMs).asSeen(BN, item);
}

export function traceOf(
  form: WriteTrace["form"],
  parts: Intent["parts"],
  readingMs: number,
  spare: readonly Amount[],
): WriteTrace {
  return { form, readingMs, parts, spare };
}

export function withLimit(state: BucketState, limit: LimitState): BucketState {
  return { ...state, limits: state.limits.map((one) => (one.name === limit.name ? limit : one)) };
}
