import assert from "node:assert/strict";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { test } from "node:test";
import { Limit, NotFoundError, RateLimiter, VersionError } from "../../src/entry/index.ts";
import { storeOfEnvironment } from "../../src/entry/store-kinds.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { tempFile } from "../sqlite/temp-store.ts";
import { EVERY_STORE } from "./every-store.ts";

for (const [name, open] of EVERY_STORE) {
  test(`${name}: buckets are listed as they stand now, of an entity, a resource, both or all`, async (t) => {
    const clock = new SimulatedClock(Date.UTC(2026, 5, 15, 10));
    const { store, options } = open(clock, t);
    const limiter = await RateLimiter.open({ store, clock, ...options });
    await limiter.setResourceDefaults("api", [Limit.perMinute("rpm", 60)]);
    await limiter.setResourceDefaults("gpu", [Limit.quota("day", 10, { reset: { cron: "0 0 * * *" }, soft: true })]);
    const take = async (entityId: string, resource: string, consume: Record<string, number>) =>
      (await limiter.acquire({ entityId, resource, consume })).settle();
    await take("b", "api", { rpm: 30 });
    await take("a", "api", { rpm: 60 });
    await take("a", "gpu", { day: 12 });
    await clock.advance(10_000);
    const rpm = (available: number) => [
      { limit: "rpm", counts: "rpm", available, capacity: 60, kind: "drip", soft: false, shadow: false },
    ];
    const aOnApi = { entityId: "a", resource: "api", limits: rpm(10) };
    const bOnApi = { entityId: "b", resource: "api", limits: rpm(40) };
    const day = {
      limit: "day",
      counts: "day",
      available: -2,
      capacity: 10,
      kind: "calendar",
      soft: true,
      shadow: false,
    };
    const aOnGpu = { entityId: "a", resource: "gpu", limits: [day] };
    assert.deepEqual([...(await limiter.listBuckets())], [aOnApi, aOnGpu, bOnApi]);
    assert.deepEqual([...(await limiter.listBuckets({ entityId: "a" }))], [aOnApi, aOnGpu]);
    assert.deepEqual([...(await limiter.listBuckets({ resource: "api" }))], [aOnApi, bOnApi]);
    assert.deepEqual([...(await limiter.listBuckets({ entityId: "b", resource: "api" }))], [bOnApi]);
    assert.deepEqual([...(await limiter.listBuckets({ entityId: "b", resource: "gpu" }))], []);
    const first = await limiter.listBuckets({ limit: 2 });
    assert.deepEqual([...(await limiter.listBuckets({ limit: 2, cursor: first.cursor! }))], [bOnApi]);
    await assert.rejects(async () => limiter.listBuckets({ entity: "a" } as object), { code: "option_unknown" });
    await assert.rejects(async () => limiter.listBuckets({ resource: "no such" }), { code: "resource_invalid" });
  });

  test(`${name}: a scope's own policy is read back, and not what it inherits`, async (t) => {
    const clock = new SimulatedClock(0);
    const { store, options } = open(clock, t);
    const limiter = await RateLimiter.open({ store, clock, ...options });
    await limiter.setAccess({ resource: "api" }, "disabled");
    await limiter.setCascade({ entityId: "a", resource: "api" }, false);
    assert.deepEqual(await limiter.getPolicy({ resource: "api" }), { access: "disabled" });
    assert.deepEqual(await limiter.getPolicy({ entityId: "a", resource: "api" }), { cascade: false });
    assert.deepEqual(await limiter.getPolicy({ entityId: "a" }), {});
    await limiter.setAccess({ resource: "api" }, "inherit");
    assert.deepEqual(await limiter.getPolicy({ resource: "api" }), {});
    await assert.rejects(limiter.getPolicy({}), { code: "scope_missing" });
    await assert.rejects(limiter.getPolicy({ entityId: "no such" }), { code: "entity_id_invalid" });
  });
}

test("create: false makes neither file nor folder, and says that there is none", async (t) => {
  const file = join(dirname(tempFile(t)), "nowhere", "limiter.db");
  await assert.rejects(RateLimiter.open({ store: `sqlite:${file}`, create: false }), (error) => {
    assert.ok(error instanceof NotFoundError);
    assert.equal(error.code, "store_not_found");
    return true;
  });
  assert.equal(existsSync(dirname(file)), false);
});

test("create: false leaves an empty file, a file of another program and an older one as they are", async (t) => {
  const file = tempFile(t);
  const refused = async (code: string) => {
    const before = readFileSync(file);
    await assert.rejects(RateLimiter.open({ store: `sqlite:${file}`, create: false }), { code });
    assert.deepEqual(readFileSync(file), before);
  };
  writeFileSync(file, "");
  await refused("store_not_found");
  const database = new DatabaseSync(file);
  database.exec("CREATE TABLE theirs (one INTEGER)");
  await refused("store_invalid");
  database.exec("DROP TABLE theirs");
  database.close();
  await (await RateLimiter.open({ store: `sqlite:${file}` })).close();
  const older = new DatabaseSync(file);
  older.exec("PRAGMA user_version = 0");
  older.close();
  await refused("schema_older");
  await assert.rejects(RateLimiter.open({ store: `sqlite:${file}`, create: false }), VersionError);
});

test("create: false opens what is there, and reading leaves every byte as it was", async (t) => {
  const file = tempFile(t);
  const made = await RateLimiter.open({ store: `sqlite:${file}` });
  await made.setResourceDefaults("api", [Limit.perMinute("rpm", 60)]);
  await (await made.acquire({ entityId: "a", resource: "api", consume: { rpm: 1 } })).settle();
  await made.close();
  const before = readFileSync(file);
  const limiter = await RateLimiter.open({ store: `sqlite:${file}`, create: false });
  assert.equal((await limiter.listBuckets()).length, 1);
  await limiter.explain({ entityId: "a", resource: "api", consume: { rpm: 1 } });
  await limiter.usageSummary({ window: "hourly" });
  await limiter.close();
  assert.deepEqual(readFileSync(file), before);
  assert.deepEqual([existsSync(`${file}-wal`), existsSync(`${file}-shm`)], [false, false]);
});

test("the environment chooses the store: ZAEL_STORE, else ZAEL_STACK, else the file; empty is unset", () => {
  const file = "sqlite:.zae-limiter/limiter.db";
  assert.equal(storeOfEnvironment({}), file);
  assert.equal(storeOfEnvironment({ ZAEL_STORE: "", ZAEL_STACK: "" }), file);
  assert.equal(storeOfEnvironment({ ZAEL_STACK: "limits" }), "dynamodb:limits");
  assert.equal(storeOfEnvironment({ ZAEL_STORE: "", ZAEL_STACK: "limits" }), "dynamodb:limits");
  assert.equal(storeOfEnvironment({ ZAEL_STORE: "sqlite:x.db", ZAEL_STACK: "limits" }), "sqlite:x.db");
});
