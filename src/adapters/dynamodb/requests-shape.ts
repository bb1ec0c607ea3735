import type { Clause, Comparison, Existence, Item, ItemValue, ItemWrite, Presence } from "../../ports/item-store.ts";
import { encodeValue } from "./codec.ts";
import { NamePlaceholders, updateExpression } from "./expressions.ts";
import { PK, PLACE_ATTRIBUTES } from "./schema.ts";

/** What of a write is put into expressions. Of a put, whose item is no expression, without effects. */
interface Expressed extends Pick<ItemWrite, "item" | "when" | "set" | "add" | "remove" | "copy"> {
  /** Set besides: what follows from the key of an item that may be made by the write. */
  readonly place: Item;
}

/**
 * Conditions and effects as expressions, remembered by shape: writes that differ only in values have the same text, and there
 * are few shapes. Nothing but the values is put together for each write.
 */
export class Shapes {
  readonly #known = new Map<string, Shape>();
  #last: Shape | undefined;

  /** Members of a request, each with a comma before it: `,"ConditionExpression":"...",...`. Empty where there is nothing. */
  members(write: Expressed): string {
    // Most writes are of the shape of the one before; to look is cheaper than to look up.
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
      // Should somebody make up limit names endlessly, shapes are worked out again.
      if (this.#known.size >= SHAPES_MAX) this.#known.clear();
      this.#known.set(key, shape);
    }
    return shape;
  }
}

interface Shape {
  readonly words: readonly string[];
  /** All but the values; up to and with the brace that opens them, where there are any. */
  readonly head: string;
  readonly hasValues: boolean;
  /** Values that are the same in every write of the shape, as members: types, and the 0 of what is not there. */
  readonly fixed: string;
}

const SHAPES_MAX = 1_000;

/** Names and operators, in the order in which the write has them: all that makes its shape. */
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

/** Whether these are the words of the write, without writing them down. */
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

// In the order in which `shapeOf` numbers them. Built for every write: no function and no list is made for it.
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

/** How a value's member begins: `":0":`, after a comma where others stand before it. */
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
  return {
    words,
    head: members.map((member) => `,${member}`).join(""),
    hasValues,
    fixed: fixed.join(","),
  };
}

const EXISTENCE: Readonly<Record<Existence, readonly string[]>> = {
  exists: [`attribute_exists(${PK})`],
  missing: [`attribute_not_exists(${PK})`],
  either: [],
};

/** Names and values by number; the values themselves are put in for each write. */
class Placeholders extends NamePlaceholders {
  readonly types: string[] = [];
  valueCount = 0;

  value(): string {
    return `:${this.valueCount++}`;
  }

  /** The value that says a type. */
  type(value: ItemValue): string {
    const type = TYPES[typeof value as keyof typeof TYPES];
    if (!this.types.includes(type)) this.types.push(type);
    return `:${type}`;
  }
}

/** Stands for an attribute that is copied and is not there. */
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
  // To DynamoDB, what is not there or of another type is unequal; here it compares with nothing.
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

/** Throws where a write would change the place of its item. */
export function checkName(name: string): void {
  if (PLACE_ATTRIBUTES.has(name))
    throw new RangeError(`"${name}" is derived from the key of an item and cannot be written.`);
}
