import { canonicalFields } from "../../domain/limits/schedule-grammar.ts";

/** The values that the fields of a cron allow: days of the month and months counted from 0, Sunday is 0. */
export interface FieldSets {
  readonly minutes: readonly boolean[];
  readonly hours: readonly boolean[];
  readonly days: readonly boolean[];
  readonly months: readonly boolean[];
  readonly weekdays: readonly boolean[];
}

/** The five fields of a cron. */
export const FIELDS = [
  { name: "minute", least: 0, most: 59, count: 60, allowed: "0 to 59" },
  { name: "hour", least: 0, most: 23, count: 24, allowed: "0 to 23" },
  { name: "day of month", least: 1, most: 31, count: 31, allowed: "1 to 31" },
  { name: "month", least: 1, most: 12, count: 12, allowed: "1 to 12 or JAN to DEC" },
  { name: "day of week", least: 0, most: 7, count: 7, allowed: "0 to 7 (0 and 7 are Sunday) or SUN to SAT" },
] as const;

type Field = (typeof FIELDS)[number];

/** Undefined if a field is invalid. Names must have been replaced by numbers. */
export function fieldSets(fields: readonly string[]): FieldSets | undefined {
  const sets = FIELDS.map((field, i) => setOf(fields[i] ?? "", field));
  const [minutes, hours, days, months, weekdays] = sets;
  if (!minutes || !hours || !days || !months || !weekdays) return undefined;
  return { minutes, hours, days, months, weekdays };
}

function setOf(text: string, field: Field): readonly boolean[] | undefined {
  const set: boolean[] = new Array(field.count).fill(false);
  return text.split(",").every((part) => addPart(set, part, field)) ? set : undefined;
}

/** `*`, `5`, `5-10`, each with a step after it or not; `5/15` is `5-59/15`, as it is to the original. */
const PART = /^(?:\*|(\d+)(?:-(\d+))?)(?:\/(\d+))?$/;

function addPart(set: boolean[], part: string, { least, most, count }: Field): boolean {
  const found = PART.exec(part);
  if (found === null) return false;
  const [, from, to, step] = found;
  const every = step === undefined ? 1 : Number(step);
  if (every < 1 || every > count) return false;
  const first = from === undefined ? least : Number(from);
  const isOne = from !== undefined && to === undefined && step === undefined;
  const last = isOne ? first : to === undefined ? (from === undefined ? least + count - 1 : most) : Number(to);
  if (first > last) return false;
  for (let value = first; value <= last; value += every) {
    if (value < least || value > most) return false;
    set[(value - least) % count] = true;
  }
  return true;
}

/** A minute of the local calendar, counted from 1970-01-01 00:00: a label, whether or not the zone's clock ever shows it. */
type LocalMinute = number;

/**
 * A cron as sets of local minutes, searched by jumping from day to day and, within a day, through tables. Knows no zones.
 * A rise is a matching minute whose preceding minute does not match.
 */
export interface Pattern {
  /** The pattern matches no minute at all, such as 30 February. */
  readonly never: boolean;
  /** The pattern matches every minute. */
  readonly always: boolean;
  matches(minute: LocalMinute): boolean;
  /** The first minute from `minute` on that does (or does not) match; `Infinity` when there is none. */
  firstFrom(minute: LocalMinute, matching: boolean): LocalMinute;
  /** The first rise from `minute` on; `Infinity` when there is none. */
  riseFrom(minute: LocalMinute): LocalMinute;
  /** The last rise up to and including `minute`; `-Infinity` when there is none. */
  riseUpTo(minute: LocalMinute): LocalMinute;
}

/** The pattern of a cron, or a sentence saying why it is none. */
export function parsePattern(cron: string): Pattern | string {
  const count = cron.trim() === "" ? 0 : cron.trim().split(/\s+/).length;
  if (count !== FIELDS.length) {
    return (
      `Cron "${cron}" has ${count} ${count === 1 ? "field" : "fields"}; five are needed: minute, hour, day of month, month, ` +
      'day of week. There are no seconds, years or nicknames; once a day at midnight is "0 0 * * *".'
    );
  }
  const fields = canonicalFields(cron);
  const sets = fieldSets(fields);
  if (sets === undefined) return fieldProblem(cron, fields);
  return createPattern(sets, fields[2].startsWith("*") || fields[4].startsWith("*"));
}

const DAY_MINUTES = 1440;
const DAY_MS = 86_400_000;

