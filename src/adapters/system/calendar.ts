import type { Calendar, CronUse } from "../../domain/limits/schedule.ts";
import { type Pattern, parsePattern } from "./calendar-pattern.ts";
import { createZone, SHIFT_MAX_MS, type Zone, zoneProblem } from "./calendar-zone.ts";

/**
 * Crons in time zones: the patterns are read by `calendar-pattern.ts`, the zones are the platform's, and answers are remembered, so that
 * asking again within the same window or period neither parses nor searches.
 *
 * Windows and resets treat a change of the clock differently, on purpose:
 *
 * - A window is every instant whose local minute matches. A skipped minute is in no window; a repeated one is in it twice.
 * - A reset belongs to the *label*: the minutes of the calendar in their order, those that the clock skips included, each
 *   once. A label rises when it matches and the label before it does not. Its reset is the first instant at which the
 *   clock shows it or, if the clock skips it, the first instant after the gap. Labels that a gap skips together fall
 *   together, with one another and with the label after the gap: one instant, one reset. So each day has its midnight,
 *   and the repeated hour of autumn resets nothing again.
 */
export function createCalendar(): Calendar {
  const crons = new Map<string, Cron>();
  const zones = new Map<string, Zone>();

  const cronOf = (cron: string): Cron =>
    remembered(crons, CRONS_MAX, cron, () => {
      const pattern = parsePattern(cron);
      return typeof pattern === "string"
        ? { problem: pattern, pattern: undefined, courses: new Map() }
        : { problem: undefined, pattern, courses: new Map() };
    });

  const courseOf = (cron: string, tz: string): Course => crons.get(cron)?.courses.get(tz) ?? newCourse(cron, tz);

  const newCourse = (cron: string, tz: string): Course => {
    const { problem, pattern, courses } = cronOf(cron);
    if (pattern === undefined) throw new RangeError(problem);
    return remembered(courses, ZONES_MAX, tz, () => ({ pattern, zone: zoneOf(tz), windows: [], periods: [] }));
  };

  const zoneOf = (tz: string): Zone =>
    remembered(zones, ZONES_MAX, tz, () => {
      const problem = zoneProblem(tz);
      if (problem !== undefined) throw new RangeError(problem);
      return createZone(tz);
    });

  return {
    problemOf(cron, tz, use) {
      const { problem, pattern } = cronOf(cron);
      return problem ?? useProblem(cron, pattern, use) ?? zoneProblem(tz);
    },
    matches: (cron, tz, atMs) => windowAt(courseOf(cron, tz), atMs).matching,
    nextChange: (cron, tz, atMs) => windowAt(courseOf(cron, tz), atMs).untilMs,
    nextReset: (cron, tz, atMs) => periodAt(courseOf(cron, tz), atMs).untilMs,
    previousReset: (cron, tz, atMs) => periodAt(courseOf(cron, tz), atMs).fromMs,
  };
}

// Bounds on memory: a pattern has about 12 kB of tables, a zone at most some 100 kB once decades of it were asked for.
const CRONS_MAX = 256;
const ZONES_MAX = 64;

// A bucket that is brought up to date is asked about twice, then and now; and buckets are not all left at the same time.
const SPANS_MAX = 4;

const MINUTE_MS = 60_000;

// The calendar repeats itself, weekdays included, after 400 years, and so do the rules of the zones as far as known.
const CYCLE_MS = 146_097 * 86_400_000;

/** The cache of a cron; `courses` by time zone. */
interface Cron {
  readonly problem: string | undefined;
  readonly pattern: Pattern | undefined;
  readonly courses: Map<string, Course>;
}

/** A cron in a zone, with the answers given last. */
interface Course {
  readonly pattern: Pattern;
  readonly zone: Zone;
  readonly windows: Window[];
  readonly periods: Span[];
}

/** From `fromMs` on and before `untilMs`. */
interface Span {
  readonly fromMs: number;
  readonly untilMs: number;
}

