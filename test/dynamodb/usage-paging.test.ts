import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { itemPlace, itemTableKey } from "../../src/adapters/dynamodb/schema.ts";
import { dynamoOver } from "../../src/adapters/dynamodb/store.ts";
import { bucketKey } from "../../src/domain/bucket-key.ts";
import type { UsageQuery } from "../../src/ports/usage-store.ts";
import { Place } from "../../src/testing/contract-kit.ts";
import { type DynamodbLocal, describeDynamo } from "./dynamodb-local.ts";
import { N, newGround, optionsFor, S } from "./store-kit.ts";
import { Meter } from "./units.ts";

const DAY_MS = 86_400_000;
const FIRST_MS = Date.UTC(2026, 0, 1);

await describeDynamo("many sheets", (dynamodb) => {
  test("the first page costs the same however many entities have sheets", async (t) => {
    const days = 3;
    const few = await sheeted(dynamodb, t, { entities: 200, days });
    const many = await sheeted(dynamodb, t, { entities: 1_000, days });
    const query = { window: "daily", fromMs: FIRST_MS, toMs: FIRST_MS + days * DAY_MS } as const;
    for (const [scope, readsMax] of [
      [{ entityId: "id-00007", resource: "api" }, 10],
      [{ entityId: "id-00007" }, 10],
      [{ resource: "api" }, 90],
      [{}, 90],
    ] as const) {
      const costs = [];
      for (const { meter, usage } of [few, many]) {
        const cost = await meter.of(async () => {
          const { items } = await usage.query({ ...query, ...scope }, { limit: 20 });
          assert.equal(items.length, "entityId" in scope ? days : 20);
        });
        assert.ok(cost.reads <= readsMax, `${JSON.stringify(scope)}: ${cost.reads} units`);
        costs.push(cost.calls);
      }
      assert.equal(costs[1], costs[0], `${JSON.stringify(scope)}: calls`);
    }
  });

  test("a long list of all entities costs in proportion to its windows, and finds every sheet once", async (t) => {
    for (const scope of [{}, { resource: "api" }]) {
      const calls = [];
      for (const days of [70, 140]) {
        const { meter, usage } = await sheeted(dynamodb, t, { entities: 3, days });
        const query = { ...scope, window: "daily", fromMs: 0, toMs: Number.MAX_SAFE_INTEGER } as const;
        const found: string[] = [];
        const cost = await meter.of(async () => {
          for await (const { entityId, windowStartMs, requests, counters } of pages(usage, query, 10)) {
            assert.deepEqual([requests, counters], [1, { rpm: 2 }]);
            found.push(`${new Date(windowStartMs).toISOString().slice(0, 10)} ${entityId}`);
          }
        });
        assert.deepEqual(found, [...new Set(found)].sort());
        assert.equal(found.length, 3 * days);
        calls.push(cost.calls);
      }
      const [few = 0, many = 0] = calls;
      assert.ok(many < 2.2 * few, `${few} calls for 70 days, ${many} for 140`);
    }
  });
});

async function* pages(usage: Place["scope"]["usage"], query: UsageQuery, limit: number) {
  for (let cursor: string | undefined, isMore = true; isMore; isMore = cursor !== undefined) {
    const page = await usage.query(query, { limit, ...(cursor === undefined ? {} : { cursor }) });
    yield* page.items;
    cursor = page.cursor;
  }
}

/** A table with a sheet for each entity and day, written straight into it, as closed hours are. */
async function sheeted(
  dynamodb: DynamodbLocal,
  t: TestContext,
  { entities, days }: { readonly entities: number; readonly days: number },
) {
  const { table, namespaceId } = await newGround(dynamodb, t);
  const requests = Array.from({ length: entities * days }, (_, i) => {
    const bucket = bucketKey(`id-${String(i % entities).padStart(5, "0")}`, "api");
    const sheet = new Date(FIRST_MS + Math.floor(i / entities) * DAY_MS).toISOString().slice(0, 10);
    const key = { bucket, shard: 0, sheet };
    const { pk, sk } = itemTableKey(namespaceId, key);
    const index = Object.entries(itemPlace(namespaceId, key)).map(([name, value]) => [name, S(value)] as const);
    const Item = {
      ...{ PK: S(pk), SK: S(sk), ...Object.fromEntries(index), ttl: N(4_000_000_000), h13: S("1;rpm=2000") },
      ...{ entity_id: S(bucket.entityId), resource: S("api") },
    };
    return { PutRequest: { Item } };
  });
  for (let i = 0; i < requests.length; i += 25) {
    const body = JSON.stringify({ RequestItems: { [table]: requests.slice(i, i + 25) } });
    const answer = await dynamodb.client.send("BatchWriteItem", body, { timeoutMs: 30_000 });
    assert.equal(answer.kind, "answered");
  }
  const meter = new Meter(dynamodb.client);
  const { scope } = await Place.in(dynamoOver(optionsFor(meter, table)), "default");
  return { meter, usage: scope.usage };
}
