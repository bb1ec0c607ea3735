import assert from "node:assert/strict";
import { describe, type TestContext, test } from "node:test";
import { Limit, type OpenOptions, RateLimiter, RateLimiterUnavailable } from "../../src/entry/index.ts";
import { createService } from "../../src/entry/server.ts";
import type { Store } from "../../src/ports/store.ts";
import { FaultStore, overriding } from "../../src/testing/fault-store.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { EVERY_STORE, type OpenedStore } from "./every-store.ts";

const T0 = Date.UTC(2026, 2, 15, 12);
const asked = { entityId: "key-1", resource: "api", consume: { rpm: 1 } } as const;

/** A store behind a network: it answers with promises, and names of namespaces are not found while it is down. */
function behindNetwork(inner: Store) {
  const line = new FaultStore(inner, { pause: async () => {} });
  const network = { isDown: false, lookups: 0 };
  const store = overriding<Store>(line, {
    namespaces: overriding(line.namespaces, {
      get: async (name) => {
        network.lookups++;
        if (network.isDown) line.failNext("look", "lostBefore");
        return line.namespaces.get(name);
      },
    }),
  });
  return { store, network };
}

async function open(
  t: TestContext,
  openStore: (clock: SimulatedClock, t: TestContext) => OpenedStore,
  options: Pick<OpenOptions, "onUnavailable">,
) {
  const clock = new SimulatedClock(T0);
  const opened = openStore(clock, t);
  const { store, network } = behindNetwork(opened.store);
  const limiter = await RateLimiter.open({ store, clock, ...opened.options, ...options });
  await limiter.registerNamespace("tenant");
  await limiter.namespace("tenant").setSystemDefaults([Limit.perMinute("rpm", 1)]);
  return { limiter, network };
}

for (const [name, openStore] of EVERY_STORE) {
  describe(`a namespace whose name is looked up during an outage, on ${name}`, () => {
    test("works as soon as the store answers again", async (t) => {
      const { limiter, network } = await open(t, openStore, {});
      network.isDown = true;
      const tenant = limiter.namespace("tenant");
      await assert.rejects(tenant.acquire(asked), RateLimiterUnavailable);
      await assert.rejects(tenant.available(asked), RateLimiterUnavailable);
      await assert.rejects(tenant.registerNamespace("other"), RateLimiterUnavailable);
      network.isDown = false;
      assert.equal((await tenant.tryAcquire(asked)).ok, true);
      assert.equal((await tenant.tryAcquire(asked)).ok, false, "one a minute");
      assert.equal((await tenant.registerNamespace("other")).name, "other");
      const { lookups } = network;
      await tenant.available(asked);
      assert.equal(network.lookups, lookups, "the answer is remembered");
    });

    test("is limited again after the outage that let work through", async (t) => {
      const { limiter, network } = await open(t, openStore, { onUnavailable: "allow" });
      network.isDown = true;
      const tenant = limiter.namespace("tenant");
      for (let i = 0; i < 3; i++) assert.notEqual((await tenant.acquire(asked)).degraded, false);
      network.isDown = false;
      assert.equal((await tenant.acquire(asked)).degraded, false);
      assert.equal((await tenant.tryAcquire(asked)).ok, false);
    });

    test("is looked up once at a time, however many wait for it", async (t) => {
      const { limiter, network } = await open(t, openStore, {});
      network.isDown = true;
      const tenant = limiter.namespace("tenant");
      const before = network.lookups;
      for (let round = 1; round <= 3; round++) {
        const all = Array.from({ length: 50 }, () => tenant.available(asked));
        for (const one of await Promise.allSettled(all)) assert.equal(one.status, "rejected");
        assert.ok(network.lookups - before <= round, `${network.lookups - before} lookups in ${round} rounds`);
      }
    });

    test("and was not registered then, is found once it is", async (t) => {
      const { limiter } = await open(t, openStore, {});
      const early = limiter.namespace("later");
      await assert.rejects(early.available(asked), { code: "namespace_not_found" });
      await limiter.registerNamespace("later");
      await early.setSystemDefaults([Limit.perMinute("rpm", 5)]);
      assert.equal((await early.available(asked))[0]?.available, 5);
    });
  });
}

for (const onUnavailable of ["block", "allow"] as const) {
  test(`a tenant of the service outlives an outage at its first request, where an outage means ${onUnavailable}`, async (t) => {
    const [[, openMemoryStore] = []] = EVERY_STORE;
    assert.ok(openMemoryStore !== undefined);
    const { limiter, network } = await open(t, openMemoryStore, { onUnavailable });
    network.isDown = true;
    const service = await createService({ limiter, open: true, dashboard: false, log: () => {} });
    t.after(() => service.close());
    const take = async () => {
      const request = new Request("http://localhost/v1/namespaces/tenant/acquire", {
        ...{ method: "POST", headers: { "content-type": "application/json" } },
        body: JSON.stringify({ ...asked, holdMs: 0 }),
      });
      const response = await service.fetch(request);
      const { code, degraded } = (await response.json()) as { code?: string; degraded?: unknown };
      return [response.status, code ?? (degraded === false ? "granted" : "let through")];
    };
    const during = onUnavailable === "allow" ? [200, "let through"] : [503, "unavailable"];
    assert.deepEqual(await take(), during);
    assert.deepEqual(await take(), during);
    network.isDown = false;
    assert.deepEqual(await take(), [200, "granted"]);
    assert.deepEqual(await take(), [429, "rate_limit_exceeded"]);
  });
}
