import { createCalendar } from "../src/adapters/system/calendar.ts";
import { effectiveTerms, type ScheduleEntry } from "../src/domain/limits/schedule.ts";
import { decodeReset, decodeSchedule, encodeReset, encodeSchedule } from "../src/domain/limits/schedule-grammar.ts";

/** A case of `vectors/schedule.json`; numbers that may pass 2^53 are text there. */
export interface ScheduleVector {
  readonly id: string;
  readonly fn: string;
  readonly in: Readonly<Record<string, unknown>>;
  readonly out: Readonly<Record<string, unknown>>;
}

const calendar = createCalendar();

/** What differs between the recorded answer and ours, as a sentence; `undefined` when nothing does. */
export function checkScheduleVector(vector: ScheduleVector): string | undefined {
  const check = CHECKS[vector.fn];
  if (check === undefined) return `unknown fn "${vector.fn}"; known: ${Object.keys(CHECKS).join(", ")}`;
  let ours: Answer;
  try {
    ours = check(vector.in);
  } catch (error) {
    return `threw ${error}`;
  }
  const differing = Object.keys({ ...vector.out, ...ours }).filter((key) => ours[key] !== vector.out[key]);
  if (differing.length === 0) return undefined;
  return differing.map((key) => `${key} is ${ours[key]}, recorded was ${vector.out[key]}`).join("; ");
}

type Answer = Record<string, unknown>;

const CHECKS: Readonly<Record<string, (input: ScheduleVector["in"]) => Answer>> = {
  effective_params(input) {
    const base = {
      capacityMilli: Number(input.capacity_milli),
      refillAmountMilli: Number(input.refill_amount_milli),
      refillPeriodMs: Number(input.refill_period_ms),
    };
    const nowMs = Number(input.now_ms);
    const terms = effectiveTerms(base, entriesOf(input), (cron, tz) => calendar.matches(cron, tz, nowMs));
    return {
      capacity_milli: String(terms.capacityMilli),
      refill_amount_milli: String(terms.refillAmountMilli),
      refill_period_ms: String(terms.refillPeriodMs),
    };
  },

  encode_schedule(input) {
    const { compact, tz } = encodeSchedule(entriesOf(input));
    const decoded = decodeSchedule(compact, tz);
    if (decoded.kind === "unreadable") return { compact: decoded.problem, tz };
    // What was read must encode to the same bytes; where it does not, the second text is the one to show.
    return { ...encodeSchedule(decoded.value) };
  },

  reset_edges(input) {
    const [cron, tz, nowMs] = [String(input.cron), String(input.tz), Number(input.now_ms)];
    const decoded = decodeReset(encodeReset(cron));
    const stored = decoded.kind === "decoded" ? decoded.value : decoded.problem;
    return {
      previous_ms: String(calendar.previousReset(cron, tz, nowMs)),
      next_ms: String(calendar.nextReset(stored, tz, nowMs)),
      compact: encodeReset(stored),
    };
  },
};

interface RecordedEntry {
  readonly cron: string;
  readonly tz: string;
  readonly scale?: number;
  readonly capacity?: number;
  readonly refill_amount?: number;
  readonly refill_period_seconds?: number;
}

function entriesOf(input: ScheduleVector["in"]): readonly ScheduleEntry[] {
  return (input.schedule as readonly RecordedEntry[]).map((entry) => ({
    cron: entry.cron,
    tz: entry.tz,
    ...(entry.scale !== undefined && { scale: entry.scale }),
    ...(entry.capacity !== undefined && { capacity: entry.capacity }),
    ...(entry.refill_amount !== undefined && { refillAmount: entry.refill_amount }),
    ...(entry.refill_period_seconds !== undefined && { refillPeriodMs: entry.refill_period_seconds * 1000 }),
  }));
}