// Asks again one field at a time, to say which one it is.
function fieldProblem(cron: string, fields: readonly string[]): string {
  const index = fields.findIndex(
    (field, at) => fieldSets(FIELDS.map((_, other) => (other === at ? field : "*"))) === undefined,
  );
  const { name, allowed } = FIELDS[index] ?? FIELDS[0];
  return (
    `Cron "${cron}": ${name} "${cron.trim().split(/\s+/)[index]}" is not valid; ${allowed}, as a value, a list (a,b), ` +
    "a range (a-b), * or a step (*/n, a-b/n). L, W, # and ? are not supported."
  );
}

function createPattern(sets: FieldSets, bothDaysNeeded: boolean): Pattern {
  const times = timesOf(sets);
  const days = daysOf(sets, bothDaysNeeded);
  const everyTime = times.first(0, false) === DAY_MINUTES;
  const always = everyTime && days.every;

  const matches = (minute: LocalMinute): boolean => {
    const day = Math.floor(minute / DAY_MINUTES);
    return times.matches(minute - day * DAY_MINUTES) && days.matches(day);
  };

  const firstFrom = (minute: LocalMinute, matching: boolean): LocalMinute => {
    if (matching ? days.none : always) return Number.POSITIVE_INFINITY;
    const today = Math.floor(minute / DAY_MINUTES);
    if (!matching && !days.matches(today)) return minute;
    if (days.matches(today)) {
      const time = times.first(minute - today * DAY_MINUTES, matching);
      if (time < DAY_MINUTES) return today * DAY_MINUTES + time;
    }
    if (matching) return days.first(today + 1, true) * DAY_MINUTES + times.first(0, true);
    // Unless the pattern has whole days, the next day has such a minute, whether or not it is one of its days.
    if (everyTime) return days.first(today + 1, false) * DAY_MINUTES;
    return (today + 1) * DAY_MINUTES + (days.matches(today + 1) ? times.first(0, false) : 0);
  };

  const risesAtMidnight = (day: number): boolean =>
    times.matches(0) && !(times.matches(DAY_MINUTES - 1) && days.matches(day - 1));

  // In a pattern of whole days only the first day of each run rises; any other pattern rises at least once on each of
  // its days.
  const riseFrom = (minute: LocalMinute): LocalMinute => {
    if (days.none || always) return Number.POSITIVE_INFINITY;
    let day = Math.floor(minute / DAY_MINUTES);
    const time = minute - day * DAY_MINUTES;
    if (everyTime) {
      if (time > 0) day += 1;
      if (days.matches(day - 1)) day = days.first(day, false);
      return days.first(day, true) * DAY_MINUTES;
    }
    if (days.matches(day)) {
      if (time === 0 && risesAtMidnight(day)) return minute;
      const rise = times.riseFrom(time);
      if (rise < DAY_MINUTES) return day * DAY_MINUTES + rise;
    }
    day = days.first(day + 1, true);
    return day * DAY_MINUTES + (risesAtMidnight(day) ? 0 : times.riseFrom(0));
  };

  const riseUpTo = (minute: LocalMinute): LocalMinute => {
    if (days.none || always) return Number.NEGATIVE_INFINITY;
    let day = Math.floor(minute / DAY_MINUTES);
    if (everyTime) return (days.last(days.last(day, true), false) + 1) * DAY_MINUTES;
    if (days.matches(day)) {
      const rise = times.riseUpTo(minute - day * DAY_MINUTES);
      if (rise > 0) return day * DAY_MINUTES + rise;
      if (risesAtMidnight(day)) return day * DAY_MINUTES;
    }
    // A day without a later rise begins with its only run: then the 0 that stands for "none" is the rise.
    day = days.last(day - 1, true);
    return day * DAY_MINUTES + times.riseUpTo(DAY_MINUTES - 1);
  };

  return { never: days.none, always, matches, firstFrom, riseFrom, riseUpTo };
}

// The times of day, as tables over its 1440 minutes. Midnight's rise depends on the day before, so it is not in them.
function timesOf({ minutes, hours }: FieldSets) {
  const matching = new Uint8Array(DAY_MINUTES);
  for (let time = 0; time < DAY_MINUTES; time += 1) {
    if (hours[Math.floor(time / 60)] && minutes[time % 60]) matching[time] = 1;
  }
  const nextMatching = new Int16Array(DAY_MINUTES + 1).fill(DAY_MINUTES);
  const nextOther = new Int16Array(DAY_MINUTES + 1).fill(DAY_MINUTES);
  const nextRise = new Int16Array(DAY_MINUTES + 1).fill(DAY_MINUTES);
  const lastRise = new Int16Array(DAY_MINUTES);
  const rises = (time: number): boolean => time > 0 && matching[time] === 1 && matching[time - 1] === 0;
  for (let time = DAY_MINUTES - 1; time >= 0; time -= 1) {
    nextMatching[time] = matching[time] === 1 ? time : (nextMatching[time + 1] ?? 0);
    nextOther[time] = matching[time] === 0 ? time : (nextOther[time + 1] ?? 0);
    nextRise[time] = rises(time) ? time : (nextRise[time + 1] ?? 0);
  }
  for (let time = 1; time < DAY_MINUTES; time += 1) lastRise[time] = rises(time) ? time : (lastRise[time - 1] ?? 0);
  return {
    matches: (time: number): boolean => matching[time] === 1,
    /** The first time from `time` on that does (or does not) match; 1440 when the day has none left. */
    first: (time: number, wanted: boolean): number => (wanted ? nextMatching : nextOther)[time] ?? DAY_MINUTES,
    /** The first rise from `time` on, midnight's left out; 1440 when the day has none left. */
    riseFrom: (time: number): number => nextRise[time] ?? DAY_MINUTES,
    /** The last rise up to `time`, midnight's left out; 0 when the day has none so far. */
    riseUpTo: (time: number): number => lastRise[time] ?? 0,
  };
}

