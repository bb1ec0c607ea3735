import { levelMilli } from "../../bucket/level.ts";
import type { BucketState, LimitState } from "../../domain/bucket/bucket-state.ts";
import type { Calendar } from "../../domain/limits/calendar.ts";
import { RF, TTL } from "../item/attributes.ts";
import { type Image, numberOf } from "../item/codec.ts";
import { keptUntilFromS, keptUntilS, SPARE_S } from "../item/ttl.ts";
import type { WriteBuilder } from "../item/write-builder.ts";
import { usageUntilS } from "../usage/hours.ts";
import type { Env, Intent } from "./intent.ts";

/** A limit that may be left with less than nothing: how low, at most. */
export interface Low {
  readonly limit: LimitState;
  readonly lowMilli: number;
}

/** How an item stands after a write, as far as its expiry goes. */
interface Kept extends Pick<Image, "item" | "shardCount">, Pick<Intent, "readingMs" | "install"> {
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

/** Limits that are in debt already. */
export function debtsOf(limits: readonly LimitState[], elapsedMs: number, known: readonly Low[]): Low[] {
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
