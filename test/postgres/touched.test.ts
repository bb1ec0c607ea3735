import assert from "node:assert/strict";
import { after, test } from "node:test";
import pg from "pg";
import type { PostgresClient } from "../../src/adapters/postgres/connection.ts";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { openPostgres } from "../../src/entry/postgres.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { describePostgres } from "./postgres.ts";

const T0 = Date.UTC(2026, 2, 15, 12);
const rpm = (capacity: number) => [Limit.perMinute("rpm", capacity)];

await describePostgres("changes on PostgreSQL, and who reads again", ({ url, newSchema }) => {
  const pool = new pg.Pool({ connectionString: url, max: 8 });
  after(() => pool.end());

  /** Two processes on one schema. The statements of the first are counted: reads of limits, and takes. */
  const opened = async () => {
    const schema = newSchema();
    const clock = new SimulatedClock(T0);
    let reads = 0;
    let takes = 0;
    const counted: PostgresClient = {
      query: (text, values) => {
        if (text.includes(".read_2(")) reads++;
        if (text.includes(".take_")) takes++;
        return pool.query(text, values);
      },
    };
    const open = async (client: PostgresClient) => {
      const store = await openPostgres({ client, schema, clock, adminTimeoutMs: 60_000 });
      return RateLimiter.open({ store, clock, timeoutMs: 60_000, denyMemoryMs: 0, configTtlMs: 36_000_000 });
    };
    const limiter = await open(counted);
    const other = await open(pool);
    await other.setSystemDefaults(rpm(1_000));
    const take = async (entityId: string, resource = "api") => {
      const outcome = await limiter.tryAcquire({ entityId, resource, consume: { rpm: 1 } });
      return outcome.ok ? outcome.lease.remaining.find(({ limit }) => limit === "rpm")?.capacity : "refused";
    };
    /** How many statements it took. */
    const cost = async (work: () => Promise<unknown>) => {
      reads = 0;
      takes = 0;
      await work();
      return { reads, takes };
    };
    return { schema, limiter, other, take, cost, close: () => Promise.all([limiter.close(), other.close()]) };
  };

  test("a change that the server has lost in a failover holds nobody up", async () => {
    const { schema, other, take, close } = await opened();
    await take("key");
    await other.setResourceDefaults("batch", rpm(3));
    await take("key");
    // As on a standby that had not received it.
    await pool.query(`UPDATE "${schema}".generation SET value = value - 1 WHERE namespace = 'default'`);
    await pool.query(`DELETE FROM "${schema}".change WHERE namespace = 'default' AND touched @> ARRAY['batch']`);
    assert.equal(await take("key"), 1_000);
    assert.equal(await take("another"), 1_000);
    assert.equal(await take("key"), 1_000);
    // The next change has the number of the lost one.
    await other.setSystemDefaults(rpm(50));
    assert.equal(await take("key"), 50);
    assert.equal(await take("another"), 50);
    await close();
  });

  test("who is not touched by a change reads nothing, and takes in one statement again after the next", async () => {
    const { limiter, other, take, cost, close } = await opened();
    await other.createPlan({ id: "pro" });
    await other.createPlan({ id: "free" });
    await other.createEntity({ id: "org" });
    await other.createEntity({ id: "key", parentId: "org", cascade: true, planId: "free" });
    await take("key");
    await take("alone");
    const strangers: readonly (readonly [string, () => Promise<unknown>])[] = [
      ["an entity is created", () => other.createEntity({ id: "stranger" })],
      ["with a parent of ours", () => other.createEntity({ id: "child", parentId: "org" })],
      ["another gets limits", () => other.setLimits("stranger", rpm(3), { resource: "api" })],
      ["another gets a total", () => other.setTotals("stranger", rpm(3))],
      ["another resource gets defaults", () => other.setResourceDefaults("batch", rpm(3))],
      ["another plan gets limits", () => other.setPlanLimits("pro", rpm(3))],
      ["another is switched off", () => other.setAccess({ entityId: "stranger" }, "disabled")],
      ["another is deleted", () => other.deleteEntity("child")],
      ["by this process", () => limiter.createEntity({ id: "own" })],
    ];
    for (const [what, change] of strangers) {
      await change();
      for (const id of ["key", "alone"]) {
        // The batch is not summed where configuration has moved on.
        const { reads, takes } = await cost(() => take(id));
        assert.ok(reads === 0 && takes <= 2, `${what}: ${reads} reads, ${takes} takes`);
        assert.deepEqual(await cost(() => take(id)), { reads: 0, takes: 1 }, what);
      }
    }
    await close();
  });

  test("who is touched by a change goes by it in the next take, whatever was changed, and nobody else reads", async () => {
    const { other, take, cost, close } = await opened();
    await other.createPlan({ id: "pro" });
    await other.createEntity({ id: "org" });
    await other.createEntity({ id: "key", parentId: "org", cascade: true });
    await other.createEntity({ id: "customer", planId: "pro" });
    for (const id of ["key", "customer", "alone", "bystander"]) await take(id);
    const changes: readonly (readonly [string, () => Promise<unknown>, string, number | "refused"])[] = [
      ["its limits", () => other.setLimits("alone", rpm(7), { resource: "api" }), "alone", 7],
      ["its default", () => other.setLimits("customer", rpm(8)), "customer", 8],
      ["its default goes", () => other.deleteLimits("customer"), "customer", 1_000],
      ["its plan", () => other.setPlanLimits("pro", rpm(9)), "customer", 9],
      ["it leaves its plan", () => other.updateEntity("customer", { planId: null }), "customer", 1_000],
      ["its parent, by a level that had none", () => other.setLimits("org", [Limit.perDay("day", 1)]), "key", 1_000],
    ];
    for (const [what, change, id, capacity] of changes) {
      await change();
      assert.equal((await cost(() => take("bystander"))).reads, 0, what);
      let now: number | string | undefined;
      const { reads, takes } = await cost(async () => (now = await take(id)));
      assert.equal(now, capacity, what);
      assert.ok(reads >= 1 && reads <= 4 && takes <= 3, `${what}: ${reads} reads, ${takes} takes`);
      assert.deepEqual(await cost(() => take(id)), { reads: 0, takes: 1 }, `${what}, once more`);
    }
    await close();
  });

  test("what is switched off above a level that nothing is taken of refuses the next take", async () => {
    const { limiter, other, cost, close } = await opened();
    await other.deleteSystemDefaults();
    await other.createEntity({ id: "top" });
    await other.createEntity({ id: "middle", parentId: "top", cascade: true });
    await other.createEntity({ id: "leaf", parentId: "middle", cascade: true });
    await other.setLimits("leaf", rpm(10), { resource: "api" });
    const take = () => limiter.tryAcquire({ entityId: "leaf", resource: "api", consume: { rpm: 1 } });
    assert.equal((await take()).ok, true);
    await other.createEntity({ id: "stranger" });
    assert.equal((await cost(take)).reads, 0);
    await other.setAccess({ entityId: "top" }, "disabled");
    await assert.rejects(take(), { code: "resource_disabled" });
    await close();
  });

  test("defaults of the system, and more changes than are kept, make everybody read again, and once", async () => {
    const { other, take, cost, close } = await opened();
    await take("alone");
    await other.setSystemDefaults(rpm(500));
    let now: unknown;
    assert.equal((await cost(async () => (now = await take("alone")))).reads, 1);
    assert.equal(now, 500);
    for (let i = 0; i < 140; i++) await other.createEntity({ id: `stranger-${i}` });
    assert.equal((await cost(() => take("alone"))).reads, 1);
    assert.deepEqual(await cost(() => take("alone")), { reads: 0, takes: 1 });
    for (let i = 0; i < 100; i++) await other.createEntity({ id: `other-${i}` });
    assert.equal((await cost(() => take("alone"))).reads, 0);
    await close();
  });

  test("a lease that ends after changes of others is settled in one statement, and meets a change of its own limits", async () => {
    const { limiter, other, cost, close } = await opened();
    const request = { entityId: "alone", resource: "api", consume: { rpm: 10 } };
    const first = await limiter.acquire(request);
    await other.createEntity({ id: "stranger" });
    await limiter.tryAcquire({ ...request, consume: { rpm: 1 } });
    assert.deepEqual(await cost(() => first.settle({ rpm: 4 })), { reads: 0, takes: 1 });
    const second = await limiter.acquire(request);
    await other.setLimits("alone", rpm(100), { resource: "api" });
    const { reads } = await cost(() => second.settle({ rpm: 5 }));
    assert.equal(reads, 1);
    const [status] = await limiter.available({ entityId: "alone", resource: "api" });
    assert.equal(status?.capacity, 100);
    await close();
  });

  test("a package that does not say what it touches touches everything", async () => {
    const { schema, other, take, cost, close } = await opened();
    await take("alone");
    await other.createEntity({ id: "stranger" });
    await pool.query(`DELETE FROM "${schema}".change`);
    assert.equal((await cost(() => take("alone"))).reads, 1);
    await close();
  });

  test("a namespace keeps the last 128 changes", async () => {
    const { schema, other, close } = await opened();
    for (let i = 0; i < 150; i++) await other.createEntity({ id: `stranger-${i}` });
    const { rows } = await pool.query(
      `SELECT count(*)::int AS kept, max(generation) - min(generation) + 1 AS span FROM "${schema}".change WHERE namespace = 'default'`,
    );
    assert.deepEqual(rows, [{ kept: 128, span: "128" }]);
    await close();
  });
});
