import type { Terms } from "../../src/bucket/balance.ts";
import { addMulDiv, divFloor } from "../../src/bucket/integers.ts";
import { type Limit, termsOf } from "../../src/domain/limits/limit.ts";
import { type Calendar, effectiveTerms, TZ_DEFAULT } from "../../src/domain/limits/schedule.ts";
import type { Item } from "../../src/ports/item-store.ts";
import { namesOf, RF, SHARD_COUNT, WCU } from "../../src/protocol/item/attributes.ts";

/** Declared limits and how many millitokens of each are asked for; 0 of a limit is declared too. */
export type Wants = ReadonlyMap<string, number>;

/** What one limit comes to on one shard. */
export interface ShardTerms {
  /** Refill and refunds go no higher. */
  readonly ceilingMilli: number;
  /** What a new shard or a new period begins with. */
  readonly shareMilli: number;
  readonly amountMilli: number;
  readonly periodMs: number;
}

/** The numbers are the item's, only what time does with them is configuration's: the original's own mixture. */
export function termsOn(
  item: Item,
  name: string,
  limit: Limit | undefined,
  atMs: number,
  calendar: Calendar,
): ShardTerms {
  const names = namesOf(name);
  const base = {
    capacityMilli: numberIn(item, names.cp),
    refillAmountMilli: numberIn(item, names.ra),
    refillPeriodMs: numberIn(item, names.rp),
  };
  const count = shardCountIn(item);
  const { capacityMilli, refillAmountMilli, refillPeriodMs } = termsInForce(base, limit, atMs, calendar);
  const shareMilli = divFloor(capacityMilli, count);
  const isQuota = limit === undefined ? base.refillAmountMilli === 0 : limit.reset !== undefined;
  const grantedAt = numberOr(item, names.gc, count);
  return {
    ceilingMilli: isQuota ? divFloor(capacityMilli, grantedAt) + numberIn(item, names.tu) : shareMilli,
    shareMilli,
    amountMilli: divFloor(refillAmountMilli, count),
    periodMs: refillPeriodMs,
  };
}

/** What a limit that is not on the item begins with there. */
export function freshShareMilli(limit: Limit, count: number, atMs: number, calendar: Calendar): number {
  return divFloor(termsInForce(termsOf(limit), limit, atMs, calendar).capacityMilli, count);
}

/** The capacity in force, undivided, by the item's own numbers. */
export function capacityInForce(item: Item, limit: Limit, atMs: number, calendar: Calendar): number {
  const names = namesOf(limit.name);
  const base = { ...termsOf(limit), capacityMilli: numberIn(item, names.cp) };
  return termsInForce(base, limit, atMs, calendar).capacityMilli;
}

/** Tokens after so much time, cut at the ceiling. What time has added below a millitoken is lost when `rf` moves. */
export function refilledMilli(tokensMilli: number, terms: ShardTerms, elapsedMs: number): number {
  const { ceilingMilli, amountMilli, periodMs } = terms;
  if (elapsedMs <= 0 || periodMs <= 0) return Math.min(ceilingMilli, tokensMilli);
  return addMulDiv(tokensMilli, elapsedMs, amountMilli, 0, periodMs, ceilingMilli);
}

/** The counter of writes, which is never divided. */
export function writesTermsIn(item: Item): ShardTerms {
  const names = namesOf(WCU);
  const ceilingMilli = numberIn(item, names.cp);
  return {
    ceilingMilli,
    shareMilli: ceilingMilli,
    amountMilli: numberIn(item, names.ra),
    periodMs: numberIn(item, names.rp),
  };
}

/**
 * How long an image tells the caller to wait, in ms, without a look at anything else. Undefined: time has brought
 * enough, or a name is not on the item, and a slow pass has to find out.
 */
export function waitByImage(
  item: Item,
  wants: Wants,
  limits: readonly Limit[],
  atMs: number,
  calendar: Calendar,
): number | undefined {
  let waitMs: number | undefined;
  for (const [name, milli] of wants) {
    const names = namesOf(name);
    if (!isOn(item, name)) return undefined;
    if (numberIn(item, names.soft) > atMs) continue;
    const limit = limits.find((other) => other.name === name);
    const terms = termsOn(item, name, limit, atMs, calendar);
    const levelMilli = refilledMilli(numberIn(item, names.tk), terms, atMs - numberIn(item, RF));
    if (levelMilli >= milli) continue;
    waitMs = Math.max(waitMs ?? 0, waitFor(milli - levelMilli, terms, limit, atMs, calendar));
  }
  return waitMs;
}

/** How long the original thinks it takes until so much is there, in ms; whether it ever fits is not its question. */
export function waitFor(
  missingMilli: number,
  { amountMilli, periodMs }: ShardTerms,
  limit: Limit | undefined,
  atMs: number,
  calendar: Calendar,
): number {
  if (limit?.reset !== undefined) return nextEdgeMs(limit, atMs, calendar) - atMs;
  return amountMilli === 0 ? 0 : divFloor(missingMilli * periodMs, amountMilli) + 1;
}

/** A limit is on an item only with both its tokens and its capacity. */
export function isOn(item: Item, name: string): boolean {
  const names = namesOf(name);
  return names.tk in item && names.cp in item;
}

export function shardCountIn(item: Item): number {
  return numberOr(item, SHARD_COUNT, 1);
}

export function numberIn(item: Item, name: string): number {
  return numberOr(item, name, 0);
}

export function lastEdgeMs({ reset }: Limit, atMs: number, calendar: Calendar): number {
  return reset === undefined
    ? Number.NEGATIVE_INFINITY
    : calendar.previousReset(reset.cron, reset.tz ?? TZ_DEFAULT, atMs);
}

export function nextEdgeMs({ reset }: Limit, atMs: number, calendar: Calendar): number {
  return reset === undefined ? Number.POSITIVE_INFINITY : calendar.nextReset(reset.cron, reset.tz ?? TZ_DEFAULT, atMs);
}

function termsInForce(base: Terms, limit: Limit | undefined, atMs: number, calendar: Calendar): Terms {
  return effectiveTerms(base, limit?.schedule ?? [], (cron, tz) => calendar.matches(cron, tz, atMs));
}

function numberOr(item: Item, name: string, otherwise: number): number {
  const value = item[name];
  return typeof value === "number" ? value : otherwise;
}
