import assert from "node:assert/strict";
import { test } from "node:test";
import { Limit } from "../../src/entry/limits.ts";
import { RateLimiter } from "../../src/entry/rate-limiter.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { EVERY_STORE } from "./every-store.ts";

for (const [name, open] of EVERY_STORE) {
  test(`${name}: a key that comes again with something else is refused, for 30 days, and nothing is done`, async (t) => {
    const clock = new SimulatedClock(Date.UTC(2026, 2, 15, 12));
    const { store, options } = open(clock, t);
    const limiter = await RateLimiter.open({ store, clock, ...options });
    const about = { entityId: "key", resource: "api" };
    await limiter.setResourceDefaults("api", [
      Limit.quota("q", 10, { resetAfterMs: 3_600_000 }),
      Limit.perDay("rpd", 5),
    ]);
    const bought = { ...about, amounts: { q: 5 }, idempotencyKey: "order-1" };
    const first = await limiter.topUp(bought);
    assert.equal(first.repeated, false);
    await clock.advance(29 * 86_400_000);
    assert.deepEqual(await limiter.topUp(bought), { ...first, repeated: true });
    for (const again of [
      () => limiter.topUp({ ...bought, amounts: { q: 500 } }),
      () => limiter.topUp({ ...bought, amounts: { q: 5, rpd: 1 } }),
      () => limiter.resetBucket({ ...about, idempotencyKey: "order-1" }),
    ]) {
      await assert.rejects(again, { name: "ValidationError", code: "idempotency_key_reused" });
    }
    const reset = { ...about, idempotencyKey: "ticket-1" };
    assert.equal((await limiter.resetBucket(reset)).repeated, false);
    // A reset of everything is the same, whatever limits there are by now.
    await limiter.setResourceDefaults("api", [Limit.quota("q", 10, { resetAfterMs: 3_600_000 })]);
    assert.equal((await limiter.resetBucket(reset)).repeated, true);
    await assert.rejects(limiter.resetBucket({ ...reset, limits: ["q"] }), { code: "idempotency_key_reused" });
  });
}
