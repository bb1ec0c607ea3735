import type { Clause, Comparison, Existence, Item, ItemValue, ItemWrite, Presence } from "../../ports/item-store.ts";
import { encodeValue } from "./codec.ts";
import { NamePlaceholders, updateExpression } from "./records-write.ts";
import { PK, PLACE_ATTRIBUTES } from "./schema.ts";

/** The parts of a write that become expressions. A put has no effects: its item is not an expression. */
interface Expressed extends Pick<ItemWrite, "item" | "when" | "set" | "add" | "remove" | "copy"> {
  /** Index keys, set by a write that may create its item. */
  readonly place: Item;
}

/**
 * Conditions and effects as expressions, cached by shape: writes that differ only in values have the same text, and
 * there are few shapes. Only the values are encoded for each write.
 */
export class Shapes {
  readonly #known = new Map<string, Shape>();
  #last: Shape | undefined;

  /** Members of a request, each with a comma before it: `,"ConditionExpression":"...",...`. Empty where there is nothing. */
  members(write: Expressed): string {
    // Most writes have the shape of the previous one; comparing is cheaper than a lookup.
    let shape = this.#last;
    if (shape === undefined || !isOf(shape.words, write)) {
      shape = this.#find(wordsOf(write), write);
      this.#last = shape;
    }
    return shape.hasValues ? `${shape.head}${valuesOf(write, shape.fixed)}}` : shape.head;
  }

  #find(words: readonly string[], write: Expressed): Shape {
    // No attribute's name has a newline.
    const key = words.join("\n");
    let shape = this.#known.get(key);
    if (shape === undefined) {
      shape = shapeOf(write, words);
      // The cache is bounded, because limit names are the caller's.
      if (this.#known.size >= SHAPES_MAX) this.#known.clear();
      this.#known.set(key, shape);
    }
    return shape;
  }
}

interface Shape {
  readonly words: readonly string[];
  /** The text before the values, including their opening brace if there are any. */
  readonly head: string;
  readonly hasValues: boolean;
  /** The values that all writes of the shape share, as members: types, and the 0 for an absent attribute. */
  readonly fixed: string;
}

const SHAPES_MAX = 1_000;

/** The names and operators of a write in order, which make its shape. */
function wordsOf({ item, when, set, place, add, remove, copy }: Expressed): string[] {
  const words: string[] = [item];
  for (const clause of when) {
    words.push(";");
    for (const test of clause) {
      words.push(test.is, test.name);
      if (test.is === "<>") words.push(typeof test.value);
    }
  }
  words.push("=");
  for (const name in set) words.push(name);
  words.push("@");
  for (const name in place) words.push(name);
  words.push("+");
  for (const name in add) words.push(name);
  words.push("-");
  for (const name of remove) words.push(name);
  if (copy !== undefined) for (const name in copy) words.push(":", name, copy[name] as string);
  return words;
}

/** True if these are the words of the write; it builds no list. */
function isOf(words: readonly string[], { item, when, set, place, add, remove, copy }: Expressed): boolean {
  let at = 0;
  if (words[at++] !== item) return false;
  for (const clause of when) {
    if (words[at++] !== ";") return false;
    for (const test of clause) {
      if (words[at++] !== test.is || words[at++] !== test.name) return false;
      if (test.is === "<>" && words[at++] !== typeof test.value) return false;
    }
  }
  if (words[at++] !== "=") return false;
  for (const name in set) if (words[at++] !== name) return false;
  if (words[at++] !== "@") return false;
  for (const name in place) if (words[at++] !== name) return false;
  if (words[at++] !== "+") return false;
  for (const name in add) if (words[at++] !== name) return false;
  if (words[at++] !== "-") return false;
  for (const name of remove) if (words[at++] !== name) return false;
  if (copy !== undefined) {
    for (const name in copy) {
      if (words[at++] !== ":" || words[at++] !== name || words[at++] !== copy[name]) return false;
    }
  }
  return at === words.length;
}

// In the order of the placeholders of `shapeOf`. It runs for every write, so it makes no function and no list.
function valuesOf({ when, set, place, add }: Expressed, fixed: string): string {
  let text = fixed;
  let count = 0;
  for (const clause of when) {
    for (const test of clause) {
      if (!("value" in test)) continue;
      text += valueMember(text, count++);
      text += encodeValue(test.value, test.name);
    }
  }
  for (const name in set) {
    text += valueMember(text, count++);
    text += encodeValue(set[name] as ItemValue, name);
  }
  for (const name in place) {
    text += valueMember(text, count++);
    text += encodeValue(place[name] as ItemValue, name);
  }
  for (const name in add) {
    text += valueMember(text, count++);
    text += encodeValue(add[name] as number, name);
  }
  return text;
}

