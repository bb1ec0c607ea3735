import { createServer } from "node:http";
import { crc32 } from "node:zlib";
import type { Attributes, AttributeValue } from "../src/adapters/dynamodb/codec.ts";
import { conditionOf, effectOf, type Words } from "./dynamodb-expressions.ts";

// As much of a DynamoDB as the limiters of the benches need, in memory: so cheap that the client under measurement is not kept
// waiting, and true enough that each client does what it would do. A process of its own, so that only the client is counted.

interface Write extends Words {
  readonly TableName: string;
  readonly Key?: Attributes;
  readonly Item?: Attributes;
  readonly ConditionExpression?: string;
  readonly UpdateExpression?: string;
}

type Kind = "Put" | "Update" | "Delete" | "ConditionCheck";

const items = new Map<string, Record<string, AttributeValue>>();
let calls = 0;

class Failed extends Error {
  readonly type: string;
  readonly members: object;

  constructor(type: string, members: object) {
    super(type);
    this.type = type;
    this.members = members;
  }
}

/** The members of the key, whatever they are called. */
function idOf(table: string, key: Attributes): string {
  return `${table}/${(key.PK ?? key.key)?.S}/${key.SK?.S ?? ""}`;
}

function check(write: Write): Record<string, AttributeValue> | undefined {
  const item = items.get(idOf(write.TableName, write.Key ?? (write.Item as Attributes)));
  const { ConditionExpression: condition } = write;
  if (condition !== undefined && !conditionOf(condition)(item, write)) {
    throw new Failed("ConditionalCheckFailedException", item === undefined ? {} : { Item: item });
  }
  return item;
}

function apply(kind: Kind, write: Write, before: Record<string, AttributeValue> | undefined): Attributes {
  const key = write.Key ?? (write.Item as Attributes);
  const id = idOf(write.TableName, key);
  if (kind === "Put") items.set(id, { ...write.Item });
  else if (kind === "Delete") items.delete(id);
  else if (kind === "Update") {
    const item = before ?? { ...key };
    effectOf(write.UpdateExpression ?? "")(item, write);
    items.set(id, item);
    return item;
  }
  return {};
}

function transact(entries: readonly Readonly<Record<string, Write>>[]): object {
  const writes = entries.map((entry) => Object.entries(entry)[0] as [Kind, Write]);
  const reasons = writes.map(([, write]) => {
    try {
      check(write);
      return { Code: "None" };
    } catch (error) {
      if (error instanceof Failed) return { Code: "ConditionalCheckFailed" };
      throw error;
    }
  });
  if (reasons.some(({ Code }) => Code !== "None")) {
    throw new Failed("TransactionCanceledException", { CancellationReasons: reasons });
  }
  for (const [kind, write] of writes) apply(kind, write, check(write));
  return {};
}

function answerTo(operation: string, input: never): object {
  switch (operation) {
    case "UpdateItem":
      return { Attributes: apply("Update", input, check(input)) };
    case "PutItem":
      return apply("Put", input, check(input));
    case "DeleteItem":
      return apply("Delete", input, check(input));
    case "TransactWriteItems":
      return transact((input as { TransactItems: [] }).TransactItems);
    case "GetItem": {
      const { TableName, Key } = input as Required<Write>;
      const item = items.get(idOf(TableName, Key));
      return item === undefined ? {} : { Item: item };
    }
    case "BatchGetItem": {
      const wanted = (input as { RequestItems: Record<string, { Keys: Attributes[] }> }).RequestItems;
      const Responses = Object.fromEntries(
        Object.entries(wanted).map(([table, { Keys }]) => [
          table,
          Keys.flatMap((key) => items.get(idOf(table, key)) ?? []),
        ]),
      );
      return { Responses, UnprocessedKeys: {} };
    }
    // Indexes are not kept: nothing that is measured asks them.
    case "Query":
      return { Items: [], Count: 0 };
    case "CreateTable":
    case "DescribeTable":
      return { Table: { TableStatus: "ACTIVE" } };
    case "UpdateTimeToLive":
    case "DescribeTimeToLive":
      return { TimeToLiveDescription: { TimeToLiveStatus: "ENABLED", AttributeName: "expire" } };
    default:
      throw new Failed("UnknownOperationException", { message: `The bench's DynamoDB has no ${operation}.` });
  }
}

function respond(operation: string, text: string): { status: number; body: string } {
  calls++;
  try {
    return { status: 200, body: JSON.stringify(answerTo(operation, JSON.parse(text) as never)) };
  } catch (error) {
    const { type, members } =
      error instanceof Failed ? error : new Failed("ValidationException", { message: String(error) });
    const body = { __type: `com.amazonaws.dynamodb.v20120810#${type}`, message: type, ...members };
    return { status: 400, body: JSON.stringify(body) };
  }
}

const server = createServer((request, response) => {
  let text = "";
  request.setEncoding("utf8");
  request.on("data", (chunk: string) => {
    text += chunk;
  });
  request.on("end", () => {
    const operation = String(request.headers["x-amz-target"]).split(".").at(-1) ?? "";
    const { status, body } = respond(operation, text);
    const bytes = Buffer.from(body);
    response.writeHead(status, {
      "content-type": "application/x-amz-json-1.0",
      "content-length": bytes.length,
      "x-amzn-requestid": "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789ABCDEF",
      "x-amz-crc32": String(crc32(bytes)),
      server: "Server",
    });
    response.end(bytes);
  });
});
server.keepAliveTimeout = 60_000;
server.listen(0, "127.0.0.1", () => {
  const address = server.address();
  process.send?.({ port: typeof address === "object" ? address?.port : undefined });
});
// Asked for the number of calls so far, it tells.
process.on("message", (message) => {
  if (message !== "forget buckets") process.send?.({ calls });
  else for (const id of items.keys()) if (id.includes("/BUCKET#")) items.delete(id);
});
process.on("disconnect", () => process.exit());
