import assert from "node:assert/strict";
import { test } from "node:test";
import { RateLimiterUnavailable } from "../../src/entry/index.ts";
import { HOUR_MS, type Kit, rpm, T0, take } from "./kit.ts";

/** Defects that show on stores which answer at once, and count usage themselves. */
export function localDefects(kit: Kit): void {
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

  test("W39: an entity that is active just after midnight keeps its day, and the hour is not inflated", async () => {
    const { limiter, clock } = await kit.open();
    await limiter.setSystemDefaults(rpm(1_000));
    const midnight = Date.UTC(2026, 2, 16);
    await clock.advance(midnight - T0);
    await take(limiter, "a", { rpm: 3 });
    await clock.advance(2 * HOUR_MS);
    await take(limiter, "a", { rpm: 4 });
    const counted = async (window: "hourly" | "daily" | "monthly") =>
      (await limiter.usage({ entityId: "a", window })).map(({ windowStartMs, counters }) => [
        windowStartMs,
        counters.rpm,
      ]);
    assert.deepEqual(await counted("hourly"), [
      [midnight, 3],
      [midnight + 2 * HOUR_MS, 4],
    ]);
    assert.deepEqual(await counted("daily"), [[midnight, 7]]);
    assert.deepEqual(await counted("monthly"), [[Date.UTC(2026, 2, 1), 7]]);
  });
}
