import assert from "node:assert/strict";
import { describe, type TestContext, test } from "node:test";
import { ending } from "../../src/domain/config/overrides.ts";
import { Limit, type OpenOptions, RateLimiter, ResourceDisabled } from "../../src/entry/index.ts";
import { applyManifest, parseManifest, planManifest } from "../../src/entry/manifest.ts";
import { openMemory } from "../../src/entry/memory.ts";
import type { Store } from "../../src/ports/store.ts";
import { overriding } from "../../src/testing/fault-store.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { EVERY_STORE } from "./every-store.ts";

const T0 = Date.UTC(2026, 2, 15, 12);
const MINUTE_MS = 60_000;
const END_MS = T0 + 10 * MINUTE_MS;
const base = [Limit.perMinute("rpm", 10)];
const raised = [Limit.perMinute("rpm", 100)];
const lowered = [Limit.perMinute("rpm", 2)];
const asking = (rpm: number) => ({ entityId: "key-1", resource: "api", consume: { rpm } });

for (const [name, openStore] of EVERY_STORE) {
  const open = async (t: TestContext, options: Partial<OpenOptions> = {}) => {
    const clock = new SimulatedClock(T0 - MINUTE_MS);
    const opened = openStore(clock, t);
    const reads = { arePossible: true };
    const store = withoutReads(opened.store, reads);
    const limiter = await RateLimiter.open({ store, clock, ...opened.options, ...options });
    t.after(() => limiter.close());
    await limiter.setResourceDefaults("api", base);
    await clock.advance(MINUTE_MS);
    return { limiter, clock, reads };
  };

  describe(`limits with an end, on ${name}`, () => {
    test("remembered configuration goes over to the base without a read", async (t) => {
      const { limiter, clock, reads } = await open(t, { configTtlMs: 60 * MINUTE_MS });
      await limiter.setLimits("key-1", raised, { untilMs: END_MS });
      assert.equal((await limiter.tryAcquire(asking(60))).ok, true);
      reads.arePossible = false;
      await clock.advance(END_MS - T0 - 1);
      assert.equal((await limiter.tryAcquire(asking(1))).ok, true);
      await clock.advance(1);
      const { ok } = await limiter.tryAcquire(asking(10));
      assert.equal(ok, true);
      assert.equal((await limiter.tryAcquire(asking(1))).ok, false, "ten, of a hundred that it held before");
    });

    test("what would fit only later is told the end, and wakes then", async (t) => {
      const { limiter, clock } = await open(t);
      await limiter.setLimits("key-1", [Limit.perHour("rpm", 2)], { untilMs: END_MS });
      assert.equal((await limiter.tryAcquire(asking(2))).ok, true);
      const refused = await limiter.tryAcquire(asking(1));
      assert.equal(refused.ok ? 0 : refused.retryAfterMs, END_MS - T0);
      assert.equal(await limiter.timeUntilAvailable(asking(1)), END_MS - T0);
      const waited = limiter.acquire({ ...asking(1), wait: { maxMs: 60 * MINUTE_MS } });
      // It has nothing at the end, and ten a minute from there on.
      await clock.advance(END_MS - T0 + 6_000);
      await (await waited).settle();
    });

    test("an amount is above the capacity only if neither the override nor the base can hold it", async (t) => {
      const { limiter } = await open(t);
      await limiter.setLimits("key-1", lowered, { untilMs: END_MS });
      const refused = await limiter.tryAcquire(asking(10));
      assert.equal(refused.ok ? 0 : refused.retryAfterMs, END_MS - T0);
      await assert.rejects(limiter.tryAcquire(asking(11)), { code: "amount_above_capacity" });
      await limiter.setLimits("key-1", raised, { untilMs: END_MS });
      assert.equal((await limiter.tryAcquire(asking(11))).ok, true);
    });

    test("a lease that is open at the end goes on, also while the limiter closes and may read nothing", async (t) => {
      const { limiter, clock, reads } = await open(t);
      await limiter.setLimits("key-1", raised, { untilMs: END_MS });
      let mayGoOn = () => {};
      const going = new Promise<void>((resolve) => {
        mayGoOn = resolve;
      });
      const done = limiter.withLease(asking(50), async (lease) => {
        await going;
        await lease.consume({ rpm: 1 });
        await lease.adjust({ rpm: -1 });
      });
      await clock.advance(END_MS - T0);
      const closed = limiter.close({ drainMs: MINUTE_MS });
      reads.arePossible = false;
      mayGoOn();
      await done;
      await clock.advance(MINUTE_MS);
      await closed;
    });

    test("access has an end", async (t) => {
      const { limiter, clock } = await open(t);
      await limiter.createEntity({ id: "key-1" });
      const where = { entityId: "key-1" };
      await limiter.setAccess(where, "disabled", { untilMs: END_MS });
      assert.deepEqual(await limiter.getPolicy(where), { access: "disabled", accessUntilMs: END_MS });
      await assert.rejects(limiter.tryAcquire(asking(1)), ResourceDisabled);
      await clock.advance(END_MS - T0);
      assert.equal((await limiter.tryAcquire(asking(1))).ok, true);
      assert.deepEqual(await limiter.getPolicy(where), {});
      await limiter.setAccess(where, "bypass", { untilMs: END_MS + MINUTE_MS });
      assert.equal((await limiter.tryAcquire(asking(1_000))).ok, true);
      await clock.advance(MINUTE_MS);
      await assert.rejects(limiter.tryAcquire(asking(1_000)), { code: "amount_above_capacity" });
    });

    test("levels that do not go together after an end, and were corrected before it, are read again", async (t) => {
      const { limiter, clock } = await open(t, { configTtlMs: 60 * MINUTE_MS });
      const daily = (name: string, tz: string) => Limit.quota(name, 5, { reset: { cron: "0 0 * * *", tz } });
      await limiter.setResourceDefaults("api", [daily("day", "UTC")]);
      await limiter.setLimits("key-1", [...base, daily("night", "Asia/Kolkata")], { inherit: true });
      await limiter.setLimits("key-1", raised, { untilMs: END_MS });
      assert.equal((await limiter.tryAcquire(asking(1))).ok, true);
      await limiter.setResourceDefaults("api", base);
      await clock.advance(END_MS - T0);
      assert.equal((await limiter.tryAcquire(asking(1))).ok, true);
    });

    test("a total has an end, and so has what a parent is charged", async (t) => {
      const { limiter, clock } = await open(t);
      await limiter.createEntity({ id: "org" });
      await limiter.createEntity({ id: "key-1", parentId: "org", cascade: true });
      await limiter.setLimits("key-1", raised);
      await limiter.setTotals("org", [Limit.perHour("rpm", 1)], { untilMs: END_MS });
      await limiter.setLimits("org", [Limit.perHour("rpm", 1)], { untilMs: END_MS });
      assert.equal((await limiter.tryAcquire(asking(1))).ok, true);
      assert.equal((await limiter.tryAcquire(asking(1))).ok, false);
      await clock.advance(END_MS - T0);
      await clock.advance(MINUTE_MS);
      assert.equal((await limiter.tryAcquire(asking(10))).ok, true);
    });
  });
}