// The days, counted from 1970-01-01, as one bit mask a month: month lengths and weekdays are all that months differ in.
function daysOf({ days, months, weekdays }: FieldSets, bothNeeded: boolean) {
  const daysMask = days.reduce((mask, set, index) => (set ? mask | (1 << index) : mask), 0);
  const weekdayMasks = Array.from({ length: 7 }, (_, firstWeekday) =>
    Array.from({ length: 31 }, (_, index) => (weekdays[(firstWeekday + index) % 7] ? 1 << index : 0)).reduce(
      (mask, bit) => mask | bit,
      0,
    ),
  );
  const inMonth = (page: MonthPage): number => {
    if (!months[page.month]) return 0;
    const weekdayMask = weekdayMasks[page.firstWeekday] ?? 0;
    return (bothNeeded ? daysMask & weekdayMask : daysMask | weekdayMask) & page.mask;
  };
  const allDays = daysMask === maskOf(31);
  const allWeekdays = weekdays.every(Boolean);
  return {
    // Each day of the year falls on each weekday sooner or later, 29 February too: only the date can be impossible.
    none: bothNeeded && months.every((set, month) => !set || (daysMask & maskOf(LONGEST[month] ?? 0)) === 0),
    every: months.every(Boolean) && (bothNeeded ? allDays && allWeekdays : allDays || allWeekdays),
    matches(day: number): boolean {
      const page = pageOf(day);
      return ((inMonth(page) >>> (day - page.firstDay)) & 1) === 1;
    },
    /** The first day from `day` on that does (or does not) match. Must exist. */
    first(day: number, wanted: boolean): number {
      let page = pageOf(day);
      let left = ~maskOf(day - page.firstDay);
      for (;;) {
        const found = (wanted ? inMonth(page) : ~inMonth(page) & page.mask) & left;
        if (found !== 0) return page.firstDay + 31 - Math.clz32(found & -found);
        page = pageOf(page.firstDay + page.length);
        left = -1;
      }
    },
    /** The last day up to and including `day` that does (or does not) match. Must exist. */
    last(day: number, wanted: boolean): number {
      let page = pageOf(day);
      let left = maskOf(day - page.firstDay + 1);
      for (;;) {
        const found = (wanted ? inMonth(page) : ~inMonth(page) & page.mask) & left;
        if (found !== 0) return page.firstDay + 31 - Math.clz32(found);
        page = pageOf(page.firstDay - 1);
        left = -1;
      }
    },
  };
}

const LONGEST = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/** A month of the calendar. `month` counts from 0, `firstDay` is its first day, `mask` has a bit for each of its days. */
interface MonthPage {
  readonly month: number;
  readonly firstDay: number;
  readonly firstWeekday: number;
  readonly length: number;
  readonly mask: number;
}

function pageOf(day: number): MonthPage {
  const index = day - lastPage.firstDay;
  if (index >= 0 && index < lastPage.length) return lastPage;
  lastPage = newPage(day);
  return lastPage;
}

function newPage(day: number): MonthPage {
  const date = new Date(day * DAY_MS);
  const month = date.getUTCMonth();
  const firstDay = day - date.getUTCDate() + 1;
  const length = month === 1 && !isLeapYear(date.getUTCFullYear()) ? 28 : (LONGEST[month] ?? 0);
  // 1970-01-01 was a Thursday.
  return { month, firstDay, firstWeekday: (((firstDay + 4) % 7) + 7) % 7, length, mask: maskOf(length) };
}

// Searches ask for day after day.
let lastPage: MonthPage = newPage(0);

function isLeapYear(year: number): boolean {
  return (year % 4 === 0 && year % 100 !== 0) || year % 400 === 0;
}

function maskOf(length: number): number {
  return length >= 31 ? 0x7fffffff : (1 << length) - 1;
}
