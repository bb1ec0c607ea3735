import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import type { LeaseView } from "../../src/leases/lease-view.ts";
import { StoredLeases } from "../../src/leases/stored-leases.ts";
import type { Store } from "../../src/ports/store.ts";
import { overriding } from "../../src/testing/fault-store.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { EVERY_STORE } from "./every-store.ts";
import { tellTotalsStories } from "./totals-stories.ts";

const T0 = Date.UTC(2026, 5, 15, 10);
const rpd = Limit.perHour("rpd", 90);
const rpm = Limit.perHour("rpm", 90);

for (const [name, openStore] of EVERY_STORE) {
  describe(`totals: ${name}`, () => {
    tellTotalsStories(async (t) => {
      const clock = new SimulatedClock(T0);
      const { store, options } = openStore(clock, t);
      const limiter = await RateLimiter.open({ store, clock, ...options });
      t.after(() => limiter.close());
      return { limiter, clock };
    });

    test("a stored lease shows a total once, as it was last seen, whichever of its resources is changed", async (t) => {
      const clock = new SimulatedClock(T0);
      const { store, options } = openStore(clock, t);
      const limiter = await RateLimiter.open({ store, clock, ...options });
      t.after(() => limiter.close());
      await limiter.setSystemDefaults([rpd]);
      await limiter.setTotals("key", [rpd]);
      const hold = { holdMs: 60_000, holdMaxMs: 600_000, onExpiry: "charge", onChange: () => {} } as const;
      const leases = new StoredLeases(limiter, hold);
      const asked = { entityId: "key", resource: "gpu", consume: { rpd: 1 }, also: { api: { rpd: 2 } } };
      const { leaseId } = (await leases.acquire(asked)).lease;
      const shown = ({ limits }: LeaseView) => limits.map(({ resource, available }) => [resource, available]);
      const more = await leases.adjust(leaseId as string, { delta: { rpd: 5 } });
      assert.deepEqual(shown(more.lease), [
        ["gpu", 84],
        ["*", 82],
        ["api", 88],
      ]);
      const less = await leases.release(leaseId as string, { amounts: {}, also: { api: { rpd: 2 } } });
      assert.deepEqual(shown(less.lease), [
        ["gpu", 84],
        ["*", 84],
        ["api", 90],
      ]);
    });

    for (const [when, before, after, usedAfter] of [
      ["is set", [], [rpd], [7, 17, 0]],
      ["gets a limit", [rpm], [rpm, rpd], [7, 17, 0]],
      ["loses a limit", [rpm, rpd], [rpm], [0, 0, 0]],
    ] as const) {
      test(`a total that ${when} while a request reads it is the same for all resources of the request`, async (t) => {
        const clock = new SimulatedClock(T0);
        const { store, options } = openStore(clock, t);
        const other = await RateLimiter.open({ store, clock, ...options });
        t.after(() => other.close());
        await other.createEntity({ id: "org" });
        await other.createEntity({ id: "key", parentId: "org" });
        await other.setSystemDefaults([rpd, rpm]);
        if (before.length > 0) await other.setTotals("org", before);
        const change = () => other.setTotals("org", after);
        const one = await RateLimiter.open({ store: changingAfter(store, "org", "gpu", change), clock, ...options });
        t.after(() => one.close());
        const used = async () => {
          const query = {
            entityId: "org",
            resource: "*",
            window: "hourly",
            fromMs: 0,
            toMs: 4_000_000_000_000,
          } as const;
          return (await other.usageSummary(query)).total.rpd ?? 0;
        };
        const consume = { rpd: 3, rpm: 1 };
        const lease = await one.acquire({
          entityId: "key",
          resource: "gpu",
          consume,
          also: { api: { rpd: 4, rpm: 1 } },
        });
        const found = [await used()];
        await lease.resource("api").adjust({ rpd: 10 });
        found.push(await used());
        await lease.rollback();
        found.push(await used());
        assert.deepEqual(found, usedAfter);
      });
    }
  });
}

/** The store for a process that reads one level of a resource just before configuration changes, once. */
function changingAfter(store: Store, entityId: string, resource: string, change: () => Promise<unknown>): Store {
  let isChanged = false;
  return overriding(store, {
    scope: (id) => {
      const scope = store.scope(id);
      const config = overriding(scope.config, {
        resolve: async (...asked) => {
          const level = await scope.config.resolve(...asked);
          if (isChanged || asked[0] !== entityId || asked[1] !== resource) return level;
          isChanged = true;
          await change();
          return level;
        },
      });
      return { ...scope, config };
    },
  });
}
