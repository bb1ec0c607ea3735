import { ItemRequests } from "../../src/adapters/dynamodb/requests.ts";
import type { ItemWrite } from "../../src/ports/item-store.ts";
import { NOON_MS, type Sent } from "./writes-stage.ts";

/** One item's write as DynamoDB gets it, with names and values put in. */
export interface WriteText {
  /** `UpdateItem`, or `Update` where it is part of a transaction. */
  readonly operation: string;
  readonly shard: number;
  /** What of the bucket is written: a shard itself, the sheet of a day, the record of an operation. */
  readonly what: "shard" | "sheet" | "record";
  /** The clauses of the condition. All must hold. */
  readonly clauses: readonly string[];
  /** `SET a = 1`, `ADD b -1`, `REMOVE c`: one attribute each. Of a put, none. */
  readonly effects: readonly string[];
  /** Of a put: `a = 1`, without the attributes of its place. */
  readonly item: readonly string[];
}

/** The requests of one call. `names`: how random numbers were called before in the same story. */
export function textsOf({ call, writes }: Sent, names: RandomNames): WriteText[] {
  if (call === "write") {
    const [write] = writes as readonly [ItemWrite];
    const { operation, body } = REQUESTS.write(write);
    return [textOf(operation, JSON.parse(body), write, names)];
  }
  const { TransactItems } = JSON.parse(REQUESTS.transaction(writes, "token", undefined).body) as {
    TransactItems: readonly Readonly<Record<string, Input>>[];
  };
  return TransactItems.map((item, i) => {
    const [[operation, input]] = Object.entries(item) as [[string, Input]];
    return textOf(operation, input, writes[i] as ItemWrite, names);
  });
}

/**
 * Names for numbers that are drawn at random, in the order in which they come up: the page says which are equal, and does not
 * change where others are drawn.
 */
export class RandomNames {
  readonly #names = new Map<string, string>();
  readonly #counts = new Map<string, number>();

  of(letter: string, value: string): string {
    const known = this.#names.get(value);
    if (known !== undefined) return known;
    const count = (this.#counts.get(letter) ?? 0) + 1;
    this.#counts.set(letter, count);
    this.#names.set(value, `${letter}${count}`);
    return `${letter}${count}`;
  }
}

const REQUESTS = new ItemRequests({ tableName: "limits", namespaceId: "ns" });

type Value = { readonly N: string } | { readonly S: string } | { readonly BOOL: boolean } | Record<string, unknown>;

interface Input {
  readonly ConditionExpression?: string;
  readonly UpdateExpression?: string;
  readonly ExpressionAttributeNames?: Readonly<Record<string, string>>;
  readonly ExpressionAttributeValues?: Readonly<Record<string, Value>>;
  readonly Item?: Readonly<Record<string, Value>>;
}

function textOf(operation: string, input: Input, { key, set }: ItemWrite, names: RandomNames): WriteText {
  const put = (expression: string) => filledIn(expression, input, names);
  const { ConditionExpression = "", UpdateExpression = "", Item = {} } = input;
  const own = Object.entries(Item).filter(([name]) => name in set);
  return {
    operation,
    shard: key.shard,
    what: key.sheet !== undefined ? "sheet" : key.operation !== undefined ? "record" : "shard",
    clauses: parted(ConditionExpression, " AND ").map(put),
    effects: effectsOf(UpdateExpression)
      .map(put)
      .filter((effect) => !PLACE.test(effect)),
    item: own.map(([name, value]) => `${name} = ${valueText(name, value, names)}`),
  };
}

/** Keys of indexes and the owner, which an update that may make its item sets besides. */
const PLACE = /^SET (?:GSI\d[PS]K|entity_id|resource) = /;

function effectsOf(expression: string): string[] {
  const words = [...expression.matchAll(/\b(SET|ADD|REMOVE) (.*?)(?= (?:SET|ADD|REMOVE) |$)/g)];
  return words.flatMap(([, word = "", actions = ""]) => parted(actions, ", ").map((action) => `${word} ${action}`));
}

/** Parts between separators that stand in no parentheses. */
function parted(text: string, separator: string): string[] {
  const parts: string[] = [];
  let depth = 0;
  let from = 0;
  for (let at = 0; at < text.length; at++) {
    if (text[at] === "(") depth++;
    if (text[at] === ")") depth--;
    if (depth > 0 || !text.startsWith(separator, at)) continue;
    parts.push(text.slice(from, at));
    from = at + separator.length;
  }
  return text === "" ? [] : [...parts, text.slice(from)];
}

/** Which attribute a value belongs to is the name that stands before it. */
function filledIn(expression: string, input: Input, names: RandomNames): string {
  const { ExpressionAttributeNames = {}, ExpressionAttributeValues = {} } = input;
  let name = "";
  return expression.replace(/#\d+|:\w+/g, (placeholder) => {
    if (placeholder.startsWith("#")) {
      name = ExpressionAttributeNames[placeholder] ?? placeholder;
      return name;
    }
    // The name of a type, and the 0 of what is not there, are not values of the attribute.
    if (!/^:\d/.test(placeholder)) return plainText(ExpressionAttributeValues[placeholder] ?? {});
    return valueText(name, ExpressionAttributeValues[placeholder] ?? {}, names);
  });
}

function valueText(name: string, value: Value, names: RandomNames): string {
  if (!("N" in value)) return "S" in value ? JSON.stringify(value.S) : plainText(value);
  const text = String(value.N);
  const letter = RANDOM.find(([pattern]) => pattern.test(name))?.[1];
  if (letter !== undefined) return names.of(letter, text);
  const unitMs = UNITS.find(([pattern]) => pattern.test(name))?.[1];
  return unitMs === undefined || text === "0" ? text : instantText(Number(text) * unitMs);
}

function plainText(value: Value): string {
  const [only] = Object.values(value);
  return typeof only === "object" ? JSON.stringify(only) : String(only);
}

/** Numbers that are drawn, and the letter that stands for them. */
const RANDOM: readonly (readonly [RegExp, string])[] = [
  [/^bn$/, "B"],
  [/^b_.+_rn$/, "R"],
  [/^(?:n[0-9a-f]|writer)$/, "N"],
];

/** Attributes that hold an instant, and the unit that they count it in. */
const UNITS: readonly (readonly [RegExp, number])[] = [
  // The number of a change: sixty-four for each millisecond.
  [/^cfc$/, 1 / 64],
  [/^(?:rf|vu|cfa|lw|frf|sda|bypass|b_.+_(?:ws|wa|ru|soft|e\d))$/, 1],
  [/^ttl$/, 1_000],
  [/^(?:uh|up)$/, 3_600_000],
];

/** `12:00:05` of the day of the stories, `2026-06-13 13:00:00` of another; `9999` stands for ever. */
function instantText(atMs: number): string {
  const text = new Date(atMs).toISOString();
  if (text.startsWith("9999")) return "9999";
  const [day = "", time = ""] = text.slice(0, -1).split("T");
  const clock = time.replace(/\.000$/, "");
  return day === new Date(NOON_MS).toISOString().slice(0, 10) ? clock : `${day} ${clock}`;
}
