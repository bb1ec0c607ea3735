import { countOfText } from "../../bucket/integers.ts";
import { TRUSTED_CLOCK } from "../../clock/clock-bounds.ts";
import type { BucketState } from "../../domain/bucket/bucket-state.ts";
import type { Amount } from "../../domain/charge/amounts.ts";
import { operatedOfText } from "../../domain/lease/idempotency.ts";
import type { Calendar } from "../../domain/limits/schedule.ts";
import { VersionError } from "../../domain/names/errors.ts";
import { shown } from "../../domain/names/names.ts";
import type { Item, ItemValue } from "../../ports/item-store.ts";
import { isReadAttribute } from "../../protocol/item/damage.ts";
import { OWN, SOFT_FOREVER_MS } from "../../protocol/item/dialect.ts";
import { newItem } from "../../protocol/item/encode-item.ts";
import { AMOUNTS, AMOUNTS_MILLI, PLACE_ATTRIBUTES, UH } from "./schema.ts";

/** A value as DynamoDB writes it: one member that names the type. Numbers are decimal strings. */
export interface AttributeValue {
  readonly N?: string;
  readonly S?: string;
  readonly BOOL?: boolean;
  readonly NULL?: boolean;
  readonly M?: Attributes;
  readonly L?: readonly AttributeValue[];
  readonly SS?: readonly string[];
}

export type Attributes = Readonly<Record<string, AttributeValue>>;

/** The JSON text of one value. Throws for a number that not every reader of the table reads exactly. */
export function encodeValue(value: ItemValue, name: string): string {
  if (typeof value === "number") {
    if (Number.isSafeInteger(value)) return `{"N":"${value}"}`;
    throw new RangeError(`"${name}" is ${value}; the table holds whole numbers from -(2^53 - 1) to 2^53 - 1.`);
  }
  if (typeof value === "bigint") return `{"N":"${value}"}`;
  if (typeof value === "string") return `{"S":${JSON.stringify(value)}}`;
  return value ? TRUE : FALSE;
}

/** The JSON text of the members of an item, without braces: `"a":{"N":"1"},"b":{"S":"x"}`. */
export function encodeMembers(item: Item): string {
  let text = "";
  for (const name in item) {
    if (text !== "") text += ",";
    text += `${JSON.stringify(name)}:${encodeValue(item[name] as ItemValue, name)}`;
  }
  return text;
}

/** An item as the body of a write that is not prepared has it. */
export function attributesOf(item: Item): Attributes {
  return JSON.parse(`{${encodeMembers(item)}}`) as Attributes;
}

/** A whole bucket that no take has made, as one item. It has counted nothing yet: its first hour begins with the first take. */
export function newBucket(state: BucketState, calendar: Calendar): Record<string, ItemValue> {
  const softUntilMs = () => SOFT_FOREVER_MS;
  const env = { calendar, dialect: OWN, serverTime: TRUSTED_CLOCK, softUntilMs, usageKeptS: () => 0 };
  const item: Record<string, ItemValue> = newItem(state, undefined, env);
  delete item[UH];
  return item;
}

/** The members of an operation's record, whose amounts are a map of whole tokens. */
export function encodeOperation(record: Item): string {
  const { [AMOUNTS]: amounts, ...rest } = record;
  if (amounts === undefined) return encodeMembers(rest);
  const gained = amountsIn(amounts);
  // Rounded down, because other readers of the map know whole tokens only.
  const tokens = gained.map(({ limit, milli }) => [limit, { N: String(Math.floor(milli / 1000)) }] as const);
  const map = Object.fromEntries(tokens);
  const others = encodeMembers(textOf(map) === amounts ? rest : { ...rest, [AMOUNTS_MILLI]: amounts });
  return `${others}${others === "" ? "" : ","}"${AMOUNTS}":{"M":${JSON.stringify(map)}}`;
}

/**
 * Decodes an item of a bucket, without its keys. Values of types that this library never writes are dropped, except
 * where it expects a value: those become text, so that damage is not taken for absence.
 */
