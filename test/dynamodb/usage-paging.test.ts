import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { itemPlace, itemTableKey, usageStateKey } from "../../src/adapters/dynamodb/schema.ts";
import { dynamoOver } from "../../src/adapters/dynamodb/store.ts";
import { putClosedUntil, UsedResources } from "../../src/adapters/dynamodb/usage-resources.ts";
import { bucketKey } from "../../src/domain/bucket/bucket-key.ts";
import type { UsageQuery } from "../../src/ports/usage-store.ts";
import { atDepth } from "../depth.ts";
import { TestedNamespace } from "../kit/contract-kit.ts";
import { type DynamodbLocal, describeDynamo } from "./dynamodb-local.ts";
import { N, newGround, optionsFor, S } from "./store-kit.ts";
import { Meter, type Units } from "./units.ts";

const DAY_MS = 86_400_000;
const FIRST_MS = Date.UTC(2026, 0, 1);
/** Days of a list, and four times as many. */
const LENGTHS = [120, 480];

await describeDynamo("many sheets", (dynamodb) => {
  test("the first page costs the same however many entities have sheets", async (t) => {
    const days = 3;
    const few = await sheeted(dynamodb, t, { entities: atDepth(50, 200), days });
    const many = await sheeted(dynamodb, t, { entities: atDepth(250, 1_000), days });
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

  test("the first page of one entity costs the same however many days are kept", async (t) => {
    const counts = [40, atDepth(160, 400)] as const;
    const grounds: Sheeted[] = [];
    for (const days of counts) {
      grounds.push(await sheeted(dynamodb, t, { entities: 1, days, resources: ["r-0", "r-1", "r-2"] }));
    }
    for (const scope of [{ resource: "r-0" }, {}]) {
      const costs = [];
      for (const { meter, usage } of grounds) {
        const query = { entityId: "id-00000", ...scope, window: "daily", fromMs: 0, toMs: 2 ** 53 } as const;
        costs.push(
          await meter.of(async () => assert.equal((await usage.query(query, { limit: 10 })).items.length, 10)),
        );
      }
      const [few, many] = costs;
      assert.ok(few !== undefined && many !== undefined);
      assert.ok(few.reads < 35, `${few.reads} units`);
      // Of each resource, how many sheets it has is not known before some more have been passed.
      assert.ok(many.calls <= few.calls + 3, `${few.calls} calls, ${many.calls} for ${counts} days`);
      assert.ok(many.reads <= few.reads + 8, `${few.reads} units, ${many.reads} for ${counts} days`);
    }
  });

  test("the list of one entity costs in proportion to its length, page by page", async (t) => {
    const one = { scope: { resource: "r-0" }, resources: ["r-0"] };
    const two = { scope: {}, resources: ["r-0", "r-1"] };
    for (const { scope, resources } of atDepth([two], [one, two])) {
      const costs = [];
      for (const days of LENGTHS) {
        const { meter, usage } = await sheeted(dynamodb, t, { entities: 1, days, resources });
        const query = { entityId: "id-00000", ...scope, window: "daily", fromMs: 0, toMs: 2 ** 53 } as const;
        const found: string[] = [];
        const cost = await meter.of(async () => {
          for await (const { resource, windowStartMs } of pages(usage, query, 12))
            found.push(`${windowStartMs} ${resource}`);
        });
        assert.deepEqual(found, [...new Set(found)].sort());
        assert.equal(found.length, days * resources.length);
        costs.push(cost);
      }
      const [few, many] = costs;
      assert.ok(few !== undefined && many !== undefined);
      assert.ok(many.calls < 4.4 * few.calls, `${few.calls} calls, ${many.calls} for ${LENGTHS} days`);
      assert.ok(many.reads < 4.4 * few.reads, `${few.reads} units, ${many.reads} for ${LENGTHS} days`);
    }
  });

  test("a page of all entities costs the same however many days are kept, swept or not", async (t) => {
    const costs = new Map<string, Units[]>();
    for (const days of [20, atDepth(120, 500)]) {
      const ground = await sheeted(dynamodb, t, { entities: 4, days, resources: ["r-0", "r-1"] });
      const fromMs = FIRST_MS + (days / 2) * DAY_MS;
      const query = { window: "daily", fromMs, toMs: fromMs + DAY_MS } as const;
      for (const state of ["never swept", "swept"]) {
        if (state === "swept") await ground.sweptUntil(FIRST_MS + days * DAY_MS);
        const cost = await ground.meter.of(async () => {
          const { items } = await ground.usage.query(query, { limit: 5 });
          const found = items.map(({ entityId, resource }) => `${entityId} ${resource}`);
          const all = [0, 1, 2].flatMap((id) => [`id-0000${id} r-0`, `id-0000${id} r-1`]);
          assert.deepEqual(found, all.slice(0, 5), state);
        });
        costs.set(state, [...(costs.get(state) ?? []), cost]);
      }
    }
    const [unswept, swept] = [...costs.values()];
    const reads = (of: Units[] | undefined) => (of ?? []).map((cost) => cost.reads);
    // Two times 200 keys a bucket at most, and no more than the sheets of the day where the resources are known.
    assert.ok((reads(unswept)[1] ?? 0) < 8 * 12, `${reads(unswept)} units`);
    assert.equal(reads(swept)[1], reads(swept)[0]);
    assert.ok((reads(swept)[1] ?? 0) <= 12, `${reads(swept)} units`);
  });

  test("where sweeps have noted the resources, a list finds the same as by passing over everything", async (t) => {
    const ground = await sheeted(dynamodb, t, { entities: 3, days: 6, resources: ["a", "a-b", "z"] });
    const fromMs = FIRST_MS - 400 * DAY_MS;
    for (const window of ["hourly", "daily", "monthly"] as const) {
      const query = { window, fromMs, toMs: 2 ** 53 } as const;
      const listed = async (limit: number) => {
        const found = [];
        for await (const one of pages(ground.usage, query, limit)) found.push(one);
        return found;
      };
      const before = await listed(100);
      assert.equal(before.length, window === "monthly" ? 9 : 54);
      await ground.sweptUntil(FIRST_MS + 3 * DAY_MS);
      for (const limit of [4, 100]) assert.deepEqual(await listed(limit), before, `${window}, ${limit} a page`);
      await ground.unswept();
    }
  });

  test("a long list of all entities costs in proportion to its windows, and finds every sheet once", async (t) => {
    const counts = atDepth([30, 60], [70, 140]);
    const grounds: (Sheeted & { readonly days: number })[] = [];
    for (const days of counts) grounds.push({ ...(await sheeted(dynamodb, t, { entities: 3, days })), days });
    for (const scope of [{}, { resource: "api" }]) {
      const calls = [];
      for (const { meter, usage, days } of grounds) {
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
      assert.ok(many < 2.2 * few, `${few} calls, ${many} for ${counts} days`);
    }
  });
});

async function* pages(usage: TestedNamespace["scope"]["usage"], query: UsageQuery, limit: number) {
  for (let cursor: string | undefined, isMore = true; isMore; isMore = cursor !== undefined) {
    const page = await usage.query(query, { limit, ...(cursor === undefined ? {} : { cursor }) });
    yield* page.items;
    cursor = page.cursor;
  }
}

type Sheeted = Awaited<ReturnType<typeof sheeted>>;

/** A table with a sheet for each entity, resource and day, written straight into it, as closed hours are. */
async function sheeted(
  dynamodb: DynamodbLocal,
  t: TestContext,
  {
    entities,
    days,
    resources = ["api"],
  }: { readonly entities: number; readonly days: number; readonly resources?: readonly string[] },
) {
  const { table, namespaceId, records } = await newGround(dynamodb, t);
  const requests = Array.from({ length: entities * days * resources.length }, (_, i) => {
    const resource = resources[i % resources.length] as string;
    const nth = Math.floor(i / resources.length);
    const bucket = bucketKey(`id-${String(nth % entities).padStart(5, "0")}`, resource);
    const sheet = new Date(FIRST_MS + Math.floor(nth / entities) * DAY_MS).toISOString().slice(0, 10);
    const key = { bucket, shard: 0, sheet };
    const { pk, sk } = itemTableKey(namespaceId, key);
    const index = Object.entries(itemPlace(namespaceId, key)).map(([name, value]) => [name, S(value)] as const);
    const Item = {
      ...{ PK: S(pk), SK: S(sk), ...Object.fromEntries(index), ttl: N(4_000_000_000), h13: S("1;rpm=2000") },
      ...{ entity_id: S(bucket.entityId), resource: S(resource) },
    };
    return { PutRequest: { Item } };
  });
  for (let i = 0; i < requests.length; i += 25) {
    const body = JSON.stringify({ RequestItems: { [table]: requests.slice(i, i + 25) } });
    const answer = await dynamodb.client.send("BatchWriteItem", body, { timeoutMs: 30_000 });
    assert.equal(answer.kind, "answered");
  }
  const meter = new Meter(dynamodb.client);
  const { scope } = await TestedNamespace.in(dynamoOver(optionsFor(meter, table)), "default");
  return {
    meter,
    usage: scope.usage,
    /** As a sweep leaves it behind. */
    async sweptUntil(closedUntilMs: number) {
      await (await UsedResources.in(records, namespaceId)).complete(closedUntilMs, () => false);
      await putClosedUntil(records, namespaceId, closedUntilMs);
    },
    unswept: () => records.deleteAll([usageStateKey(namespaceId)]),
  };
}
