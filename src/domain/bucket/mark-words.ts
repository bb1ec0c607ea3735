import { divCeil } from "../../bucket/integers.ts";
import type { Calendar } from "../limits/calendar.ts";
import { rulesOf } from "../limits/kinds/table.ts";
import type { Limit } from "../limits/limit.ts";
import { type Crossed, type Crossing, crossing, type UsedPart } from "../limits/thresholds.ts";
import type { BucketKey } from "./bucket-key.ts";
import { resetsAtMs } from "./bucket-operations.ts";
import { availableMilli, type BucketState, findLimit } from "./bucket-state.ts";
import type { LimitState } from "./limit-state.ts";

/** What was told of a limit: the highest percentage, and in which of its periods. */
interface Mark {
  readonly percent: number;
  readonly period: string;
}

const MARK = /^(\d{1,3})@(\S+)$/;

/**
 * A mark as an item has it, `80@PERIOD`. The period is part of it, so that a mark of a period that is over counts for nothing,
 * whoever wrote it when: no write has to take it away.
 */
export function markText({ percent, period }: Mark): string {
  return `${percent}@${period}`;
}

/** Undefined: it is none. */
export function markIn(value: unknown): Mark | undefined {
  const [, percent, period] = (typeof value === "string" && MARK.exec(value)) || [];
  if (percent === undefined || period === undefined || Number(percent) > 100) return undefined;
  return { percent: Number(percent), period };
}

/**
 * The period that a use of a limit at an instant falls into: by the end of a calendar period or the beginning of a session, and by
 * the number that tells beginnings within it apart. What refills has none but that it was a quota before.
 */
export function periodOf({ limit, quota, resetsBefore }: LimitState, atMs: number, calendar: Calendar): string {
  if (quota === undefined) return String(resetsBefore);
  const at = quota.windowStartMs ?? rulesOf(limit).pin(limit, atMs, calendar).untilMs;
  return `${at}.${quota.resets}`;
}

/** The limit with what its item says was told of it in the period of the epoch. */
export function withMark(held: LimitState, value: unknown, atMs: number, calendar: Calendar): LimitState {
  const mark = markIn(value);
  if (mark === undefined || mark.percent === 0 || mark.period !== periodOf(held, atMs, calendar)) return held;
  return { ...held, told: mark.percent };
}

/** What a take has used of one limit of a bucket. */
export interface Use {
  readonly limit: string;
  /** What the limit was then: its percentages are told, whatever becomes of it. */
  readonly rule: Limit;
  readonly used: UsedPart;
  /** The period that it was taken in. */
  readonly period: string;
  readonly readingMs: number;
  /** Of a quota: when that period ends. */
  readonly resetsAtMs: number | undefined;
}

/** Of one limit: what was used of it when a state was left, with an amount taken last. */
export function useOf(
  held: LimitState,
  state: BucketState,
  { milli, readingMs }: { readonly milli: number; readonly readingMs: number },
  calendar: Calendar,
): Use {
  const capacity = held.terms.capacityMilli;
  const after = capacity - availableMilli(state, held, readingMs);
  const before = Math.max(0, after - milli);
  const atMs = Math.max(readingMs, state.epochMs);
  // Of a bucket in shards the first of them has the marks, and its periods count.
  const first = (state.shards?.[0] && findLimit(state.shards[0], held.name)) ?? held;
  return {
    ...{
      limit: held.name,
      rule: held.limit,
      used: { before, after, capacity },
      period: periodOf(first, atMs, calendar),
      readingMs,
    },
    resetsAtMs: resetsAtMs(held, atMs, calendar),
  };
}

/** The mark that a state says; undefined: none. */
export function toldText({ told }: LimitState, { period }: Use): string | undefined {
  return told === undefined ? undefined : markText({ percent: told, period });
}

/** What the item of shard 0 says to somebody who has a use to tell. */
interface MarksMet {
  readonly now: unknown;
  /** The mark as the use itself met it. */
  readonly seen: unknown;
  /** The period that was last taken from. Absent: not known, or not asked. */
  readonly last?: string | undefined;
}

/**
 * What is to be told of a use; undefined: nothing, and the mark stays. A mark of another period that has come since may be of a later
 * one: that of this use is over then, and no mark is taken back for it. Or somebody was late with a mark of an earlier one.
 */
export function dueOf({ rule, used, period }: Use, { now, seen, last }: MarksMet): Crossing | undefined {
  const mark = markIn(now);
  const isOfPeriod = mark?.period === period;
  const isReplaced = isOfPeriod || now === seen || (mark !== undefined && isEarlier(mark, period, last));
  if (!isReplaced) return undefined;
  const told = isOfPeriod ? mark.percent : 0;
  const due = crossing(rule.notifyAt ?? NONE, told, used, rulesOf(rule));
  // A mark is only taken back for a percentage that can be told again.
  const isRearmed = rule.notifyAt?.some((percent) => percent <= told && percent > due.told) ?? false;
  return due.tell.length === 0 && !isRearmed ? undefined : due;
}

/** Nothing is told of a period that nobody has taken from yet: while a period lasts, marks of others are of earlier ones. */
function isEarlier(mark: Mark, period: string, last: string | undefined): boolean {
  if (period === last) return true;
  const [its, itsResets] = mark.period.split(".");
  const [at, resets] = period.split(".");
  return resets !== undefined && itsResets === resets && Number(its) < Number(at);
}

const NONE: readonly number[] = Object.freeze([]);

/** A percentage that a use has reached, as it is told. */
export function crossedOf(
  bucket: BucketKey,
  { limit, used, readingMs, resetsAtMs: endMs }: Use,
  percent: number,
): Crossed {
  return {
    ...{ bucket, limit, percent, used: divCeil(used.after, 1000), capacity: divCeil(used.capacity, 1000) },
    atMs: readingMs,
    ...(endMs === undefined ? {} : { resetsAtMs: endMs }),
  };
}
