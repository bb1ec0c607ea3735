import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import type { TestContext } from "node:test";
import type { DynamodbLocal } from "../dynamodb/dynamodb-local.ts";
import { FaultProxy, type ProxyAnswer } from "../dynamodb/fault-proxy.ts";
import { CREDENTIALS } from "./archive-kit.ts";
import { createTable, deleteTable, limiterOn, type RateLimiter } from "./package.ts";

// DynamoDB Local removes nothing from a table with indexes, however long ago its `ttl` was. Here a test removes what is to
// expire, and a proxy in front of the stream says of such removals what AWS says: that the service did it.

export interface ExpiringTable {
  readonly stack: string;
  /** Of table and stream. */
  readonly way: {
    readonly stack: string;
    readonly region: string;
    readonly endpoint: string;
    readonly credentials: typeof CREDENTIALS;
  };
  readonly proxy: FaultProxy;
  readonly limiter: RateLimiter;
  /** Makes so many audit events; their ids. */
  change(count: number): Promise<readonly string[]>;
  /** Removes all audit events there are now. */
  expireAll(): Promise<void>;
}

export async function newExpiringTable(t: TestContext, dynamodb: DynamodbLocal): Promise<ExpiringTable> {
  const stack = `expiring-${process.pid}-${randomBytes(5).toString("hex")}`;
  const proxy = await FaultProxy.open(t, dynamodb.endpoint);
  proxy.choose = ({ operation }) =>
    operation === "GetRecords" ? async ({ forward, answer }) => answer(byTheService(await forward())) : undefined;
  const reached = { region: "us-east-1", endpoint: proxy.endpoint, credentials: CREDENTIALS };
  const way = { stack, ...reached };
  await createTable(way);
  const limiter = await limiterOn(way);
  t.after(async () => {
    await limiter.close();
    await deleteTable({ ...way, endpoint: dynamodb.endpoint });
  });
  const send = async (operation: "Scan" | "DeleteItem", input: object) => {
    const answer = await dynamodb.client.send(operation, JSON.stringify({ TableName: stack, ...input }), {
      timeoutMs: 10_000,
    });
    assert.equal(answer.kind, "answered");
    return answer.kind === "answered" ? answer.body : {};
  };
  return {
    ...{ stack, way, proxy, limiter },
    change: async (count) => {
      const before = new Set((await limiter.auditEvents({ limit: 1000 })).events.map(({ eventId }) => eventId));
      for (let i = 0; i < count; i++) await limiter.setAccess({ entityId: `e${i}`, resource: "api" }, "enforce");
      const { events } = await limiter.auditEvents({ limit: 1000 });
      return events.map(({ eventId }) => eventId).filter((id) => !before.has(id));
    },
    expireAll: async () => {
      const { Items = [] } = (await send("Scan", {})) as { Items?: { PK: { S: string }; SK: { S: string } }[] };
      for (const { PK, SK } of Items) if (SK.S.startsWith("#AUDIT#")) await send("DeleteItem", { Key: { PK, SK } });
    },
  };
}

function byTheService({ status, headers, body }: ProxyAnswer): ProxyAnswer {
  const answer = JSON.parse(body.toString()) as { Records?: Record<string, unknown>[] };
  for (const record of answer.Records ?? []) {
    if (record.eventName === "REMOVE") record.userIdentity = { PrincipalId: "dynamodb.amazonaws.com", Type: "Service" };
  }
  const { "x-amz-crc32": _, "content-length": _l, ...kept } = headers;
  return { status, headers: kept, body: Buffer.from(JSON.stringify(answer)) };
}
