import { debtMaxMilli } from "../../bucket/balance.ts";
import type { LimitState } from "../../domain/bucket/bucket-state.ts";
import type { Amount, CountedAmount } from "../../domain/charge/amounts.ts";
import { marksAfterUse } from "../../domain/limits/changed-limit.ts";
import { rulesOf } from "../../domain/limits/kinds/table.ts";
import type { Claim, Held } from "../../ports/bucket-store.ts";
import type { Item, TracePart } from "../../ports/item-store.ts";
import { namesOf, RF } from "../item/attributes.ts";
import { numberOf } from "../item/codec.ts";
import type { WriteBuilder } from "../item/write-builder.ts";
import { boundDebt, type Low } from "./expiry.ts";
import type { Fold, Piece } from "./fold.ts";
import { type Env, type Intent, type Move, type Passed, passedAt, type Sides, type UsageDelta } from "./intent.ts";
import { neededBy, neededOf } from "./job.ts";
import { atLeast, fitting, isBelow, leastMilli, moveTokens, STORED_MAX_MILLI } from "./moves.ts";
import { hasSlices, slicesAfter, writeSlices } from "./slots.ts";

/** Levels between which the decision is the same. Undefined: no bound. */
interface Bounds {
  readonly from: number | undefined;
  readonly below: number | undefined;
}

interface OverdraftCount extends Bounds {
  readonly count: number;
}

/**
 * The requests of one write are taken one after the other. `levelMilli`: the level of the limit before; `isLeft`: it is left as
 * it is, because it would owe too much.
 */
export function overdraftsBy({ parts }: Intent, limit: string, levelMilli: number, isLeft: boolean): OverdraftCount {
  const sums: number[] = [];
  let sum = 0;
  for (const part of parts) {
    const amount = isTake(part) ? part.amounts.find((one) => one.limit === limit) : undefined;
    if (amount === undefined) continue;
    if (!isLeft) sum += amount.milli;
    sums.push(sum);
  }
  const fitting = sums.filter((one) => one <= levelMilli).length;
  return { count: sums.length - fitting, from: sums[fitting - 1], below: sums[fitting] };
}

/** Makes a write below the capacity fail if another number of its requests would be overdrafts. */
export function boundOverdrafts(builder: WriteBuilder, tk: string, { from, below }: Bounds, risenMilli: number): void {
  atLeast(builder, tk, from === undefined ? undefined : from - risenMilli);
  isBelow(builder, tk, below === undefined ? undefined : below - risenMilli);
}

/** The decision of a shadow on a write: what is taken, what passes, and for which levels. */
interface ShadowSide extends Bounds, Passed {
  readonly takenMilli: number;
}

/**
 * The requests of one write, first come first served: each is taken if those before it left enough. The same requests fit for all
 * levels in one interval: above what each fitting one needs, below what each other one would need. A further charge of a lease is
 * always taken.
 */
function shadowSide({ parts }: Intent, held: LimitState, levelMilli: number): ShadowSide {
  const { name } = held;
  const places: number[] = [];
  let from: number | undefined;
  let below: number | undefined;
  let takenMilli = 0;
  let milli = 0;
  for (const [place, part] of parts.entries()) {
    if ((part.of as Claim | Held).bypass) continue;
    const asked = part.amounts.find((one) => one.limit === name)?.milli;
    if (asked === undefined) continue;
    if (isTake(part)) {
      const needed = takenMilli + neededBy({ ...part, kind: "take", of: part.of as Claim }, asked, held);
      if (levelMilli < needed) {
        below = Math.min(below ?? needed, needed);
        places.push(place);
        milli += asked;
        continue;
      }
      from = Math.max(from ?? needed, needed);
    }
    takenMilli += asked;
  }
  return { limit: name, takenMilli, places, milli, from, below };
}

/**
 * Turns a write on a shadow into one on a limit with enough tokens: what passes is not moved. Its condition says that the shadow
 * decides so. `left`: nothing is taken, and nothing else happens to it. `short`: a shadow decides by the whole bucket, and this
 * is one of several shards, which are joined first.
 */
