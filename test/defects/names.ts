import assert from "node:assert/strict";
import { test } from "node:test";
import { ConflictError, Limit, NotFoundError, type RateLimiter } from "../../src/entry/index.ts";
import type { Store } from "../../src/ports/store.ts";
import { overriding } from "../simulation/port.ts";
import { family, grants, HOUR_MS, held, isInvalid, type Kit, MINUTE_MS, rpm, take, until } from "./kit.ts";

/** Defects of the original in names, configuration, namespaces, audit and usage. */
export function nameDefects(kit: Kit): void {
  test("W28: names that a usage record needs for itself are refused as limits and as resources", async () => {
    const { limiter } = await kit.open();
    for (const name of [
      "resource",
      "window",
      "window_start",
      "entity_id",
      "total_events",
      "ttl",
      "PK",
      "SK",
      "GSI4PK",
    ]) {
      assert.throws(() => Limit.perMinute(name, 1), isInvalid("limit_name_invalid"));
      await assert.rejects(limiter.setResourceDefaults(name, rpm(1)), isInvalid("resource_invalid"));
    }
    assert.throws(() => Limit.perMinute("wcu", 1), isInvalid("limit_name_invalid"));
  });

  test("W29: setting system limits keeps what was said about outages", async () => {
    const { limiter } = await kit.open();
    await limiter.setSystemDefaults(rpm(1), { onUnavailable: "allow" });
    await limiter.setSystemDefaults(rpm(2));
    assert.deepEqual(await limiter.getSystemDefaults(), { limits: rpm(2), onUnavailable: "allow" });
  });

  test("W30: who changes limits goes by them at once, at every level, where only time could tell him", async () => {
    const { limiter } = await kit.openFaulty({}, { generationHidden: true });
    // Nothing is configured, and that is remembered too.
    await assert.rejects(take(limiter, "a", { rpm: 1 }), isInvalid("limits_missing"));
    await limiter.setSystemDefaults(rpm(10));
    assert.deepEqual(await held(limiter, "a"), { rpm: 10 });
    await limiter.setResourceDefaults("api", rpm(20));
    assert.deepEqual(await held(limiter, "a"), { rpm: 20 });
    await limiter.setLimits("a", rpm(30));
    assert.deepEqual(await held(limiter, "a"), { rpm: 30 });
    await limiter.setLimits("a", rpm(40), { resource: "api" });
    assert.deepEqual(await held(limiter, "a"), { rpm: 40 });
    await limiter.deleteLimits("a", { resource: "api" });
    await limiter.deleteLimits("a");
    assert.deepEqual(await held(limiter, "a"), { rpm: 20 });
  });

  test("W30: what another process changed counts after one TTL, and before anything is said never to fit", async () => {
    const { limiter, clock, other } = await kit.openFaulty({ configTtlMs: 10_000 }, { generationHidden: true });
    await other.setSystemDefaults(rpm(10));
    await take(limiter, "a", { rpm: 10 });
    await other.setSystemDefaults(rpm(600));
    await clock.advance(9_999);
    assert.equal(await grants(limiter, "a", { rpm: 20 }), true);
    await other.setSystemDefaults(rpm(1));
    await clock.advance(10_000);
    assert.equal(await grants(limiter, "a", { rpm: 1 }), true);
    assert.equal(await grants(limiter, "a", { rpm: 1 }), false);
  });

  test("W31: one slow read of configuration holds up nobody but those who need it, and is made once", async () => {
    let reads = 0;
    let answer = () => {};
    const answered = new Promise<void>((resolve) => {
      answer = resolve;
    });
    const slow = (store: Store) =>
      overriding(store, {
        scope: (id) => {
          const scope = store.scope(id);
          const resolve = async (entityId: string, resource: string) => {
            if (entityId === "slow") {
              reads++;
              await answered;
            }
            return scope.config.resolve(entityId, resource);
          };
          return { ...scope, config: overriding(scope.config, { resolve }) };
        },
      });
    const { limiter } = await kit.openChanged(slow);
    await limiter.setSystemDefaults(rpm(10));
    const waiting = Promise.all(Array.from({ length: 10 }, () => grants(limiter, "slow", { rpm: 1 })));
    assert.equal(await grants(limiter, "fast", { rpm: 1 }), true);
    answer();
    assert.deepEqual(
      await waiting,
      Array.from({ length: 10 }, () => true),
    );
    assert.equal(reads, 1);
  });

  test(`W33: ${kit.nature.many} children are all listed, and a deleted entity leaves nothing behind in any list`, async () => {
    const { limiter } = await kit.open();
    await limiter.createEntity({ id: "parent" });
    for (let i = 0; i < kit.nature.many; i++) await limiter.createEntity({ id: `child-${i}`, parentId: "parent" });
    let children = 0;
    for await (const child of limiter.getChildren("parent")) if (child.parentId === "parent") children++;
    assert.equal(children, kit.nature.many);
    await limiter.setLimits("child-7", rpm(10));
    await limiter.setLimits("child-7", rpm(10), { resource: "api" });
    await take(limiter, "child-7", { rpm: 1 });
    await limiter.deleteEntity("child-7");
    assert.deepEqual([...(await limiter.listEntitiesWithLimits("api"))], []);
    assert.deepEqual([...(await limiter.listLimits("child-7"))], []);
    assert.deepEqual((await limiter.resourceCapacity("api", "rpm")).entities, []);
    // What was remembered of it is forgotten with it.
    await assert.rejects(take(limiter, "child-7", { rpm: 1 }), isInvalid("limits_missing"));
  });

  test("W34: nobody goes on writing into a namespace that was deleted, and what comes back is whole", async () => {
    const { limiters } = await kit.processes([0, 0]);
    const [admin, other] = limiters as [RateLimiter, RateLimiter];
    const { id } = await admin.registerNamespace("tenant");
    const tenant = other.namespace("tenant");
    await tenant.setSystemDefaults(rpm(10));
    await take(tenant, "a", { rpm: 4 });
    await admin.deleteNamespace("tenant");
    await assert.rejects(take(tenant, "a", { rpm: 1 }), NotFoundError);
    await assert.rejects(tenant.setSystemDefaults(rpm(20)), NotFoundError);
    await assert.rejects(admin.getNamespace("tenant"), NotFoundError);
    await admin.recoverNamespace(id);
    assert.deepEqual(await held(tenant, "a"), { rpm: 6 });
    await assert.rejects(admin.purgeNamespace(id), ConflictError);
    await admin.deleteNamespace("tenant");
    await admin.purgeNamespace(id);
    await assert.rejects(admin.recoverNamespace(id), NotFoundError);
    await assert.rejects(take(tenant, "a", { rpm: 1 }), NotFoundError);
  });

  test("W34: names of namespaces are checked before anything is stored", async () => {
    const { limiter } = await kit.open();
    const before = await limiter.listNamespaces();
    for (const name of ["", " ", "a#b", "a/b", "a\n", "-a", "x".repeat(65)]) {
      await assert.rejects(limiter.registerNamespace(name), isInvalid("namespace_invalid"), JSON.stringify(name));
    }
    assert.deepEqual(await limiter.listNamespaces(), before);
  });

  test("W35: an invalid principal changes nothing and leaves no event", async () => {
    const { limiter } = await kit.open();
    const options = { principal: "not a principal" };
    await assert.rejects(limiter.setLimits("a", rpm(10), options), isInvalid("principal_invalid"));
    await assert.rejects(limiter.createEntity({ id: "a" }, options), isInvalid("principal_invalid"));
    await assert.rejects(limiter.registerNamespace("tenant", options), isInvalid("principal_invalid"));
    assert.deepEqual(await limiter.getLimits("a"), []);
    await assert.rejects(limiter.getEntity("a"), NotFoundError);
    assert.deepEqual((await limiter.auditEvents()).events, []);
  });

  test("W35: changes within one millisecond are told in the order in which they were made", async () => {
    const { limiter } = await kit.open();
    for (let i = 0; i < 20; i++) await limiter.setLimits(`e${i}`, rpm(1 + i), { principal: "admin" });
    const { events } = await limiter.auditEvents();
    assert.deepEqual(
      events.map(({ entityId, principal }) => `${entityId} ${principal}`),
      Array.from({ length: 20 }, (_, i) => `e${19 - i} admin`),
    );
    assert.equal(new Set(events.map(({ eventId }) => eventId)).size, 20);
  });

  test("W36: what another process changed counts at the next request, however long it would be remembered", async () => {
    const { limiters } = await kit.processes([0, 0]);
    const [admin, worker] = limiters as [RateLimiter, RateLimiter];
    await admin.setSystemDefaults(rpm(10));
    await take(worker, "a", { rpm: 10 });
    assert.equal(await grants(worker, "a", { rpm: 1 }), false);
    await admin.setSystemDefaults([...rpm(10), Limit.perMinute("tpm", 5)]);
    await take(worker, "a", { tpm: 5 });
    assert.equal(await grants(worker, "a", { tpm: 1 }), false);
  });

  test("W36: of a chain of which only the parent is remembered, the parent's change counts too", async () => {
    const { limiters } = await kit.processes([0, 0]);
    const [admin, worker] = limiters as [RateLimiter, RateLimiter];
    await family(admin, { child: 100, parent: 100 });
    await take(worker, "parent", { rpm: 1 });
    await admin.setLimits("parent", rpm(10));
    // The worker reads the child anew, and remembers the parent as it was.
    await take(worker, "child", { rpm: 10 });
    assert.equal(await grants(worker, "child", { rpm: 1 }), false);
  });

  test("W38: what is available, and when, is said for the whole chain", async () => {
    const { limiter } = await kit.open();
    await family(limiter, { child: 100, parent: 10 });
    await take(limiter, "parent", { rpm: 9 });
    const request = { entityId: "child", resource: "api" };
    const all = await limiter.available(request);
    assert.deepEqual(
      all.map(({ entityId, available }) => [entityId, available]),
      [
        ["child", 100],
        ["parent", 1],
      ],
    );
    assert.equal(await limiter.timeUntilAvailable({ ...request, consume: { rpm: 1 } }), 0);
    assert.equal(await limiter.timeUntilAvailable({ ...request, consume: { rpm: 3 } }), 12_000);
  });

  test("W40: with a clock handed in no real time passes: a wait of an hour is over when that clock says so", async () => {
    const { limiter, clock } = await kit.open();
    await limiter.setSystemDefaults([Limit.perHour("rph", 1)]);
    await take(limiter, "a", { rph: 1 });
    let granted = false;
    const request = { entityId: "a", resource: "api", consume: { rph: 1 }, wait: { maxMs: 2 * HOUR_MS } };
    const waiting = limiter.acquire(request).then(() => {
      granted = true;
    });
    await until(() => clock.nextWakeMs !== undefined);
    await clock.advance(HOUR_MS - 1);
    assert.equal(granted, false);
    await clock.advance(1);
    await waiting;
    const refused = limiter.tryAcquire({ ...request, wait: { maxMs: MINUTE_MS } });
    await until(() => clock.nextWakeMs !== undefined);
    await clock.advance(MINUTE_MS);
    assert.equal((await refused).ok, false);
  });
}
