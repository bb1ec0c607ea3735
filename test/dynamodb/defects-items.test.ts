import assert from "node:assert/strict";
import { test } from "node:test";
import type { Attributes } from "../../src/adapters/dynamodb/codec.ts";
import { openDynamo } from "../../src/adapters/dynamodb/store.ts";
import { connect } from "../../src/adapters/dynamodb/store-connect.ts";
import { steadyMs, systemClock } from "../../src/adapters/system/clock.ts";
import { Limit, RateLimitExceeded, RateLimiter } from "../../src/entry/index.ts";
import { grants, HOUR_MS, held, isInvalid, MINUTE_MS, rpm, take } from "../defects/kit.ts";
import { describeDynamo } from "./dynamodb-local.ts";
import { failure } from "./faults.ts";
import { OneTable, TIMEOUT_MS } from "./one-table.ts";
import { N, optionsFor } from "./store-kit.ts";

// Defects of the original in what items say: their clock, how long they are kept, names and numbers, and changes that must
// reach them.

await describeDynamo("no defect of the original shows in the items of the table", (dynamodb) => {
  const table = new OneTable(dynamodb);

  test("X1: a host whose clock is an hour ahead goes by the server's, and stops nobody's refill", async () => {
    const { name, way } = await table.newNamespace();
    const open = async (aheadMs: number) => {
      const local = { ...systemClock, now: () => systemClock.now() + aheadMs };
      const { region, endpoint, credentials } = { region: "eu-west-1", ...way };
      const connection = await connect({
        ...{ region, endpoint, credentials, client: undefined, profile: undefined, local, steadyMs, given: undefined },
      });
      const { client, ...time } = connection;
      const store = table.closed(await openDynamo(optionsFor(client, way.stack, time)));
      return RateLimiter.open({ store, clock: connection.clock, namespace: name, timeoutMs: TIMEOUT_MS });
    };
    const [fast, right] = [await open(HOUR_MS), await open(0)];
    await right.setSystemDefaults([Limit.perSecond("rps", 5)]);
    await take(fast, "a", { rps: 5 });
    const { retryAfterMs } = await right
      .tryAcquire({ entityId: "a", resource: "api", consume: { rps: 5 } })
      .then((outcome) => (outcome.ok ? { retryAfterMs: 0 } : outcome));
    assert.ok(retryAfterMs <= 5_000, `${retryAfterMs} ms until five come back at five a second`);
    // A whole capacity is waited for and granted.
    const request = { entityId: "a", resource: "api", consume: { rps: 5 }, wait: { maxMs: 10_000 } };
    await right.acquire(request);
  });

  test("W23: a bucket is never kept too short: an hour at least, also of limits that fill in a millisecond", async () => {
    const scene = await table.newScene();
    const { limiter } = await scene.process();
    await limiter.setSystemDefaults([Limit.custom("x", { capacity: 1, refillAmount: 1_000, refillPeriodMs: 1_000 })]);
    await take(limiter, "a", { x: 1 });
    const ttl = (await scene.number("a", "ttl")) ?? 0;
    assert.ok(ttl >= (scene.clock.now() + HOUR_MS) / 1_000, `it expires at ${ttl}`);
  });

  test("W23: a busy bucket is one call a request, also long after the ttl that it was made with", async () => {
    const scene = await table.newScene();
    const { limiter, wire } = await scene.process({ configTtlMs: 100 * HOUR_MS });
    await limiter.setSystemDefaults([Limit.perSecond("x", 10)]);
    await take(limiter, "a", { x: 1 });
    const first = (await scene.number("a", "ttl")) ?? 0;
    await wire.during(async () => {
      for (let minute = 0; minute < 40; minute++) {
        await scene.clock.advance(10 * MINUTE_MS);
        await take(limiter, "a", { x: 1 });
      }
    });
    const taking = wire.calls.filter(({ operation, input }) => {
      return operation === "UpdateItem" && JSON.stringify(input.Key).includes("#STATE");
    });
    assert.equal(taking.length, 40);
    // Besides, beside the takes: six hours are put on their sheets, each after a look at the bucket.
    assert.ok(wire.calls.length - 40 <= 2 * 7, `${wire.calls.length} calls`);
    const last = (await scene.number("a", "ttl")) ?? 0;
    assert.ok(last >= first + 5 * 3_600, `${first}, then ${last}`);
  });

  test("W23: a debt of a hundred capacities is kept until it is paid, not forgiven", async () => {
    const scene = await table.newScene();
    const { limiter } = await scene.process();
    await limiter.setSystemDefaults([Limit.perMinute("rpm", 10)]);
    const lease = await take(limiter, "a", { rpm: 1 });
    await lease.adjust({ rpm: 1_000 });
    await lease.settle();
    const ttl = (await scene.number("a", "ttl")) ?? Number.POSITIVE_INFINITY;
    assert.ok(ttl * 1_000 >= scene.clock.now() + 100 * MINUTE_MS, `it expires at ${ttl}`);
  });

  test("X19: an item that has expired and is still there is a full one, at the limits of now", async () => {
    const scene = await table.newScene();
    const { limiter } = await scene.process();
    await limiter.setSystemDefaults(rpm(100));
    await take(limiter, "a", { rpm: 100 });
    const ttl = (await scene.number("a", "ttl")) ?? 0;
    scene.clock.set((ttl + 3_600) * 1_000);
    await limiter.setSystemDefaults(rpm(5));
    const { limiter: other } = await scene.process();
    await assert.rejects(take(other, "a", { rpm: 50 }), isInvalid("amount_above_capacity"));
    await take(other, "a", { rpm: 5 });
    assert.equal(await grants(other, "a", { rpm: 1 }), false);
    assert.equal(await scene.number("a", "b_rpm_cp"), 5_000);
    assert.ok(((await scene.number("a", "ttl")) ?? 0) > scene.clock.now() / 1_000);
  });

  for (const [what, names] of [
    ["dashes, dots and key words", ["my-limit.v1", "a-b", "a.b", "a_b", "size", "name", "count", "SET", "between"]],
    ["our own attributes", ["x_tk", "x", "rf", "fr", "a_fr", "a_tk", "a_tc", "n0", "cfa", "rq", "cp", "vu", "sched"]],
  ] as const) {
    test(`W27: limits may be called like ${what}`, async () => {
      const scene = await table.newScene();
      const { limiter } = await scene.process();
      const limits = names.map((name, i) => Limit.perMinute(name, 10 + i));
      const [first, second] = names;
      await limiter.setLimits("a", limits);
      assert.deepEqual(await limiter.getLimits("a"), limits);
      const lease = await take(limiter, "a", Object.fromEntries(names.map((name) => [name, 3])));
      await lease.adjust({ [first]: 1 });
      await lease.consume({ [second]: 2 });
      const { limiter: other } = await scene.process();
      const used: Record<string, number> = { [first]: 4, [second]: 5 };
      const left = names.map((name, i) => [name, 10 + i - (used[name] ?? 3)]);
      assert.deepEqual(await held(other, "a"), Object.fromEntries(left));
      await limiter.resetBucket({ entityId: "a", resource: "api" });
      const all = names.map((name, i) => [name, 10 + i]);
      assert.deepEqual(await held(other, "a"), Object.fromEntries(all));
    });
  }

  test("W27, W28: ids and resources of whatever is allowed, up to their longest", async () => {
    const scene = await table.newScene();
    const { limiter } = await scene.process();
    const resources = ["a/b:c.d-e_f", "R".repeat(64), "resources", "config_version"];
    const ids = ["0:b@c.d-e_f", "E".repeat(256)];
    await limiter.createEntity({
      id: "P".repeat(256),
      name: "ü 漢字 🙂 #/",
      metadata: { empty: "", "a.b#c": "ü\n🙂" },
    });
    for (const id of ids) {
      await limiter.createEntity({ id, parentId: "P".repeat(256), cascade: true });
      for (const resource of resources) {
        await limiter.setLimits(id, rpm(3), { resource });
        if (id === ids[0]) await limiter.setResourceDefaults(resource, rpm(5));
        await limiter.acquire({ entityId: id, resource, consume: { rpm: 1 } });
      }
      assert.equal((await limiter.listLimits(id)).length, resources.length);
    }
    const { name, metadata } = await limiter.getEntity("P".repeat(256));
    assert.deepEqual([name, metadata], ["ü 漢字 🙂 #/", { empty: "", "a.b#c": "ü\n🙂" }]);
    assert.deepEqual([...(await limiter.listResources())], resources.toSorted());
    for (const resource of resources) {
      assert.deepEqual([...(await limiter.listEntitiesWithLimits(resource))], ids.toSorted());
      const { entities } = await limiter.resourceCapacity(resource, "rpm");
      assert.deepEqual(
        entities.map(({ entityId, available }) => [entityId, available]).toSorted(),
        [...ids.map((id) => [id, 2]), ["P".repeat(256), 3]].toSorted(),
      );
    }
    for (const id of ids) await limiter.deleteEntity(id);
    for (const resource of resources) assert.deepEqual([...(await limiter.listEntitiesWithLimits(resource))], []);
  });

  test("W14: numbers up to nine million million are kept to the millitoken", async () => {
    const scene = await table.newScene();
    const { limiter } = await scene.process({}, { exact: true });
    const vast = 9_000_000_000_000;
    await limiter.setSystemDefaults([Limit.perDay("x", vast)]);
    await take(limiter, "a", { x: vast - 1 });
    assert.deepEqual(await held(limiter, "a"), { x: 1 });
    await assert.rejects(take(limiter, "a", { x: 2 }), RateLimitExceeded);
    await scene.clock.advance(24 * HOUR_MS);
    const lease = await take(limiter, "a", { x: vast });
    assert.deepEqual(await held((await scene.process()).limiter, "a"), { x: 0 });
    await lease.rollback();
    assert.deepEqual(await held(limiter, "a"), { x: vast });
    // A counter of what was ever taken outgrows exact numbers; nobody goes by it.
    const item = (await scene.bucket("a")) as Attributes;
    await scene.put([{ ...item, b_x_tc: { N: "123456789012345678901234567890" } }]);
    await take((await scene.process()).limiter, "a", { x: 1 });
  });

  test("X16: an item that somebody else left with half a millitoken is named, and lets nobody in", async () => {
    const scene = await table.newScene();
    const { limiter } = await scene.process({ onUnavailable: "allow" });
    await limiter.setSystemDefaults(rpm(10));
    await take(limiter, "a", { rpm: 1 });
    const item = (await scene.bucket("a")) as Attributes;
    await scene.put([{ ...item, b_rpm_tk: { N: "8999.9" } }]);
    const other = await scene.process({ onUnavailable: "allow" });
    await assert.rejects(take(other.limiter, "a", { rpm: 1 }), { code: "item_unreadable", message: /b_rpm_tk/ });
    await scene.put([{ ...item, b_rpm_tk: N(9_000) }]);
    await take(other.limiter, "a", { rpm: 1 });
  });

  test("X14: limits that are set while somebody switches the entity off leave it switched off, and the other way round", async () => {
    const scene = await table.newScene();
    const { limiter, wire } = await scene.process({ configTtlMs: 0 });
    const other = await scene.process({ configTtlMs: 0 });
    await limiter.setLimits("a", rpm(10), { resource: "api" });
    await take(limiter, "a", { rpm: 1 });
    let isFirst = true;
    wire.fault = async ({ operation, send }) => {
      if (operation === "TransactWriteItems" && isFirst) {
        isFirst = false;
        await other.limiter.setAccess({ entityId: "a", resource: "api" }, "disabled");
      }
      return send();
    };
    await limiter.setLimits("a", rpm(20), { resource: "api" });
    assert.equal(isFirst, false);
    await assert.rejects(take(limiter, "a", { rpm: 1 }), { code: "resource_disabled" });
    isFirst = true;
    wire.fault = async ({ operation, send }) => {
      if (operation === "TransactWriteItems" && isFirst) {
        isFirst = false;
        await other.limiter.setLimits("a", rpm(30), { resource: "api" });
      }
      return send();
    };
    await limiter.setAccess({ entityId: "a", resource: "api" }, "inherit");
    await take(limiter, "a", { rpm: 1 });
    assert.deepEqual(await limiter.getLimits("a", { resource: "api" }), rpm(30));
  });

  test("W36: limits that change in one namespace make nobody read configuration at twice the price in another", async () => {
    const [here, there] = [await table.newScene(), await table.newScene()];
    const { limiter, wire } = await here.process();
    const tenant = limiter.namespace(there.namespace);
    for (const { clock, process } of [
      { clock: here.clock, process: await here.process() },
      { clock: there.clock, process: await there.process() },
    ]) {
      await process.limiter.setLimits("a", rpm(10));
      // The bucket is there: one that is made is made by a consistent read, which is dear.
      await take(process.limiter, "a", { rpm: 1 });
      await clock.advance(MINUTE_MS);
    }
    const changing = await here.process();
    await take(limiter, "a", { rpm: 1 });
    await changing.limiter.setLimits("a", rpm(20));
    // It finds out by the bucket, reads again, and is not asked any more.
    await take(limiter, "a", { rpm: 1 });
    await wire.during(() => take(tenant, "a", { rpm: 1 }));
    const reads = wire.calls.filter(({ operation }) => operation === "BatchGetItem");
    const isDear = reads.map(({ input }) => JSON.stringify(input).includes('"ConsistentRead":true'));
    assert.deepEqual(new Set(isDear), new Set([false]));
  });

  test("X20: what is available on one resource costs the same, however many others an entity uses", async () => {
    const scene = await table.newScene();
    const { limiter } = await scene.process();
    await limiter.setSystemDefaults(rpm(10));
    const reads = async () => {
      const { limiter: fresh, wire } = await scene.process();
      await wire.during(() => fresh.available({ entityId: "a", resource: "api" }));
      return wire.calls.map(({ operation, input }) => [
        operation,
        Object.values((input.RequestItems ?? {}) as Record<string, { Keys: unknown[] }>)[0]?.Keys.length,
      ]);
    };
    await take(limiter, "a", { rpm: 1 });
    const before = await reads();
    for (let i = 0; i < 8; i++) await limiter.acquire({ entityId: "a", resource: `r${i}`, consume: { rpm: 1 } });
    assert.deepEqual(await reads(), before);
    assert.ok(before.every(([operation]) => operation === "BatchGetItem"));
  });

  test("X21: whoever is switched off is so on every bucket, although transactions stand in the way; one event tells of it", async () => {
    const scene = await table.newScene();
    const { limiter, wire } = await scene.process();
    await limiter.setResourceDefaults("api", rpm(10));
    const ids = Array.from({ length: 20 }, (_, i) => `e${i}`);
    await Promise.all(ids.map((id) => take(limiter, id, { rpm: 1 })));
    let conflicts = 0;
    wire.fault = async ({ operation, send }) =>
      operation === "UpdateItem" && conflicts++ % 3 === 0 ? failure("TransactionConflictException") : send();
    await limiter.setAccess({ resource: "api" }, "disabled");
    assert.ok(conflicts > 20, "nothing stood in the way");
    for (const id of ids) assert.equal((await scene.bucket(id))?.disabled?.BOOL, true, id);
    const { events } = await limiter.auditEvents({ entityId: "$RESOURCE:api" });
    assert.equal(events.length, 2);
  });
});
