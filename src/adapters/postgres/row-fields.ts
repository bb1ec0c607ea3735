import type { SeenRow, StraightLevel, StraightRow, VersionedRow } from "../../ports/batch-store.ts";

/** The fields of a row: in the limiter, in the JSON that the functions read and answer, and as a column of the table. */
const ROW_FIELDS: readonly (readonly [field: Exclude<keyof VersionedRow, "levels">, json: string, column: string])[] = [
  ["version", "version", "version"],
  ["signature", "signature", "signature"],
  ["limitsText", "limits", "limits"],
  ["epochMs", "epoch", "epoch_ms"],
  ["renewAtMs", "renew", "renew_at_ms"],
  ["validUntilMs", "valid", "valid_until_ms"],
  ["writtenMs", "written", "written_ms"],
  ["asOfMs", "asOf", "as_of_ms"],
  ["generation", "generation", "generation"],
  ["metNumber", "met", "met_ms"],
  ["hourMs", "hour", "hour_ms"],
  ["requests", "requests", "requests"],
  ["marks", "marks", "marks"],
];

/** The fields of a level; in JSON and in the table there is an array for each. The functions answer those that a take changes, as `seen`. */
const LEVEL_FIELDS: readonly (readonly [
  field: Exclude<keyof StraightLevel, "name">,
  json: string,
  column: string,
  seen?: keyof SeenRow,
])[] = [
  ["capacityMilli", "capacity", "capacity"],
  ["refillAmountMilli", "amount", "amount"],
  ["refillPeriodMs", "period", "period"],
  ["soft", "soft", "soft"],
  ["windowMs", "resetAfter", "reset_after"],
  ["tokensMilli", "tokens", "tokens", "tokensMilli"],
  ["remainder", "remainder", "remainder", "remainders"],
  ["countedMilli", "counted", "counted", "countedMilli"],
  ["windowStartMs", "window", "window_start", "windows"],
  ["topUpMilli", "topUp", "top_up", "topUpsMilli"],
  ["resets", "resets", "resets", "resets"],
];

export type RowJson = Readonly<Record<string, unknown>>;

/** A row as the functions read it. */
export function rowJson(row: StraightRow): RowJson {
  const json: Record<string, unknown> = { names: row.levels.map(({ name }) => name) };
  for (const [field, name] of ROW_FIELDS) json[name] = (row as Partial<VersionedRow>)[field];
  for (const [field, name] of LEVEL_FIELDS) json[name] = numbers(row.levels.map((level) => level[field]));
  return json;
}

/** A row that there is not yet, with the columns of the table but for its key. */
export function newRowJson(row: StraightRow): RowJson {
  const json: Record<string, unknown> = { names: row.levels.map(({ name }) => name) };
  for (const [field, , column] of ROW_FIELDS) json[column] = (row as Partial<VersionedRow>)[field];
  for (const [field, , column] of LEVEL_FIELDS) json[column] = row.levels.map((level) => level[field]);
  return { ...json, version: 0 };
}

/** Whether two rows that there are not yet differ in nothing but their keys. */
export function isSameRow(one: StraightRow, other: StraightRow): boolean {
  // First what differs most often between rows of the same limits.
  return (
    one.epochMs === other.epochMs &&
    one.levels.length === other.levels.length &&
    ROW_FIELDS.every(([field]) => (one as VersionedRow)[field] === (other as VersionedRow)[field]) &&
    one.levels.every((level, i) => isSameLevel(level, other.levels[i] as StraightLevel))
  );
}

function isSameLevel(one: StraightLevel, other: StraightLevel): boolean {
  return one.name === other.name && LEVEL_FIELDS.every(([field]) => one[field] === other[field]);
}

/** A row as the functions answer it. */
export function seenRow(json: RowJson): SeenRow {
  const row: Record<string, unknown> = {};
  for (const [field, name] of ROW_FIELDS) row[field] = json[name];
  for (const [, name, , seen] of LEVEL_FIELDS) if (seen !== undefined) row[seen] = json[name];
  return row as unknown as SeenRow;
}

/** A row of `@.bucket b` as one JSON value: numbers of the driver are texts, and arrays differ between drivers. Null: there is none. */
export const BUCKET_JSON = `CASE WHEN b.version IS NULL THEN NULL ELSE to_jsonb(b) - 'namespace' END`;

/** A row of `BUCKET_JSON`. */
export function rowOfJson(found: RowJson): VersionedRow {
  const row: Record<string, unknown> = {};
  for (const [field, , column] of ROW_FIELDS) row[field] = found[column];
  const levels = (found.names as readonly string[]).map((name, i) => {
    const level: Record<string, unknown> = { name };
    for (const [field, , column] of LEVEL_FIELDS) level[field] = (found[column] as readonly unknown[])[i];
    return level;
  });
  return { ...row, levels } as unknown as VersionedRow;
}

type Cell = number | boolean | null;

/** An array as PostgreSQL writes it: drivers differ in how they do. */
export function numbers(values: readonly Cell[]): string {
  return `{${values.map((value) => (value === null ? "NULL" : String(value))).join(",")}}`;
}
