import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import type { TestContext } from "node:test";
import type { DynamoAnswer, DynamoClient } from "../../src/adapters/dynamodb/client.ts";
import type { Attributes } from "../../src/adapters/dynamodb/codec.ts";
import { createCalendar } from "../../src/adapters/system/calendar.ts";
import { systemClock } from "../../src/adapters/system/clock.ts";
import { systemRandom } from "../../src/adapters/system/random.ts";
import type { MigrateOptions } from "../../src/migrate/migrate.ts";
import { MigratedTable } from "../../src/migrate/table.ts";
import { INDEXES, itemsOf, type Layout, T0 } from "../migrate/old-layouts.ts";
import type { DynamodbLocal } from "./dynamodb-local.ts";
import { Wire } from "./store-kit.ts";

const CALL = { timeoutMs: 20_000 };
export const calendar = createCalendar();

/** A table of an old layout, filled; its name. */
export async function oldTable(dynamodb: DynamodbLocal, t: TestContext, layout: Layout): Promise<string> {
  const table = await bareTable(dynamodb, t, INDEXES[layout]);
  await fill(dynamodb, table, itemsOf(layout));
  return table;
}

/** An empty table with some of the indexes, all of them with whole items, as the original makes them. */
export async function bareTable(
  { client }: DynamodbLocal,
  t: TestContext,
  indexes: readonly string[],
): Promise<string> {
  const TableName = `old-${process.pid}-${randomBytes(6).toString("hex")}`;
  const key = (name: string, KeyType: string) => ({ AttributeName: name, KeyType });
  const names = ["PK", "SK", ...indexes.flatMap((index) => [`${index}PK`, `${index}SK`])];
  const made = await client.send(
    "CreateTable",
    JSON.stringify({
      ...{ TableName, BillingMode: "PAY_PER_REQUEST", KeySchema: [key("PK", "HASH"), key("SK", "RANGE")] },
      AttributeDefinitions: names.map((AttributeName) => ({ AttributeName, AttributeType: "S" })),
      GlobalSecondaryIndexes: indexes.map((IndexName) => ({
        ...{ IndexName, KeySchema: [key(`${IndexName}PK`, "HASH"), key(`${IndexName}SK`, "RANGE")] },
        Projection: { ProjectionType: "ALL" },
      })),
    }),
    CALL,
  );
  assert.equal(made.kind, "answered", JSON.stringify(made));
  t.after(() => client.send("DeleteTable", JSON.stringify({ TableName }), CALL));
  return TableName;
}

export async function fill({ client }: DynamodbLocal, table: string, items: readonly Attributes[]): Promise<void> {
  for (let i = 0; i < items.length; i += 25) {
    const requests = items.slice(i, i + 25).map((Item) => ({ PutRequest: { Item } }));
    // What is in the way of a transaction is answered as not processed.
    let left: object = { [table]: requests };
    for (let tries = 0; Object.keys(left).length > 0; tries++) {
      assert.ok(tries < 100, `never written: ${JSON.stringify(left)}`);
      const answer = await client.send("BatchWriteItem", JSON.stringify({ RequestItems: left }), CALL);
      assert.equal(answer.kind, "answered", JSON.stringify(answer));
      left = answer.kind === "answered" ? ((answer.body.UnprocessedItems as object | undefined) ?? {}) : {};
    }
  }
}

/** Everything in a table, in order: for comparing. */
export async function contents({ client }: DynamodbLocal, table: string): Promise<readonly Attributes[]> {
  const found: Attributes[] = [];
  let from: unknown;
  do {
    const start = from === undefined ? {} : { ExclusiveStartKey: from };
    const answer = await client.send(
      "Scan",
      JSON.stringify({ TableName: table, ConsistentRead: true, ...start }),
      CALL,
    );
    assert.equal(answer.kind, "answered");
    if (answer.kind !== "answered") break;
    found.push(...(answer.body.Items as Attributes[]));
    from = answer.body.LastEvaluatedKey;
  } while (from !== undefined);
  const place = (item: Attributes) => `${item.PK?.S} ${item.SK?.S}`;
  return found
    .map((item) => Object.fromEntries(Object.entries(item).sort(([a], [b]) => (a < b ? -1 : 1))))
    .sort((a, b) => (place(a) < place(b) ? -1 : 1));
}

/** What a process that migrates is given; the time is that of the story. */
export function migrating(
  client: DynamoClient,
  table: string,
  { takeOver = false, onProgress = () => {} }: Partial<Pick<MigrateOptions, "takeOver" | "onProgress">> = {},
): MigrateOptions {
  const clock = { now: () => T0, sleep: () => systemClock.sleep(50, undefined) };
  const options = { client, tableName: table, clock, random: Math.random, ids: systemRandom };
  return {
    ...{ table: new MigratedTable(options), calendar, ids: systemRandom, version: "1.2.3", takeOver, onProgress },
    signal: new AbortController().signal,
  };
}

/** What a table says about its version. */
export async function versionIn({ client }: DynamodbLocal, TableName: string): Promise<Attributes | undefined> {
  const Key = { PK: { S: "_/SYSTEM#" }, SK: { S: "#VERSION" } };
  const answer = await client.send("GetItem", JSON.stringify({ TableName, Key, ConsistentRead: true }), CALL);
  assert.ok(answer.kind === "answered", JSON.stringify(answer));
  return answer.body.Item as Attributes | undefined;
}

/** Whether the migration of a table has come to its end. */
export async function isOurs(dynamodb: DynamodbLocal, table: string): Promise<boolean> {
  const record = await versionIn(dynamodb, table);
  return record?.updated_by?.S?.startsWith("zae-limiter-ts:") === true && record.migrating === undefined;
}

const WRITES: ReadonlySet<string> = new Set([
  ...["PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem", "TransactWriteItems", "UpdateTable"],
]);

/** A way to the table that is cut after so many writes that were done; the one after them may still be done, unheard. */
export function cutAfterWrites(client: DynamoClient, writes: number, isLastDone: boolean): Wire {
  const wire = new Wire(client);
  let left = writes;
  const cut = { kind: "failed", status: 400, code: "AccessDeniedException", message: "cut off", body: {} } as const;
  let before: Promise<unknown> = Promise.resolve();
  wire.fault = async ({ operation, send }) => {
    if (left < 0) return cut;
    if (!WRITES.has(operation)) return send();
    // One write after the other: of several at once some would be done after the cut.
    const turn = before.then(() => written(send));
    before = turn.catch(() => {});
    return turn;
  };
  const written = async (send: () => Promise<DynamoAnswer>): Promise<DynamoAnswer> => {
    if (left < 0) return cut;
    if (left === 0 && !isLastDone) {
      left = -1;
      return cut;
    }
    const answer = await send();
    // One whose condition does not hold changes nothing.
    if (answer.kind !== "answered") return answer;
    left -= 1;
    return left < 0 ? cut : answer;
  };
  return wire;
}
