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

/** Undefined where one of them is not valid. Names are numbers already. */
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