function passedMove(
  builder: WriteBuilder,
  of: LimitWrite,
  after: LimitState,
  written: Written,
): LimitWrite | "left" | "short" {
  const { fold, move, refill, intent } = of;
  // Only requests are decided: not further charges of a lease, nor debts of joined shards.
  if (!isTaken(intent, after.name)) return of;
  if (after.part !== undefined) return "short";
  // Slots that come back or are renewed are decided already.
  if (move === undefined || move.slots !== undefined || move.milli < 0) return of;
  const risenMilli = refill?.risenMilli ?? 0;
  const side = shadowSide(intent, after, after.tokensMilli + risenMilli);
  const { limit, takenMilli, from, below, places } = side;
  if (places.length > 0) written.passed.push(side);
  const isAdded = fold.before !== undefined && fold.piece.how === "add";
  const piece = isAdded ? pieceBelow(fold.piece, below, fold.piece.milli + risenMilli) : fold.piece;
  if (takenMilli === 0 && from === undefined && refill !== undefined) {
    const { tk } = namesOf(limit);
    atLeast(builder, tk, piece.from);
    isBelow(builder, tk, piece.below);
    return "left";
  }
  const due: Move =
    from === undefined
      ? { ...move, milli: takenMilli, whenShort: "owe" }
      : { ...move, milli: takenMilli, whenShort: "refuse", floors: [{ afterMilli: from, leavePercent: 0 }] };
  return { ...of, fold: { ...fold, piece }, move: due };
}

/** The stored tokens for which the level, `liftMilli` higher, is below a bound. */
function pieceBelow(piece: Piece, below: number | undefined, liftMilli: number): Piece {
  if (below === undefined) return piece;
  return { ...piece, below: Math.min(below - liftMilli, piece.below ?? Number.POSITIVE_INFINITY) };
}

/** The usage of a write, with its decisions. */
export function usageWith(
  usage: UsageDelta,
  { overdrafts, passed, heldMs }: Sides & Pick<UsageDelta, "heldMs">,
): UsageDelta {
  if (passed.length === 0) return { ...usage, overdrafts, heldMs };
  const counters = usage.counters.flatMap((amount) => {
    const { places, milli = 0 } = passed.find(({ limit }) => limit === amount.limit) ?? {};
    if (places === undefined) return [amount];
    return amount.milli === milli ? [] : [{ limit: amount.limit, milli: amount.milli - milli }];
  });
  const wouldRefuse = passed.map(({ limit, places }) => ({ limit, milli: places.length * 1000 }));
  return { ...usage, counters, overdrafts, heldMs, wouldRefuse: [...usage.wouldRefuse, ...wouldRefuse] };
}

export function partsWith({ parts }: Intent, sides: Sides): readonly TracePart[] {
  if (sides.passed.length === 0) return parts;
  return parts.map((part, place) => ({ ...part, shadowed: passedAt(sides, place) }));
}

function isTaken({ parts }: Intent, name: string): boolean {
  return parts.some((part) => isTake(part) && part.amounts.some(({ limit }) => limit === name));
}

function isTake({ of, kind }: TracePart): boolean {
  return kind === "take" && !(of as Claim | Held).bypass;
}

interface LimitWrite {
  readonly item: Item;
  readonly fold: Fold;
  readonly move: Move | undefined;
  readonly atMs: number;
  /** The refill on top of the stored tokens, if the epoch stays; undefined: it moves, and the fold has added the refill. */
  readonly refill: { readonly risenMilli: number; readonly spendableMilli: number } | undefined;
  readonly intent: Intent;
}

interface Written {
  readonly low: Low[];
  /** Requests that leave a soft limit below zero, 1000 each. */
  readonly overdrafts: Amount[];
  /** Requests that shadows would have refused. */
  readonly passed: Passed[];
  readonly heldMs: CountedAmount[];
}

/** Starts with what the intent counts by itself. */
export function startWritten({ usage }: Intent, low: Low[]): Written {
  return { low, overdrafts: [...usage.overdrafts], passed: [], heldMs: [...usage.heldMs] };
}

type WrittenLimit = LimitState | "short" | "left" | "forgotten";

