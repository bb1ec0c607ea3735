import assert from "node:assert/strict";
import type { UsageSnapshot } from "../../src/domain/charge/usage.ts";
import type { ConfigScope } from "../../src/domain/config/config.ts";
import { Limit } from "../../src/domain/limits/limit.ts";
import { NotFoundError } from "../../src/domain/names/errors.ts";
import {
  claim,
  DAY_MS,
  HOUR_MS,
  Kinds,
  kinds,
  type Suite,
  samePaged,
  T0,
  type TestedNamespace,
} from "./contract-kit.ts";

const API: ConfigScope = { level: "resource", resource: "api" };
const ANY_OF_A: ConfigScope = { level: "entityDefault", entityId: "a" };
const A_ON_API: ConfigScope = { level: "entity", entityId: "a", resource: "api" };
const SYSTEM: ConfigScope = { level: "system" };

const rpm = [Limit.perMinute("rpm", 10)];
const daily = [Kinds.quota("q", 10, { reset: { cron: "0 0 * * *" } })];
const MIDNIGHT = Date.UTC(2026, 2, 16);

/** Access and cascading per scope, top-ups and resets, and what a bypass counts. */
export function policiesContract(suite: Suite): void {
  suite.test(
    "nobody said anything: limits are enforced, and the entity's own flag decides on its parent",
    async (place) => {
      await place.create({ id: "root" });
      await place.create({ id: "a", parentId: "root", cascade: true });
      assert.deepEqual(await policyOf(place, "a"), ["enforce", "none", true, "none"]);
      assert.deepEqual(await policyOf(place, "root"), ["enforce", "none", false, "none"]);
    },
  );

  suite.test(
    "access is asked of the entity on the resource, the entity, the resource, and the first word counts",
    async (place) => {
      await place.setPolicy(API, { access: "disabled" });
      assert.deepEqual((await policyOf(place, "a")).slice(0, 2), ["disabled", "resource"]);
      await place.setPolicy(ANY_OF_A, { access: "bypass" });
      assert.deepEqual((await policyOf(place, "a")).slice(0, 2), ["bypass", "entityDefault"]);
      await place.setPolicy(A_ON_API, { access: "enforce" });
      assert.deepEqual((await policyOf(place, "a")).slice(0, 2), ["enforce", "entity"]);
      assert.deepEqual((await policyOf(place, "b")).slice(0, 2), ["disabled", "resource"]);
      assert.deepEqual((await policyOf(place, "a", "other")).slice(0, 2), ["bypass", "entityDefault"]);
      for (const [scope, next] of [
        [A_ON_API, "bypass"],
        [ANY_OF_A, "disabled"],
        [API, "enforce"],
      ] as const) {
        await place.setPolicy(scope, { access: null });
        assert.equal((await policyOf(place, "a"))[0], next);
      }
    },
  );

  suite.test("cascading is asked in the same order, and replaces the entity's own flag either way", async (place) => {
    await place.create({ id: "root" });
    await place.create({ id: "a", parentId: "root", cascade: false });
    await place.setPolicy(API, { cascade: true });
    assert.deepEqual((await policyOf(place, "a")).slice(2), [true, "resource"]);
    await place.setPolicy(ANY_OF_A, { cascade: false });
    assert.deepEqual((await policyOf(place, "a")).slice(2), [false, "entityDefault"]);
    await place.setPolicy(A_ON_API, { cascade: true });
    assert.deepEqual((await policyOf(place, "a")).slice(2), [true, "entity"]);
    assert.equal((await place.resolve("a", "api")).parentId, "root");
    for (const scope of [A_ON_API, ANY_OF_A, API]) await place.setPolicy(scope, { cascade: null });
    assert.deepEqual((await policyOf(place, "a")).slice(2), [false, "none"]);
  });

  suite.test("access and cascading of one scope are set apart: neither change undoes the other", async (place) => {
    await place.setPolicy(A_ON_API, { access: "bypass" });
    await place.setPolicy(A_ON_API, { cascade: true });
    assert.deepEqual(await policyOf(place, "a"), ["bypass", "entity", true, "entity"]);
    await place.setPolicy(A_ON_API, { access: null });
    assert.deepEqual(await policyOf(place, "a"), ["enforce", "none", true, "entity"]);
  });

  suite.test("limits and policy of a scope do not overwrite each other, whichever is set last (X14)", async (place) => {
    await place.setPolicy(A_ON_API, { access: "disabled", cascade: true });
    await place.set(A_ON_API, rpm);
    assert.deepEqual(await place.scope.config.get(A_ON_API), { limits: rpm, access: "disabled", cascade: true });
    await place.setPolicy(A_ON_API, { access: "bypass" });
    assert.deepEqual(await place.scope.config.get(A_ON_API), { limits: rpm, access: "bypass", cascade: true });
  });

  suite.test("limits and policy that are set at once are both there afterwards (X14)", async (place) => {
    await Promise.all([
      place.set(A_ON_API, rpm),
      place.setPolicy(A_ON_API, { access: "disabled" }),
      place.setPolicy(A_ON_API, { cascade: true }),
    ]);
    assert.deepEqual(await place.scope.config.get(A_ON_API), { limits: rpm, access: "disabled", cascade: true });
  });

  suite.test(
    "deleting the limits of a scope keeps its policy, and taking its policy away keeps its limits",
    async (place) => {
      await place.set(A_ON_API, rpm);
      await place.setPolicy(A_ON_API, { access: "disabled" });
      assert.equal(await place.scope.config.delete(A_ON_API, place.event("limits_deleted", "a"), "all"), true);
      assert.deepEqual(await policyOf(place, "a"), ["disabled", "entity", false, "none"]);
      assert.equal(await place.scope.config.delete(A_ON_API, place.event("limits_deleted", "a"), "all"), false);
      await place.set(A_ON_API, rpm);
      await place.setPolicy(A_ON_API, { access: null });
      assert.deepEqual(await place.scope.config.get(A_ON_API), { limits: rpm });
      await place.scope.config.delete(A_ON_API, place.event("limits_deleted", "a"), "all");
      assert.equal(await place.scope.config.get(A_ON_API), undefined);
    },
  );

  suite.test(
    "a scope that has only a policy says nothing about limits, and is not listed as having some",
    async (place) => {
      await place.set(SYSTEM, rpm);
      for (const scope of [A_ON_API, ANY_OF_A, API])
        await place.setPolicy(scope, { access: "enforce", cascade: false });
      const { limits, source } = await place.resolve("a", "api");
      assert.deepEqual({ limits, source }, { limits: rpm, source: "system" });
      await samePaged((page) => place.scope.config.listForEntity("a", T0, page), []);
      await samePaged((page) => place.scope.config.listEntities("api", T0, page), []);
      await samePaged((page) => place.scope.config.listResources(T0, page), []);
    },
  );

  suite.test("a policy of an entity goes with the entity when it is deleted", async (place) => {
    await place.create({ id: "a" });
    await place.setPolicy(ANY_OF_A, { access: "disabled" });
    await place.scope.entities.delete("a", place.event("entity_deleted", "a"));
    assert.equal((await policyOf(place, "a"))[0], "enforce");
  });

  suite.test("limits of every kind come back from configuration as they were set", async (place) => {
    const schedule = [
      { cron: "* 9-17 * * 1-5", tz: "Europe/Berlin", scale: 0.125 },
      { cron: "0 0 29 2 *", tz: "Europe/Berlin", capacity: 5 },
    ];
    const limits = [
      Kinds.perMinute("a", 100, { burst: 200, soft: true, schedule }),
      Kinds.quota("b", 100, { reset: { cron: "0 0 1 * *", tz: "Europe/Berlin" }, soft: true }),
      Kinds.quota("c", 100, { resetAfterMs: 18_000_000, schedule }),
      Kinds.custom("d", {
        capacity: 9,
        refillAmount: 1,
        refillPeriodMs: 1_000,
        schedule: [{ cron: "* * * * *", tz: "Europe/Berlin", capacity: 1, refillAmount: 2, refillPeriodMs: 3_000 }],
      }),
    ];
    await place.set(A_ON_API, limits);
    assert.deepEqual((await place.resolve("a", "api")).limits, limits);
  });

  suite.test(
    "a limit that drips gains at most the room below its capacity, and is told how much it was",
    async (place) => {
      await place.take([claim("a", rpm, { rpm: 4 })], T0);
      assert.deepEqual(await place.topUp(claim("a", rpm, {}), { rpm: 9 }, T0), {
        kind: "done",
        repeated: false,
        amounts: [{ limit: "rpm", milli: 4_000 }],
      });
      assert.equal(await place.drain((tokens) => claim("a", rpm, { rpm: tokens }), T0, 100), 10);
    },
  );

  suite.test("a top-up or reset where there is no bucket makes one, full but for what it adds", async (place) => {
    assert.deepEqual((await place.topUp(claim("a", rpm, {}), { rpm: 9 }, T0)).amounts, [{ limit: "rpm", milli: 0 }]);
    await place.reset(claim("b", daily, {}), undefined, T0);
    assert.equal(await place.drain((tokens) => claim("b", daily, { q: tokens }), T0, 100), 10);
  });

  suite.test(
    "the same key does nothing a second time, for 30 days, and answers what it did the first time",
    async (place) => {
      const one = claim("a", daily, {});
      const first = await place.topUp(one, { q: 5 }, T0, "order-1");
      assert.deepEqual(first, { kind: "done", repeated: false, amounts: [{ limit: "q", milli: 5_000 }] });
      for (const nowMs of [T0, T0 + DAY_MS, T0 + 30 * DAY_MS - 1]) {
        assert.deepEqual(await place.topUp(one, { q: 5 }, nowMs, "order-1"), { ...first, repeated: true });
      }
      assert.equal(await place.holds(one, "q", T0), 15_000);
      assert.equal((await place.topUp(one, { q: 5 }, T0 + 30 * DAY_MS, "order-1")).repeated, false);
    },
  );

  suite.test("a repeated key with another amount changes nothing: the first answer stands", async (place) => {
    await place.topUp(claim("a", daily, {}), { q: 5 }, T0, "order-1");
    const again = await place.topUp(claim("a", daily, {}), { q: 500 }, T0, "order-1");
    assert.deepEqual(again, { kind: "done", repeated: true, amounts: [{ limit: "q", milli: 5_000 }] });
    assert.equal(await place.holds(claim("a", daily, {}), "q", T0), 15_000);
  });

  suite.test("keys belong to their bucket: another entity or resource may use the same", async (place) => {
    for (const [entityId, resource] of [
      ["a", "api"],
      ["b", "api"],
      ["a", "other"],
    ] as const) {
      const one = claim(entityId, daily, {}, { resource });
      assert.equal((await place.topUp(one, { q: 5 }, T0, "order-1")).repeated, false);
      assert.equal((await place.topUp(one, { q: 5 }, T0, "order-1")).repeated, true);
      assert.equal(await place.holds(one, "q", T0), 15_000);
    }
    const tenant = await place.register("tenant");
    assert.equal((await tenant.topUp(claim("a", daily, {}), { q: 5 }, T0, "order-1")).repeated, false);
  });

  suite.test("ten top-ups with one key at once are one", async (place) => {
    const one = claim("a", daily, {});
    const replies = await Promise.all(
      Array.from({ length: 10 }, async () => place.topUp(one, { q: 5 }, T0, "order-1")),
    );
    assert.equal(replies.filter(({ repeated }) => !repeated).length, 1);
    assert.equal(await place.holds(one, "q", T0), 15_000);
  });

  suite.test("a reset is done once per key, too: what was taken since stays taken", async (place) => {
    await place.take([claim("a", daily, { q: 10 })], T0);
    assert.deepEqual(await place.reset(claim("a", daily, {}), undefined, T0, "ticket-7"), {
      kind: "done",
      repeated: false,
      amounts: [],
    });
    await place.take([claim("a", daily, { q: 6 })], T0);
    assert.deepEqual(await place.reset(claim("a", daily, {}), undefined, T0, "ticket-7"), {
      kind: "done",
      repeated: true,
      amounts: [],
    });
    assert.equal(await place.holds(claim("a", daily, {}), "q", T0), 4_000);
  });

  suite.test(
    "each operation that was done is audited once, and one that was not, or not again, never",
    async (place) => {
      const one = claim("a", daily, {});
      await place.topUp(one, { q: 5 }, T0, "order-1");
      await place.topUp(one, { q: 5 }, T0, "order-1");
      await place.reset(one, undefined, T0 + 1, "order-2");
      const tooMuch = 9_000_000_000_000;
      const refused = await place.topUp(one, { q: tooMuch }, T0 + 2, "order-3");
      assert.deepEqual(refused, { kind: "tooLarge", limit: "q", repeated: false, amounts: [] });
      const { items } = await place.scope.audit.list({ entityId: "a" }, { limit: 10 });
      assert.deepEqual(
        items.map(({ action, atMs }) => [action, atMs]),
        [
          ["bucket_reset", T0 + 1],
          ["bucket_topped_up", T0],
        ],
      );
      // What failed is not remembered as done, and has changed nothing.
      assert.equal(await place.holds(one, "q", T0 + 2), 10_000);
      assert.equal((await place.topUp(one, { q: 1 }, T0 + 2, "order-3")).repeated, false);
      assert.equal(await place.holds(one, "q", T0 + 2), 11_000);
    },
  );

  suite.test("an operation brings changed limits with it, like a take", async (place) => {
    const twenty = [Kinds.quota("q", 20, { reset: { cron: "0 0 * * *" } })];
    await place.take([claim("a", twenty, { q: 1 })], T0);
    const newer = { asOfMs: T0 + 1, generation: 2 };
    await place.topUp(claim("a", daily, {}, { origin: newer }), { q: 5 }, T0);
    assert.equal(await place.holds(claim("a", daily, {}, { origin: newer }), "q", T0), 14_000);
    assert.equal(await place.holds(claim("a", daily, {}, { origin: newer }), "q", MIDNIGHT), 10_000);
  });

  suite.test("an entity that is deleted and made again may use its keys again", async (place) => {
    await place.create({ id: "a" });
    await place.topUp(claim("a", daily, {}), { q: 5 }, T0, "order-1");
    await place.scope.entities.delete("a", place.event("entity_deleted", "a"));
    assert.equal((await place.topUp(claim("a", daily, {}), { q: 5 }, T0, "order-1")).repeated, false);
    assert.equal(await place.holds(claim("a", daily, {}), "q", T0), 15_000);
  });

  suite.test("nobody tops up or resets in a namespace that was deleted", async (place) => {
    const gone = await place.register("gone");
    await place.store.namespaces.delete("gone", T0, place.event("namespace_deleted", "gone"), place.namespaceId);
    await assert.rejects(async () => gone.topUp(claim("a", daily, {}), { q: 5 }, T0), NotFoundError);
    await assert.rejects(async () => gone.reset(claim("a", daily, {}), undefined, T0), NotFoundError);
  });

  suite.test("a bypass debits nothing, refuses nothing and opens no session", async (place) => {
    const limits = [...rpm, Kinds.quota("s", 10, { resetAfterMs: HOUR_MS })];
    await place.take([claim("a", limits, { rpm: 10 })], T0);
    const through = claim("a", limits, { rpm: 500, s: 500 }, { bypass: true });
    assert.deepEqual(kinds(await place.take([through], T0)), ["taken"]);
    assert.equal(await place.holds(claim("a", limits, {}), "rpm", T0), 0);
    assert.equal(await place.holds(claim("a", limits, {}), "s", T0), 10_000);
    await place.debit(through, { rpm: 7 }, T0);
    await place.credit(through, { rpm: 500 }, T0);
    assert.equal(await place.holds(claim("a", limits, {}), "rpm", T0), 0);
  });

  suite.test("a bypass is spared, not short, when another claim of the call does not fit", async (place) => {
    await place.take([claim("parent", rpm, { rpm: 10 })], T0);
    const both = [claim("a", rpm, { rpm: 50 }, { bypass: true }), claim("parent", rpm, { rpm: 1 })];
    assert.deepEqual(kinds(await place.take(both, T0, { atomic: true })), ["skipped", "short"]);
  });

  suite.test("a debit under a bypass debits nothing, also where nothing was taken at the start", async (place) => {
    const through = claim("a", rpm, {}, { bypass: true });
    await place.debit(through, { rpm: 7 }, T0);
    assert.equal(await place.holds(claim("a", rpm, {}), "rpm", T0), 10_000);
  });

  if (suite.gaps.has("generation")) return;

  suite.test("a policy makes plans stale, a top-up or reset does not", async (place) => {
    const { config } = place.scope;
    const before = config.generation();
    await place.topUp(claim("a", daily, {}), { q: 5 }, T0);
    await place.reset(claim("a", daily, {}), undefined, T0);
    assert.equal(config.generation(), before);
    await place.setPolicy(A_ON_API, { access: "disabled" });
    assert.notEqual(config.generation(), before);
  });

  suite.test(
    "what a bypass lets through is counted as usage, and told apart; its give-back lowers both",
    async (place) => {
      const through = claim("a", rpm, { rpm: 50 }, { bypass: true });
      await place.take([claim("a", rpm, { rpm: 4 })], T0);
      await place.take([through], T0);
      await place.debit(through, { rpm: 7 }, T0);
      await place.credit(through, { rpm: 20 }, T0);
      const usage = await usageOf(place);
      assert.deepEqual(usage.counters, { rpm: 41 });
      assert.deepEqual(usage.bypassed, { rpm: 37 });
      assert.equal(usage.requests, 2);
    },
  );

  suite.test("a soft limit that a bypass passes by is not counted as overdrawn", async (place) => {
    const limits = [Kinds.perMinute("x", 10, { soft: true })];
    await place.take([claim("a", limits, { x: 15 })], T0);
    await place.take([claim("a", limits, { x: 50 }, { bypass: true })], T0);
    const usage = await usageOf(place);
    assert.deepEqual([usage.counters, usage.overdrafts, usage.bypassed], [{ x: 65 }, { x: 1 }, { x: 50 }]);
  });

  suite.test("neither a top-up nor a reset is usage", async (place) => {
    await place.take([claim("a", daily, { q: 3 })], T0);
    await place.topUp(claim("a", daily, {}), { q: 5 }, T0);
    await place.reset(claim("a", daily, {}), undefined, T0);
    const usage = await usageOf(place);
    assert.deepEqual([usage.counters, usage.requests], [{ q: 3 }, 1]);
  });
}

async function policyOf(place: TestedNamespace, entityId: string, resource = "api"): Promise<readonly unknown[]> {
  const resolved = await place.resolve(entityId, resource);
  const sync = place.scope.config.resolveSync?.(entityId, resource);
  if (sync !== undefined) assert.deepEqual(sync, resolved);
  return [resolved.access, resolved.accessSource, resolved.cascade, resolved.cascadeSource];
}

async function usageOf(place: TestedNamespace): Promise<UsageSnapshot> {
  const query = { entityId: "a", window: "hourly", fromMs: 0, toMs: Number.MAX_SAFE_INTEGER } as const;
  const { items } = await place.scope.usage.query(query, { limit: 10 });
  assert.equal(items.length, 1);
  return items[0] as UsageSnapshot;
}
