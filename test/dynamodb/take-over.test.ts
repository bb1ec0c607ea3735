import assert from "node:assert/strict";
import { test } from "node:test";
import type { Attributes } from "../../src/adapters/dynamodb/codec.ts";
import { openDynamo } from "../../src/adapters/dynamodb/store.ts";
import { bucketKey } from "../../src/domain/bucket/bucket-key.ts";
import { availableMilli, findLimit } from "../../src/domain/bucket/bucket-state.ts";
import { VersionError } from "../../src/domain/names/errors.ts";
import { Limit } from "../../src/entry/limits.ts";
import { RateLimiter } from "../../src/entry/rate-limiter.ts";
import { migrateTable } from "../../src/migrate/migrate.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { atDepth } from "../depth.ts";
import { type DynamodbLocal, describeDynamo } from "./dynamodb-local.ts";
import { bareTable, contents, cutAfterWrites, fill, isOurs, migrating } from "./migrate-kit.ts";
import { N, optionsFor, S } from "./store-kit.ts";

const T0 = Date.UTC(2026, 2, 15, 12, 10);
const NS = "Ab3dEf6hIj9";
const ALL = ["GSI1", "GSI2", "GSI3", "GSI4"];

/** A bucket as release 0.17.0 of the original writes it. */
function shard(entityId: string, resource: string, index: number, own: Attributes): Attributes {
  const name = `BUCKET#${entityId}#${resource}#${index}`;
  return {
    ...{ PK: S(`${NS}/${name}`), SK: S("#STATE"), entity_id: S(entityId), resource: S(resource) },
    ...{ cascade: { BOOL: false }, shard_count: N(1), rf: N(T0 - 1_000) },
    ...{ b_wcu_tk: N(999_000), b_wcu_cp: N(1_000_000), b_wcu_ra: N(1_000_000), b_wcu_rp: N(1_000), b_wcu_tc: N(1_000) },
    ...{ GSI2PK: S(`${NS}/RESOURCE#${resource}`), GSI2SK: S(`BUCKET#${entityId}#${index}`) },
    ...{ GSI3PK: S(`${NS}/ENTITY#${entityId}`), GSI3SK: S(`BUCKET#${resource}#${index}`) },
    ...{ GSI4PK: S(NS), GSI4SK: S(name), ttl: N(T0 / 1000 + 9_000_000) },
    ...own,
  };
}

function limit(name: string, [tk, cp, ra, rp]: readonly number[], tc = 77_000): Attributes {
  const at = (what: string) => `b_${name}_${what}`;
  return { [at("tk")]: N(tk!), [at("cp")]: N(cp!), [at("ra")]: N(ra!), [at("rp")]: N(rp!), [at("tc")]: N(tc) };
}

