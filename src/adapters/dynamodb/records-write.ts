import type { Attributes, AttributeValue } from "./codec.ts";
import { PK, SK, type TableKey } from "./schema.ts";

/** Numbered placeholders for attribute names, which may have dots and dashes, or be key words of DynamoDB. */
export class NamePlaceholders {
  readonly names: Record<string, string> = {};
  readonly #known = new Map<string, string>();

  name(name: string): string {
    let placeholder = this.#known.get(name);
    if (placeholder === undefined) {
      placeholder = `#${this.#known.size}`;
      this.#known.set(name, placeholder);
      this.names[placeholder] = name;
    }
    return placeholder;
  }
}

/** The actions of an update, by clause; a clause without actions is left out. */
export function updateExpression(clauses: {
  readonly SET: readonly string[];
  readonly ADD: readonly string[];
  readonly DELETE: readonly string[];
  readonly REMOVE: readonly string[];
}): string {
  return Object.entries(clauses)
    .flatMap(([word, actions]) => (actions.length === 0 ? [] : [`${word} ${actions.join(", ")}`]))
    .join(" ");
}

/** One item of a transaction, without the name of the table. */
export interface RecordWrite {
  readonly kind: "Put" | "Update" | "Delete" | "ConditionCheck";
  readonly input: Readonly<Record<string, unknown>>;
}

/** A condition on the item before the write, as the text of an expression. */
export type Condition = (expression: Expression) => string;

interface RecordChange {
  readonly set?: Attributes;
  readonly add?: Attributes;
  readonly remove?: readonly string[];
  /** Members to take out of sets. */
  readonly without?: Attributes;
}

export class Expression extends NamePlaceholders {
  readonly values: Record<string, AttributeValue> = {};
  #valueCount = 0;

  value(value: AttributeValue): string {
    const placeholder = `:${this.#valueCount++}`;
    this.values[placeholder] = value;
    return placeholder;
  }

  /** The members of a request, without empty ones, which DynamoDB refuses. */
  members(): Record<string, unknown> {
    return {
      ...(Object.keys(this.names).length === 0 ? {} : { ExpressionAttributeNames: this.names }),
      ...(this.#valueCount === 0 ? {} : { ExpressionAttributeValues: this.values }),
    };
  }
}

export function putRecord(key: TableKey, attributes: Attributes, when: Condition | undefined): RecordWrite {
  return recordWrite("Put", { Item: { ...keyOf(key), ...attributes } }, when, new Expression());
}

export function updateRecord(key: TableKey, change: RecordChange, when: Condition | undefined): RecordWrite {
  const expression = new Expression();
  const UpdateExpression = effectsOf(change, expression);
  return recordWrite("Update", { Key: keyOf(key), UpdateExpression }, when, expression);
}

export function deleteRecord(key: TableKey, when: Condition | undefined): RecordWrite {
  return recordWrite("Delete", { Key: keyOf(key) }, when, new Expression());
}

export function checkRecord(key: TableKey, when: Condition): RecordWrite {
  return recordWrite("ConditionCheck", { Key: keyOf(key) }, when, new Expression());
}

function recordWrite(
  kind: RecordWrite["kind"],
  subject: object,
  when: Condition | undefined,
  expression: Expression,
): RecordWrite {
  const condition = when === undefined ? {} : { ConditionExpression: when(expression) };
  return { kind, input: { ...subject, ...condition, ...expression.members() } };
}

export const exists: Condition = (e) => `attribute_exists(${e.name(PK)})`;
export const missing: Condition = (e) => `attribute_not_exists(${e.name(PK)})`;

/** The attribute has this value; with undefined, it is absent. */
export function isStill(name: string, value: AttributeValue | undefined): Condition {
  return (e) => {
    if (value === undefined) return `attribute_not_exists(${e.name(name)})`;
    // DynamoDB does not document that one null equals another.
    if (value.NULL === true) return `attribute_type(${e.name(name)}, ${e.value({ S: "NULL" })})`;
    return `${e.name(name)} = ${e.value(value)}`;
  };
}

export function all(...conditions: readonly Condition[]): Condition {
  return (e) => conditions.map((condition) => `(${condition(e)})`).join(" AND ");
}

export function any(...conditions: readonly Condition[]): Condition {
  return (e) => conditions.map((condition) => `(${condition(e)})`).join(" OR ");
}

export function keyOf({ pk, sk }: TableKey): Attributes {
  return { [PK]: { S: pk }, [SK]: { S: sk } };
}

/** The key of an item that was read. */
export function keyIn(item: Attributes): TableKey {
  return { pk: item[PK]?.S ?? "", sk: item[SK]?.S ?? "" };
}

export function texts(values: Readonly<Record<string, string>>): Attributes {
  return Object.fromEntries(Object.entries(values).map(([name, S]) => [name, { S }]));
}

function effectsOf({ set, add, remove, without }: RecordChange, e: Expression): string {
  const pairs = (attributes: Attributes | undefined, between: string) =>
    Object.entries(attributes ?? {}).map(([name, value]) => `${e.name(name)}${between}${e.value(value)}`);
  return updateExpression({
    SET: pairs(set, " = "),
    ADD: pairs(add, " "),
    DELETE: pairs(without, " "),
    REMOVE: (remove ?? []).map((name) => e.name(name)),
  });
}
