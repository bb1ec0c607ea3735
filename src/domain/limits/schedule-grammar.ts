import { given } from "../names/given.ts";
import { perMilleOf, type ScheduleEntry, TZ_DEFAULT } from "./schedule.ts";

/** Stored text may be damaged, or newer than this version, so reading it answers with a value and does not throw. */
export type Decoded<Value> =
  | { readonly kind: "decoded"; readonly value: Value }
  | { readonly kind: "unreadable"; readonly problem: string };

/**
 * The stored form of a schedule: `1m0-29h9-17w1-5s500;D1c60` and the one zone that its entries share. Canonical: equal
 * schedules have equal text, and what was decoded encodes to the same bytes.
 */
export function encodeSchedule(entries: readonly ScheduleEntry[]): { readonly compact: string; readonly tz: string } {
  const [first] = entries;
  if (first === undefined) throw new RangeError("An empty schedule has no stored form; leave the attribute out.");
  const tz = first.tz ?? TZ_DEFAULT;
  const other = entries.find((entry) => (entry.tz ?? TZ_DEFAULT) !== tz);
  if (other !== undefined) {
    throw new RangeError(
      `A schedule is stored with one time zone, but has ${tz} and ${other.tz ?? TZ_DEFAULT}; give all entries the same tz.`,
    );
  }
  return { compact: VERSION + entries.map((entry) => encodedCron(entry.cron) + encodedModifiers(entry)).join(";"), tz };
}

/** The entries of a stored schedule, each with the zone `tz` that is stored beside it. */
export function decodeSchedule(text: string, tz: string): Decoded<readonly ScheduleEntry[]> {
  const parts = partsOf(text);
  if (typeof parts === "string") return unreadable(text, parts);
  const entries: ScheduleEntry[] = [];
  for (const part of parts) {
    const entry = decodedEntry(part, tz);
    if (typeof entry === "string") return unreadable(text, entry);
    entries.push(entry);
  }
  return { kind: "decoded", value: entries };
}

/** The stored form of a reset: fields only. A cron of five wildcards never stops firing and has none. */
export function encodeReset(cron: string): string {
  const fields = encodedCron(cron);
  if (fields === "") {
    throw new RangeError(
      `Reset cron "${cron}" matches every minute, so no reset ever begins; name at least the minute.`,
    );
  }
  return VERSION + fields;
}

/** The cron of a stored reset. */
export function decodeReset(text: string): Decoded<string> {
  const parts = partsOf(text);
  if (typeof parts === "string") return unreadable(text, parts);
  const [part, second] = parts;
  if (part === undefined || second !== undefined) {
    return unreadable(text, "it has several resets, and a limit has one; write them as one cron");
  }
  const matched = ENTRY.exec(part);
  if (matched === null) return unreadable(text, `entry "${part}" is not a list of m h D M w fields`);
  const [, ...values] = matched;
  const extra = values.slice(5).find((value) => value !== undefined);
  if (extra !== undefined) return unreadable(text, `entry "${part}" changes a limit, which a reset cannot do`);
  const cron = decodedCron(values.slice(0, 5));
  return cron === undefined
    ? unreadable(text, `entry "${part}" has a field that is not numbers, ranges and steps`)
    : { kind: "decoded", value: cron };
}

type CronFields = readonly [minute: string, hour: string, dayOfMonth: string, month: string, dayOfWeek: string];

/**
 * The five fields, names turned to numbers: a Sunday by itself is 7, at the start of a range or with a step 0. Order,
 * duplicates and ranges stay as written. A field that makes no sense stays as it is: the calendar refuses it.
 */
export function canonicalFields(cron: string): CronFields {
  const fields = cron.trim().split(/\s+/);
  if (fields.length !== 5) {
    throw new RangeError(
      `Cron "${cron}" has ${fields.length} fields; five are needed: minute hour day-of-month month day-of-week.`,
    );
  }
  const [minute, hour, dayOfMonth, month, dayOfWeek] = fields as unknown as CronFields;
  const months = month.split(",").map((item) => item.replace(/[a-z]+/gi, (name) => numberOf(MONTHS, 1, name)));
  return [minute, hour, dayOfMonth, months.join(","), dayOfWeek.split(",").map(canonicalWeekday).join(",")];
}

/** Whether two schedules are the same, however they are written: Sunday is 0 and 7, and no zone is UTC. */
export function sameSchedule(a: readonly ScheduleEntry[] = [], b: readonly ScheduleEntry[] = []): boolean {
  return a === b || (a.length === b.length && a.every((entry, i) => textOf(entry) === textOf(b[i] as ScheduleEntry)));
}

function textOf({ cron, tz = TZ_DEFAULT, scale, capacity, refillAmount, refillPeriodMs }: ScheduleEntry): string {
  return JSON.stringify([canonicalFields(cron), tz, scale, capacity, refillAmount, refillPeriodMs]);
}

const VERSION = "1";
const TAGS = ["m", "h", "D", "M", "w"] as const;
const MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

// Tags stand in one order, so that one schedule has one text. Five fields, then scale, capacity, amount, period.
const ENTRY =
  /^(?:m([\d*,/-]+))?(?:h([\d*,/-]+))?(?:D([\d*,/-]+))?(?:M([\d*,/-]+))?(?:w([\d*,/-]+))?(?:s(\d+))?(?:c(\d+))?(?:a(\d+))?(?:p(\d+))?$/;
