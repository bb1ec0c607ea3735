import type { LimitState } from "../../domain/bucket-state.ts";
import type { Calendar } from "../../domain/calendar.ts";
import { rulesOf } from "../../domain/kinds/table.ts";
import type { ItemValue } from "../../ports/item-store.ts";

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
export function markIn(value: ItemValue | undefined): Mark | undefined {
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
export function withMark(held: LimitState, value: ItemValue | undefined, atMs: number, calendar: Calendar): LimitState {
  const mark = markIn(value);
  if (mark === undefined || mark.percent === 0 || mark.period !== periodOf(held, atMs, calendar)) return held;
  return { ...held, told: mark.percent };
}
