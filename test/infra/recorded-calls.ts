import type { Passage } from "../dynamodb/fault-proxy.ts";
import type { Access } from "./policy-evaluator.ts";

export const TABLE = "arn:aws:dynamodb:eu-west-1:123456789012:table/limits";
export const INDEXES = `${TABLE}/index/*`;

type Key = Readonly<Record<string, { readonly S: string }>>;
type Input = Readonly<Record<string, unknown>>;

/** What a request on the wire needs to be allowed. A transaction needs the action of each of its items. */
export function accessesOf({ operation, input }: Pick<Passage, "operation" | "input">): readonly Access[] {
  switch (operation) {
    case "GetItem":
    case "UpdateItem":
    case "DeleteItem":
      return [onTable(operation, [keyOf(input.Key)])];
    case "PutItem":
      return [onTable(operation, [keyOf(input.Item)])];
    case "BatchGetItem":
      return Object.values(input.RequestItems as Record<string, { Keys: readonly Key[] }>).map(({ Keys }) =>
        onTable(operation, Keys.map(keyOf)),
      );
    case "Query":
      return [queried(input)];
    case "TransactWriteItems":
      return (input.TransactItems as readonly Record<string, Input>[]).flatMap((item) =>
        Object.entries(item).map(([kind, of]) =>
          onTable(kind === "ConditionCheck" ? "ConditionCheckItem" : `${kind}Item`, [keyOf(of.Key ?? of.Item)]),
        ),
      );
    case "DescribeTable":
      return [onTable(operation, [])];
    default:
      throw new Error(`Nobody foresaw ${operation}.`);
  }
}

function onTable(operation: string, keys: readonly string[]): Access {
  return { action: `dynamodb:${operation}`, resource: TABLE, keys };
}

function keyOf(key: unknown): string {
  return (key as Key).PK!.S;
}

/** The value that the partition key of the table, or of the index, is compared with. */
function queried(input: Input): Access {
  const { IndexName, KeyConditionExpression: text } = input as { IndexName?: string; KeyConditionExpression: string };
  const names = (input.ExpressionAttributeNames ?? {}) as Record<string, string>;
  const values = input.ExpressionAttributeValues as Record<string, { S: string }>;
  const partition = IndexName === undefined ? "PK" : `${IndexName}PK`;
  const [, , value = ""] =
    [...text.matchAll(/(#?\w+)\s*=\s*(:\w+)/g)].find(([, name = ""]) => (names[name] ?? name) === partition) ?? [];
  const key = values[value]?.S;
  if (key === undefined) throw new Error(`No partition key in ${text}`);
  return {
    action: "dynamodb:Query",
    resource: IndexName === undefined ? TABLE : `${TABLE}/index/${IndexName}`,
    keys: [key],
  };
}
