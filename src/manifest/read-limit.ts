import type { CronCheck, CronUse } from "../domain/calendar.ts";
import { ValidationError } from "../domain/errors.ts";
import { HOLD_LEAST_MS, HOLD_MAX_MS } from "../domain/kinds/concurrent.ts";
import { type Limit, limitMakers, PERIOD_MAX_MS, TOKENS_MAX } from "../domain/limit.ts";
import { limitOfSpec } from "../domain/limit-text.ts";
import { checkLimitName, checkMeasure } from "../domain/names.ts";
import { cronOfReset, cronProblem } from "../domain/reset-names.ts";
import { type Reset, type ScheduleEntry, TZ_DEFAULT } from "../domain/schedule.ts";
import type { DocumentEntry, Member, Reading } from "./reading.ts";

export const LIMIT_KEYS = [
  ...["capacity", "refill_amount", "refill_period", "burst", "counts", "soft", "shadow"],
  ...["schedule", "reset_schedule", "reset_after_seconds", "hold_seconds", "notify_at"],
];

export const WINDOW_KEYS = ["cron", "tz", "scale", "capacity", "refill_amount", "refill_period_seconds"];

const PERIOD_MAX_S = PERIOD_MAX_MS / 1000;
const TOKENS = { least: 1, most: TOKENS_MAX };
const SECONDS = { least: 1, most: PERIOD_MAX_S };
const HOLD_SECONDS = { least: HOLD_LEAST_MS / 1000, most: HOLD_MAX_MS / 1000 };

/** One limit of a level: a text, a whole number, or a map. Undefined where something is wrong with it, which is then told. */
export function readLimit(reading: Reading, member: Member, calendar: CronCheck): Limit | undefined {
  try {
    checkLimitName(member.key);
  } catch (error) {
    reading.fail("name_invalid", member.keyAt, member.path, sentence(error));
    return undefined;
  }
  if (reading.isMap(member)) return readTerms(reading, member, calendar);
  const value = reading.scalar(member);
  if (typeof value === "number" && Number.isSafeInteger(value) && value > 0) {
    return made(reading, member, () => limitOfSpec(member.key, String(value), calendar));
  }
  if (typeof value === "string" && !/^\s*\d+\s*$/.test(value)) {
    return made(reading, member, () => limitOfSpec(member.key, value, calendar));
  }
  return reading.invalid(
    member,
    `give a whole number, a string such as 1000/min, or a map with capacity, not ${reading.shown(member)}`,
  );
}

function readTerms(reading: Reading, member: Member, calendar: CronCheck): Limit | undefined {
  const before = reading.problems.length;
  const found = new Map(reading.members(member, LIMIT_KEYS, {}).map((each) => [each.key, each]));
  const whole = (key: string, what: string, range: { readonly least: number; readonly most: number }) => {
    const place = found.get(key);
    return place === undefined ? undefined : reading.whole(place, what, range);
  };
  const capacity = whole("capacity", "whole tokens", TOKENS);
  if (!found.has("capacity")) {
    reading.fail("key_missing", member.keyAt, member.path, `the limit "${member.key}" has no capacity`);
  }
  const refillAmount = whole("refill_amount", "whole tokens", { ...TOKENS, least: 0 });
  const refillPeriod = whole("refill_period", "whole seconds", SECONDS);
  const burst = whole("burst", "whole tokens", TOKENS);
  const resetAfter = whole("reset_after_seconds", "whole seconds", SECONDS);
  const hold = whole("hold_seconds", "whole seconds", HOLD_SECONDS);
  const soft = found.has("soft") ? reading.flag(found.get("soft") as DocumentEntry) : undefined;
  const shadow = found.has("shadow") ? reading.flag(found.get("shadow") as DocumentEntry) : undefined;
  const counts = readMeasure(reading, found.get("counts"));
  const schedule = readSchedule(reading, found.get("schedule"), calendar);
  const reset = readReset(reading, found.get("reset_schedule"), calendar);
  const notifyAt = readPercents(reading, found.get("notify_at"));
  const isQuota = found.has("reset_schedule") || found.has("reset_after_seconds");
  const contradiction = contradictionIn(found, { isQuota, refillAmount });
  if (contradiction !== undefined) reading.fail("limit_invalid", member.valueAt, member.path, contradiction);
  if (reading.problems.length > before || capacity === undefined) return undefined;
  const kind = {
    ...(counts === undefined ? {} : { counts }),
    ...(soft === true ? { soft } : {}),
    ...(shadow === true ? { shadow } : {}),
    ...(schedule === undefined ? {} : { schedule }),
    ...(notifyAt === undefined ? {} : { notifyAt }),
  };
  const make = limitMakers(calendar);
  return made(reading, member, () => {
    if (reset !== undefined) return make.quota(member.key, capacity, { reset, ...kind });
    if (hold !== undefined) return make.concurrent(member.key, capacity, { holdMs: hold * 1000, ...kind });
    if (resetAfter !== undefined) return make.quota(member.key, capacity, { resetAfterMs: resetAfter * 1000, ...kind });
    // With a burst, the capacity is the rate.
    const rate = refillAmount ?? capacity;
    const terms = { capacity: burst ?? capacity, refillAmount: rate, refillPeriodMs: (refillPeriod ?? 60) * 1000 };
    return make.custom(member.key, { ...terms, ...kind });
  });
}

/** Whole percentages; that they rise is checked where the limit is made. */
function readPercents(reading: Reading, place: DocumentEntry | undefined): readonly number[] | undefined {
  if (place === undefined) return undefined;
  const items = reading.items(place, "percentages such as [80, 95]");
  return items.flatMap((item) => reading.whole(item, "a percentage", { least: 1, most: 100 }) ?? []);
}

