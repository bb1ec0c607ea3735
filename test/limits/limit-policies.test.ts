import assert from "node:assert/strict";
import { test } from "node:test";
import { Limit, type PolicyScope, RateLimiter, ResourceDisabled, ValidationError } from "../../src/entry/index.ts";
import { openMemory } from "../../src/entry/memory.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { at, drain, HOUR_MS, held, openAt, openWith, refusal, request } from "./kinds-kit.ts";

const START = "2026-06-15T10:00:00Z";
const ON_API = { entityId: "a", resource: "api" };

async function disabledAt(limiter: RateLimiter, level: string, entityId = "a", whose = entityId): Promise<void> {
  for (const attempt of [
    () => limiter.acquire(request("rpm", 1, entityId)),
    () => limiter.tryAcquire(request("rpm", 1, entityId)),
    async () => limiter.tryAcquireSync(request("rpm", 1, entityId)),
  ]) {
    await assert.rejects(attempt, (error) => {
      assert.ok(error instanceof ResourceDisabled, String(error));
      assert.deepEqual(
        [error.code, error.entityId, error.resource, error.level],
        ["resource_disabled", whose, "api", level],
      );
      return true;
    });
  }
}

test("what is disabled is refused on the next request, whatever it holds, and let in on the next one after", async () => {
  const { limiter } = await openWith(START, Limit.perMinute("rpm", 100));
  await limiter.acquire(request("rpm", 1));
  const scopes: readonly (readonly [PolicyScope, string])[] = [
    [{ resource: "api" }, "resource"],
    [{ entityId: "a" }, "entityDefault"],
    [ON_API, "entity"],
  ];
  for (const [scope, level] of scopes) {
    await limiter.setAccess(scope, "disabled");
    await disabledAt(limiter, level);
    await limiter.setAccess(scope, "inherit");
    assert.equal((await limiter.tryAcquire(request("rpm", 1))).ok, true);
  }
});

test("an entity may be carved out of a resource that is disabled for all others", async () => {
  const { limiter } = await openWith(START, Limit.perMinute("rpm", 2));
  await limiter.setAccess({ resource: "api" }, "disabled");
  await limiter.setAccess({ entityId: "a" }, "enforce");
  await disabledAt(limiter, "resource", "b");
  assert.equal(await drain(limiter, "rpm"), 2);
});

test("who is carved out of a disabled resource is not refused for a parent that is not, but still charges it", async () => {
  const { limiter } = await openWith(START, Limit.perMinute("rpm", 5));
  await limiter.createEntity({ id: "team" });
  await limiter.createEntity({ id: "a", parentId: "team", cascade: true });
  await limiter.setAccess({ resource: "api" }, "disabled");
  await limiter.setAccess({ entityId: "a" }, "enforce");
  assert.equal(await drain(limiter, "rpm"), 5);
  const [, team] = await limiter.available({ entityId: "a", resource: "api" });
  assert.deepEqual([team?.entityId, team?.available], ["team", 0]);
  await disabledAt(limiter, "resource", "team");
  await limiter.setAccess({ entityId: "team" }, "disabled");
  await disabledAt(limiter, "entityDefault", "a", "team");
});

test("another limiter on the store knows at once, also of a parent or a further resource that only it remembers", async () => {
  const clock = new SimulatedClock(at(START));
  const store = openMemory();
  const [one, other] = await Promise.all([RateLimiter.open({ store, clock }), RateLimiter.open({ store, clock })]);
  await one.setSystemDefaults([Limit.perMinute("rpm", 100)]);
  await one.createEntity({ id: "team" });
  for (const id of ["a", "b"]) await one.createEntity({ id, parentId: "team", cascade: true });
  await other.acquire({ ...request("rpm", 1), also: { gpu: { rpm: 1 } } });
  // The other limiter has the team in mind, but not yet b, nor another resource of a.
  await one.setAccess({ entityId: "team" }, "disabled");
  await disabledAt(other, "entityDefault", "b", "team");
  await one.setAccess({ entityId: "team" }, "inherit");
  await other.acquire({ ...request("rpm", 1), also: { gpu: { rpm: 1 } } });
  await one.setAccess({ entityId: "a", resource: "gpu" }, "disabled");
  const more = { entityId: "a", resource: "new", consume: { rpm: 1 }, also: { gpu: { rpm: 1 } } };
  await assert.rejects(other.acquire(more), ResourceDisabled);
  await one.setAccess({ entityId: "a", resource: "gpu" }, "inherit");
  assert.equal((await other.tryAcquire(more)).ok, true);
});

