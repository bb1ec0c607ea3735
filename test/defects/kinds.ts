import assert from "node:assert/strict";
import { test } from "node:test";
import { Limit, RateLimitExceeded, ValidationError } from "../../src/entry/index.ts";
import {
  admitted,
  at,
  DAY_MS,
  drain,
  HOUR_MS,
  held,
  MINUTE_MS,
  refusal,
  request,
  SECOND_MS,
} from "../limits/kinds-kit.ts";
import type { Kit } from "./kit.ts";

/** Defects of the newest original that concern kinds and policies, each as the symptom a caller saw. */
export function kindDefects(kit: Kit): void {
  test("X4: a daily quota admits 20 over the day on which New York repeats 01:30, not 30", async () => {
    const quota = Limit.quota("q", 10, { reset: { cron: "30 1 * * *", tz: "America/New_York" } });
    const { limiter, clock } = await kit.openWith("2026-11-01T05:00:00Z", quota);
    let count = 0;
    for (let ms = at("2026-11-01T05:00:00Z"); ms < at("2026-11-02T06:30:00Z"); ms += 15 * MINUTE_MS) {
      clock.set(ms);
      count += await admitted(limiter, "q", 12);
    }
    assert.equal(count, 20);
  });

  test("X5: a quota of the 31st that was used up on 15 January is there again on 5 March", async () => {
    const { limiter, clock } = await kit.openWith(
      "2026-01-15T00:00:00Z",
      Limit.quota("q", 10, { reset: { cron: "0 0 31 * *" } }),
    );
    await drain(limiter, "q");
    clock.set(at("2026-03-05T00:00:00Z"));
    assert.equal(await drain(limiter, "q"), 10);
    assert.equal((await refusal(limiter, "q", 1)).primary.resetsAtMs, at("2026-03-31T00:00:00Z"));
  });

  test("X5: the last minute of a long month still belongs to that month", async () => {
    const { limiter, clock } = await kit.openWith(
      "2026-10-01T00:00:00Z",
      Limit.quota("q", 10, { reset: { cron: "0 0 1 * *", tz: "Europe/Berlin" } }),
    );
    await drain(limiter, "q");
    clock.set(at("2026-10-31T22:59:30Z"));
    const { primary, retryAfterMs } = await refusal(limiter, "q", 1);
    assert.deepEqual([primary.resetsAtMs, retryAfterMs], [at("2026-10-31T23:00:00Z"), 30 * SECOND_MS]);
  });

  test("X6: a limit that becomes a quota stops dripping for those who use it already: 100 a day, not 60,000 in ten hours", async () => {
    const { limiter, clock } = await kit.openWith("2026-06-15T10:00:00Z", Limit.perMinute("x", 100));
    await limiter.acquire(request("x", 60));
    await limiter.setResourceDefaults("api", [Limit.quota("x", 100, { reset: { cron: "0 0 * * *" } })]);
    let count = 0;
    for (let hour = 0; hour < 10; hour++) {
      count += await admitted(limiter, "x", 150);
      clock.set(clock.now() + HOUR_MS);
    }
    assert.equal(count, 40);
    assert.equal(await admitted(limiter, "x", 150, "newcomer"), 100);
  });

  test("X6: a quota that becomes a limit that drips lets its users in again, and never says to come back at once", async () => {
    const { limiter, clock } = await kit.open({}, at("2026-06-15T10:00:00Z"));
    await limiter.setSystemDefaults([Limit.quota("x", 10, { reset: { cron: "0 0 * * *" } })]);
    await drain(limiter, "x");
    await limiter.setSystemDefaults([Limit.perMinute("x", 100)]);
    assert.equal((await refusal(limiter, "x", 1)).retryAfterMs, 600);
    clock.set(at("2026-06-15T10:01:00Z"));
    assert.equal(await drain(limiter, "x"), 100);
  });

  test("X7: a limit that was removed refuses nobody, and whoever still names it is told that it is unknown", async () => {
    const [rpm, day] = [Limit.perMinute("rpm", 600), Limit.quota("day", 10, { reset: { cron: "0 0 * * *" } })];
    const { limiter, clock } = await kit.openWith("2026-06-15T10:00:00Z", rpm, day);
    await limiter.acquire({ entityId: "a", resource: "api", consume: { rpm: 1, day: 10 } });
    await limiter.setResourceDefaults("api", [rpm]);
    assert.equal(await admitted(limiter, "rpm", 120), 120);
    clock.set(at("2026-06-15T10:01:00Z"));
    await assert.rejects(limiter.acquire({ entityId: "a", resource: "api", consume: { rpm: 1, day: 1 } }), {
      code: "limit_unknown",
      message: /No limit "day" applies .* measures: rpm/,
    });
    assert.deepEqual(await held(limiter), { rpm: 600 });
  });

  test("X8: deleting an entity's default limits brings the resource's back, quotas of a VIP included", async () => {
    const { limiter } = await kit.openWith("2026-06-15T10:00:00Z", Limit.perMinute("tpm", 100));
    await limiter.setLimits("a", [Limit.quota("tpm", 1_000_000, { reset: { cron: "0 0 * * *" } })]);
    await limiter.acquire(request("tpm", 100_000));
    assert.equal(await limiter.deleteLimits("a"), true);
    await assert.rejects(limiter.acquire(request("tpm", 100_000)), { code: "amount_above_capacity" });
    assert.equal(await admitted(limiter, "tpm", 120), 100);
  });

  test("X9: a quota that would reset with every minute is refused when it is made, and cannot be stored", async () => {
    const everyMinute = { reset: { cron: "* * * * *" } };
    assert.throws(() => Limit.quota("q", 10, everyMinute), { code: "cron_invalid", message: /matches every minute/ });
    const { limiter } = await kit.openWith("2026-06-15T10:00:00Z", Limit.perMinute("q", 10));
    const given = { name: "q", capacity: 10, refillAmount: 0, refillPeriodMs: 1_000, ...everyMinute };
    await assert.rejects(limiter.setLimits("a", [given]), { code: "cron_invalid" });
    await assert.rejects(limiter.acquire({ ...request("q", 1), limits: [given] }), { code: "cron_invalid" });
    assert.equal(await admitted(limiter, "q", 20), 10);
  });

  test("X10: 6 a minute until nine and 6,000 after admit 370 a tenth of a second after nine, not 6,000", async () => {
    const schedule = [{ cron: "* 9-17 * * *", refillAmount: 6_000 }];
    const limit = Limit.custom("x", { capacity: 6_000, refillAmount: 6, refillPeriodMs: MINUTE_MS, schedule });
    const { limiter, clock } = await kit.openWith("2026-06-15T08:00:00Z", limit);
    await limiter.acquire(request("x", 6_000));
    clock.set(at("2026-06-15T09:00:00.100Z"));
    assert.equal(await drain(limiter, "x"), 370);
  });

  test("X10: what was earned at 6,000 a minute is not forgotten when the rate drops to 6", async () => {
    const schedule = [{ cron: "* 9-17 * * *", refillAmount: 6 }];
    const limit = Limit.custom("x", { capacity: 6_000, refillAmount: 6_000, refillPeriodMs: MINUTE_MS, schedule });
    const { limiter, clock } = await kit.openWith("2026-06-15T08:00:00Z", limit);
    await limiter.acquire(request("x", 6_000));
    clock.set(at("2026-06-15T09:00:01Z"));
    assert.equal(await drain(limiter, "x"), 6_000);
  });

  test("X11: 80 of 100 at half capacity are told to wait for the end of the window, 28,800 s, not 36 s", async () => {
    const limit = Limit.perMinute("x", 100, { schedule: [{ cron: "* 9-17 * * *", scale: 0.5 }] });
    const { limiter } = await kit.openWith("2026-06-15T10:00:00Z", limit);
    assert.equal((await refusal(limiter, "x", 80)).retryAfterMs, 28_800 * SECOND_MS);
  });

  test("X12: limits of one request do not outlive it: 1,000,000 given once, and then 100 a minute as stored", async () => {
    const { limiter } = await kit.openWith("2026-06-15T10:00:00Z", Limit.perMinute("x", 100));
    const generous = [Limit.quota("x", 1_000_000, { reset: { cron: "0 0 * * *" } })];
    await limiter.acquire({ ...request("x", 1), limits: generous });
    assert.equal(await admitted(limiter, "x", 150), 100);
    await assert.rejects(limiter.acquire({ ...request("x", 1), limits: [] }), { code: "limits_empty" });
  });

  test("X13: releasing 50 of a quota of which one was taken gives back that one", async () => {
    const { limiter } = await kit.openWith(
      "2026-06-15T10:00:00Z",
      Limit.quota("q", 10, { reset: { cron: "0 0 * * *" } }),
    );
    const [mine, other] = [await limiter.acquire(request("q", 1)), await limiter.acquire(request("q", 1))];
    await mine.release({ q: 50 });
    await mine.adjust({ q: -50 });
    assert.deepEqual(mine.consumed, { q: 0 });
    assert.deepEqual(other.consumed, { q: 1 });
    assert.equal(await drain(limiter, "q"), 9);
  });

  test("X14: limits, access and cascading that are set at once are all in force on the next request", async () => {
    const { limiter } = await kit.openWith("2026-06-15T10:00:00Z", Limit.perMinute("x", 100));
    await Promise.all([
      limiter.setLimits("a", [Limit.perMinute("x", 5)], { resource: "api" }),
      limiter.setAccess({ entityId: "a", resource: "api" }, "disabled"),
      limiter.setCascade({ entityId: "a", resource: "api" }, true),
    ]);
    await assert.rejects(limiter.acquire(request("x", 1)), { code: "resource_disabled" });
    await limiter.setAccess({ entityId: "a", resource: "api" }, "inherit");
    assert.equal(await admitted(limiter, "x", 20), 5);
    await limiter.deleteLimits("a", { resource: "api" });
    const [level] = (await limiter.explain({ entityId: "a", resource: "api" })).levels;
    assert.deepEqual([level?.source, level?.cascade, level?.cascadeSource], ["resource", true, "entity"]);
  });

  test("X15: a soft limit made hard refuses for 600 ms, not for 2,936 s", async () => {
    const { limiter, clock } = await kit.openWith("2026-06-15T10:00:00Z", Limit.perMinute("x", 100, { soft: true }));
    for (let i = 0; i < 50; i++) await limiter.acquire(request("x", 100));
    await limiter.setResourceDefaults("api", [Limit.perMinute("x", 100)]);
    assert.equal((await refusal(limiter, "x", 1)).retryAfterMs, 600);
    clock.set(clock.now() + 600);
    assert.equal((await limiter.tryAcquire(request("x", 1))).ok, true);
  });

  test("X16: a fraction is refused wherever a number is taken, and the bucket is as before", async () => {
    const { limiter } = await kit.openWith(
      "2026-06-15T10:00:00Z",
      Limit.quota("q", 10, { reset: { cron: "0 0 * * *" } }),
    );
    const lease = await limiter.acquire(request("q", 4));
    for (const value of [0.5, 1e-9, Number.NaN, Number.POSITIVE_INFINITY]) {
      await assert.rejects(limiter.acquire(request("q", value)), ValidationError);
      await assert.rejects(limiter.acquire({ ...request("q", 1), also: { other: { q: value } } }), ValidationError);
      await assert.rejects(limiter.topUp({ entityId: "a", resource: "api", amounts: { q: value } }), ValidationError);
      await assert.rejects(lease.adjust({ q: value }), ValidationError);
      await assert.rejects(lease.release({ q: value }), ValidationError);
      assert.throws(() => Limit.quota("q", value, { resetAfterMs: 1_000 }), ValidationError);
    }
    assert.deepEqual(await held(limiter), { q: 6 });
  });

  test("X22: a refusal speaks of the whole capacity and of its own instant, however late it is shown", async () => {
    const { limiter, clock } = await kit.openWith(
      "2026-06-15T10:00:00Z",
      Limit.quota("q", 10, { reset: { cron: "0 * * * *" } }),
    );
    await drain(limiter, "q");
    const error = await limiter.acquire(request("q", 3)).catch((reason: unknown) => reason);
    assert.ok(error instanceof RateLimitExceeded);
    const askedMs = clock.now();
    clock.set(askedMs + DAY_MS);
    const status = {
      entityId: "a",
      resource: "api",
      limit: "q",
      counts: "q",
      available: 0,
      capacity: 10,
      requested: 3,
      exceeded: true,
      kind: "calendar",
      soft: false,
      shadow: false,
      resetsAtMs: at("2026-06-15T11:00:00Z"),
      retryAfterMs: HOUR_MS,
    };
    for (const statuses of [error.toJSON().statuses, error.toProblem().statuses]) {
      // Where the store's memory of the refusal before answered, the status says as of when: the same instant.
      const [{ asOfMs = askedMs, ...shown }, ...others] = statuses as [{ asOfMs?: number }];
      assert.deepEqual([shown, asOfMs, ...others], [status, askedMs]);
    }
  });

  test("X24: a quota that was topped up, removed and added again has no more than its capacity in the next period", async () => {
    const month = Limit.quota("q", 10, { reset: { cron: "0 0 1 * *" } });
    const { limiter, clock } = await kit.openWith("2026-06-15T10:00:00Z", month);
    await limiter.topUp({ entityId: "a", resource: "api", amounts: { q: 500 } });
    const lease = await limiter.acquire(request("q", 2));
    await limiter.setResourceDefaults("api", [Limit.perMinute("rpm", 60)]);
    await limiter.acquire(request("rpm", 1));
    clock.set(at("2026-07-02T00:00:00Z"));
    await limiter.setResourceDefaults("api", [month]);
    await lease.release({ q: 2 });
    assert.equal(await drain(limiter, "q"), 10);
  });

  test("X25: one call at birth and an idle hour admit the capacity, not twice of it, also over the end of a window", async () => {
    const schedule = [{ cron: "* 10 * * *", scale: 0.5 }];
    const { limiter, clock } = await kit.openWith("2026-06-15T10:30:00Z", Limit.perMinute("x", 100, { schedule }));
    await limiter.acquire(request("x", 1));
    clock.set(at("2026-06-15T11:30:00Z"));
    assert.equal(await admitted(limiter, "x", 150), 100);
  });

  test("X25: a debit after a long body counts in full, also when a window was passed meanwhile", async () => {
    const schedule = [{ cron: "* 10 * * *", scale: 0.5 }];
    const { limiter, clock } = await kit.openWith("2026-06-15T10:30:00Z", Limit.perMinute("x", 100, { schedule }));
    const lease = await limiter.acquire(request("x", 1));
    clock.set(at("2026-06-15T11:30:00Z"));
    await lease.adjust({ x: 70 });
    assert.equal(await drain(limiter, "x"), 30);
  });
}
