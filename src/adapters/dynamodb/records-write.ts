import type { Attributes, AttributeValue } from "./codec.ts";
import { NamePlaceholders, updateExpression } from "./expressions.ts";
import { PK, SK, type TableKey } from "./schema.ts";

/** One item of a transaction, but for the name of the table. */
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

/** Names and values of one write. */
export class Expression extends NamePlaceholders {
  readonly values: Record<string, AttributeValue> = {};
  #valueCount = 0;

  value(value: AttributeValue): string {
    const placeholder = `:${this.#valueCount++}`;
    this.values[placeholder] = value;
    return placeholder;
  }

  /** As members of a request; DynamoDB refuses empty ones, so those are left out. */
  members(): Record<string, unknown> {
    return {
      ...(Object.keys(this.names).length === 0 ? {} : { ExpressionAttributeNames: this.names }),
      ...(this.#valueCount === 0 ? {} : { ExpressionAttributeValues: this.values }),
    };
  }
}

export function putRecord(key: TableKey, attributes: Attributes, when: Condition | undefined): RecordWrite {
  const expression = new Expression();
  const condition = conditionOf(when, expression);
  return { kind: "Put", input: { Item: { ...keyOf(key), ...attributes }, ...condition, ...expression.members() } };
}

export function updateRecord(key: TableKey, change: RecordChange, when: Condition | undefined): RecordWrite {
  const expression = new Expression();
  const UpdateExpression = effectsOf(change, expression);
  const condition = conditionOf(when, expression);
  return { kind: "Update", input: { Key: keyOf(key), UpdateExpression, ...condition, ...expression.members() } };
}

export function deleteRecord(key: TableKey, when: Condition | undefined): RecordWrite {
  const expression = new Expression();
  const condition = conditionOf(when, expression);
  return { kind: "Delete", input: { Key: keyOf(key), ...condition, ...expression.members() } };
}

export function checkRecord(key: TableKey, when: Condition): RecordWrite {
  const expression = new Expression();
  const condition = conditionOf(when, expression);
  return { kind: "ConditionCheck", input: { Key: keyOf(key), ...condition, ...expression.members() } };
}

export const exists: Condition = (e) => `attribute_exists(${e.name(PK)})`;
export const missing: Condition = (e) => `attribute_not_exists(${e.name(PK)})`;

/** The attribute is there with this value; with none, it is not there. */
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

function conditionOf(when: Condition | undefined, expression: Expression): Record<string, unknown> {
  return when === undefined ? {} : { ConditionExpression: when(expression) };
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
