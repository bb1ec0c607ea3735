import type { Limit } from "../../src/domain/limits/limit.ts";
import type { Calendar } from "../../src/domain/limits/schedule.ts";
import { type InForce, lesser, type ModelPart } from "./model-terms.ts";

/** Refill periods that are exact together with all that divide them: seconds, minutes, hours and days among them. */
export const PERIODS_MS: readonly number[] = [7_000, 11_000, 86_400_000];

/** What a write was for. */
export type WriteKind = "take" | "debit" | "credit";

/** A moment at which a limit held no more than its brim, whatever came before. */
export interface Mark {
  /** r(its reading): what had dripped in by then since the beginning, in units. */
  readonly dripped: bigint;
  readonly brim: bigint;
  /** What was net taken before it, in units. */
  readonly takenBefore: bigint;
  /** A take or debit; otherwise the birth of the limit, or a change of its terms. */
  readonly spends: boolean;
}

/** What is left by the mark that leaves least, of those that count; nothing without any. All in units. */
export function leastLeft(
  marks: readonly Mark[],
  counts: (mark: Mark) => boolean,
  dripped: bigint,
  taken: bigint,
): bigint {
  let least: bigint | undefined;
  for (const mark of marks) {
    if (!counts(mark)) continue;
    const left = mark.brim + (dripped - mark.dripped) - (taken - mark.takenBefore);
    if (least === undefined || left < least) least = left;
  }
  return least ?? 0n;
}

/** From one reset of a quota to the next, in millitokens. What is given back finds its way by it. */
export interface ModelPeriod {
  /** The calendar it goes by, or that it is a session. */
  readonly rule: string;
  readonly untilMs: number;
  windowStartMs: number | undefined;
  /** Tells it from every other; after shards were joined that began by themselves, one of each. */
  readonly ids: ReadonlySet<object>;
  /** A quota that got this rule while it had another, or dripped, began with what it held then. */
  readonly began: "full" | "changed";
  /** How often an operator began it anew, counted on from when the quota got its rule, if it had another before. */
  byHand: number;
  /** The capacity in force when it began, and what was bought since. */
  allowed: bigint;
  /** Taken and debited, less what was given back of it. */
  granted: bigint;
  /** The limit was soft at some time in it: then nothing was promised. */
  unbounded: boolean;
  /** A soft limit was taken from beyond what its debt can be counted in: what it holds says no more what was granted. */
  isUncounted: boolean;
  /** A clock far ahead began it before its time, and its epoch was set back: it is begun once more, by the same name or another. */
  isEarly: boolean;
}

/** A period of a quota that begins full at an instant. */
export function periodBegun(limit: Limit, brimMilli: bigint, atMs: number, calendar: Calendar): ModelPeriod {
  return {
    rule: ruleOf(limit),
    untilMs: resetAfter(limit, atMs, calendar),
    windowStartMs: undefined,
    ids: new Set([{}]),
    began: "full",
    byHand: 0,
    allowed: brimMilli,
    granted: 0n,
    unbounded: limit.soft === true,
    isUncounted: false,
    isEarly: false,
  };
}

/** The next reset of a calendar quota after an instant; of what has none: never. */
function resetAfter({ reset }: Limit, atMs: number, calendar: Calendar): number {
  return reset === undefined ? Number.POSITIVE_INFINITY : calendar.nextReset(reset.cron, reset.tz ?? "UTC", atMs);
}

/** When a period ends; of what has none: never. */
export function periodEnd(limit: Limit, { windowStartMs }: ModelPeriod, atMs: number, calendar: Calendar): number {
  const { resetAfterMs } = limit;
  if (windowStartMs !== undefined && resetAfterMs !== undefined) return windowStartMs + resetAfterMs;
  return resetAfter(limit, atMs, calendar);
}

/** Whether what was taken in a period, or from what drips, belongs to the one of now. */
export function isSamePeriod(now: ModelPeriod | undefined, taken: ModelPeriod | undefined): "yes" | "no" | "either" {
  if (now === undefined || taken === undefined) return now === taken ? "yes" : "no";
  if (![...now.ids].some((id) => taken.ids.has(id))) return "no";
  // Shards that began by themselves were joined: the period of one of them goes on.
  return now.ids.size === 1 && taken.ids.size === 1 ? "yes" : "either";
}

