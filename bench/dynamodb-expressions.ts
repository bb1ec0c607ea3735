import type { Attributes, AttributeValue } from "../src/adapters/dynamodb/codec.ts";

/** What a write brings besides its expressions. */
export interface Words {
  readonly ExpressionAttributeNames?: Readonly<Record<string, string>>;
  readonly ExpressionAttributeValues?: Attributes;
}

type Condition = (item: Attributes | undefined, words: Words) => boolean;
type Effect = (item: Record<string, AttributeValue>, words: Words) => void;

/** A condition as a function, each text worked out once. Knows what the limiters of the benches say, and throws at the rest. */
export function conditionOf(text: string): Condition {
  return remembered(conditions, text, () => new Parser(text).condition());
}

/** The effects of an update as a function that changes the item. */
export function effectOf(text: string): Effect {
  return remembered(effects, text, () => new Parser(text).effects());
}

const conditions = new Map<string, Condition>();
const effects = new Map<string, Effect>();

function remembered<Value>(known: Map<string, Value>, text: string, make: () => Value): Value {
  let found = known.get(text);
  if (found === undefined) {
    found = make();
    known.set(text, found);
  }
  return found;
}

class Parser {
  readonly #words: readonly string[];
  #at = 0;

  constructor(text: string) {
    this.#words = text.match(/[#:]?\w+|<>|<=|>=|[<>=(),+]/g) ?? [];
  }

  condition(): Condition {
    const any = this.#listed("OR", () => {
      const all = this.#listed("AND", () => this.#test());
      return (item: Attributes | undefined, words: Words) => all.every((test) => test(item, words));
    });
    return (item, words) => any.some((test) => test(item, words));
  }

  effects(): Effect {
    const found: Effect[] = [];
    while (this.#at < this.#words.length) {
      const clause = this.#next();
      found.push(...this.#listed(",", () => this.#effect(clause)));
    }
    return (item, words) => {
      for (const effect of found) effect(item, words);
    };
  }

  #test(): Condition {
    const first = this.#next();
    if (first === "(") {
      const inner = this.condition();
      this.#expect(")");
      return inner;
    }
    if (first.startsWith("attribute_")) return this.#function(first);
    const name = nameOf(first);
    const is = this.#next();
    const value = this.#next();
    return (item, words) => compared(item?.[name(words)], is, words.ExpressionAttributeValues?.[value]);
  }

  #function(what: string): Condition {
    this.#expect("(");
    const name = nameOf(this.#next());
    if (what === "attribute_type") this.#expect(",");
    const type = what === "attribute_type" ? this.#next() : "";
    this.#expect(")");
    switch (what) {
      case "attribute_exists":
        return (item, words) => item?.[name(words)] !== undefined;
      case "attribute_not_exists":
        return (item, words) => item?.[name(words)] === undefined;
      case "attribute_type":
        return (item, words) => (words.ExpressionAttributeValues?.[type]?.S ?? "") in (item?.[name(words)] ?? {});
      default:
        throw new Error(`The bench's DynamoDB has no ${what}.`);
    }
  }

  #effect(clause: string): Effect {
    const name = nameOf(this.#next());
    if (clause === "REMOVE") return (item, words) => delete item[name(words)];
    if (clause === "SET") this.#expect("=");
    const first = this.#next();
    if (clause === "SET" && first.startsWith(":")) {
      return (item, words) => {
        item[name(words)] = words.ExpressionAttributeValues?.[first] as AttributeValue;
      };
    }
    if (clause === "SET") this.#expect("+");
    else if (clause !== "ADD") throw new Error(`The bench's DynamoDB has no ${clause}.`);
    const value = clause === "SET" ? this.#next() : first;
    return (item, words) => {
      item[name(words)] = sum(item[name(words)], words.ExpressionAttributeValues?.[value]);
    };
  }

  #listed<Part>(between: string, part: () => Part): Part[] {
    const parts = [part()];
    while (this.#words[this.#at] === between) {
      this.#at++;
      parts.push(part());
    }
    return parts;
  }

  #next(): string {
    return this.#words[this.#at++] ?? "";
  }

  #expect(word: string): void {
    const found = this.#next();
    if (found !== word) throw new Error(`The bench's DynamoDB expected ${word} and found ${found}.`);
  }
}

function nameOf(word: string): (words: Words) => string {
  return word.startsWith("#") ? (words) => words.ExpressionAttributeNames?.[word] ?? word : () => word;
}

function compared(one: AttributeValue | undefined, is: string, other: AttributeValue | undefined): boolean {
  if (one === undefined || other === undefined) return is === "<>";
  const order = one.N !== undefined && other.N !== undefined ? Number(one.N) - Number(other.N) : textOrder(one, other);
  switch (is) {
    case "=":
      return order === 0;
    case "<>":
      return order !== 0;
    case "<":
      return order < 0;
    case "<=":
      return order <= 0;
    case ">":
      return order > 0;
    case ">=":
      return order >= 0;
    default:
      throw new Error(`The bench's DynamoDB has no ${is}.`);
  }
}

function textOrder(one: AttributeValue, other: AttributeValue): number {
  const [left, right] = [JSON.stringify(one), JSON.stringify(other)];
  if (left === right) return 0;
  return left < right ? -1 : 1;
}

function sum(before: AttributeValue | undefined, added: AttributeValue | undefined): AttributeValue {
  if (added?.SS !== undefined) return { SS: [...new Set([...(before?.SS ?? []), ...added.SS])] };
  return { N: String(Number(before?.N ?? 0) + Number(added?.N ?? 0)) };
}
