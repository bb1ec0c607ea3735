import { debtMaxMilli } from "../../bucket/balance.ts";
import { divCeil } from "../../bucket/integers.ts";
import { dripMs, levelMilli, refilledMilli } from "../../bucket/level.ts";
import { type BucketState, holdEndMs, type LimitState } from "../../domain/bucket/bucket-state.ts";
import { fullLimit } from "../../domain/bucket/limit-state.ts";
import { fullestAtMs } from "../../domain/limits/changed-limit.ts";
import { NO_MARKS } from "../../domain/limits/kinds/kind.ts";
import { rulesOf } from "../../domain/limits/kinds/table.ts";
import { type Limit, termsOf } from "../../domain/limits/limit.ts";
import type { Calendar } from "../../domain/limits/schedule.ts";
import type { ItemValue } from "../../ports/item-store.ts";
import { namesOf, RF, TTL } from "../item/attributes.ts";
import { type Image, numberOf } from "../item/codec.ts";
import type { WriteBuilder } from "../item/write-builder.ts";
import { hourEndFor, usageUntilS } from "../usage/hours.ts";
import type { Env, Intent } from "./intent.ts";
import { atLeast, leastMilli } from "./moves.ts";

const HOUR_MS = 3_600_000;

/**
 * The second before which an item with these limits must not expire, if something is taken at `atMs` and nothing is owed: when
 * all limits, then empty, are full again, and an hour for clocks that disagree. Undefined: never, or it cannot be computed. It is
 * computed for the end of the running hour, so that it is the same for every take of that hour.
 */
export function keptUntilS(limits: readonly LimitState[], atMs: number, calendar: Calendar): number | undefined {
  const hourMs = divCeil(atMs + 1, HOUR_MS) * HOUR_MS;
  let fullMs = hourMs;
  for (const { limit, rememberUntilMs, slices } of limits) {
    fullMs = Math.max(fullMs, filledFrom(limit, hourMs, calendar), rememberUntilMs);
    for (const { endMs } of slices) fullMs = Math.max(fullMs, endMs);
  }
  return secondsOf(fullMs);
}

/** Like `keptUntilS`, for limits that may be left with `lowMilli`, which may be a debt. */
export function keptUntilFromS(
  limits: readonly { readonly limit: LimitState; readonly lowMilli: number }[],
  atMs: number,
  calendar: Calendar,
): number | undefined {
  let fullMs = atMs;
  for (const { limit, lowMilli } of limits) {
    const refills = rulesOf(limit.limit).refillsSteadily;
    const ownMs = refills ? refilledAtMs(limit, lowMilli, atMs, calendar) : filledFrom(limit.limit, atMs, calendar);
    fullMs = Math.max(fullMs, ownMs);
  }
  return secondsOf(fullMs);
}

/** Spare time of an expiry, so that not every take has to renew it. */
export const SPARE_S = 3_600;

const remembered = new WeakMap<Limit, { readonly hourMs: number; readonly fullMs: number }>();

function filledFrom(limit: Limit, hourMs: number, calendar: Calendar): number {
  const known = remembered.get(limit);
  if (known?.hourMs === hourMs) return known.fullMs;
  const fullMs = emptiedAt(limit, hourMs, calendar);
  remembered.set(limit, { hourMs, fullMs });
  return fullMs;
}

function emptiedAt(limit: Limit, atMs: number, calendar: Calendar): number {
  const rules = rulesOf(limit);
  // By then every hold has ended.
  if (rules.holdsSlots) return holdEndMs(limit, undefined, atMs);
  if (!rules.refillsSteadily) {
    // A quota that is forgotten in one window and created again in a larger one would be granted twice.
    return limit.schedule === undefined ? rules.endMs(limit, NO_MARKS, atMs, calendar) : Number.POSITIVE_INFINITY;
  }
  const fresh = { ...fullLimit(limit, true, atMs, calendar, undefined), terms: termsOf(limit) };
  return refilledAtMs(fresh, 0, atMs, calendar);
}

