import { debtMaxMilli } from "../../bucket/share.ts";
import type { LimitState } from "../../domain/bucket/bucket-state.ts";
import type { Amount, CountedAmount } from "../../domain/charge/amounts.ts";
import { marksAfterUse } from "../../domain/limits/limit-kinds.ts";
import type { Item } from "../../ports/item-store.ts";
import { namesOf } from "../item/attributes.ts";
import type { WriteBuilder } from "../item/write-builder.ts";
import { boundDebt } from "../shared/debts.ts";
import type { Low } from "./expiry.ts";
import { neededOf } from "./floors.ts";
import type { Env, Intent, Move } from "./intent.ts";
import { fitting, leastMilli, moveTokens, STORED_MAX_MILLI } from "./moves.ts";
import type { Passed } from "./passed.ts";
import type { Fold, Piece } from "./piece.ts";
import { boundOverdrafts, overdraftsBy } from "./sides.ts";

/** One limit of a write: what time does to it, and what is moved. */
export interface LimitWrite {
  readonly item: Item;
  readonly fold: Fold;
  /** What is moved of this limit; undefined: nothing. */
  readonly move: Move | undefined;
  readonly atMs: number;
  /** What was refilled on top of the stored tokens, where the epoch stays; undefined: it moves, and the fold has added that. */
  readonly refill: { readonly risenMilli: number; readonly spendableMilli: number } | undefined;
  readonly intent: Intent;
}

/** What the limits of a write come to. */
export interface Written {
  /** How low limits may stand after it. */
  readonly low: Low[];
  /** Of its requests, how many leave a soft limit below zero, 1000 each. */
  readonly overdrafts: Amount[];
  /** Which of them passed by shadows. */
  readonly passed: Passed[];
  /** How long slots were held that it renews. */
  readonly heldMs: CountedAmount[];
}

/** Nothing yet but what the intent counts by itself. */
export function writtenOf({ usage }: Intent, low: Low[]): Written {
  return { low, overdrafts: [...usage.overdrafts], passed: [], heldMs: [...usage.heldMs] };
}

export type WrittenLimit = LimitState | "short" | "left" | "forgotten";

/**
 * The condition and the effect of a write on one limit. The limit as it is then; `short` where it cannot pay, `left` where it owes
 * too much already and nothing is written, `forgotten` where it goes.
 */
export function writeTokens(
  builder: WriteBuilder,
  { item, fold, move, atMs, refill, intent }: LimitWrite,
  written: Written,
  env: Env,
): WrittenLimit {
  const { name, before, after, piece } = fold;
  const { tk, cp } = namesOf(name);
  if (after === undefined) {
    if (piece.from !== undefined) builder.where(tk, ">=", piece.from);
    if (piece.below !== undefined) builder.where(tk, "<", piece.below);
    return "forgotten";
  }
  const { risenMilli, spendableMilli } = refill ?? NO_REFILL;
  // Tokens that are set are known; to others the image may be wrong.
  const isAdded = before !== undefined && piece.how === "add";
  const levelMilli = after.tokensMilli + risenMilli;
  const nothing: Move = { limit: name, milli: 0, whenShort: "owe" };
  const mayHoldMore = intent.ignoreImageShortage && isAdded;
  const fits = fitting(after, mayHoldMore ? Number.POSITIVE_INFINITY : levelMilli, move ?? nothing);
  if (fits === "short") return "short";
  const due = fits === "tooDeep" ? nothing : fits;
  // What the write and the refill put on top of the stored tokens.
  const liftMilli = (isAdded ? piece.milli : 0) + risenMilli;
  // It is left as it is because it owes too much, so the condition says that it does.
  if (fits === "tooDeep" && (isAdded || refill !== undefined)) {
    builder.where(tk, "<", (move?.milli ?? 0) - liftMilli - debtMaxMilli(after.part));
  }
  if (after.limit.soft && env.dialect.countsByHour) {
    const heldMilli = isAdded ? levelMilli : piece.milli + risenMilli;
    const overdrafts = overdraftsBy(intent, name, heldMilli, fits === "tooDeep");
    if (isAdded) boundOverdrafts(builder, tk, overdrafts, liftMilli);
    if (overdrafts.count > 0) written.overdrafts.push({ limit: name, milli: overdrafts.count * 1000 });
  }
  if (refill !== undefined && fits === "tooDeep") return "left";
  const tokensMilli = after.tokensMilli - due.milli;
  // Under the same epoch nothing but its tokens changes: what opens a window moves the epoch.
  const limit = refill !== undefined ? after : { ...after, tokensMilli, quota: marksAfterUse(after, due.milli, atMs) };
  if (before === undefined) {
    // The original adjusts limits that are no longer there: tokens without a capacity belong to no limit.
    builder.asSeen(tk, item).set(tk, tokensMilli);
    if (tk in item) builder.absent(cp);
    if (tokensMilli < 0) written.low.push({ limit, lowMilli: tokensMilli });
    return limit;
  }
  const neededMilli = neededOf(due, after);
  moveTokens(builder, tk, {
    piece: exactly(piece, before, due),
    move: due,
    neededMilli,
    refilledMilli: spendableMilli,
  });
  const { capacityMilli } = after.terms;
  if (due.milli < 0 && isAdded) env.dialect.capRebasedCredit(builder, before, capacityMilli + due.milli - liftMilli);
  if (due.whenShort === "refuse") return limit;
  if (refill === undefined && due.milli <= 0 && tokensMilli >= 0) {
    if (isAdded) boundDebt(builder, after, due.milli - piece.milli, env);
    return limit;
  }
  if (refill === undefined && !isAdded) {
    written.low.push({ limit, lowMilli: tokensMilli });
    return limit;
  }
  // A lower bound for the tokens: without one the expiry could not cover how long it takes until they are full again.
  const least = leastMilli(before.tokensMilli - capacityMilli, due.milli - liftMilli - debtMaxMilli(after.part));
  if (isAdded) builder.where(tk, ">=", least);
  written.low.push({ limit, lowMilli: least + liftMilli - due.milli });
  return limit;
}

const NO_REFILL = Object.freeze({ risenMilli: 0, spendableMilli: 0 });

// What is given back may stand so far above the capacity that numbers would no longer be exact: it is cut off there.
function exactly(piece: Piece, { tokensMilli }: LimitState, { milli }: Move): Piece {
  if (piece.how === "set") return piece;
  const added = piece.milli - milli;
  // From the deepest debt to the largest capacity is more than can be added exactly: then the tokens are pinned as seen.
  if (added > Number.MAX_SAFE_INTEGER) {
    return { from: tokensMilli, below: tokensMilli + 1, how: "set", milli: tokensMilli + piece.milli };
  }
  const mostMilli = STORED_MAX_MILLI - added;
  if (tokensMilli <= mostMilli) return piece;
  return { from: mostMilli + 1, below: piece.below, how: "set", milli: STORED_MAX_MILLI };
}