test("a bypass lets everything through and debits nothing; usage counts it and tells it apart", async () => {
  const { limiter } = await openWith(
    START,
    Limit.perMinute("rpm", 10),
    Limit.quota("s", 10, { resetAfterMs: HOUR_MS }),
  );
  await drain(limiter, "rpm");
  await limiter.setAccess({ entityId: "a" }, "bypass");
  const lease = await limiter.acquire({ ...ON_API, consume: { rpm: 500, s: 5_000 } });
  assert.equal(lease.bypassed, true);
  assert.deepEqual(lease.consumed, { rpm: 500, s: 5_000 });
  await lease.adjust({ rpm: -100, s: 20 });
  await lease.consume({ rpm: 1_000 });
  await lease.settle();
  assert.deepEqual(await held(limiter), { rpm: 0, s: 10 });
  const [usage] = await limiter.usage({ entityId: "a", window: "hourly" });
  assert.deepEqual(usage?.bypassed, { rpm: 1_400, s: 5_020 });
  assert.deepEqual(usage?.counters, { rpm: 1_410, s: 5_020 });
  await limiter.setAccess({ entityId: "a" }, "inherit");
  assert.equal((await refusal(limiter, "rpm", 1)).primary.limit, "rpm");
});

test("a lease that began under a bypass stays under it to its end, and one that did not does not", async () => {
  const { limiter } = await openWith(START, Limit.perMinute("rpm", 10), Limit.perMinute("tpm", 1_000));
  const charged = await limiter.acquire(request("rpm", 2));
  await limiter.setAccess({ entityId: "a" }, "bypass");
  // Nothing is consumed at the start, so there is nothing but the lease to remember the bypass by.
  const free = await limiter.acquire({ ...ON_API, consume: { rpm: 0 } });
  await free.adjust({ tpm: 600 });
  await charged.adjust({ tpm: 100 });
  assert.deepEqual(await held(limiter), { rpm: 8, tpm: 900 });
  await limiter.setAccess({ entityId: "a" }, "inherit");
  await free.adjust({ tpm: 300 });
  await free.rollback();
  await charged.rollback();
  assert.deepEqual(await held(limiter), { rpm: 10, tpm: 1_000 });
});

test("a parent that is bypassed is not charged, its children are; one that is disabled refuses them", async () => {
  const { limiter } = await openAt(START);
  await limiter.createEntity({ id: "team" });
  await limiter.createEntity({ id: "a", parentId: "team", cascade: true });
  await limiter.setSystemDefaults([Limit.perMinute("rpm", 10)]);
  await limiter.setAccess({ entityId: "team" }, "bypass");
  const lease = await limiter.acquire(request("rpm", 4));
  assert.equal(lease.bypassed, false);
  assert.deepEqual([await held(limiter), await held(limiter, "team")], [{ rpm: 6 }, { rpm: 10 }]);
  await lease.rollback();
  assert.deepEqual([await held(limiter), await held(limiter, "team")], [{ rpm: 10 }, { rpm: 10 }]);
  await limiter.setAccess({ entityId: "team", resource: "api" }, "disabled");
  await disabledAt(limiter, "entity", "a", "team");
});

test("cascading may be switched on or off for a resource or an entity, whatever the entity's own flag", async () => {
  const { limiter } = await openAt(START);
  await limiter.createEntity({ id: "team" });
  await limiter.createEntity({ id: "a", parentId: "team", cascade: false });
  await limiter.setSystemDefaults([Limit.perMinute("rpm", 10)]);
  const charged = async () => {
    const before = (await held(limiter, "team")).rpm ?? 0;
    await (await limiter.acquire(request("rpm", 1))).settle();
    return before - ((await held(limiter, "team")).rpm ?? 0);
  };
  assert.equal(await charged(), 0);
  await limiter.setCascade({ resource: "api" }, true);
  assert.equal(await charged(), 1);
  await limiter.setCascade({ entityId: "a" }, false);
  assert.equal(await charged(), 0);
  await limiter.setCascade(ON_API, true);
  assert.equal(await charged(), 1);
  for (const scope of [ON_API, { entityId: "a" }, { resource: "api" }]) await limiter.setCascade(scope, "inherit");
  assert.equal(await charged(), 0);
});

test("policies are audited with who set them, and bad ones are refused with their value", async () => {
  const { limiter } = await openAt(START);
  await limiter.setAccess(ON_API, "bypass", { principal: "ops@example.org" });
  await limiter.setCascade({ resource: "api" }, true);
  const { events } = await limiter.auditEvents();
  assert.deepEqual(
    events.map(({ action, entityId, resource, principal, details }) => ({
      action,
      entityId,
      resource,
      principal,
      details,
    })),
    [
      {
        action: "cascade_set",
        entityId: "$RESOURCE:api",
        resource: "api",
        principal: undefined,
        details: { cascade: true },
      },
      {
        action: "access_set",
        entityId: "a",
        resource: "api",
        principal: "ops@example.org",
        details: { access: "bypass" },
      },
    ],
  );
  await assert.rejects(limiter.setAccess(ON_API, "off" as never), { code: "access_invalid", message: /"off"; give/ });
  await assert.rejects(limiter.setCascade(ON_API, "yes" as never), { code: "cascade_invalid", message: /"yes"; give/ });
  await assert.rejects(limiter.setAccess({}, "disabled"), { code: "scope_missing" });
  await assert.rejects(limiter.setAccess({ entityId: "a b" }, "disabled"), ValidationError);
  await assert.rejects(limiter.setAccess({ resource: "" }, "disabled"), ValidationError);
});

