import assert from "node:assert/strict";
import { test } from "node:test";
import { Limit, RateLimitExceeded, type RateLimiter } from "../../src/entry/index.ts";
import { grants, HOUR_MS, held, isInvalid, type Kit, MINUTE_MS, rpm, take } from "./kit.ts";

/** Defects that are new in the newest original, as far as they concern what drips. */
export function newerDefects(kit: Kit): void {
  test("X7: a limit that was removed refuses nobody any more", async () => {
    const { limiter } = await kit.open();
    await limiter.setSystemDefaults([...rpm(100), Limit.perMinute("tpm", 10)]);
    const lease = await take(limiter, "a", { rpm: 1, tpm: 10 });
    await lease.adjust({ tpm: 1_000 });
    await limiter.setSystemDefaults(rpm(100));
    for (let i = 0; i < 50; i++) await take(limiter, "a", { rpm: 1 });
    await assert.rejects(take(limiter, "a", { rpm: 1, tpm: 1 }), isInvalid("limit_unknown"));
  });

  test("X8: deleting the limits of an entity brings those below back at once, on its live bucket", async () => {
    const { limiter, clock } = await kit.open();
    await limiter.setResourceDefaults("api", rpm(100));
    await limiter.setLimits("vip", rpm(1_000_000));
    await take(limiter, "vip", { rpm: 100_000 });
    // Within one millisecond a bucket's epoch would have to be a millisecond ahead.
    await clock.advance(1);
    await limiter.deleteLimits("vip");
    await assert.rejects(take(limiter, "vip", { rpm: 100_000 }), isInvalid("amount_above_capacity"));
    await take(limiter, "vip", { rpm: 100 });
    await clock.advance(MINUTE_MS / 2);
    assert.deepEqual(await held(limiter, "vip"), { rpm: 50 });
  });

  test("X12: limits given in one request do not become those of requests that give none", async () => {
    const { limiter } = await kit.open();
    await limiter.setSystemDefaults(rpm(100));
    const given = { entityId: "a", resource: "api", limits: rpm(1_000_000), consume: { rpm: 1 } };
    await limiter.acquire(given);
    let granted = 0;
    for (let i = 0; i < 150; i++) if (await grants(limiter, "a", { rpm: 1 })) granted++;
    assert.equal(granted, 100);
    await assert.rejects(limiter.acquire({ ...given, limits: [] }), isInvalid("limits_empty"));
  });

  test("X12: limits that another process gave leave the bucket again, one TTL after it has gone", async () => {
    const { limiters, clock } = await kit.processes([0, 0]);
    const [settled, visitor] = limiters as [RateLimiter, RateLimiter];
    await settled.setSystemDefaults(rpm(100));
    await take(settled, "a", { rpm: 1 });
    await clock.advance(1_000);
    await visitor.acquire({ entityId: "a", resource: "api", limits: rpm(1_000_000), consume: { rpm: 1 } });
    await clock.advance(MINUTE_MS);
    let granted = 0;
    for (let i = 0; i < 150; i++) if (await grants(settled, "a", { rpm: 1 })) granted++;
    assert.equal(granted, 100);
  });

  test("X13: releasing more than the lease holds gives back what it holds, and mints nothing", async () => {
    const { limiter } = await kit.open();
    await limiter.setSystemDefaults(rpm(10));
    await take(limiter, "a", { rpm: 5 });
    const lease = await take(limiter, "a", { rpm: 2 });
    await lease.release({ rpm: 50 });
    assert.deepEqual(await held(limiter, "a"), { rpm: 5 });
    await lease.adjust({ rpm: -50 });
    await lease.rollback();
    assert.deepEqual(await held(limiter, "a"), { rpm: 5 });
  });

  test("X16: a fraction is refused wherever an amount is given, and poisons nothing", async () => {
    const { limiter } = await kit.open();
    await limiter.setSystemDefaults(rpm(10));
    const lease = await take(limiter, "a", { rpm: 1 });
    await assert.rejects(lease.adjust({ rpm: 0.5 }), isInvalid("amount_invalid"));
    await assert.rejects(lease.consume({ rpm: 0.5 }), isInvalid("amount_invalid"));
    await assert.rejects(lease.release({ rpm: 0.5 }), isInvalid("amount_invalid"));
    await lease.settle();
    assert.deepEqual(await held(limiter, "a"), { rpm: 9 });
  });

  test("X25: after an idle hour a bucket gives its capacity, not twice as much", async () => {
    const { limiter, clock } = await kit.open();
    await limiter.setSystemDefaults(rpm(100));
    await take(limiter, "a", { rpm: 1 });
    await clock.advance(HOUR_MS);
    let granted = 0;
    for (let i = 0; i < 150; i++) if (await grants(limiter, "a", { rpm: 1 })) granted++;
    assert.equal(granted, 100);
  });

  test("X25: what a long body adjusts at its end does not vanish", async () => {
    const { limiter, clock } = await kit.open();
    await limiter.setSystemDefaults(rpm(100));
    const lease = await take(limiter, "a", { rpm: 1 });
    await clock.advance(HOUR_MS);
    await lease.adjust({ rpm: 150 });
    await lease.settle();
    assert.deepEqual(await held(limiter, "a"), { rpm: -50 });
    await assert.rejects(take(limiter, "a", { rpm: 0 }), RateLimitExceeded);
  });
}