/**
 * Whether a period was under way at an earlier instant, too. A window of a session opens with a use, so one that opened later is another
 * one than whichever may have been open then.
 */
function isOnAt({ untilMs, windowStartMs }: ModelPeriod, limit: Limit, atMs: number, calendar: Calendar): boolean {
  if (limit.resetAfterMs !== undefined) return windowStartMs !== undefined && windowStartMs <= atMs;
  return resetAfter(limit, atMs, calendar) === untilMs;
}

/**
 * The periods of a limit that go on at an earlier instant: its own, if it was under way then, or one in its place. Of slots always another:
 * by the clock that was ahead holds may have ended whose tickets are out, and what they name may be somebody else's now.
 */
export function periodsSetBack(
  { limit, period }: { readonly limit?: Limit; readonly period?: ModelPeriod | undefined } = {},
  atMs: number,
  calendar: Calendar,
): readonly ModelPeriod[] {
  if (limit === undefined || period === undefined) return [];
  if (limit.holdMs !== undefined) return [inPlaceOf(period, limit, atMs, calendar)];
  if (isOnAt(period, limit, atMs, calendar)) return [period];
  period.isEarly = true;
  return [inPlaceOf(period, limit, atMs, calendar)];
}

/** The period that goes on at an earlier instant, which was not known any more. */
function inPlaceOf(period: ModelPeriod, limit: Limit, atMs: number, calendar: Calendar): ModelPeriod {
  const byHand = Math.max(atMs, period.byHand + 1);
  return { ...period, untilMs: resetAfter(limit, atMs, calendar), ids: new Set([{}]), began: "changed", byHand };
}

/** What tells the period that goes on from those of shards which were joined, or from the one of a shard that was split. */
export function goneOn(before: readonly ModelPeriod[]): Partial<Pick<ModelPeriod, "ids" | "began" | "byHand">> {
  if (before.length === 0) return {};
  return {
    ids: new Set(before.flatMap(({ ids }) => [...ids])),
    began: before.some(({ began }) => began === "changed") ? "changed" : "full",
    byHand: Math.max(...before.map(({ byHand }) => byHand)),
  };
}

/** How one limit stands on a bucket, as a store has written it down; told from an instant. */
export interface ModelSeed {
  readonly limit: Limit;
  readonly part: ModelPart | undefined;
  readonly tokensMilli: number;
  /** What has dripped in besides, in fractions of a millitoken: so many of the refill period. */
  readonly remainder: number;
  readonly toppedUpMilli: number;
  /** From which capacity what was used is counted; absent: the one in force. */
  readonly countedFromMilli: number | undefined;
  readonly windowStartMs: number | undefined;
  /** The periods that it goes on with: those of the shards it was made of. Undefined: of none. */
  readonly before: readonly ModelPeriod[];
}

/** What the rules have to say that a limit went by earlier. */
export interface Past {
  /** When the last of them would have filled it; and by when it surely has. */
  readonly filledAtMs: number;
  readonly filledByMs: number;
  /** Holding so much, it lacks nothing by any of them that drips. */
  readonly brim: bigint;
}

export const NO_PAST: Past = {
  filledAtMs: Number.NEGATIVE_INFINITY,
  filledByMs: Number.NEGATIVE_INFINITY,
  brim: 0n,
};

/** Of a limit that goes on from what a store has: which rules it went by before is the store's to say. */
export const UNKNOWN_PAST: Past = { ...NO_PAST, filledByMs: Number.POSITIVE_INFINITY };

/** Whether something that was taken by an earlier rule counts still: no, yes, or a store may tell to the millitoken. */
export function pastAt({ filledAtMs, filledByMs }: Past, atMs: number): "gone" | "there" | "doubtful" {
  if (filledByMs <= atMs) return "gone";
  return filledAtMs > atMs ? "there" : "doubtful";
}