/** What a namespace of the original's holds, with what its provisioner leaves out. */
function theirs(): readonly Attributes[] {
  const registry = { GSI4PK: S("_"), GSI4SK: S("_/SYSTEM#") };
  const at = (sk: string) => ({ PK: S("_/SYSTEM#"), SK: S(sk), ...registry });
  const namespace = {
    namespace_id: S(NS),
    namespace_name: S("default"),
    status: S("active"),
    created_at: S("2026-03-01T10:00:00Z"),
  };
  const {
    GSI3PK: _,
    GSI3SK: __,
    GSI4SK: ___,
    ...unlisted
  } = shard("found", "api", 0, limit("rpm", [5_000, 10_000, 10_000, 60_000]));
  return [
    {
      ...at("#VERSION"),
      schema_version: S("0.10.0"),
      client_min_version: S("0.16.0"),
      lambda_version: S("0.17.0"),
      updated_by: S("client:0.17.0"),
    },
    { ...at("#NAMESPACE#default"), ...namespace },
    { ...at(`#NSID#${NS}`), ...namespace },
    // One shard, as it stands.
    shard("plain", "api", 0, limit("rpm", [3_000, 10_000, 10_000, 60_000])),
    // In four shards, of which one was never made; each holds a quarter at most.
    shard("split", "api", 0, { ...limit("rpm", [100, 40_000, 40_000, 60_000]), shard_count: N(4), rf: N(T0 - 3_000) }),
    shard("split", "api", 1, { ...limit("rpm", [-700, 40_000, 40_000, 60_000]), shard_count: N(4), rf: N(T0 - 2_000) }),
    shard("split", "api", 3, {
      ...limit("rpm", [10_000, 40_000, 40_000, 60_000]),
      shard_count: N(4),
      rf: N(T0 - 1_000),
    }),
    // Owes more than it will have when it would expire.
    shard("debtor", "api", 0, { ...limit("rpm", [-600_000, 10_000, 10_000, 60_000]), ttl: N(T0 / 1000 + 420) }),
    unlisted,
    // Set by its provisioner: no version, not listed, not counted, in no index.
    {
      PK: S(`${NS}/RESOURCE#api`),
      SK: S("#CONFIG"),
      resource: S("api"),
      GSI4PK: S(NS),
      l_rpm_cp: N(10),
      l_rpm_ra: N(10),
      l_rpm_rp: N(60),
    },
    {
      PK: S(`${NS}/ENTITY#plain`),
      SK: S("#CONFIG#api"),
      entity_id: S("plain"),
      resource: S("api"),
      GSI4PK: S(NS),
      l_rpm_cp: N(10),
      l_rpm_ra: N(10),
      l_rpm_rp: N(60),
    },
    {
      PK: S(`${NS}/ENTITY#plain`),
      SK: S("#USAGE#api#2026-03-14T09:00:00Z"),
      entity_id: S("plain"),
      resource: S("api"),
      window: S("hourly"),
      window_start: S("2026-03-14T09:00:00Z"),
      rpm: N(3),
      total_events: N(3),
      GSI4PK: S(NS),
      GSI4SK: S(`${NS}/ENTITY#plain`),
    },
    // A bucket of 0.9 that was left behind.
    {
      PK: S(`${NS}/ENTITY#old`),
      SK: S("#BUCKET#api"),
      entity_id: S("old"),
      resource: S("api"),
      rf: N(T0 - 5_000),
      ...limit("rpm", [1_000, 10_000, 10_000, 60_000]),
    },
  ];
}

await describeDynamo("a table that is taken over from the original", (dynamodb) => {
  test("without being asked to, nothing is done; the refusal of a client names the command", async (t) => {
    const table = await theirTable(dynamodb, t);
    const before = await contents(dynamodb, table);
    assert.deepEqual((await migrateTable(migrating(dynamodb.client, table))).steps, []);
    assert.deepEqual(await contents(dynamodb, table), before);
    await assert.rejects(openDynamo(optionsFor(dynamodb.client, table)), (error) => {
      assert.ok(error instanceof VersionError && error.code === "table_shared");
      assert.match(error.message, /migrate --take-over --name/);
      return true;
    });
  });

  test("shards are joined without a token more, debts outlive their item, keys and registries are added", async (t) => {
    const table = await theirTable(dynamodb, t);
    const report = await migrateTable(migrating(dynamodb.client, table, { takeOver: true }));
    assert.deepEqual([report.from, report.to, report.steps.length], ["0.10.0", "0.10.0", 1]);
    assert.ok((report.steps[0]?.items ?? 0) >= 5);
    await looksTakenOver(dynamodb, table);
    assert.deepEqual((await migrateTable(migrating(dynamodb.client, table, { takeOver: true }))).steps, []);
  });

  test("killed after every few writes and run again, it comes to the same", async (t) => {
    const table = await theirTable(dynamodb, t);
    for (let kills = 0; ; kills++) {
      assert.ok(kills < 60, "it does not get ahead");
      const wire = cutAfterWrites(dynamodb.client, atDepth(4, 1), true);
      try {
        await migrateTable(migrating(wire, table, { takeOver: true }));
        assert.ok(kills > atDepth(1, 8), `${kills} kills`);
        break;
      } catch (error) {
        assert.equal((error as { code?: string }).code, "access_denied", String(error));
        if (await isOurs(dynamodb, table)) continue;
        await assert.rejects(openDynamo(optionsFor(dynamodb.client, table, { shared: true })), VersionError);
      }
    }
    await looksTakenOver(dynamodb, table);
  });

  test("its clients are kept out from then on, and ours that would share it are told so", async (t) => {
    const table = await theirTable(dynamodb, t);
    await migrateTable(migrating(dynamodb.client, table, { takeOver: true }));
    const version = (await contents(dynamodb, table)).find(({ SK }) => SK?.S === "#VERSION");
    // The original refuses to open a table that demands a later client than itself.
    assert.ok(Number(version?.client_min_version?.S?.split(".")[0]) >= 1_000);
    assert.equal(version?.schema_version?.S, "0.10.0");
    await assert.rejects(openDynamo(optionsFor(dynamodb.client, table, { shared: true })), (error) => {
      assert.ok(error instanceof VersionError && error.code === "table_taken_over");
      return true;
    });
    // Raised by anybody else, the demand counts.
    await fill(dynamodb, table, [{ ...version, client_min_version: S("2000.0.0") } as Attributes]);
    await assert.rejects(openDynamo(optionsFor(dynamodb.client, table)), (error) => {
      assert.ok(error instanceof VersionError && error.code === "client_version");
      return true;
    });
  });
});