/** When a limit that refills steadily is full, if it has so many tokens at `atMs`. */
function refilledAtMs(held: LimitState, tokensMilli: number, atMs: number, calendar: Calendar): number {
  const { limit, terms } = held;
  if (limit.schedule === undefined) return atMs + dripMs(terms.capacityMilli - tokensMilli, terms);
  return fullestAtMs({ ...held, tokensMilli, remainder: 0 }, atMs, calendar);
}

function secondsOf(fullMs: number): number | undefined {
  return Number.isFinite(fullMs) ? divCeil(fullMs + HOUR_MS, 1000) + 1 : undefined;
}

/** A limit that may be left in debt, and its lowest level. */
export interface Low {
  readonly limit: LimitState;
  readonly lowMilli: number;
}

interface Kept extends Pick<Image, "item" | "shardCount">, Pick<Intent, "readingMs" | "install"> {
  readonly state: Pick<BucketState, "limits" | "epochMs">;
  readonly low: readonly Low[];
  readonly hourEndMs: number;
}

/** Keeps the item at least until it is full again. An item with limits of its own entity has no expiry. */
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
    // A process with other limits may have set an expiry meanwhile, and no write of this one would renew it.
    else builder.absent(TTL);
  } else if (has !== undefined && has >= untilS) builder.whereUnless(TTL, ">=", untilS);
  else builder.asSeen(TTL, item).set(TTL, untilS + SPARE_S);
}

function debtsOf(limits: readonly LimitState[], elapsedMs: number, known: readonly Low[]): Low[] {
  const debts: Low[] = [];
  for (const limit of limits) {
    if (limit.tokensMilli >= 0 || known.some((one) => one.limit.name === limit.name)) continue;
    const lowMilli = levelMilli(limit, limit.terms, elapsedMs);
    if (lowMilli < 0) debts.push({ limit, lowMilli });
  }
  return debts;
}

/** The second before which an item must not expire, full or not; undefined if it must not at all. */
function keptUntil(
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

/** Sets the expiry of an item that is created with this reading. */
export function setExpiry(
  item: Record<string, ItemValue>,
  limits: readonly LimitState[],
  low: readonly Low[],
  readingMs: number,
  env: Env,
): void {
  const untilS = keptUntil(limits, low, { readingMs, hourEndMs: hourEndFor(readingMs, env.dialect) }, env);
  if (untilS !== undefined) item[TTL] = untilS + SPARE_S;
}

/** Like `keptUntil` without usage, for an item as it stands, if nothing more is taken from it. */
export function fullAfter({ limits, epochMs }: BucketState, readingMs: number, calendar: Calendar): number | undefined {
  const fromMs = Math.max(readingMs, epochMs);
  return fullUntil(limits, debtsOf(limits, fromMs - epochMs, []), fromMs, calendar);
}

/** The second at which all limits are full again, and an hour more; undefined if that is unknown. */
function fullUntil(
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

// The original ignores debts when it sets an expiry. On a table of our own the next three functions do nothing.

/** True if an item may expire before its debt is paid, because a writer that ignores debts set its expiry. */
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
 * Makes the write fail if a limit stands below `milli` by now. The original takes limits into debt without changing the expiry,
 * so our expiry, computed from the image, needs a bound for the debt. Quotas owe nothing after a reset.
 */
export function boundDebt(builder: WriteBuilder, { name, limit }: LimitState, milli: number, { dialect }: Env): void {
  if (dialect.expiryIgnoresDebts && rulesOf(limit).refillsSteadily) atLeast(builder, namesOf(name).tk, milli);
}

/** Bounds the limits that a plain write does not move; returns how low each of them may stand. */
export function boundDebts(builder: WriteBuilder, { state }: Image, { readingMs, moves }: Intent, env: Env): Low[] {
  const low: Low[] = [];
  if (!env.dialect.expiryIgnoresDebts) return low;
  for (const held of state.limits) {
    if (moves.some(({ limit }) => limit === held.name)) continue;
    const risen = refilledMilli(held.remainder, held.terms, readingMs - state.epochMs);
    const isOwing = held.tokensMilli + risen < 0;
    const least = isOwing
      ? leastMilli(held.tokensMilli - held.terms.capacityMilli, -debtMaxMilli(held.part))
      : 0 - risen;
    boundDebt(builder, held, least, env);
    if (isOwing) low.push({ limit: held, lowMilli: least + risen });
  }
  return low;
}