/** Whatever it holds, until then it is not as if it had never been. */
export function pastUntil(atMs: number): Past {
  return { filledAtMs: atMs, filledByMs: atMs, brim: BigInt(Number.MAX_SAFE_INTEGER) };
}

/** With a rule that it no longer goes by. */
export function pastWith(past: Past, ...rule: Parameters<typeof filledAtMs>): Past {
  const [limit, { brim }, atMs] = rule;
  const filled = filledAtMs(...rule);
  const own = filled <= atMs ? 0n : ruleOf(limit) === "drip" ? brim : pastUntil(atMs).brim;
  return {
    filledAtMs: Math.max(past.filledAtMs, filled),
    filledByMs: Math.max(past.filledByMs, filledByMs(...rule)),
    brim: own > past.brim ? own : past.brim,
  };
}

/**
 * When a limit would be full again by its rule, had it been empty when that was replaced: not before that may it be forgotten. Also one
 * that is in debt: that it is remembered for longer then is not promised, as a store of conditional writes may not have seen the debit.
 * With windows, the instant itself: then nothing is said.
 */
function filledAtMs(
  limit: Limit,
  { brim, inForce, windowStartMs }: Replaced,
  atMs: number,
  calendar: Calendar,
): number {
  const { soft, schedule, reset, resetAfterMs, holdMs } = limit;
  // What is held is kept as such, until it ends.
  if (soft || schedule !== undefined || holdMs !== undefined) return atMs;
  if (reset !== undefined) return calendar.nextReset(reset.cron, reset.tz ?? "UTC", atMs);
  if (resetAfterMs !== undefined) return windowStartMs === undefined ? atMs : windowStartMs + resetAfterMs;
  // Beyond all dates it is for ever.
  const ms = ((brim - 1n) * BigInt(inForce.periodMs)) / inForce.refill;
  return atMs + Number(lesser(ms, BigInt(Number.MAX_SAFE_INTEGER)));
}

/** A limit as it stands when its rule is replaced. */
interface Replaced {
  readonly level: bigint;
  readonly brim: bigint;
  readonly inForce: InForce;
  readonly windowStartMs: number | undefined;
}

/** By when it surely is, also for a store that counts its debt, or knows the largest of its windows. */
function filledByMs(...asked: Parameters<typeof filledAtMs>): number {
  const [limit, { level, brim, inForce, windowStartMs }, atMs, calendar] = asked;
  if (limit.soft || limit.holdMs !== undefined) return atMs;
  if (limit.reset !== undefined) return calendar.nextReset(limit.reset.cron, limit.reset.tz ?? "UTC", atMs);
  if (limit.resetAfterMs !== undefined) return windowStartMs === undefined ? atMs : windowStartMs + limit.resetAfterMs;
  if (limit.schedule !== undefined) return Number.POSITIVE_INFINITY;
  const missing = brim - lesser(0n, level) + 1n;
  const ms = (missing * BigInt(inForce.periodMs)) / inForce.refill + 1n;
  return atMs + Number(lesser(ms, BigInt(Number.MAX_SAFE_INTEGER)));
}

/** Quotas of one rule count on in the same period. */
export function ruleOf({ reset, resetAfterMs, holdMs }: Limit): string {
  if (holdMs !== undefined) return "slots";
  if (reset !== undefined) return `${reset.cron} ${reset.tz ?? "UTC"}`;
  return resetAfterMs === undefined ? "drip" : "session";
}

// Floor of a / b, also for negative a; b > 0.
export function floorDiv(a: bigint, b: bigint): bigint {
  return a >= 0n ? a / b : -((-a + b - 1n) / b);
}

export function divisor(a: bigint, b: bigint): bigint {
  return b === 0n ? a : divisor(b, a % b);
}

/** A limit changed when it could not be told to the millitoken whether something taken by an earlier rule counts still. */
export interface PastDoubt {
  readonly wasClosed: boolean;
  /** What had been granted in its period. */
  readonly granted: bigint;
  readonly atMs: number;
}
