import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { Limit, RateLimiter } from "../../src/entry/index.ts";

const MINUTE_MS = 60_000;

for (const kind of ["memory", "sqlite"] as const) {
  test(`${kind}: limits of an id that comes once in two minutes are read once, until they are changed`, async () => {
    const folder = mkdtempSync(join(tmpdir(), "zae-limiter-seldom-"));
    const clock = { nowMs: Date.UTC(2026, 2, 15), now: () => clock.nowMs };
    const store = kind === "memory" ? "memory" : `sqlite:${join(folder, "limiter.db")}`;
    const limiter = await RateLimiter.open({ store, clock });
    try {
      await limiter.setSystemDefaults([Limit.perMinute("rpm", 60)]);
      const take = (rpm: number) => limiter.tryAcquire({ entityId: "a", resource: "api", consume: { rpm } });
      for (let i = 0; i < 5; i++) {
        assert.equal((await take(60)).ok, true);
        clock.nowMs += 2 * MINUTE_MS;
      }
      assert.equal(limiter.cacheStats().misses, 1);
      await limiter.setLimits("a", [Limit.perMinute("rpm", 10)], { resource: "api" });
      assert.equal((await take(10)).ok, true);
      assert.equal((await take(1)).ok, false, "the change counts at once");
      await limiter.deleteLimits("a", { resource: "api" });
      clock.nowMs += 2 * MINUTE_MS;
      assert.equal((await take(60)).ok, true);
    } finally {
      await limiter.close();
      rmSync(folder, { recursive: true, force: true });
    }
  });

  test(`${kind}: limits that a request gave make way for the stored ones a minute later`, async () => {
    const folder = mkdtempSync(join(tmpdir(), "zae-limiter-seldom-"));
    const clock = { nowMs: Date.UTC(2026, 2, 15), now: () => clock.nowMs };
    const store = kind === "memory" ? "memory" : `sqlite:${join(folder, "limiter.db")}`;
    const limiter = await RateLimiter.open({ store, clock });
    const other = kind === "memory" ? limiter : await RateLimiter.open({ store, clock });
    try {
      await limiter.setSystemDefaults([Limit.perMinute("rpm", 60)]);
      const request = { entityId: "a", resource: "api" };
      assert.equal((await limiter.tryAcquire({ ...request, consume: { rpm: 1 } })).ok, true);
      clock.nowMs += 1_000;
      await other.tryAcquire({ ...request, consume: { rpm: 1 }, limits: [Limit.perMinute("rpm", 5)] });
      clock.nowMs += 2 * MINUTE_MS;
      // It begins with what it has.
      assert.equal((await limiter.tryAcquire({ ...request, consume: { rpm: 1 } })).ok, true);
      clock.nowMs += MINUTE_MS / 2;
      assert.equal((await limiter.tryAcquire({ ...request, consume: { rpm: 30 } })).ok, true);
    } finally {
      await limiter.close();
      if (other !== limiter) await other.close();
      rmSync(folder, { recursive: true, force: true });
    }
  });
}
