import { DEBT_MAX_MILLI } from "../../bucket/balance.ts";
import { levelMilli, refilledMilli } from "../../bucket/level.ts";
import type { Amount } from "../../domain/amounts.ts";
import type { BucketState, LimitState } from "../../domain/bucket-state.ts";
import type { Calendar } from "../../domain/calendar.ts";
import { kindOf } from "../../domain/limit.ts";
import type { WriteTrace } from "../../ports/item-store.ts";
import { BN, namesOf, RF, TTL } from "../item/attributes.ts";
import { type Image, numberOf } from "../item/codec.ts";
import { keptUntilFromS, keptUntilS, SPARE_S } from "../item/ttl.ts";
import { WriteBuilder } from "../item/write-builder.ts";
import { usageUntilS } from "../usage/hours.ts";
import type { Piece } from "./fold.ts";
import type { Env, Intent, Move } from "./intent.ts";

/**
 * A move as a limit allows it: a soft limit goes into debt instead of refusing. `tooDeep`: a soft limit owes as much as can be
 * measured, and is left as it is. A hard limit that would owe more than that by a debit is short.
 */
export function fitting(held: LimitState, levelMilli: number, move: Move): Move | "short" | "tooDeep" {
  const { milli } = move;
  const mustFit = move.mustFit && milli >= 0 && held.limit.soft !== true;
  if (mustFit) return levelMilli < milli ? "short" : move;
  if (milli <= 0 || levelMilli - milli >= -debtMaxMilli(held)) return { limit: move.limit, milli, mustFit };
  return held.limit.soft ? "tooDeep" : "short";
}

/** What a limit may owe at most; of a part as much less as there are parts, so that they can be joined. */
export function debtMaxMilli({ part }: LimitState): number {
  return part === undefined ? DEBT_MAX_MILLI : Math.floor(DEBT_MAX_MILLI / part.count);
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
  /** What was refilled on top of them and may be spent. */
  readonly refilledMilli: number;
}

