import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { describe, type TestContext, test } from "node:test";
import { MIGRATIONS } from "../../src/adapters/sqlite/open-connection.ts";
import { bucketKey } from "../../src/domain/bucket/bucket-key.ts";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { SeededRandom } from "../../src/testing/random.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { conditionalWorld, openConditional } from "../kit/conditional-store.ts";
import { calendar } from "../limits/kind-arbitraries.ts";
import { tempFile } from "../sqlite/temp-store.ts";
import { EVERY_STORE } from "./every-store.ts";

// A change of limits counts from when it was made, whenever the next request comes.

const T0 = Date.UTC(2026, 2, 15, 12);
const SECOND_MS = 1_000;
const rate = (perSecond: number, burst = 10_000) => [Limit.perSecond("r", perSecond, { burst })];
const asking = (r: number) => ({ entityId: "a", resource: "api", consume: { r } });

async function availableOf(limiter: RateLimiter): Promise<number | undefined> {
  return (await limiter.available({ entityId: "a", resource: "api" }))[0]?.available;
}

for (const [name, openStore] of EVERY_STORE) {
  describe(`changes of limits, on ${name}`, () => {
    async function open(t: TestContext) {
      const clock = new SimulatedClock(T0);
      const { store, options } = openStore(clock, t);
      return { limiter: await RateLimiter.open({ store, clock, ...options }), clock };
    }

    test("a lowered rate stops granting at the old one when it is lowered, not at the next request", async (t) => {
      const { limiter, clock } = await open(t);
      await limiter.setLimits("a", rate(10));
      await limiter.acquire(asking(10_000));
      await clock.advance(10 * SECOND_MS);
      await limiter.setLimits("a", rate(1));
      await clock.advance(500 * SECOND_MS);
      assert.equal(await availableOf(limiter), 100 + 500, "asked for before a request has come");
      assert.equal((await limiter.tryAcquire(asking(601))).ok, false);
      assert.equal((await limiter.tryAcquire(asking(600))).ok, true);
    });

    test("a raised rate grants from when it is raised", async (t) => {
      const { limiter, clock } = await open(t);
      await limiter.setResourceDefaults("api", rate(1));
      await limiter.acquire(asking(10_000));
      await clock.advance(10 * SECOND_MS);
      await limiter.setResourceDefaults("api", rate(50));
      await clock.advance(20 * SECOND_MS);
      assert.equal((await limiter.tryAcquire(asking(1_010))).ok, true);
      assert.equal((await limiter.tryAcquire(asking(1))).ok, false);
    });

    test("what changes below a plan that has no limits yet counts from then on, also after it was left", async (t) => {
      const { limiter, clock } = await open(t);
      await limiter.setSystemDefaults(rate(10));
      for (const id of ["label", "late"]) await limiter.createPlan({ id });
      await limiter.createEntity({ id: "a", planId: "label" });
      await limiter.acquire(asking(10_000));
      await clock.advance(10 * SECOND_MS);
      await limiter.setSystemDefaults(rate(1));
      await clock.advance(100 * SECOND_MS);
      await limiter.updateEntity("a", { planId: "late" });
      await clock.advance(100 * SECOND_MS);
      await limiter.setPlanLimits("late", rate(2));
      await clock.advance(100 * SECOND_MS);
      await limiter.updateEntity("a", { planId: null });
      await clock.advance(100 * SECOND_MS);
      assert.equal(await availableOf(limiter), 100 + 100 + 100 + 200 + 100);
    });

    test("an entity goes by a plan from when it came to it, and by the plan's changes while it has it", async (t) => {
      const { limiter, clock } = await open(t);
      await limiter.setSystemDefaults(rate(1));
      for (const id of ["gold", "silver"]) await limiter.createPlan({ id });
      await limiter.setPlanLimits("gold", rate(10));
      await limiter.createEntity({ id: "a" });
      await limiter.acquire(asking(10_000));
      await clock.advance(10 * SECOND_MS);
      await limiter.setPlanLimits("silver", rate(100));
      await limiter.updateEntity("a", { planId: "gold" });
      await clock.advance(10 * SECOND_MS);
      await limiter.setPlanLimits("gold", rate(20));
      await clock.advance(10 * SECOND_MS);
      await limiter.updateEntity("a", { planId: "silver" });
      await limiter.deletePlan("gold");
      await limiter.setSystemDefaults(rate(5_000));
      await clock.advance(10 * SECOND_MS);
      // What the plan said counts for its time, although it is gone.
      const due = 10 + 10 * 10 + 10 * 20 + 10 * 100;
      assert.equal(await availableOf(limiter), due);
      assert.equal((await limiter.tryAcquire(asking(due + 1))).ok, false);
      assert.equal((await limiter.tryAcquire(asking(due))).ok, true);
      await clock.advance(10 * SECOND_MS);
      await limiter.updateEntity("a", { planId: null });
      await clock.advance(SECOND_MS);
      assert.equal((await limiter.tryAcquire(asking(10 * 100 + 5_000 + 1))).ok, false);
      assert.equal((await limiter.tryAcquire(asking(10 * 100 + 5_000))).ok, true);
    });

    test("several levels that were changed, and one that was deleted, count each for its own time", async (t) => {
      const { limiter, clock } = await open(t);
      await limiter.setSystemDefaults(rate(1));
      await limiter.acquire(asking(10_000));
      await clock.advance(10 * SECOND_MS);
      await limiter.setResourceDefaults("api", rate(20));
      await clock.advance(10 * SECOND_MS);
      await limiter.setLimits("a", rate(3));
      await clock.advance(10 * SECOND_MS);
      await limiter.deleteLimits("a");
      await clock.advance(10 * SECOND_MS);
      const explained = await limiter.explain(asking(440));
      assert.equal(explained.outcome, "granted");
      assert.equal((await limiter.tryAcquire(asking(10 + 200 + 30 + 200 + 1))).ok, false);
      assert.equal((await limiter.tryAcquire(asking(10 + 200 + 30 + 200))).ok, true);
    });

    test("a list of buckets shows the limits in force, those of a request where it brought some, and none without", async (t) => {
      const { limiter, clock } = await open(t);
      await limiter.setLimits("a", rate(10, 100));
      await limiter.setLimits("b", rate(10, 100));
      await limiter.acquire(asking(100));
      await limiter.acquire({ ...asking(60), entityId: "b" });
      await limiter.acquire({ ...asking(5), entityId: "c", limits: rate(1, 7) });
      await clock.advance(SECOND_MS);
      await limiter.setLimits("a", rate(1, 20));
      await clock.advance(5 * SECOND_MS);
      const listed = async () => {
        const found = await limiter.listBuckets({ resource: "api" });
        return found.map(({ entityId, limits }) => [entityId, limits[0]?.available, limits[0]?.capacity]);
      };
      assert.deepEqual(await listed(), [
        ["a", 10 + 5, 20],
        ["b", 100, 100],
        ["c", 7, 7],
      ]);
      await limiter.deleteLimits("b");
      assert.deepEqual(
        (await listed()).map(([entityId]) => entityId),
        ["a", "c"],
      );
    });
  });
}

