import assert from "node:assert/strict";
import { test } from "node:test";
import {
  Limit,
  NotFoundError,
  RateLimitExceeded,
  type RateLimiter,
  RateLimiterUnavailable,
  ValidationError,
} from "../../src/entry/index.ts";
import type { Store } from "../../src/ports/store.ts";
import { overriding } from "../simulation/port.ts";
import { family, grants, held, isInvalid, type Kit, MINUTE_MS, rpm, take } from "./kit.ts";

/** Defects of the original in admission, each as the symptom that a caller saw. */
export function admissionDefects(kit: Kit): void {
  test("W1: a child whose parent is exhausted hears so, with both statuses as they stood before", async () => {
    const { limiter } = await kit.open();
    await family(limiter, { child: 100, parent: 10 });
    await take(limiter, "child", { rpm: 8 });
    const error = await take(limiter, "child", { rpm: 5 }).catch((caught: unknown) => caught);
    assert.ok(error instanceof RateLimitExceeded, String(error));
    assert.deepEqual(
      error.statuses.map(({ entityId, available, exceeded }) => [entityId, available, exceeded]),
      [
        ["child", 92, false],
        ["parent", 2, true],
      ],
    );
    assert.equal(error.primary.entityId, "parent");
    assert.equal(error.retryAfterMs, 18_000);
  });

  test("W3: a limit added to a live bucket neither locks its entity out nor poisons the bucket", async () => {
    const { limiter } = await kit.open();
    await limiter.setLimits("a", rpm(10));
    await take(limiter, "a", { rpm: 4 });
    await limiter.setLimits("a", [...rpm(10), Limit.perMinute("tpm", 100)]);
    // Once without the new limit, once with it.
    await take(limiter, "a", { rpm: 1 });
    await take(limiter, "a", { rpm: 1, tpm: 60 });
    assert.deepEqual(await held(limiter, "a"), { rpm: 4, tpm: 40 });
  });

  for (const close of ["rollback", "settle"] as const) {
    test(`W8: an adjust and a ${close} after the entity was deleted do not poison it for later`, async () => {
      const { limiter } = await kit.open();
      await limiter.setSystemDefaults([...rpm(10), Limit.perMinute("tpm", 100)]);
      await limiter.createEntity({ id: "a" });
      const lease = await take(limiter, "a", { rpm: 3 });
      await limiter.deleteEntity("a");
      await lease.adjust({ tpm: 5, rpm: -1 });
      await lease[close]();
      await limiter.createEntity({ id: "a" });
      await take(limiter, "a", { rpm: 1, tpm: 1 });
      assert.deepEqual(await held(limiter, "a"), { rpm: 9, tpm: close === "rollback" ? 99 : 94 });
      await limiter.deleteEntity("a");
      assert.deepEqual((await limiter.resourceCapacity("api", "rpm")).entities, []);
    });
  }

  test("W9: two clients, one five seconds ahead, in turn get the capacity and five seconds' refill, no more", async () => {
    const { clock, limiters } = await kit.processes([0, 5_000]);
    await limiters[0]!.setSystemDefaults(rpm(60));
    let granted = 0;
    for (let i = 0; i < 200; i++) {
      if (await grants(limiters[i % 2]!, "a", { rpm: 1 })) granted++;
      await clock.advance(2);
    }
    // The one that was taken first is back by the fast clock; by no clock there is more.
    assert.equal(granted, 61);
  });

  test("W10: ten a day drip in although one a second beside them are taken all the time", async () => {
    const { limiter, clock } = await kit.open();
    await limiter.setSystemDefaults([Limit.perSecond("rps", 1), Limit.perDay("rpd", 10)]);
    await take(limiter, "a", { rpd: 10 });
    for (let s = 0; s < 8_640; s += 48) {
      await clock.advance(48_000);
      await take(limiter, "a", { rps: 1 });
    }
    assert.equal((await held(limiter, "a")).rpd, 1);
  });

  test("W11: a programming error is nobody's outage, and lets nobody in", async () => {
    const bug = async () => {
      throw new TypeError("a bug");
    };
    const broken = (store: Store) =>
      overriding(store, {
        scope: (id) => ({ ...store.scope(id), buckets: overriding(store.scope(id).buckets, { take: bug }) }),
      });
    const { limiter } = await kit.openChanged(broken, { onUnavailable: "allow" });
    await limiter.setSystemDefaults(rpm(10));
    await assert.rejects(take(limiter, "a", { rpm: 1 }), TypeError);
  });

  test("W12: changed limits of every level reach a live bucket and keep what was used", async () => {
    const { limiters } = await kit.processes([0, 0]);
    const [writer, reader] = limiters as [RateLimiter, RateLimiter];
    const levels: ((limits: Limit[]) => Promise<unknown>)[] = [
      (limits) => writer.setSystemDefaults(limits),
      (limits) => writer.setResourceDefaults("api", limits),
      (limits) => writer.setLimits("a", limits),
      (limits) => writer.setLimits("a", limits, { resource: "api" }),
    ];
    for (const [i, set] of levels.entries()) {
      await set(rpm(100));
      await take(reader, "a", { rpm: i === 0 ? 60 : 0 });
      // What is above a lowered capacity is gone, and does not come back when it is raised again.
      await set(rpm(20));
      assert.equal((await held(reader, "a")).rpm, 20 - i);
      await assert.rejects(take(reader, "a", { rpm: 21 }), ValidationError);
      await take(reader, "a", { rpm: 1 });
    }
  });

  test("W13a: what was not consumed at the start can be adjusted, on the first call as on later ones", async () => {
    const { limiter } = await kit.open();
    await limiter.setSystemDefaults([...rpm(100), Limit.perMinute("tpm", 1_000)]);
    for (let call = 1; call <= 3; call++) {
      const lease = await take(limiter, "a", { rpm: 1, tpm: 0 });
      await lease.adjust({ tpm: 200 });
      assert.deepEqual(lease.consumed, { rpm: 1, tpm: 200 });
      await lease.settle();
      assert.equal((await held(limiter, "a")).tpm, 1_000 - 200 * call);
    }
  });

  test("W13b: a debt refuses those who name its limit, even with 0, and nobody else", async () => {
    const { limiter } = await kit.open();
    await limiter.setSystemDefaults([...rpm(100), Limit.perMinute("tpm", 1_000)]);
    const lease = await take(limiter, "a", { rpm: 1 });
    await lease.adjust({ tpm: 1_500 });
    for (let call = 1; call <= 2; call++) {
      await take(limiter, "a", { rpm: 1 });
      await assert.rejects(take(limiter, "a", { rpm: 1, tpm: 0 }), RateLimitExceeded);
    }
  });

  test("W13c: limits given in a request count, also where the bucket is alive", async () => {
    const { limiter } = await kit.open();
    await limiter.setSystemDefaults(rpm(100));
    await take(limiter, "alive", { rpm: 1 });
    for (const entityId of ["new", "alive"]) {
      const given = { entityId, resource: "api", limits: rpm(5) };
      assert.equal((await limiter.tryAcquire({ ...given, consume: { rpm: 5 } })).ok, true);
      assert.equal((await limiter.tryAcquire({ ...given, consume: { rpm: 1 } })).ok, false);
    }
  });

  test("W13d, W13e: invalid and unknown names are refused on the first call and on all later ones", async () => {
    const { limiter } = await kit.open();
    await limiter.setSystemDefaults(rpm(100));
    for (let call = 1; call <= 2; call++) {
      await assert.rejects(take(limiter, "a", { rmp: 1 }), isInvalid("limit_unknown"));
      await assert.rejects(take(limiter, "not an id", { rpm: 1 }), isInvalid("entity_id_invalid"));
      await take(limiter, "a", { rpm: 1 });
    }
  });

  test("W14: amounts that are negative, broken or no numbers take nothing and mint nothing", async () => {
    const { limiter } = await kit.open();
    await limiter.setSystemDefaults(rpm(10));
    await take(limiter, "a", { rpm: 1 });
    for (const amount of [-500, 0.0001, Number.NaN, Number.POSITIVE_INFINITY, "1", null, 2 ** 53]) {
      await assert.rejects(take(limiter, "a", { rpm: amount as number }), isInvalid("amount_invalid"));
    }
    await assert.rejects(take(limiter, "a", { wcu: 1 }), isInvalid("limit_unknown"));
    assert.deepEqual(await held(limiter, "a"), { rpm: 9 });
  });

  test("W14: an amount that can never be granted is said to be so, and is not to be waited for", async () => {
    const { limiter } = await kit.open();
    await family(limiter, { child: 200, parent: 100 });
    const never = { entityId: "child", resource: "api", consume: { rpm: 150 } };
    await assert.rejects(limiter.acquire(never), isInvalid("amount_above_capacity"));
    assert.equal(await limiter.timeUntilAvailable(never), Number.POSITIVE_INFINITY);
  });

  for (const atomic of [true, false]) {
    const how = atomic ? "in one transaction each" : "level by level";
    test(`W15: of many who race for a new child below a new parent, ${how}, as many as fit get in`, async () => {
      const { limiters } = await kit.processes([0, 0, 0]);
      await family(limiters[0]!, { child: 10, parent: 10 });
      const request = { entityId: "child", resource: "api", consume: { rpm: 1 }, atomic };
      const asks = Array.from({ length: 24 }, (_, i) => limiters[i % 3]!.tryAcquire(request));
      const granted = (await Promise.all(asks)).filter(({ ok }) => ok).length;
      // Level by level two may hold for a moment what the other lacks, and both are refused: then it is all there for the next.
      if (atomic || kit.nature.isWhole) assert.equal(granted, 10);
      const late = limiters.at(-1) as RateLimiter;
      for (const id of ["child", "parent"]) assert.deepEqual(await held(late, id), { rpm: 10 - granted });
    });
  }

  test("W15: a claim that loses its place to others is not refused while there are tokens", async () => {
    // The claims of both are under way at once, child and parent apart, in every order that the store can apply them.
    const { limiter } = await kit.openFaulty({}, { split: true, pause: async () => {} });
    await family(limiter, { child: 10, parent: 10 });
    const asks = Array.from({ length: 10 }, () => grants(limiter, "child", { rpm: 1 }));
    assert.deepEqual(
      await Promise.all(asks),
      asks.map(() => true),
    );
  });

  test("W19: a rollback after the bucket has filled up again does not lift it above its capacity", async () => {
    const { limiter, clock } = await kit.open();
    await limiter.setSystemDefaults(rpm(10));
    const lease = await take(limiter, "a", { rpm: 9 });
    await clock.advance(MINUTE_MS);
    await lease.rollback();
    assert.deepEqual(await held(limiter, "a"), { rpm: 10 });
    await take(limiter, "a", { rpm: 10 });
    await assert.rejects(take(limiter, "a", { rpm: 1 }), RateLimitExceeded);
  });

  test("W20: nobody is his own parent, and no parent is made up", async () => {
    const { limiter } = await kit.open();
    await assert.rejects(limiter.createEntity({ id: "a", parentId: "a" }), isInvalid("entity_cycle"));
    await assert.rejects(limiter.createEntity({ id: "a", parentId: "nobody" }), NotFoundError);
    await assert.rejects(limiter.getEntity("a"), NotFoundError);
  });

  test("W20: a grandparent is charged once, and gets back what is rolled back", async () => {
    const { limiter } = await kit.open();
    await limiter.setSystemDefaults(rpm(10));
    await limiter.createEntity({ id: "a" });
    await limiter.createEntity({ id: "b", parentId: "a", cascade: true });
    await limiter.createEntity({ id: "c", parentId: "b", cascade: true });
    for (let call = 1; call <= 2; call++) {
      const lease = await take(limiter, "c", { rpm: 4 });
      for (const id of ["a", "b", "c"]) assert.deepEqual(await held(limiter, id), { rpm: 6 }, `${id}, call ${call}`);
      await lease.rollback();
      for (const id of ["a", "b", "c"]) assert.deepEqual(await held(limiter, id), { rpm: 10 }, `${id}, call ${call}`);
    }
  });

  test("W21: an entity created, or moved, after its bucket is charged to its parent from then on", async () => {
    const { limiters } = await kit.processes([0, 0]);
    const [admin, worker] = limiters as [RateLimiter, RateLimiter];
    await admin.setSystemDefaults(rpm(10));
    await take(worker, "key", { rpm: 1 });
    await admin.createEntity({ id: "first" });
    await admin.createEntity({ id: "second" });
    await admin.createEntity({ id: "key", parentId: "first", cascade: true });
    await take(worker, "key", { rpm: 2 });
    assert.deepEqual(await held(worker, "first"), { rpm: 8 });
    await admin.updateEntity("key", { parentId: "second" });
    await take(worker, "key", { rpm: 3 });
    assert.deepEqual(await held(worker, "first"), { rpm: 8 });
    assert.deepEqual(await held(worker, "second"), { rpm: 7 });
  });

  test("W25: two leases that consume ninety of a hundred each do not both get them", async () => {
    const { limiter } = await kit.open();
    await limiter.setSystemDefaults(rpm(100));
    const leases = [await take(limiter, "a", { rpm: 1 }), await take(limiter, "a", { rpm: 1 })];
    const outcomes = await Promise.allSettled(leases.map((lease) => lease.consume({ rpm: 90 })));
    assert.deepEqual(outcomes.map(({ status }) => status).sort(), ["fulfilled", "rejected"]);
    assert.deepEqual(await held(limiter, "a"), { rpm: 8 });
    // Who was refused holds what he held before.
    assert.deepEqual(leases.map((lease) => lease.consumed.rpm).sort(), [1, 91]);
    for (const lease of leases) await lease.rollback();
    assert.deepEqual(await held(limiter, "a"), { rpm: 100 });
  });

  test("W11: what is stored about outages counts in one", async () => {
    for (const onUnavailable of ["allow", "block"] as const) {
      const { limiter, faults } = await kit.openFaulty();
      await limiter.setSystemDefaults(rpm(10), { onUnavailable });
      await take(limiter, "a", { rpm: 1 });
      faults.failNext("take", "refused");
      const outcome = await take(limiter, "a", { rpm: 1 }).catch((error: unknown) => error);
      if (onUnavailable === "block") assert.ok(outcome instanceof RateLimiterUnavailable, String(outcome));
      else assert.ok(typeof (outcome as { degraded: unknown }).degraded === "string");
    }
  });
}
