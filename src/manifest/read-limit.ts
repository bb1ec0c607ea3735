import { ownFieldsOf } from "../domain/limits/kinds/table.ts";
import { checkLimit, type Limit } from "../domain/limits/limit.ts";
import type { FieldJson, JsonSchema } from "../domain/limits/limit-field.ts";
import { FIELDS_JSON, WINDOW_JSON } from "../domain/limits/limit-json.ts";
import { limitOfSpec } from "../domain/limits/limit-text.ts";
import { cronOfReset, cronProblem } from "../domain/limits/reset-names.ts";
import { type CronUse, type Reset, type ScheduleEntry, TZ_DEFAULT } from "../domain/limits/schedule.ts";
import { strictTerms } from "../domain/limits/strict-window.ts";
import { ValidationError } from "../domain/names/errors.ts";
import { given } from "../domain/names/given.ts";
import { checkLimitName, checkMeasure } from "../domain/names/names.ts";
import { type DocumentEntry, type Member, type Members, type Reading, sentence } from "./reading.ts";

type Field = keyof typeof FIELDS_JSON;

const FIELDS = Object.entries(FIELDS_JSON) as readonly (readonly [Field, Pick<FieldJson, "manifest">])[];

export const LIMIT_KEYS: readonly string[] = FIELDS.map(([, { manifest }]) => manifest.key);
export const WINDOW_KEYS: readonly string[] = Object.keys(WINDOW_JSON);

/** One limit of a level: a text, a whole number, or a map. Undefined: it has problems, which are noted. */
export function readLimit(reading: Reading, member: Member): Limit | undefined {
  if (!reading.isNamed(member, checkLimitName)) return undefined;
  if (reading.isMap(member)) return readTerms(reading, member);
  const value = reading.scalar(member);
  if (typeof value === "number" && Number.isSafeInteger(value) && value > 0) {
    return made(reading, member, () => limitOfSpec(member.key, String(value), reading.calendar));
  }
  if (typeof value === "string" && !/^\s*\d+\s*$/.test(value)) {
    return made(reading, member, () => limitOfSpec(member.key, value, reading.calendar));
  }
  return reading.invalid(
    member,
    `give a whole number, a string such as 1000/min, or a map with capacity, not ${reading.shown(member)}`,
  );
}

function readTerms(reading: Reading, member: Member): Limit | undefined {
  const before = reading.problems.length;
  const found = reading.known(member, LIMIT_KEYS);
  if (!found.has("capacity")) {
    reading.fail("key_missing", member.keyAt, member.path, `the limit "${member.key}" has no capacity`);
  }
  const values: Terms = {};
  for (const [field, { manifest }] of FIELDS) {
    const place = found.get(manifest.key);
    if (place !== undefined) Object.assign(values, { [field]: readField(reading, place, field) });
  }
  const { capacity, refillAmount, refillPeriodMs = 60_000, burst, strictWindow, ...fields } = values;
  const resets = ownFieldsOf(fields).length > 0;
  const contradiction = contradictionIn(found, refillAmount);
  if (contradiction !== undefined) reading.fail("limit_invalid", member.valueAt, member.path, contradiction);
  if (reading.problems.length > before || capacity === undefined) return undefined;
  const name = member.key;
  return made(reading, member, () => {
    // With a burst, the capacity is the rate.
    const rate = strictWindow
      ? strictTerms(name, capacity, { ...fields, ...given({ burst }) })
      : { capacity: burst ?? capacity, refillAmount: refillAmount ?? capacity };
    const terms = resets ? { capacity, refillAmount: 0, refillPeriodMs: 1_000 } : { ...rate, refillPeriodMs };
    return checkLimit({ name, ...terms, ...fields }, reading.calendar);
  });
}

/** The terms of a limit in a map. Only manifests have `burst` and `strict_window`, and a default for every number. */
type Terms = Partial<Omit<Limit, "name">> & { readonly burst?: number; readonly strictWindow?: boolean };

function readField(reading: Reading, place: DocumentEntry, field: Field): unknown {
  if (field === "counts") return readMeasure(reading, place);
  if (field === "schedule") return readSchedule(reading, place);
  if (field === "reset") return readReset(reading, place);
  if (field === "notifyAt") return readPercents(reading, place);
  const { schema, unit } = FIELDS_JSON[field].manifest;
  return schema.type === "boolean" ? reading.flag(place) : readWhole(reading, place, { schema, unit });
}