export function decodeItem(attributes: Attributes): Item {
  const item: Record<string, ItemValue> = {};
  for (const name in attributes) {
    if (PLACE_ATTRIBUTES.has(name)) continue;
    const value = attributes[name] as AttributeValue;
    if (value.N !== undefined) item[name] = numberIn(value.N);
    else if (value.S !== undefined) item[name] = value.S;
    else if (value.BOOL !== undefined) item[name] = value.BOOL;
    else if (isReadAttribute(name)) item[name] = JSON.stringify(value);
  }
  return item;
}

/** Decodes an operation's record; its amounts become JSON again. */
export function decodeOperation(attributes: Attributes): Item {
  const { [AMOUNTS_MILLI]: exact, ...record } = decodeItem(attributes);
  if (exact !== undefined) return { ...record, [AMOUNTS]: exact };
  const map = attributes[AMOUNTS]?.M;
  return map === undefined ? record : { ...record, [AMOUNTS]: textOf(map) };
}

export function textOrNull(text: string | undefined): AttributeValue {
  return text === undefined ? { NULL: true } : { S: text };
}

/** Any JSON, such as the details of an event. */
export function encodeJson(value: unknown): AttributeValue | undefined {
  switch (typeof value) {
    case "string":
      return { S: value };
    case "number":
      return Number.isFinite(value) ? { N: String(value) } : { NULL: true };
    case "boolean":
      return { BOOL: value };
    case "object": {
      if (value === null) return { NULL: true };
      if (Array.isArray(value)) return { L: value.map((each) => encodeJson(each) ?? { NULL: true }) };
      const members = Object.entries(value).flatMap(([name, each]) => {
        const encoded = encodeJson(each);
        return encoded === undefined ? [] : [[name, encoded] as const];
      });
      return { M: Object.fromEntries(members) };
    }
    default:
      return undefined;
  }
}

export function decodeJson({ N, S, BOOL, M, L, SS }: AttributeValue): unknown {
  if (S !== undefined) return S;
  if (N !== undefined) return Number(N);
  if (BOOL !== undefined) return BOOL;
  if (L !== undefined) return L.map(decodeJson);
  if (SS !== undefined) return SS;
  if (M !== undefined) return Object.fromEntries(Object.entries(M).map(([name, value]) => [name, decodeJson(value)]));
  return null;
}

const TRUE = '{"BOOL":true}';
const FALSE = '{"BOOL":false}';

/** A number of a bucket, exact if it is whole. Readers of the item report any other. */
function numberIn(text: string): number | bigint {
  const value = Number(text);
  return Number.isSafeInteger(value) ? value : (countOfText(text) ?? value);
}

export function decodeNumber(text: string, name: string): number {
  const value = Number(text);
  if (Number.isSafeInteger(value)) return value;
  throw new VersionError(
    "item_unreadable",
    `"${name}" of an item in the table is ${text}, not a whole number up to 2^53 - 1: ` +
      "another program wrote it. Correct or delete the item.",
  );
}

function amountsIn(text: ItemValue): readonly Amount[] {
  const operated = operatedOfText(text);
  if (operated !== undefined) return operated.amounts;
  throw new TypeError(`The amounts of an operation are ${shown(text)}, not a JSON list of limits and millitokens.`);
}

/** The JSON of amounts from a map of whole tokens by limit name. */
function textOf(map: Attributes): string {
  const amounts = Object.keys(map)
    .sort()
    .map((limit): Amount => ({ limit, milli: 1000 * decodeNumber(map[limit]?.N ?? "0", limit) }));
  return JSON.stringify(amounts);
}

/** An instant in records: UTC, with milliseconds if there are any. */
export function instantText(atMs: number): string {
  return new Date(atMs).toISOString().replace(".000Z", "Z");
}

/** The instant of a record; 0 if it cannot be read. */
export function instantOf(text: string | undefined): number {
  // Python's isoformat has +00:00 or nothing instead of Z, and microseconds.
  const atMs = Date.parse(text === undefined || /(Z|[+-]\d\d:?\d\d)$/.test(text) ? (text ?? "") : `${text}Z`);
  return Number.isNaN(atMs) ? 0 : atMs;
}
