import { type Damage, ItemUnreadable } from "../domain/bucket/item-unreadable.ts";
import { type Operated, operatedOfText } from "../domain/lease/idempotency.ts";
import type { Limit } from "../domain/limits/limit.ts";
import { MILLI_MAX, PERIOD_MAX_MS } from "../domain/limits/limit-numbers.ts";
import { FIELDS_STORED } from "../domain/limits/limit-stored.ts";
import type { CronCheck } from "../domain/limits/schedule.ts";
import { VersionError } from "../domain/names/errors.ts";
import { shown } from "../domain/names/names.ts";
import type { Operation } from "../ports/bucket-store.ts";

/** What an operation did, from the text that is remembered under its key. */
export function operatedIn(text: unknown, { bucket, idempotencyKey }: Operation): Operated {
  const operated = operatedOfText(text);
  if (operated !== undefined) return operated;
  const damage = { attribute: "amounts", value: text, wants: "a list of limits and millitokens" };
  throw new ItemUnreadable({ bucket, shard: 0, operation: idempotencyKey }, damage);
}

/** The JSON of a column; undefined if it has none. */
export function jsonIn(text: unknown): unknown {
  if (typeof text !== "string") return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The JSON of a column that has nothing else; throws where it does. `of`: whose row it is, for the message. */
export function readableJson<Value>(text: unknown, { table, column, of }: RowColumn): Value {
  const found = jsonIn(text);
  if (found !== undefined && found !== null) return found as Value;
  throw rowUnreadable(text, { table, column, of });
}

export function rowUnreadable(value: unknown, { table, column, of }: RowColumn): VersionError {
  const code = table === "config" ? "config_unreadable" : "item_unreadable";
  const remedy = table === "config" ? "Set the limits again." : "Correct or delete the row.";
  const is = shown(value).slice(0, SHOWN_MAX);
  return new VersionError(
    code,
    `"${column}" in the table ${table}${of === "" ? "" : `, of ${of},`} is ${is}: it is damaged, or another program wrote it. ${remedy}`,
  );
}

interface RowColumn {
  readonly table: string;
  readonly column: string;
  readonly of: string;
}

const SHOWN_MAX = 100;

/** Tells whether a value is a limit as it is stored: its fields have their types and are in their bounds. */
export function isLimit(value: unknown, calendar: CronCheck): value is Limit {
  if (typeof value !== "object" || value === null) return false;
  const limit = value as Partial<Limit>;
  const { name, capacity, refillAmount, refillPeriodMs } = limit;
  if (typeof name !== "string" || !isTokens(capacity) || !isTokens(refillAmount)) return false;
  if (!isWhole(refillPeriodMs, 1, PERIOD_MAX_MS)) return false;
  return FIELDS_STORED.every(
    ({ field, isSound }) => limit[field] === undefined || isSound?.(limit, calendar) !== false,
  );
}

export function isWhole(value: unknown, least: number, most: number): value is number {
  return Number.isSafeInteger(value) && (value as number) >= least && (value as number) <= most;
}

function isTokens(value: unknown): boolean {
  return isWhole(value, 0, MILLI_MAX / 1000);
}

export const LEVEL_DAMAGE: Pick<Damage, "attribute" | "wants"> = {
  attribute: "level",
  wants: "the numbers of its limits",
};
