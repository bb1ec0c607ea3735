import { DEBT_MAX_MILLI, debtMaxMilli } from "../../bucket/balance.ts";
import type { BucketState, LimitState } from "../../domain/bucket/bucket-state.ts";
import type { Amount } from "../../domain/charge/amounts.ts";
import type { WriteTrace } from "../../ports/item-store.ts";
import { BN, namesOf, RF, WCU, WCU_MILLI } from "../item/attributes.ts";
import { type Image, numberOf } from "../item/codec.ts";
import { WriteBuilder } from "../item/write-builder.ts";
import { cutAt, type Piece, pieceFor } from "./fold.ts";
import type { Env, Intent, Move } from "./intent.ts";
import { neededOf } from "./job.ts";

/**
 * Adapts a move to a limit: a soft limit goes into debt instead of refusing. `tooDeep`: a soft limit owes as much as can be
 * counted, and is left as it is. A hard limit that a debit would take deeper is short.
 */
export function fitting(held: LimitState, levelMilli: number, move: Move): Move | "short" | "tooDeep" {
  const { milli } = move;
  if (move.whenShort === "refuse" && milli >= 0 && held.limit.soft !== true)
    return levelMilli < neededOf(move, held) ? "short" : move;
  const isCounted = milli <= 0 || levelMilli - milli >= -debtMaxMilli(held.part);
  if (isCounted) return { limit: move.limit, milli, whenShort: "owe" };
  return held.limit.soft ? "tooDeep" : "short";
}

export function leastMilli(one: number, other: number): number {
  return Math.max(one, other, -Number.MAX_SAFE_INTEGER);
}

interface TokenMove {
  /** The effect of time, on the expected side of the capacity. */
  readonly piece: Piece;
  readonly move: Move;
  /** The tokens that must be there, if the move may be refused. */
  readonly neededMilli: number;
  /** The spendable refill on top of the stored tokens. */
  readonly refilledMilli: number;
}

export function moveTokens(builder: WriteBuilder, tk: string, of: TokenMove): void {
  const { piece, move, neededMilli, refilledMilli } = of;
  const { from, below, how, milli } = piece;
  if (how === "set") {
    atLeast(builder, tk, from);
    isBelow(builder, tk, below);
    // A give-back above the capacity is cut off later; until then it must stay an exact number.
    builder.set(tk, Math.min(STORED_MAX_MILLI, milli - move.milli));
    return;
  }
  const added = milli - move.milli;
  // A large give-back could pass 2^53, because it is stored above the capacity until the next take cuts it.
  if (added > UNCHECKED_MAX_MILLI) builder.where(tk, "<=", STORED_MAX_MILLI - added);
  // The tokens must be there when the write is applied, not only when the item was seen.
  const least = move.whenShort === "refuse" ? neededMilli - milli - refilledMilli : undefined;
  const lowest = from === undefined ? least : Math.max(from, least ?? from);
  atLeast(builder, tk, lowest);
  isBelow(builder, tk, below);
  // An addition would create a missing attribute.
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

/** No capacity is higher. More is stored as this, with room left for give-backs on top. */
export const STORED_MAX_MILLI = DEBT_MAX_MILLI;

/** A larger addition might pass 2^53. */
export const UNCHECKED_MAX_MILLI = 1_000_000_000;

/** A write relative to the epoch of an image: it fails on any other epoch, and on a bucket made anew. */
export function relativeTo(image: Image): WriteBuilder {
  return pinEpoch(new WriteBuilder(), image);
}

export function pinEpoch(builder: WriteBuilder, { item, state }: Image): WriteBuilder {
  // A bucket that was deleted and made anew may have the same epoch, by a clock that is behind.
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

/** Refills the counter of writes. Only the original reads its tokens; if it does not write here, the counter is simply full again. */
export function writeWcu(builder: WriteBuilder, { item, state }: Image, atMs: number, { dialect }: Env): void {
  const { tk, cp, ra, rp } = namesOf(WCU);
  const stored = numberOf(item, tk);
  if (!dialect.readsWriteCounter || stored === undefined || !(cp in item)) {
    const full = { [cp]: WCU_MILLI, [ra]: WCU_MILLI, [rp]: 1000 };
    builder.diffAttributes(item, [cp, ra, rp], full).set(tk, WCU_MILLI - 1000);
    return;
  }
  const rise = Math.min(WCU_MILLI * 2, (atMs - state.epochMs) * 1000);
  const [below, over] = cutAt(WCU_MILLI - rise);
  const piece = pieceFor(
    [
      { ...below, milli: rise },
      { ...over, milli: WCU_MILLI },
    ],
    stored,
  );
  const move: Move = { limit: WCU, milli: 1000, whenShort: "owe" };
  moveTokens(builder, tk, { piece, move, neededMilli: 0, refilledMilli: 0 });
}
