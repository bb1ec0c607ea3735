import assert from "node:assert/strict";
import { test } from "node:test";
import { RateLimiterUnavailable } from "../../src/entry/index.ts";
import { type Kit, rpm } from "./kit.ts";

/** Defects that a store which answers at once can be asked about synchronously. */
export function syncDefects(kit: Kit): void {
  for (const call of ["resolve", "take"] as const) {
    test(`W11: an outage at ${call} follows onUnavailable, also for who asks synchronously`, async () => {
      for (const onUnavailable of ["allow", "block"] as const) {
        const { limiter, faults } = await kit.openFaulty({ onUnavailable });
        await limiter.setSystemDefaults(rpm(10));
        faults.failNext(call, "refused");
        const asked = () => limiter.tryAcquireSync({ entityId: "a", resource: "api", consume: { rpm: 1 } });
        if (onUnavailable === "block") assert.throws(asked, RateLimiterUnavailable);
        else {
          const outcome = asked();
          assert.ok(outcome.ok);
          assert.match(String(outcome.lease.degraded), /unavailable/);
          assert.deepEqual(outcome.lease.consumed, call === "take" ? { rpm: 0 } : {});
        }
      }
    });
  }

  test("X18: what is remembered does not grow with every entity ever seen", async () => {
    const { limiter } = await kit.open();
    await limiter.setSystemDefaults(rpm(10));
    for (let i = 0; i < 25_000; i++) {
      limiter.tryAcquireSync({ entityId: `e${i}`, resource: "api", consume: { rpm: 1 } });
    }
    assert.ok(limiter.cacheStats().size <= 10_000, `${limiter.cacheStats().size} levels are remembered`);
  });
}