/**
 * Adds the condition and the effect on one limit to a write. Returns the limit after it; `short` if it cannot pay, `left` if it
 * already owes too much and nothing is written, `forgotten` if it goes.
 */
function writeTokens(
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
  // Tokens that are set are known; for others the image may be wrong.
  const isAdded = before !== undefined && piece.how === "add";
  const levelMilli = after.tokensMilli + risenMilli;
  const nothing: Move = { limit: name, milli: 0, whenShort: "owe" };
  const mayHoldMore = intent.ignoreImageShortage && isAdded;
  const fits = fitting(after, mayHoldMore ? Number.POSITIVE_INFINITY : levelMilli, move ?? nothing);
  if (fits === "short") return "short";
  const due = fits === "tooDeep" ? nothing : fits;
  // The write and the refill lift the stored tokens by this.
  const liftMilli = (isAdded ? piece.milli : 0) + risenMilli;
  // The limit is left because it owes too much, so the condition says that it does.
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
  // Under the same epoch only its tokens change: a write that opens a window moves the epoch.
  const limit = refill !== undefined ? after : { ...after, tokensMilli, quota: marksAfterUse(after, due.milli, atMs) };
  if (before === undefined) {
    // The original adjusts limits that are gone: tokens without a capacity belong to no limit.
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
  // A lower bound for the tokens: without one the expiry could not cover the time until they are full again.
  const least = leastMilli(before.tokensMilli - capacityMilli, due.milli - liftMilli - debtMaxMilli(after.part));
  if (isAdded) builder.where(tk, ">=", least);
  written.low.push({ limit, lowMilli: least + liftMilli - due.milli });
  return limit;
}

const NO_REFILL = Object.freeze({ risenMilli: 0, spendableMilli: 0 });

// A give-back may stand so far above the capacity that numbers would no longer be exact: it is cut off there.
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

/** One limit of a write: its free tokens, and the slices of held slots. */
export function writeLimit(builder: WriteBuilder, asked: LimitWrite, written: Written, env: Env): WrittenLimit {
  const { before, after } = asked.fold;
  const of = after?.limit.shadow && asked.move !== undefined ? passedMove(builder, asked, after, written) : asked;
  if (of === "left" || of === "short") return of;
  // A renewal names its slots: if the limit is another kind by now, it is short, not nothing.
  const isOfSlots =
    asked.move?.slots !== undefined || [before, after].some((one) => one !== undefined && hasSlices(one));
  if (after !== undefined && isOfSlots) return writeSlots(builder, of, after, written, env);
  if (before !== undefined) pinSlices(builder, before);
  return writeTokens(builder, of, written, env);
}

/** Pins the slots of a forgotten limit: the time they were held is counted from the image. */
function pinSlices(builder: WriteBuilder, { name, slices }: LimitState): void {
  const { held } = namesOf(name);
  for (const { place, heldMilli } of slices) builder.where(held[place] as string, "=", heldMilli);
}

function writeSlots(
  builder: WriteBuilder,
  of: LimitWrite,
  after: LimitState,
  written: Written,
  env: Env,
): WrittenLimit {
  const { item, fold, move, refill } = of;
  // A clock behind the epoch takes at the epoch.
  const atMs = Math.max(of.atMs, numberOf(item, RF) ?? of.atMs);
  const slices = slicesAfter(after, move, atMs, written.heldMs);
  // A bucket in shards holds no slots: the shards are joined first.
  const isHeld = move !== undefined && move.milli > 0 && rulesOf(after.limit).holdsSlots;
  if (slices === undefined || (isHeld && after.part !== undefined)) return "short";
  const isRenewal = move?.slots !== undefined && move.milli === 0;
  // A renewal takes nothing; if the epoch moves, time acts on free tokens.
  const due = isRenewal ? { ...of, move: undefined } : of;
  const limit = isRenewal && refill !== undefined ? after : writeTokens(builder, due, written, env);
  if (typeof limit === "string") return limit;
  writeSlices(builder, { name: limit.name, slices: fold.before?.slices ?? [] }, slices, move);
  return refill === undefined ? { ...limit, slices } : limit;
}