/** The condition and the effect of a move on stored tokens. */
export function moveTokens(builder: WriteBuilder, tk: string, { piece, move, refilledMilli }: TokenMove): void {
  const { from, below, how, milli } = piece;
  if (how === "set") {
    atLeast(builder, tk, from);
    isBelow(builder, tk, below);
    // What is given back above the capacity is cut off later; until then it must stay among the exact numbers.
    builder.set(tk, Math.min(TOP_MILLI, milli - move.milli));
    return;
  }
  const added = milli - move.milli;
  // So much may be given back that it leaves the exact numbers: it stands above the capacity until the next take.
  if (added > HUGE_MILLI) builder.where(tk, "<=", TOP_MILLI - added);
  // What is taken must be there when the write is applied, not only when the item was seen.
  const least = move.mustFit ? move.milli - milli - refilledMilli : undefined;
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
export const TOP_MILLI = DEBT_MAX_MILLI;

/** An addition so large that it might leave the exact numbers. */
export const HUGE_MILLI = 1_000_000_000;

/** A limit that may be left with less than nothing: how low, at most. */
export interface Low {
  readonly limit: LimitState;
  readonly lowMilli: number;
}

/** How an item stands after a write, as far as its expiry goes. */
export interface Kept extends Pick<Image, "item" | "shardCount">, Pick<Intent, "readingMs" | "install"> {
  readonly state: Pick<BucketState, "limits" | "epochMs">;
  readonly low: readonly Low[];
  /** The end of the hour of usage that it has then. */
  readonly hourEndMs: number;
}

/** The item lives at least until it is full again; that of an entity with limits of its own lives on. */
export function keepFor(
  builder: WriteBuilder,
  { item, shardCount, readingMs, install, state, low, hourEndMs }: Kept,
  env: Env,
): void {
  const { limits, epochMs } = state;
  const has = numberOf(item, TTL);
  // Time begins at the epoch, also for a clock that is behind it.
  const fromMs = Math.max(readingMs, numberOf(item, RF) ?? readingMs);
  const debts = debtsOf(limits, fromMs - epochMs, low);
  const owing = debts.length === 0 ? low : [...low, ...debts];
  // A write that installs no limits does not know whose they are, and leaves the expiry as it is.
  const isKept = shardCount > 1 || (install === undefined ? has === undefined : install.origin.own === true);
  const untilS = isKept ? undefined : keptUntil(limits, owing, { readingMs: fromMs, hourEndMs }, env);
  if (untilS === undefined) {
    if (has !== undefined) builder.where(TTL, "=", has).remove(TTL);
    // A process that goes by other limits may have set an expiry meanwhile, and no write of this one would renew it.
    else builder.absent(TTL);
  } else if (has !== undefined && has >= untilS) builder.whereUnless(TTL, ">=", untilS);
  else builder.asSeen(TTL, item).set(TTL, untilS + SPARE_S);
}

/** Whether an item may expire before it has paid what it owes, because a writer that ignores debts set its expiry. */
export function expiresInDebt({ item, state }: Image, readingMs: number, { calendar, dialect }: Env): boolean {
  const ttl = numberOf(item, TTL);
  if (!dialect.expiryIgnoresDebts || ttl === undefined) return false;
  const fromMs = Math.max(readingMs, state.epochMs);
  const debts = debtsOf(state.limits, fromMs - state.epochMs, []);
  if (debts.length === 0) return false;
  const untilS = keptUntilFromS(debts, fromMs, calendar);
  return untilS === undefined || ttl < untilS;
}

/**
 * Makes the write fail where a limit stands below `milli` by now. The original takes limits into debt and leaves the expiry as it
 * is, so an expiry of ours that goes by the image says how deep that may have been meanwhile. Quotas owe nothing after a reset.
 */
export function boundDebt(builder: WriteBuilder, { name, limit }: LimitState, milli: number, { dialect }: Env): void {
  if (dialect.expiryIgnoresDebts && kindOf(limit) === "drip") atLeast(builder, namesOf(name).tk, milli);
}

/** The same for what a plain write takes nothing from; how low each of them may stand. */
export function boundDebts(builder: WriteBuilder, { state }: Image, { readingMs, moves }: Intent, env: Env): Low[] {
  const low: Low[] = [];
  if (!env.dialect.expiryIgnoresDebts) return low;
  for (const held of state.limits) {
    if (moves.some(({ limit }) => limit === held.name)) continue;
    const risen = refilledMilli(held.remainder, held.terms, readingMs - state.epochMs);
    const isOwing = held.tokensMilli + risen < 0;
    const least = isOwing ? leastMilli(held.tokensMilli - held.terms.capacityMilli, -debtMaxMilli(held)) : 0 - risen;
    boundDebt(builder, held, least, env);
    if (isOwing) low.push({ limit: held, lowMilli: least + risen });
  }
  return low;
}

/** Limits that are in debt already. */
function debtsOf(limits: readonly LimitState[], elapsedMs: number, known: readonly Low[]): Low[] {
  const debts: Low[] = [];
  for (const limit of limits) {
    if (limit.tokensMilli >= 0 || known.some((one) => one.limit.name === limit.name)) continue;
    const lowMilli = levelMilli(limit, limit.terms, elapsedMs);
    if (lowMilli < 0) debts.push({ limit, lowMilli });
  }
  return debts;
}

/** The second before which an item must not expire, full or not; undefined where it must not at all. */
export function keptUntil(
  limits: readonly LimitState[],
  low: readonly Low[],
  { readingMs, hourEndMs }: { readonly readingMs: number; readonly hourEndMs: number },
  env: Env,
): number | undefined {
  const fullS = fullUntil(limits, low, readingMs, env.calendar);
  // The usage of an hour is lost with the item until it is on a sheet.
  if (fullS === undefined || !Number.isFinite(hourEndMs)) return fullS;
  return Math.max(fullS, usageUntilS(hourEndMs, env));
}

/** The same for an item as it stands, if nothing more is taken from it. */
export function fullAfter({ limits, epochMs }: BucketState, readingMs: number, calendar: Calendar): number | undefined {
  const fromMs = Math.max(readingMs, epochMs);
  return fullUntil(limits, debtsOf(limits, fromMs - epochMs, []), fromMs, calendar);
}

/** The second at which all limits are full again, and an hour more; undefined where that cannot be said. */
export function fullUntil(
  limits: readonly LimitState[],
  low: readonly Low[],
  readingMs: number,
  calendar: Calendar,
): number | undefined {
  const least = keptUntilS(limits, readingMs, calendar);
  if (least === undefined || low.length === 0) return least;
  const deeper = keptUntilFromS(low, readingMs, calendar);
  return deeper === undefined ? undefined : Math.max(least, deeper);
}

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
  { parts }: Intent,
  readingMs: number,
  spare: readonly Amount[],
): WriteTrace {
  return { form, readingMs, parts, spare };
}

export function withLimit(state: BucketState, limit: LimitState): BucketState {
  return { ...state, limits: state.limits.map((one) => (one.name === limit.name ? limit : one)) };
}