test("a process that still goes by the old limits makes the change count from its last take on", async () => {
  const clock = new SimulatedClock(T0);
  const random = new SeededRandom(7);
  const world = conditionalWorld({ now: () => clock.now(), random, writesPerSecond: Infinity, staleMs: 0 }, calendar);
  const process = () =>
    RateLimiter.open({ store: openConditional(world, { clock, random: () => random.next(), denyMemoryMs: 0 }), clock });
  const [one, other] = [await process(), await process()];
  await one.setResourceDefaults("api", rate(1));
  await one.acquire(asking(10_000));
  await clock.advance(10 * SECOND_MS);
  await other.setResourceDefaults("api", rate(100));
  await clock.advance(10 * SECOND_MS);
  // It remembers the old rate, and nothing on the bucket says that there is another.
  await one.acquire(asking(5));
  await clock.advance(SECOND_MS);
  assert.equal((await other.tryAcquire(asking(20 - 5 + 100 + 1))).ok, false);
  assert.equal((await other.tryAcquire(asking(20 - 5 + 100))).ok, true);
});

test("a lease that takes more from a shard which has not heard of a change finds it changed from when it was", async () => {
  const clock = new SimulatedClock(T0);
  const random = new SeededRandom(7);
  const world = conditionalWorld({ now: () => clock.now(), random, writesPerSecond: Infinity, staleMs: 0 }, calendar);
  const store = openConditional(world, { clock, random: () => random.next(), denyMemoryMs: 0 });
  const limiter = await RateLimiter.open({ store, clock });
  await limiter.setResourceDefaults("api", rate(2));
  await limiter.acquire(asking(10_000));
  assert.ok(await store.bucketsOf("default").resize(bucketKey("a", "api"), "more", clock.now()));
  await clock.advance(10 * SECOND_MS);
  await limiter.setResourceDefaults("api", rate(100));
  await clock.advance(10 * SECOND_MS);
  // All that one of the two shards holds, and then all that the other does.
  const lease = await limiter.acquire(asking(10 + 500));
  await lease.consume({ r: 10 + 500 });
  assert.equal((await limiter.tryAcquire(asking(1))).ok, false);
});

test("a file of the version before has limits whose instant is not known: they count from the next request on", async (t) => {
  const file = tempFile(t);
  const clock = new SimulatedClock(T0);
  const open = () => RateLimiter.open({ store: `sqlite:${file}`, clock });
  const before = await open();
  await before.setLimits("a", rate(10));
  await before.acquire(asking(10_000));
  await before.setLimits("a", rate(1));
  await before.close();
  asOfVersionBefore(file);
  await clock.advance(100 * SECOND_MS);
  const after = await open();
  assert.equal(await availableOf(after), 1_000, "a hundred seconds at ten");
  await after.acquire(asking(1_000));
  await clock.advance(10 * SECOND_MS);
  await after.setLimits("a", rate(5));
  await clock.advance(10 * SECOND_MS);
  assert.equal(await availableOf(after), 10 + 50, "from then on it is known");
  await after.close();
});

/** As the schema before `limit_history` had it: no table of changes, and no instant beside the limits of a bucket. */
function asOfVersionBefore(file: string): void {
  const database = new DatabaseSync(file);
  const version = MIGRATIONS.findIndex((sql) => sql.includes("limit_history"));
  database.exec(
    `DROP TABLE limit_history; DROP TABLE refusal_log; DROP TABLE caller_usage; PRAGMA user_version = ${version}`,
  );
  for (const column of [
    "config DROP frozen",
    "config DROP override",
    "config DROP access_override",
    "plan_config DROP override",
  ]) {
    database.exec(`ALTER TABLE ${column}`);
  }
  const rows = database.prepare("SELECT id, limits FROM bucket").all();
  for (const { id, limits } of rows) {
    const [head, ...rest] = JSON.parse(String(limits));
    assert.ok(Array.isArray(head), "it had gone through a change");
    database.prepare("UPDATE bucket SET limits = ? WHERE id = ?").run(JSON.stringify([head[0], ...rest]), Number(id));
  }
  database.close();
}