/** A store whose configuration can be made unreadable. */
function withoutReads(store: Store, reads: { readonly arePossible: boolean }): Store {
  return overriding<Store>(store, {
    scope: (namespaceId) => {
      const scope = store.scope(namespaceId);
      const { config } = scope;
      const refuse = () => {
        if (!reads.arePossible) throw new TypeError("Configuration is read.");
      };
      const sync = config.resolveSync?.bind(config);
      return overriding(scope, {
        config: overriding(config, {
          resolve: (entityId, resource, read) => {
            refuse();
            return config.resolve(entityId, resource, read);
          },
          ...(sync === undefined
            ? {}
            : {
                resolveSync: (entityId, resource) => {
                  refuse();
                  return sync(entityId, resource);
                },
              }),
        }),
      });
    },
  });
}

describe("limits with an end, as they are set and shown", () => {
  const opened = async (t: TestContext) => {
    const clock = new SimulatedClock(T0);
    const limiter = await RateLimiter.open({ store: openMemory(), clock });
    t.after(() => limiter.close());
    return { limiter, clock };
  };

  test("an end that is none, or not ahead, is refused, and changes nothing", async (t) => {
    const { limiter } = await opened(t);
    const untilMs = END_MS;
    for (const [options, code] of [
      [{ untilMs: END_MS / 1000 }, "instant_invalid"],
      [{ untilMs: END_MS + 0.5 }, "instant_invalid"],
      [{ untilMs: T0 }, "until_invalid"],
      [{ untilMs: T0 + 366 * 86_400_000 + 1 }, "until_invalid"],
      [{ untilMs, keepOverride: true }, "option_invalid"],
      [{ untilMs, onUnavailable: "allow" }, "option_invalid"],
    ] as const) {
      await assert.rejects(limiter.setSystemDefaults(base, options), { code });
    }
    await assert.rejects(limiter.setAccess({ entityId: "a" }, "inherit", { untilMs }), { code: "option_invalid" });
    await assert.rejects(limiter.setCascade({ entityId: "a" }, true, { untilMs } as object), {
      code: "option_unknown",
    });
    assert.deepEqual(await limiter.getSystemDefaults(), { limits: [] });
    assert.equal(await limiter.setSystemDefaults(base, { untilMs: T0 + 366 * 86_400_000 }), true);
  });

  test("what is in force is shown with its end and what comes then", async (t) => {
    const { limiter, clock } = await opened(t);
    await limiter.setLimits("a", base, { resource: "api", inherit: true });
    await limiter.setLimits("a", raised, { resource: "api", untilMs: END_MS });
    await limiter.setLimits("a", lowered, { resource: "web", untilMs: END_MS });
    assert.deepEqual(await limiter.getLimits("a", { resource: "api" }), raised);
    assert.deepEqual(
      [...(await limiter.listLimits("a"))],
      [
        { resource: "api", limits: raised, ...ending(END_MS, { limits: base, inherit: true }) },
        { resource: "web", limits: lowered, ...ending(END_MS, null) },
      ],
    );
    assert.equal((await limiter.resolveLimits("a", "api")).untilMs, END_MS);
    const { levels } = await limiter.explain({ entityId: "a", resource: "api" });
    const { untilMs, then, changesAtMs } = levels[0]?.limits[0] ?? {};
    assert.deepEqual([untilMs, then, changesAtMs], [END_MS, base[0], END_MS]);
    await clock.advance(END_MS - T0);
    assert.deepEqual([...(await limiter.listLimits("a"))], [{ resource: "api", limits: base, inherit: true }]);
    assert.equal((await limiter.resolveLimits("a", "api")).untilMs, undefined);
  });

  test("the audit log has the end, what runs above a base, and an end that was made", async (t) => {
    const { limiter } = await opened(t);
    await limiter.setTotals("a", raised, { untilMs: END_MS });
    await limiter.setTotals("a", base, { keepOverride: true });
    assert.equal(await limiter.deleteTotals("a", { override: true }), true);
    assert.equal(await limiter.deleteTotals("a", { override: true }), false);
    const { events } = await limiter.auditEvents({ entityId: "a" });
    const said = events.map(({ action, details: { untilMs, underUntilMs, override } }) => [
      ...[action, untilMs ?? underUntilMs ?? override],
    ]);
    assert.deepEqual(said, [
      ["totals_deleted", true],
      ["totals_set", END_MS],
      ["totals_set", END_MS],
    ]);
  });

  test("a manifest sees bases only, and writes under what has an end", async (t) => {
    const { limiter, clock } = await opened(t);
    const manifest = parseManifest("owner: team\nresources: { api: { limits: { rpm: 10 } } }\n");
    await applyManifest(limiter, await planManifest(limiter, manifest));
    await limiter.setResourceDefaults("api", raised, { untilMs: END_MS });
    assert.deepEqual((await planManifest(limiter, manifest)).changes, []);
    const next = parseManifest("owner: team\nresources: { api: { limits: { rpm: 20 } } }\n");
    await applyManifest(limiter, await planManifest(limiter, next));
    assert.deepEqual(await limiter.getResourceDefaults("api"), raised);
    await clock.advance(END_MS - T0);
    assert.equal((await limiter.getResourceDefaults("api"))[0]?.capacity, 20);
  });
});