function readMeasure(reading: Reading, place: DocumentEntry | undefined): string | undefined {
  const measure = place === undefined ? undefined : reading.text(place);
  if (place === undefined || measure === undefined) return undefined;
  try {
    return checkMeasure(measure);
  } catch (error) {
    reading.fail("name_invalid", place.valueAt, place.path, sentence(error));
    return undefined;
  }
}

const NOT_WITH_HOLD = ["refill_amount", "refill_period", "burst", "reset_schedule", "reset_after_seconds"];

function contradictionIn(
  found: ReadonlyMap<string, DocumentEntry>,
  { isQuota, refillAmount }: { readonly isQuota: boolean; readonly refillAmount: number | undefined },
): string | undefined {
  if (found.has("reset_schedule") && found.has("reset_after_seconds")) {
    return "it has reset_schedule and reset_after_seconds; a quota has one of them, not both";
  }
  if (found.has("hold_seconds")) {
    const other = NOT_WITH_HOLD.find((key) => found.has(key));
    return other && `it has hold_seconds and ${other}; a limit of so many at once has a capacity and a hold alone`;
  }
  if (isQuota && refillAmount !== undefined && refillAmount !== 0) {
    return `it has a reset and refill_amount ${refillAmount}; a limit refills or resets, not both`;
  }
  if (isQuota && found.has("burst")) return "a quota has no burst; its capacity is all that it holds";
  if (!isQuota && refillAmount === 0) {
    return "refill_amount is 0 and nothing resets it; give reset_schedule or reset_after_seconds, or an amount";
  }
  return undefined;
}

function readSchedule(
  reading: Reading,
  place: DocumentEntry | undefined,
  calendar: CronCheck,
): readonly ScheduleEntry[] | undefined {
  if (place === undefined) return undefined;
  return reading.items(place, "windows").flatMap((item) => readWindow(reading, item, calendar) ?? []);
}

function readWindow(reading: Reading, item: DocumentEntry, calendar: CronCheck): ScheduleEntry | undefined {
  const found = new Map(reading.members(item, WINDOW_KEYS, {}).map((each) => [each.key, each]));
  const when = readCron(reading, { item, found }, "window", calendar);
  const tokens = (key: string) => {
    const place = found.get(key);
    return place === undefined ? undefined : reading.whole(place, "whole tokens", TOKENS);
  };
  const capacity = tokens("capacity");
  const refillAmount = tokens("refill_amount");
  const period = found.get("refill_period_seconds");
  const seconds = period === undefined ? undefined : reading.whole(period, "whole seconds", SECONDS);
  const scale = readScale(reading, found.get("scale"));
  if (when === undefined) return undefined;
  return {
    ...when,
    ...(scale === undefined ? {} : { scale }),
    ...(capacity === undefined ? {} : { capacity }),
    ...(refillAmount === undefined ? {} : { refillAmount }),
    ...(seconds === undefined ? {} : { refillPeriodMs: seconds * 1000 }),
  };
}

function readScale(reading: Reading, place: DocumentEntry | undefined): number | undefined {
  if (place === undefined) return undefined;
  const value = reading.scalar(place);
  if (typeof value === "number" && value > 0) return value;
  return reading.invalid(place, `give a number above 0, not ${reading.shown(place)}`);
}

function readReset(reading: Reading, place: DocumentEntry | undefined, calendar: CronCheck): Reset | undefined {
  if (place === undefined) return undefined;
  const items = reading.items(place, "one { cron, tz }");
  if (items.length > 1) return reading.invalid(place, `give exactly one { cron, tz }, not ${items.length}`);
  const [item] = items;
  if (item === undefined) return undefined;
  const found = new Map(reading.members(item, ["cron", "tz"], {}).map((each) => [each.key, each]));
  return readCron(reading, { item, found }, "reset", calendar);
}

function readCron(
  reading: Reading,
  { item, found }: { readonly item: DocumentEntry; readonly found: ReadonlyMap<string, DocumentEntry> },
  use: CronUse,
  calendar: CronCheck,
): { readonly cron: string; readonly tz: string } | undefined {
  const cronEntry = found.get("cron");
  const tzEntry = found.get("tz");
  const tz = tzEntry === undefined ? TZ_DEFAULT : reading.text(tzEntry);
  if (cronEntry === undefined) {
    if (reading.isMap(item)) reading.fail("key_missing", item.keyAt, item.path, `the ${use} has no cron`);
    return undefined;
  }
  const text = reading.text(cronEntry);
  if (text === undefined || tz === undefined) return undefined;
  const cron = use === "reset" ? cronOfReset(text) : text;
  const zoneProblem = calendar.problemOf("* * * * *", tz, "window");
  if (zoneProblem !== undefined && tzEntry !== undefined) {
    reading.fail("cron_invalid", tzEntry.valueAt, tzEntry.path, zoneProblem);
  }
  const problem = cronProblem({ cron, tz: TZ_DEFAULT }, use, calendar);
  if (problem !== undefined) reading.fail("cron_invalid", cronEntry.valueAt, cronEntry.path, problem);
  return problem === undefined && zoneProblem === undefined ? { cron, tz } : undefined;
}

function made(reading: Reading, { valueAt, path }: DocumentEntry, make: () => Limit): Limit | undefined {
  try {
    return make();
  } catch (error) {
    if (!(error instanceof ValidationError)) throw error;
    const code = error.code === "cron_invalid" ? "cron_invalid" : "limit_invalid";
    reading.fail(code, valueAt, path, sentence(error));
    return undefined;
  }
}

export function sentence(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
