import assert from "node:assert/strict";
import { test } from "node:test";
import { Limit, RateLimitExceeded } from "../../src/entry/index.ts";
import type { Store } from "../../src/ports/store.ts";
import { FaultStore } from "../../src/testing/fault-store.ts";
import { SeededRandom } from "../../src/testing/random.ts";
import { held, rpm, take } from "../defects/kit.ts";
import { memoryKit } from "../defects/kit-memory.ts";
import { overriding } from "./port.ts";

const kit = memoryKit();

// What the simulation found in this limiter while it was built, each as the shortest story that shows it. Two more stand
// under W36 (configuration of different times in one plan) and X12 (limits of a process that is gone).

test("consuming more than a limit was lowered to meanwhile is a refusal without end, not a crash", async () => {
  const { limiter } = await kit.open();
  await limiter.setSystemDefaults([...rpm(100), Limit.perMinute("tpm", 100)]);
  const lease = await take(limiter, "a", { rpm: 1, tpm: 1 });
  await limiter.setSystemDefaults([...rpm(5), Limit.perMinute("tpm", 100)]);
  await take(limiter, "a", { rpm: 1 });
  const refused = await lease.consume({ rpm: 50, tpm: 1 }).catch((error: unknown) => error);
  assert.ok(refused instanceof RateLimitExceeded, String(refused));
  assert.equal(refused.retryAfterMs, Number.POSITIVE_INFINITY);
  assert.equal(refused.primary.limit, "rpm");
  assert.equal(refused.toJSON().retryAfterMs, null);
});

test("those who wait below one exhausted parent do not keep waking each other", async () => {
  let takes = 0;
  // Calls of different lengths: answered all in step, they would miss each other.
  const random = new SeededRandom(1);
  const pause = async () => {
    for (let turns = random.integer(0, 4); turns >= 0; turns--) await new Promise((resolve) => setImmediate(resolve));
  };
  const faulty = (store: Store) =>
    new FaultStore(
      counting(store, () => takes++),
      { split: true, pause },
    );
  const { limiter, clock } = await kit.openChanged(faulty);
  await limiter.setSystemDefaults(rpm(10));
  await limiter.createEntity({ id: "parent" });
  for (const id of ["a", "b", "c"]) await limiter.createEntity({ id, parentId: "parent", cascade: true });
  await take(limiter, "parent", { rpm: 10 });
  const waiting = [];
  for (const entityId of ["a", "b", "c"]) {
    waiting.push(limiter.tryAcquire({ entityId, resource: "api", consume: { rpm: 1 }, wait: { maxMs: 3_000 } }));
    await clock.advance(1);
  }
  for (let ms = 0; ms < 300; ms++) await clock.advance(1);
  const asked = takes;
  await clock.advance(3_000);
  for (const outcome of await Promise.all(waiting)) assert.equal(outcome.ok, false);
  // Each asked when it came and once more when it had queued up, at child and parent; then only time could help.
  assert.ok(asked <= 1 + 12, `${asked} takes`);
  assert.deepEqual(await held(limiter, "a"), { rpm: 10 });
});

test("who waited in vain and then meets an outage is let through, where outages let through", async () => {
  const { limiter, clock, faults } = await kit.openFaulty({ onUnavailable: "allow" });
  await limiter.setSystemDefaults(rpm(10));
  await take(limiter, "a", { rpm: 10 });
  const request = { entityId: "a", resource: "api", consume: { rpm: 10 } };
  const first = limiter.tryAcquire({ ...request, wait: { maxMs: 60_000 } });
  await clock.advance(0);
  const second = limiter.acquire({ ...request, wait: { maxMs: 1_000 } });
  await clock.advance(999);
  faults.failNext("look", "refused");
  await clock.advance(1);
  assert.match(String((await second).degraded), /unavailable/);
  await clock.advance(60_000);
  assert.equal((await first).ok, true);
});

function counting(store: Store, count: () => void): Store {
  return overriding(store, {
    scope: (id) => {
      const scope = store.scope(id);
      return {
        ...scope,
        buckets: overriding(scope.buckets, {
          take: (claims, context) => {
            count();
            return scope.buckets.take(claims, context);
          },
        }),
      };
    },
  });
}