const FIELD = /^(?:\*|\d+(?:-\d+)?)(?:\/\d+)?(?:,(?:\*|\d+(?:-\d+)?)(?:\/\d+)?)*$/;

function numberOf(names: readonly string[], first: number, name: string): string {
  const index = names.indexOf(name.toUpperCase());
  return index < 0 ? name : String(index + first);
}

function canonicalWeekday(item: string): string {
  const [range = "", ...steps] = item.split("/");
  const [start = "", ...ends] = range.split("-").map((value) => numberOf(WEEKDAYS, 0, value));
  if (ends.length === 0) {
    const isSundayAlone = steps.length === 0 && (/^0+$/.test(start) || /^0*7$/.test(start));
    return isSundayAlone ? "7" : [start, ...steps].join("/");
  }
  // FRI-SUN runs up to 7: as 5-0 no reader would take it.
  const [, endName = ""] = range.split("-");
  const endsOnSunday = endName.toUpperCase() === "SUN" && /^0*[1-6]$/.test(start);
  return [[start, ...(endsOnSunday ? ["7"] : ends)].join("-"), ...steps].join("/");
}

function encodedCron(cron: string): string {
  return canonicalFields(cron)
    .map((field, index) => (field === "*" ? "" : TAGS[index] + field))
    .join("");
}

function encodedModifiers(entry: ScheduleEntry): string {
  const { cron, scale, capacity, refillAmount, refillPeriodMs } = entry;
  const absolutes = [capacity, refillAmount, refillPeriodMs].filter((value) => value !== undefined).length;
  if ((scale === undefined) === (absolutes === 0)) {
    throw new RangeError(
      `Schedule entry "${cron}" has ${scale === undefined ? "nothing to change" : "a scale and absolute values"}; ` +
        "give either a scale or at least one of capacity, refillAmount, refillPeriodMs.",
    );
  }
  if (scale !== undefined) {
    const perMille = perMilleOf(scale);
    // Rounding here would store another limit than the one that was set.
    if (perMille / 1000 !== scale) {
      throw new RangeError(`Schedule entry "${cron}" has scale ${scale}; use at most three decimal places.`);
    }
    return `s${wholeNumber(cron, "scale in per mille", perMille)}`;
  }
  return [
    capacity === undefined ? "" : `c${wholeNumber(cron, "capacity", capacity)}`,
    refillAmount === undefined ? "" : `a${wholeNumber(cron, "refillAmount", refillAmount)}`,
    refillPeriodMs === undefined ? "" : `p${wholeNumber(cron, "refillPeriodMs in seconds", refillPeriodMs / 1000)}`,
  ].join("");
}

function wholeNumber(cron: string, what: string, value: number): number {
  if (!Number.isSafeInteger(value) || value < 1) {
    throw new RangeError(`Schedule entry "${cron}": ${what} is ${value}; give a whole number from 1.`);
  }
  return value;
}

function unreadable(text: string, why: string): { readonly kind: "unreadable"; readonly problem: string } {
  return { kind: "unreadable", problem: `Stored schedule "${text}" cannot be read: ${why}.` };
}

/** The entries behind the version, or what is wrong with the version. */
function partsOf(text: string): readonly string[] | string {
  const version = /^\d*/.exec(text)?.[0] ?? "";
  if (version === "") return `it does not begin with version ${VERSION}`;
  if (version !== VERSION)
    return `its version is ${version}, and only version ${VERSION} is known; update this package`;
  if (text === version) return "it has a version and nothing else";
  return text.slice(version.length).split(";");
}

function decodedEntry(part: string, tz: string): ScheduleEntry | string {
  const matched = ENTRY.exec(part);
  if (matched === null) return `entry "${part}" is not m h D M w fields followed by s, or by c a p`;
  const [, minute, hour, dayOfMonth, month, dayOfWeek, ...modifiers] = matched;
  const cron = decodedCron([minute, hour, dayOfMonth, month, dayOfWeek]);
  if (cron === undefined) return `entry "${part}" has a field that is not numbers, ranges and steps`;
  const numbers = modifiers.map((value) => (value === undefined ? undefined : Number(value)));
  if (numbers.some((value) => value !== undefined && (value < 1 || !Number.isSafeInteger(value * 1000)))) {
    return `entry "${part}" has a value that is 0 or too large`;
  }
  const [perMille, capacity, refillAmount, periodSeconds] = numbers;
  const hasAbsolutes = capacity !== undefined || refillAmount !== undefined || periodSeconds !== undefined;
  if (perMille === undefined && !hasAbsolutes) return `entry "${part}" changes nothing`;
  if (perMille !== undefined && hasAbsolutes) return `entry "${part}" has a scale and absolute values`;
  if (perMille !== undefined) return { cron, tz, scale: perMille / 1000 };
  return { cron, tz, ...given({ capacity, refillAmount, refillPeriodMs: periodSeconds && periodSeconds * 1000 }) };
}

function decodedCron(fields: readonly (string | undefined)[]): string | undefined {
  return fields.every((field) => field === undefined || FIELD.test(field))
    ? fields.map((field) => field ?? "*").join(" ")
    : undefined;
}
