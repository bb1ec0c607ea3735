import assert from "node:assert/strict";
import { describe, type TestContext, test } from "node:test";
import { openSqlite } from "../../src/adapters/sqlite/store.ts";
import { steadyMs } from "../../src/adapters/system/clock.ts";
import { FILE_RETENTION } from "../../src/domain/config/retention.ts";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { openMemory } from "../../src/entry/memory.ts";
import type { Store } from "../../src/ports/store.ts";
import { SeededRandom } from "../../src/testing/random.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { conditionalWorld, openConditional } from "../kit/conditional-store.ts";
import { straightWorld } from "../kit/straight-whole.ts";
import { calendar } from "../limits/kind-arbitraries.ts";
import { tempFile } from "../sqlite/temp-store.ts";
import { straightProcess } from "../straight/process.ts";

// What is asked is answered by what is stored, whichever process changed it, and however well another one remembers what was before.

const T0 = Date.UTC(2026, 2, 15, 12);

/** Two processes on one store: what opens each of them. */
type Processes = (clock: SimulatedClock, t: TestContext) => (seed: number) => Store;

const PROCESSES: readonly (readonly [name: string, open: Processes])[] = [
  [
    "memory",
    () => {
      const store = openMemory();
      return () => store;
    },
  ],
  [
    "SQLite",
    (_, t) => {
      const file = tempFile(t);
      return () => {
        const how = { durability: "normal", coalesce: true, retention: FILE_RETENTION } as const;
        const store = openSqlite({ ...how, file, random: () => 0.5, steadyMs, calendar });
        t.after(() => store.close());
        return store;
      };
    },
  ],
  [
    "conditional writes",
    (clock) => {
      const about = { random: new SeededRandom(1), writesPerSecond: Number.POSITIVE_INFINITY, staleMs: 500 };
      const world = conditionalWorld({ now: () => clock.now(), ...about }, calendar);
      return (seed) => {
        const random = new SeededRandom(seed);
        return openConditional(world, { clock, random: () => random.next(), denyMemoryMs: 0 });
      };
    },
  ],
  [
    "batches",
    (clock) => {
      const world = straightWorld(() => clock.now());
      return (seed) => {
        const random = new SeededRandom(seed);
        return straightProcess(world, { line: world.batches, random, calendar, coalesce: true, laneCount: 1, clock });
      };
    },
  ],
];

const CHANGES: Readonly<Record<string, (one: RateLimiter) => Promise<unknown>>> = {
  "a raised default": (one) => one.setResourceDefaults("api", [Limit.perMinute("rpm", 100)]),
  "a lowered default of all resources": (one) => one.setSystemDefaults([Limit.perMinute("rpm", 5)]),
  "a default that is gone": (one) => one.deleteResourceDefaults("api"),
  "limits of the parent": (one) => one.setLimits("team", [Limit.perMinute("rpm", 7), Limit.perDay("day", 9)]),
  "limits of its own": (one) => one.setLimits("key-1", [Limit.perMinute("tpm", 30)], { resource: "api" }),
  "a plan": (one) => one.updateEntity("key-1", { planId: "gold" }),
  "limits of its plan": (one) => one.setPlanLimits("gold", [Limit.perMinute("rpm", 70)]),
  totals: (one) => one.setTotals("team", [Limit.perDay("day", 50, { counts: "rpm" })]),
  "another parent": (one) => one.updateEntity("key-1", { parentId: "org" }),
  "no parent that is charged": (one) => one.setCascade({ entityId: "key-1" }, false),
  "a switch": (one) => one.setAccess({ entityId: "team" }, "bypass"),
};

for (const [name, processes] of PROCESSES) {
  describe(`questions after another process has changed limits, on ${name}`, () => {
    async function open(t: TestContext) {
      const clock = new SimulatedClock(T0);
      const opened = processes(clock, t);
      const [one, other] = [
        await RateLimiter.open({ clock, store: opened(1) }),
        await RateLimiter.open({ clock, store: opened(2) }),
      ];
      return { clock, one, other };
    }

    test("are answered as by the process that changed them", async (t) => {
      const { clock, one, other } = await open(t);
      await one.setSystemDefaults([Limit.perMinute("rpm", 20)]);
      await one.setResourceDefaults("api", [Limit.perMinute("rpm", 10)]);
      await one.createPlan({ id: "gold" });
      for (const id of ["org", "team"]) await one.createEntity({ id });
      await one.createEntity({ id: "key-1", parentId: "team", cascade: true });
      const asked = { entityId: "key-1", resource: "api", consume: { rpm: 1 } };
      const all = { ...asked, consume: { rpm: 50 } };
      // An error is an answer, too: of limits that are not there any more.
      const told = (answer: Promise<unknown>) => answer.catch((error) => `${error.code}: ${error.message}`);
      const answers = async (limiter: RateLimiter) => ({
        available: await told(limiter.available(asked)),
        ofTotals: await told(limiter.available({ entityId: "team", resource: "*" })),
        explain: await told(limiter.explain(all)),
        waitMs: await told(limiter.timeUntilAvailable(all)),
        listed: await told(Promise.resolve(limiter.listBuckets())),
      });
      await other.acquire(asked);
      for (const [what, change] of Object.entries(CHANGES)) {
        await clock.advance(7_000);
        // It remembers the limits of before, and is not told of the change.
        await answers(other);
        await change(one);
        assert.deepEqual(await answers(other), await answers(one), what);
      }
    });

    test("say never only of what would be refused for ever; so does a take", async (t) => {
      const { clock, one, other } = await open(t);
      await one.setResourceDefaults("api", [Limit.perMinute("rpm", 10)]);
      const asked = { entityId: "key-1", resource: "api", consume: { rpm: 40 } };
      await other.acquire({ ...asked, consume: { rpm: 1 } });
      await assert.rejects(other.acquire(asked), { code: "amount_above_capacity" });
      await one.setResourceDefaults("api", [Limit.perMinute("rpm", 100)]);
      await clock.advance(30_000);
      assert.ok((await other.acquire(asked)).consumed);
      await one.setResourceDefaults("api", [Limit.perMinute("rpm", 200)]);
      await clock.advance(30_000);
      const [taken, further] = [{ ...asked, consume: { rpm: 101 } }, { api: { rpm: 101 } }];
      assert.ok((await other.tryAcquire({ ...taken, wait: { maxMs: 60_000 } })).ok, "also one that waits");
      await clock.advance(60_000);
      await one.setResourceDefaults("api", [Limit.perMinute("rpm", 400)]);
      await one.setResourceDefaults("gpu", [Limit.perMinute("rpm", 10)]);
      await clock.advance(60_000);
      assert.ok((await other.tryAcquire({ ...asked, resource: "gpu", consume: { rpm: 1 }, also: further })).ok);
    });
  });
}
