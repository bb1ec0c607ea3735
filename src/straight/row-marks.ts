import type { LimitState } from "../domain/bucket/limit-state.ts";
import { markText, withMark } from "../domain/bucket/mark-words.ts";
import type { Calendar } from "../domain/limits/calendar.ts";

/** What was told of the limits of a row: by limit the mark, and the number of the process that wrote it. */
type RowMarks = Readonly<Record<string, readonly [mark: string, number: string]>>;

/** The marks of a row; none where it has none, or what is there is damaged: then they are told anew. */
export function marksIn(text: string | null): RowMarks {
  if (text === null) return {};
  try {
    const found = JSON.parse(text) as unknown;
    return typeof found === "object" && found !== null ? (found as RowMarks) : {};
  } catch {
    return {};
  }
}

/** The same with another mark of one limit. */
export function marksWith(
  text: string | null,
  limit: string,
  { percent, period, number }: { readonly percent: number; readonly period: string; readonly number: string },
): string {
  return JSON.stringify({ ...marksIn(text), [limit]: [markText({ percent, period }), number] });
}

/** A limit with what its row says was told of it, in the period of the epoch. */
export function withRowMark(held: LimitState, marks: RowMarks, epochMs: number, calendar: Calendar): LimitState {
  const mark = marks[held.name]?.[0];
  return mark === undefined ? held : withMark(held, mark, epochMs, calendar);
}