test("several resources are taken from together or not at all, and the refusal shows all of them", async () => {
  const { limiter } = await openAt(START);
  await limiter.setResourceDefaults("api", [Limit.perMinute("rpm", 10)]);
  await limiter.setResourceDefaults("gpu", [Limit.quota("slots", 2, { resetAfterMs: HOUR_MS })]);
  const both = { ...request("rpm", 1), also: { gpu: { slots: 2 } } };
  const lease = await limiter.acquire(both);
  assert.deepEqual(lease.resources, ["api", "gpu"]);
  assert.deepEqual([lease.consumed, lease.resource("gpu").consumed], [{ rpm: 1 }, { slots: 2 }]);
  assert.equal(lease.resource("api"), lease);
  const outcome = await limiter.tryAcquire(both);
  assert.ok(!outcome.ok);
  assert.deepEqual(
    outcome.statuses.map(({ resource, limit, available, exceeded }) => [resource, limit, available, exceeded]),
    [
      ["api", "rpm", 9, false],
      ["gpu", "slots", 0, true],
    ],
  );
  assert.equal(outcome.retryAfterMs, HOUR_MS);
  assert.deepEqual(await held(limiter), { rpm: 9 });
  assert.deepEqual(limiter.tryAcquireSync({ ...both, also: { gpu: { slots: 0 } } }).ok, true);
});

test("each resource of a lease is adjusted by itself, and a rollback gives all of them back", async () => {
  const { limiter } = await openAt(START);
  await limiter.setSystemDefaults([Limit.perMinute("rpm", 10)]);
  const onGpu = async () => (await limiter.available({ entityId: "a", resource: "gpu" }))[0]?.available;
  const lease = await limiter.acquire({ ...request("rpm", 1), also: { gpu: { rpm: 4 } } });
  await lease.resource("gpu").adjust({ rpm: 3 });
  await lease.resource("gpu").release({ rpm: 2 });
  await lease.resource("gpu").consume({ rpm: 1 });
  assert.deepEqual(lease.resource("gpu").consumed, { rpm: 6 });
  assert.deepEqual([await held(limiter), await onGpu()], [{ rpm: 9 }, 4]);
  assert.throws(() => lease.resource("cpu"), { code: "resource_unknown", message: /taken for api, gpu/ });
  await lease.rollback();
  assert.deepEqual([await held(limiter), await onGpu()], [{ rpm: 10 }, 10]);
  await assert.rejects(lease.resource("gpu").adjust({ rpm: 1 }), { code: "lease_closed" });
});

test("sixteen resources may be taken from together, seventeen not, and none twice", async () => {
  const { limiter } = await openAt(START);
  await limiter.setSystemDefaults([Limit.perMinute("rpm", 10)]);
  const also = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, i) => [`r${i}`, { rpm: 1 }]));
  assert.equal((await limiter.acquire({ ...request("rpm", 1), also: also(15) })).resources.length, 16);
  const wrong: readonly (readonly [unknown, RegExp])[] = [
    [also(16), /names 17 parts, .*at most 16/],
    [{ api: { rpm: 1 } }, /a on api is what the request itself is for, and in also/],
    [5, /also is 5; give resources, /],
  ];
  for (const [given, message] of wrong) {
    const asked = { ...request("rpm", 1), also: given as Record<string, { rpm: number }> };
    await assert.rejects(limiter.acquire(asked), { code: "also_invalid", message });
  }
  await assert.rejects(limiter.acquire({ ...request("rpm", 1), also: { "b c": { rpm: 1 } } }), ValidationError);
  await assert.rejects(limiter.acquire({ ...request("rpm", 1), also: { gpu: { tpm: 1 } } }), { code: "limit_unknown" });
  await limiter.setAccess({ resource: "r0" }, "disabled");
  await assert.rejects(limiter.acquire({ ...request("rpm", 1), also: also(1) }), ResourceDisabled);
  assert.deepEqual(await held(limiter), { rpm: 9 });
});

test("moving an entity charges its new parent at once, and a lease from before settles where it was taken", async () => {
  const { limiter } = await openAt(START);
  for (const id of ["old", "new"]) await limiter.createEntity({ id });
  await limiter.createEntity({ id: "a", parentId: "old", cascade: true });
  await limiter.setSystemDefaults([Limit.quota("q", 10, { reset: { cron: "0 0 * * *" } })]);
  const lease = await limiter.acquire(request("q", 4));
  await limiter.updateEntity("a", { parentId: "new" });
  await limiter.acquire(request("q", 1));
  await lease.release({ q: 3 });
  assert.deepEqual(
    [await held(limiter, "old"), await held(limiter, "new"), await held(limiter)],
    [{ q: 9 }, { q: 9 }, { q: 8 }],
  );
});