async function theirTable(dynamodb: DynamodbLocal, t: Parameters<typeof bareTable>[1]): Promise<string> {
  const table = await bareTable(dynamodb, t, ALL);
  await fill(dynamodb, table, theirs());
  return table;
}

async function looksTakenOver(dynamodb: DynamodbLocal, table: string): Promise<void> {
  const clock = new SimulatedClock(T0);
  const store = await openDynamo(optionsFor(dynamodb.client, table, { clock }));
  const limiter = await RateLimiter.open({ store, clock, timeoutMs: 20_000 });
  const level = async (entityId: string, atMs: number) => {
    const [state] = await store.scope(NS).buckets.read([bucketKey(entityId, "api")]);
    const held = state === undefined ? undefined : findLimit(state, "rpm");
    assert.ok(state !== undefined && held !== undefined, `${entityId} has no bucket`);
    return availableMilli(state, held, atMs);
  };
  assert.equal(await level("plain", T0), 3_000 + Math.floor(10_000 / 60));
  // At T0 - 1000, when the last shard was refilled: 100 + 333, -700 + 166 and 10000 (its share is full); at the whole rate since.
  const joined = 100 + Math.floor((2_000 * 10_000) / 60_000) + (-700 + Math.floor((1_000 * 10_000) / 60_000)) + 10_000;
  assert.equal(await level("split", T0 - 1_000), joined);
  assert.equal(await level("split", T0), joined + Math.floor(40_000 / 60));
  assert.equal(await level("old", T0), 1_000 + Math.floor((5_000 * 10_000) / 60_000));
  const items = await contents(dynamodb, table);
  const at = (entityId: string) => items.filter(({ PK }) => PK?.S?.startsWith(`${NS}/BUCKET#${entityId}#`));
  assert.deepEqual(
    at("split").map(({ PK, shard_count }) => [PK?.S?.at(-1), shard_count?.N]),
    [["0", "1"]],
  );
  assert.ok(Number(at("debtor")[0]?.ttl?.N) > T0 / 1000 + 3_660, "the debt is paid before the item goes");
  assert.deepEqual([at("found")[0]?.GSI3SK?.S, at("found")[0]?.GSI4SK?.S], ["BUCKET#api#0", "BUCKET#found#api#0"]);
  assert.deepEqual([...(await limiter.listResources())], ["api"]);
  assert.deepEqual([...(await limiter.listEntitiesWithLimits("api"))], ["plain"]);
  assert.ok(!items.some(({ SK }) => SK?.S === "#BUCKET#api" || SK?.S?.startsWith("#USAGE#api#")));
  // Usage of before, and counters that begin with the first take.
  const window = { window: "hourly", fromMs: T0 - 3 * 86_400_000, toMs: T0 + 3_600_000 } as const;
  await clock.advance(60_000);
  await (await limiter.acquire({ entityId: "plain", resource: "api", consume: { rpm: 2 } })).settle();
  const used = [...(await limiter.usage({ entityId: "plain", ...window }))];
  assert.deepEqual(
    used.map(({ counters }) => counters),
    [{ rpm: 3 }, { rpm: 2 }],
  );
  // Limits can be changed, and are counted as they should be.
  await limiter.deleteLimits("plain", { resource: "api" });
  assert.deepEqual([...(await limiter.listEntitiesWithLimits("api"))], []);
  await limiter.setResourceDefaults("api", [Limit.perMinute("rpm", 20)]);
  await store.close();
}