/** A whole number in the bounds of its schema; seconds as ms. */
function readWhole(
  reading: Reading,
  place: DocumentEntry,
  { schema, unit = "tokens" }: { readonly schema: JsonSchema; readonly unit: "tokens" | "seconds" | undefined },
): number | undefined {
  const { minimum: least = 0, maximum: most = 0 } = schema;
  const value = reading.whole(place, `whole ${unit}`, { least, most });
  return value === undefined || unit === "tokens" ? value : value * 1000;
}

/** Whole percentages; that they rise is checked where the limit is made. */
function readPercents(reading: Reading, place: DocumentEntry): readonly number[] {
  const items = reading.items(place, "percentages such as [80, 95]");
  return items.flatMap((item) => reading.whole(item, "a percentage", { least: 1, most: 100 }) ?? []);
}

function readMeasure(reading: Reading, place: DocumentEntry): string | undefined {
  const measure = reading.text(place);
  if (measure === undefined) return undefined;
  try {
    return checkMeasure(measure);
  } catch (error) {
    reading.fail("name_invalid", place.valueAt, place.path, sentence(error));
    return undefined;
  }
}

const NOT_WITH_HOLD = [
  ...["refill_amount", "refill_period", "burst", "strict_window"],
  ...["reset_schedule", "reset_after_seconds"],
];

function contradictionIn(found: Members, refillAmount: number | undefined): string | undefined {
  const isQuota = found.has("reset_schedule") || found.has("reset_after_seconds");
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
  if (isQuota && found.has("strict_window")) {
    return "a quota has no strict_window; only what drips in has one";
  }
  if (found.has("strict_window") && refillAmount !== undefined) {
    return "it has strict_window and refill_amount; capacity is the most in any stretch of one period, and burst the part of it that is there at once";
  }
  if (isQuota && found.has("burst")) return "a quota has no burst; its capacity is all that it holds";
  if (!isQuota && refillAmount === 0) {
    return "refill_amount is 0 and nothing resets it; give reset_schedule or reset_after_seconds, or an amount";
  }
  return undefined;
}

function readSchedule(reading: Reading, place: DocumentEntry): readonly ScheduleEntry[] {
  return reading.items(place, "windows").flatMap((item) => readWindow(reading, item) ?? []);
}

function readWindow(reading: Reading, item: DocumentEntry): ScheduleEntry | undefined {
  const found = reading.known(item, WINDOW_KEYS);
  const when = readCron(reading, { item, found }, "window");
  const whole = (key: string, unit: "tokens" | "seconds") => {
    const place = found.get(key);
    return place && readWhole(reading, place, { schema: WINDOW_JSON[key] ?? {}, unit });
  };
  const capacity = whole("capacity", "tokens");
  const refillAmount = whole("refill_amount", "tokens");
  const refillPeriodMs = whole("refill_period_seconds", "seconds");
  const scale = readScale(reading, found.get("scale"));
  return when && { ...when, ...given({ scale, capacity, refillAmount, refillPeriodMs }) };
}

function readScale(reading: Reading, place: DocumentEntry | undefined): number | undefined {
  if (place === undefined) return undefined;
  const value = reading.scalar(place);
  if (typeof value === "number" && value > 0) return value;
  return reading.invalid(place, `give a number above 0, not ${reading.shown(place)}`);
}

function readReset(reading: Reading, place: DocumentEntry): Reset | undefined {
  const items = reading.items(place, "one { cron, tz }");
  if (items.length > 1) return reading.invalid(place, `give exactly one { cron, tz }, not ${items.length}`);
  const [item] = items;
  if (item === undefined) return undefined;
  const found = reading.known(item, ["cron", "tz"]);
  return readCron(reading, { item, found }, "reset");
}

function readCron(
  reading: Reading,
  { item, found }: { readonly item: DocumentEntry; readonly found: Members },
  use: CronUse,
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
  const zoneProblem = reading.calendar.problemOf("* * * * *", tz, "window");
  if (zoneProblem !== undefined && tzEntry !== undefined) {
    reading.fail("cron_invalid", tzEntry.valueAt, tzEntry.path, zoneProblem);
  }
  const problem = cronProblem({ cron, tz: TZ_DEFAULT }, use, reading.calendar);
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
