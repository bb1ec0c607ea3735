import assert from "node:assert/strict";
import { test } from "node:test";
import { createTable, deleteTable } from "../../src/adapters/dynamodb/table.ts";
import { systemClock } from "../../src/adapters/system/clock.ts";
import { ExistsError } from "../../src/domain/names/errors.ts";
import { describeDynamo } from "./dynamodb-local.ts";

await describeDynamo("the table", (dynamodb) => {
  const { client } = dynamodb;
  const wait = { client, clock: systemClock, timeoutMs: 30_000 };
  const asked = async (operation: "DescribeTable" | "DescribeTimeToLive", TableName: string) => {
    const answer = await client.send(operation, JSON.stringify({ TableName }), { timeoutMs: 5_000 });
    assert.ok(answer.kind === "answered");
    return answer.body as Record<string, Record<string, unknown>>;
  };

  test("is made whole, with expiry where it is asked for", async () => {
    const expiring = await dynamodb.newTable({ gsi2Projection: "KEYS_ONLY", expiry: true });
    const { Table } = await asked("DescribeTable", expiring);
    const indexes = Table?.GlobalSecondaryIndexes as readonly { IndexName: string; Projection: object }[];
    const projections = Object.fromEntries(indexes.map(({ IndexName, Projection }) => [IndexName, Projection]));
    assert.deepEqual(projections, {
      GSI1: { ProjectionType: "ALL" },
      GSI2: { ProjectionType: "KEYS_ONLY" },
      GSI3: { ProjectionType: "KEYS_ONLY" },
      GSI4: { ProjectionType: "KEYS_ONLY" },
    });
    assert.equal(Table?.LocalSecondaryIndexes, undefined);
    const expiry = { TimeToLiveStatus: "ENABLED", AttributeName: "ttl" };
    assert.deepEqual((await asked("DescribeTimeToLive", expiring)).TimeToLiveDescription, expiry);
    const lasting = await dynamodb.newTable({ gsi2Projection: "ALL", expiry: false });
    const { TimeToLiveDescription } = await asked("DescribeTimeToLive", lasting);
    assert.equal(TimeToLiveDescription?.TimeToLiveStatus, "DISABLED");
  });

  test("that is there already is not made again, and one that is deleted is gone", async () => {
    const name = await dynamodb.newTable({ gsi2Projection: "KEYS_ONLY", expiry: false });
    const options = { name, gsi2Projection: "KEYS_ONLY", expiry: false, tags: {}, deletionProtection: false } as const;
    await assert.rejects(createTable(options, wait), ExistsError);
    assert.equal(await deleteTable(name, wait), true);
    assert.equal(await deleteTable(name, wait), false);
    await createTable(options, wait);
    assert.equal(await deleteTable(name, wait), true);
  });
});