const memberNames: string[] = [];

/** The beginning of a value's member: `":0":`, after a comma unless it is the first. */
function valueMember(before: string, index: number): string {
  if (before === "") return FIRST_MEMBER;
  for (let i = memberNames.length; i <= index; i++) memberNames.push(`,":${i}":`);
  return memberNames[index] as string;
}

const FIRST_MEMBER = '":0":';

function shapeOf({ item, when, set, place, add, remove, copy = {} }: Expressed, words: readonly string[]): Shape {
  for (const name of [...Object.keys(set), ...Object.keys(add), ...Object.keys(copy), ...remove]) checkName(name);
  const placeholders = new Placeholders();
  const conditions = [...EXISTENCE[item], ...when.map((clause) => conditionOf(clause, placeholders))];
  const effects = effectsOf({ set: { ...set, ...place }, add, remove, copy }, placeholders);
  const names = JSON.stringify(placeholders.names);
  const hasValues = placeholders.valueCount > 0 || Object.keys(copy).length > 0;
  const members = [
    ...(conditions.length === 0 ? [] : [`"ConditionExpression":"${conditions.join(" AND ")}"`]),
    ...(effects === "" ? [] : [`"UpdateExpression":"${effects}"`]),
    ...(names === "{}" ? [] : [`"ExpressionAttributeNames":${names}`]),
    ...(hasValues ? [`"ExpressionAttributeValues":{`] : []),
  ];
  const fixed = placeholders.types.map((type) => `":${type}":{"S":"${type}"}`);
  if (Object.keys(copy).length > 0) fixed.push(`"${NONE_THERE}":{"N":"0"}`);
  return { words, head: members.map((member) => `,${member}`).join(""), hasValues, fixed: fixed.join(",") };
}

const EXISTENCE: Readonly<Record<Existence, readonly string[]>> = {
  exists: [`attribute_exists(${PK})`],
  missing: [`attribute_not_exists(${PK})`],
  either: [],
};

/** Numbered names and values; the values themselves are added for each write. */
class Placeholders extends NamePlaceholders {
  readonly types: string[] = [];
  valueCount = 0;

  value(): string {
    return `:${this.valueCount++}`;
  }

  /** The placeholder of a type's name. */
  type(value: ItemValue): string {
    const type = TYPES[typeof value as keyof typeof TYPES];
    if (!this.types.includes(type)) this.types.push(type);
    return `:${type}`;
  }
}

/** The value of a copied attribute that is absent. */
const NONE_THERE = ":none";

const TYPES = { number: "N", string: "S", boolean: "BOOL" } as const;

function conditionOf(clause: Clause, placeholders: Placeholders): string {
  const tests = clause.map((test) => testOf(test, placeholders));
  if (tests.length === 0) throw new RangeError("A clause without tests never holds; leave it out.");
  return tests.length === 1 ? (tests[0] as string) : `(${tests.join(" OR ")})`;
}

function testOf(test: Comparison | Presence, placeholders: Placeholders): string {
  const name = placeholders.name(test.name);
  if (test.is === "present") return `attribute_exists(${name})`;
  if (test.is === "absent") return `attribute_not_exists(${name})`;
  const comparison = `${name} ${test.is} ${placeholders.value()}`;
  // DynamoDB treats an absent attribute, or one of another type, as unequal; here it must not match.
  return test.is === "<>"
    ? `(attribute_type(${name}, ${placeholders.type(test.value)}) AND ${comparison})`
    : comparison;
}

function effectsOf(
  { set, add, remove, copy = {} }: Pick<Expressed, "set" | "add" | "remove" | "copy">,
  placeholders: Placeholders,
): string {
  const copies = Object.entries(copy).map(
    ([to, from]) => `${placeholders.name(to)} = if_not_exists(${placeholders.name(from)}, ${NONE_THERE})`,
  );
  return updateExpression({
    SET: [...Object.keys(set).map((name) => `${placeholders.name(name)} = ${placeholders.value()}`), ...copies],
    ADD: Object.keys(add).map((name) => `${placeholders.name(name)} ${placeholders.value()}`),
    DELETE: [],
    REMOVE: remove.map((name) => placeholders.name(name)),
  });
}

/** Throws if a write would change the keys of its item. */
export function checkName(name: string): void {
  if (PLACE_ATTRIBUTES.has(name))
    throw new RangeError(`"${name}" is derived from the key of an item and cannot be written.`);
}
