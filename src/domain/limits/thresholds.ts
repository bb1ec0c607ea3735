import { divCeil, mulDivCeil } from "../../bucket/integers.ts";
import type { BucketKey } from "../bucket/bucket-key.ts";
import { resetsAtMs } from "../bucket/bucket-operations.ts";
import { availableMilli, type BucketState, findLimit, type LimitState } from "../bucket/bucket-state.ts";
import type { Amount } from "../charge/amounts.ts";
import { given } from "../names/given.ts";
import type { KindRules } from "./kinds/kind.ts";
import { rulesOf } from "./kinds/table.ts";
import type { Calendar } from "./schedule.ts";

/** How much of a limit was used before and after a take, and its capacity in force: in any one unit. */
interface UsedPart {
  readonly before: number;
  readonly after: number;
  readonly capacity: number;
}

/** The percentages of a limit that a take has to tell, lowest first, and the mark that it leaves. */
export interface Crossing {
  readonly tell: readonly number[];
  /** All percentages of the limit up to this one count as told. 0: none. */
  readonly told: number;
}

/** A percentage of a limit was reached: once a period of a quota, once a crossing of any other limit. */
export interface Crossed {
  readonly bucket: BucketKey;
  readonly limit: string;
  readonly percent: number;
  /** Whole tokens, rounded up. */
  readonly used: number;
  /** Whole tokens: the capacity in force, with what was topped up. */
  readonly capacity: number;
  /** The reading of the take. */
  readonly atMs: number;
  /** Of a quota: when its period ends. */
  readonly resetsAtMs?: number;
}

/** A limit without periods tells a percentage again once it was seen this many points below it. */
const REARM_POINTS = 10;

/**
 * Decides what to tell of a limit. It goes by levels, not by edges: what an earlier take reached and did not tell is told by this one.
 * `told`: the mark so far, of this period. A limit with periods keeps its mark; any other loses it once so little is used that the
 * percentage can be reached anew.
 */
export function crossing(
  notifyAt: readonly number[],
  told: number,
  { before, after, capacity }: UsedPart,
  { hasPeriods }: Pick<KindRules, "hasPeriods">,
): Crossing {
  // Nothing is a share of nothing.
  if (capacity <= 0) return { tell: NOTHING, told };
  const kept = hasPeriods ? told : keptMark(told, before, capacity);
  const tell = notifyAt.filter((percent) => percent > kept && after >= percentOf(capacity, percent));
  return { tell, told: tell.at(-1) ?? kept };
}

/**
 * The mark of a limit that refills, when so much of it is used: the highest percentage that may not be told again yet. Also of those that
 * are not asked for at present: they were told, and asked for again they are not told twice.
 */
function keptMark(told: number, used: number, capacity: number): number {
  for (let percent = told; percent > 0; percent--) {
    if (used > percentOf(capacity, Math.max(0, percent - REARM_POINTS))) return percent;
  }
  return 0;
}

/** A percentage of a capacity in its unit, rounded up: used is compared with it. */
function percentOf(capacity: number, percent: number): number {
  return mulDivCeil(capacity, percent, 0, 100);
}

const NOTHING: readonly number[] = Object.freeze([]);

/** A take or a debit of a bucket: the state that it met, what it took, and the state that it left. */
export interface BucketTake {
  readonly before: BucketState;
  readonly after: BucketState;
  readonly amounts: readonly Amount[];
  readonly nowMs: number;
}

/** The state after a take with the marks that it leaves. The same object where no mark changes. */
export function withMarks(take: BucketTake): BucketState {
  const { after, amounts } = take;
  if (after.plain) return after;
  let limits: LimitState[] | undefined;
  for (const { limit: name } of amounts) {
    const index = after.limits.findIndex((held) => held.name === name);
    const held = after.limits[index];
    const crossed = held && crossingOf(held, take);
    if (crossed === undefined || crossed.told === (held?.told ?? 0)) continue;
    limits ??= after.limits.slice();
    limits[index] = withTold(held as LimitState, crossed.told);
  }
  return limits === undefined ? after : { ...after, limits };
}

/** The percentages that a take has to tell; undefined: none. The states are those that `withMarks` was asked of, or has answered. */
export function crossedBy(take: BucketTake, bucket: BucketKey, calendar: Calendar): readonly Crossed[] | undefined {
  const { after, amounts, nowMs } = take;
  if (after.plain) return undefined;
  let crossed: Crossed[] | undefined;
  for (const { limit } of amounts) {
    const held = findLimit(after, limit);
    const tell = held && crossingOf(held, take)?.tell;
    if (held === undefined || tell === undefined || tell.length === 0) continue;
    const endMs = resetsAtMs(held, Math.max(nowMs, after.epochMs), calendar);
    const use = { limit, used: usedBy(held, take), readingMs: nowMs, resetsAtMs: endMs };
    crossed ??= [];
    for (const percent of tell) crossed.push(crossedOf(bucket, use, percent));
  }
  return crossed;
}

/** A percentage that a use has reached, as it is told. */
export function crossedOf(
  bucket: BucketKey,
  { limit, used, readingMs, resetsAtMs: endMs }: UseMade,
  percent: number,
): Crossed {
  const tokens = { used: divCeil(used.after, 1000), capacity: divCeil(used.capacity, 1000) };
  return { bucket, limit, percent, ...tokens, atMs: readingMs, ...given({ resetsAtMs: endMs }) };
}

/** A use of one limit. */
export interface UseMade {
  readonly limit: string;
  readonly used: UsedPart;
  readonly readingMs: number;
  /** The end of that period, for a quota. */
  readonly resetsAtMs: number | undefined;
}

/** The percentages of a limit that count as told at an instant, lowest first; undefined: it tells none. */
export function notifiedOf(state: BucketState, held: LimitState, nowMs: number): readonly number[] | undefined {
  const { notifyAt } = held.limit;
  if (notifyAt === undefined) return undefined;
  const capacity = held.terms.capacityMilli;
  const used = capacity - availableMilli(state, held, nowMs);
  const told = rulesOf(held.limit).hasPeriods ? (held.told ?? 0) : keptMark(held.told ?? 0, used, capacity);
  return notifyAt.filter((percent) => percent <= told);
}

/** The limit with another mark; 0: none, and then it has no field for it either. */
function withTold(held: LimitState, told: number): LimitState {
  if (told !== 0) return { ...held, told };
  const { told: _, ...without } = held;
  return without;
}

function crossingOf(held: LimitState, take: BucketTake): Crossing | undefined {
  const { notifyAt } = held.limit;
  if (notifyAt === undefined) return undefined;
  const told = findLimit(take.before, held.name)?.told ?? 0;
  return crossing(notifyAt, told, usedBy(held, take), rulesOf(held.limit));
}

function usedBy(held: LimitState, { before, after, nowMs }: BucketTake): UsedPart {
  const earlier = findLimit(before, held.name);
  const capacity = held.terms.capacityMilli;
  return {
    before: earlier === undefined ? 0 : capacity - availableMilli(before, earlier, nowMs),
    after: capacity - availableMilli(after, held, nowMs),
    capacity,
  };
}