/** A span in which the answer of `matches` does not change; it may have begun before `fromMs`. */
interface Window extends Span {
  readonly matching: boolean;
}

function useProblem(cron: string, pattern: Pattern | undefined, use: CronUse): string | undefined {
  if (pattern?.never) {
    return `Cron "${cron}" never fires: no month it names has such a day. Choose a day that exists.`;
  }
  if (pattern?.always && use === "reset") {
    return (
      `Cron "${cron}" matches every minute, so no reset ever begins: a reset is a matching minute after one that does not match. ` +
      'Name the minute, as in "0 0 * * *".'
    );
  }
  return undefined;
}

function windowAt(course: Course, atMs: number): Window {
  const known = spanAt(course.windows, atMs);
  if (known !== undefined) return known;
  const { pattern, zone } = course;
  const matching = pattern.matches(minuteOf(atMs + zone.offsetAt(atMs)));
  const untilMs = changeAfter(course, atMs, matching);
  return keep(course.windows, { fromMs: atMs, untilMs, matching });
}

function periodAt(course: Course, atMs: number): Span {
  const known = spanAt(course.periods, atMs);
  if (known !== undefined) return known;
  const { pattern, zone } = course;
  const reached = minuteOf(zone.highestLabelAt(atMs));
  const last = pattern.riseUpTo(reached);
  const next = pattern.riseFrom(reached + 1);
  return keep(course.periods, {
    fromMs: Number.isFinite(last) ? zone.instantOf(last * MINUTE_MS) : last,
    untilMs: Number.isFinite(next) ? zone.instantOf(next * MINUTE_MS) : next,
  });
}

function changeAfter({ pattern, zone }: Course, atMs: number, matching: boolean): number {
  let fromMs = atMs;
  for (;;) {
    const offsetMs = zone.offsetAt(fromMs);
    const label = pattern.firstFrom(minuteOf(fromMs + offsetMs), !matching) * MINUTE_MS;
    // A window that only ever falls into the gap of spring would be looked for without end.
    if (label - offsetMs > atMs + CYCLE_MS) return Number.POSITIVE_INFINITY;
    const nearMs = Math.min(label - offsetMs, fromMs + SHIFT_MAX_MS);
    const transition = zone.transitionWithin(fromMs, nearMs);
    if (transition !== undefined) {
      // The clock jumps before it gets there: look where it lands, and go on from there.
      if (pattern.matches(minuteOf(transition + zone.offsetAt(transition))) !== matching) return transition;
      fromMs = transition;
    } else if (nearMs === label - offsetMs) {
      return nearMs;
    } else {
      // No change of the clock on the way can show a label from before `fromMs` again, as none is that large: nothing
      // happens until shortly before the label that was found.
      fromMs = Math.max(nearMs, zone.instantOf(label - SHIFT_MAX_MS));
    }
  }
}

function minuteOf(label: number): number {
  return Math.floor(label / MINUTE_MS);
}

function spanAt<Kept extends Span>(spans: readonly Kept[], atMs: number): Kept | undefined {
  for (const span of spans) if (span.fromMs <= atMs && atMs < span.untilMs) return span;
  return undefined;
}

// The newest first. One with the same end that began later says nothing that the new one does not.
function keep<Kept extends Span>(spans: Kept[], span: Kept): Kept {
  const same = spans.findIndex(({ untilMs }) => untilMs === span.untilMs);
  if (same >= 0) spans.splice(same, 1);
  spans.unshift(span);
  if (spans.length > SPANS_MAX) spans.pop();
  return span;
}

// The value under the key, made when it is missing. The oldest goes when there are too many.
function remembered<Value>(values: Map<string, Value>, max: number, key: string, make: () => Value): Value {
  const known = values.get(key);
  if (known !== undefined) return known;
  const made = make();
  const [oldest] = values.keys();
  if (values.size >= max && oldest !== undefined) values.delete(oldest);
  values.set(key, made);
  return made;
}
