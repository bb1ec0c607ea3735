import assert from "node:assert/strict";
import { test } from "node:test";
import { Limit, RateLimitExceeded } from "../../src/entry/index.ts";
import {
  admitted,
  at,
  DAY_MS,
  drain,
  HOUR_MS,
  held,
  MINUTE_MS,
  openAt,
  openWith,
  refusal,
  request,
  SECOND_MS,
} from "./kinds-kit.ts";

// Every kind of limit through the public API: when it is full again, what a refusal says, and what happens where the
// clock is changed. Instants are written out.

/** A quota of ten, empty at the first instant, is full again at exactly these instants and at no other before the last. */
async function resetsAt(cron: string, tz: string, emptyAt: string, instants: readonly string[]): Promise<void> {
  const { limiter, clock } = await openWith(emptyAt, Limit.quota("q", 10, { reset: { cron, tz } }));
  assert.equal(await drain(limiter, "q"), 10);
  const expected = instants.map(at);
  const lastMs = expected.at(-1) ?? 0;
  const stepMs = lastMs - at(emptyAt) > 10 * DAY_MS ? 6 * HOUR_MS : 10 * MINUTE_MS;
  const looks = new Set(expected.flatMap((ms) => [ms - 1, ms]));
  for (let ms = at(emptyAt); ms < lastMs; ms += stepMs) looks.add(ms);
  const found: string[] = [];
  for (const ms of [...looks].sort((a, b) => a - b)) {
    clock.set(ms);
    if (!(await limiter.tryAcquire(request("q", 1))).ok) continue;
    found.push(new Date(ms).toISOString());
    assert.equal(await drain(limiter, "q"), 9, `at ${found.at(-1)}`);
  }
  assert.deepEqual(
    found,
    expected.map((ms) => new Date(ms).toISOString()),
  );
}

test("a daily reset in the hour that autumn repeats happens the first time only (New York)", async () => {
  await resetsAt("30 1 * * *", "America/New_York", "2026-10-31T06:00:00Z", [
    "2026-11-01T05:30:00Z", // 01:30 summer time; 06:30 is 01:30 again, by winter time
    "2026-11-02T06:30:00Z",
  ]);
});

test("an hourly quota lasts two hours where an hour is repeated", async () => {
  await resetsAt("0 * * * *", "America/New_York", "2026-11-01T04:10:00Z", [
    "2026-11-01T05:00:00Z", // 01:00 summer time
    "2026-11-01T07:00:00Z", // 02:00 winter time
    "2026-11-01T08:00:00Z",
  ]);
});

test("a daily reset at a time that spring skips happens when the clock has jumped (New York)", async () => {
  await resetsAt("30 2 * * *", "America/New_York", "2026-03-06T12:00:00Z", [
    "2026-03-07T07:30:00Z",
    "2026-03-08T07:00:00Z", // 02:30 is skipped; the clock shows 03:00
    "2026-03-09T06:30:00Z",
  ]);
});

for (const { zone, emptyAt, instants } of [
  // Midnight is skipped: the first instant of the day is 01:00.
  {
    zone: "Africa/Cairo",
    emptyAt: "2026-04-22T12:00:00Z",
    instants: ["2026-04-22T22:00:00Z", "2026-04-23T22:00:00Z", "2026-04-24T21:00:00Z"],
  },
  {
    zone: "Asia/Beirut",
    emptyAt: "2026-03-27T12:00:00Z",
    instants: ["2026-03-27T22:00:00Z", "2026-03-28T22:00:00Z", "2026-03-29T21:00:00Z"],
  },
  {
    zone: "America/Santiago",
    emptyAt: "2026-09-04T12:00:00Z",
    instants: ["2026-09-05T04:00:00Z", "2026-09-06T04:00:00Z", "2026-09-07T03:00:00Z"],
  },
  // Midnight is repeated: 05:00 UTC on 1 November is 00:00 for the second time.
  {
    zone: "America/Havana",
    emptyAt: "2026-10-30T12:00:00Z",
    instants: ["2026-10-31T04:00:00Z", "2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z"],
  },
]) {
  test(`each day has its midnight and only one, where the clock is changed at midnight (${zone})`, async () => {
    await resetsAt("0 0 * * *", zone, emptyAt, instants);
  });
}

test("a monthly quota does not lose its month to a skipped midnight (Cairo, on the 24th)", async () => {
  await resetsAt("0 0 24 * *", "Africa/Cairo", "2026-03-01T12:00:00Z", [
    "2026-03-23T22:00:00Z",
    "2026-04-23T22:00:00Z",
    "2026-05-23T21:00:00Z",
  ]);
});

test("a change of half an hour skips and repeats like any other (Lord Howe)", async () => {
  await resetsAt("15 2 * * *", "Australia/Lord_Howe", "2026-10-02T12:00:00Z", [
    "2026-10-02T15:45:00Z",
    "2026-10-03T15:30:00Z", // 02:00 to 02:30 is skipped
    "2026-10-04T15:15:00Z",
  ]);
  await resetsAt("45 1 * * *", "Australia/Lord_Howe", "2026-04-03T18:00:00Z", [
    "2026-04-04T14:45:00Z", // 15:15 is 01:45 again
    "2026-04-05T15:15:00Z",
  ]);
});

test("a quota of the 31st is full again after seven of the twelve months", async () => {
  await resetsAt("0 0 31 * *", "UTC", "2026-01-15T00:00:00Z", [
    "2026-01-31T00:00:00Z",
    "2026-03-31T00:00:00Z",
    "2026-05-31T00:00:00Z",
  ]);
});

test("a quota of 29 February is waited for for years, and the wait is told to the millisecond", async () => {
  const quota = Limit.quota("q", 10, { reset: { cron: "0 0 29 2 *" } });
  const { limiter, clock } = await openWith("2024-03-01T00:00:00Z", quota);
  await drain(limiter, "q");
  const { retryAfterMs, primary } = await refusal(limiter, "q", 1);
  assert.equal(retryAfterMs, at("2028-02-29T00:00:00Z") - at("2024-03-01T00:00:00Z"));
  assert.equal(primary.resetsAtMs, at("2028-02-29T00:00:00Z"));
  clock.set(at("2028-02-28T23:59:59.999Z"));
  assert.equal((await refusal(limiter, "q", 1)).retryAfterMs, 1);
  clock.set(at("2028-02-29T00:00:00Z"));
  assert.equal(await drain(limiter, "q"), 10);
});

test("a window in the repeated hour lasts both of its hours, and one in the skipped hour does not happen", async () => {
  const schedule = [{ cron: "* 1 1 11 *", tz: "America/New_York", capacity: 4 }];
  const autumn = await openWith("2026-11-01T04:59:59.999Z", Limit.perSecond("x", 1_000, { burst: 10, schedule }));
  const capacityAt = async (instant: string, { limiter, clock }: typeof autumn) => {
    clock.set(at(instant));
    return (await limiter.available({ entityId: "a", resource: "api" }))[0]?.capacity;
  };
  assert.equal(await capacityAt("2026-11-01T04:59:59.999Z", autumn), 10);
  assert.equal(await capacityAt("2026-11-01T05:00:00Z", autumn), 4);
  assert.equal(await capacityAt("2026-11-01T06:59:59.999Z", autumn), 4);
  assert.equal(await capacityAt("2026-11-01T07:00:00Z", autumn), 10);
  const skipped = [{ cron: "* 2 * * *", tz: "America/New_York", capacity: 4 }];
  const spring = await openWith("2026-03-07T00:00:00Z", Limit.perSecond("x", 1_000, { burst: 10, schedule: skipped }));
  assert.equal(await capacityAt("2026-03-07T07:00:00Z", spring), 4);
  assert.equal(await capacityAt("2026-03-08T06:59:59.999Z", spring), 10);
  assert.equal(await capacityAt("2026-03-08T07:00:00Z", spring), 10);
});

test("a session begins with its first use, and a refusal says when it ends", async () => {
  const session = Limit.quota("s", 500, { resetAfterMs: 5 * HOUR_MS });
  const { limiter, clock } = await openWith("2026-06-01T08:00:00Z", session);
  assert.deepEqual(await held(limiter), { s: 500 });
  clock.set(at("2026-06-01T10:15:00Z"));
  await limiter.acquire(request("s", 400));
  clock.set(at("2026-06-01T12:00:00Z"));
  const { primary, retryAfterMs } = await refusal(limiter, "s", 101);
  assert.deepEqual(primary, {
    entityId: "a",
    resource: "api",
    limit: "s",
    counts: "s",
    available: 100,
    capacity: 500,
    requested: 101,
    exceeded: true,
    kind: "session",
    soft: false,
    shadow: false,
    resetsAtMs: at("2026-06-01T15:15:00Z"),
    retryAfterMs: at("2026-06-01T15:15:00Z") - at("2026-06-01T12:00:00Z"),
  });
  assert.equal(retryAfterMs, primary.retryAfterMs);
  clock.set(at("2026-06-01T15:14:59.999Z"));
  assert.equal((await limiter.tryAcquire(request("s", 101))).ok, false);
  clock.set(at("2026-06-01T15:15:00Z"));
  assert.equal((await limiter.tryAcquire(request("s", 500))).ok, true);
});

test("a status says what kind of limit it speaks of, and when a quota is full again by itself", async () => {
  const tz = "Europe/Berlin";
  const { limiter } = await openWith(
    "2026-06-15T10:00:00Z",
    Limit.perMinute("drip", 10, { schedule: [{ cron: "* 9-17 * * 1-5", tz, scale: 0.5 }] }),
    // Its window ends before; that is no reset.
    Limit.quota("month", 10, {
      reset: { cron: "0 0 1 * *", tz },
      schedule: [{ cron: "* 9-17 * * 1-5", tz, scale: 2 }],
    }),
    Limit.quota("sitting", 10, { resetAfterMs: HOUR_MS }),
    Limit.perMinute("soft", 10, { soft: true }),
  );
  const consume = { drip: 6, month: 1, sitting: 1, soft: 50 };
  const outcome = await limiter.tryAcquire({ entityId: "a", resource: "api", consume });
  assert.ok(!outcome.ok);
  assert.deepEqual(
    outcome.statuses.map(({ limit, kind, soft, capacity, exceeded, resetsAtMs }) => [
      limit,
      kind,
      soft,
      capacity,
      exceeded,
      resetsAtMs,
    ]),
    [
      ["drip", "drip", false, 5, true, undefined],
      ["month", "calendar", false, 20, false, at("2026-06-30T22:00:00Z")],
      ["sitting", "session", false, 10, false, undefined],
      ["soft", "drip", true, 10, false, undefined],
    ],
  );
});

test("a wait looks through windows: where less is held, and where it drips slower", async () => {
  const schedule = [{ cron: "* 9-17 * * *", scale: 0.5 }];
  const { limiter, clock } = await openWith("2026-06-15T10:00:00Z", Limit.perMinute("x", 100, { schedule }));
  // Fifty are there and no more fit until 18:00; then thirty drip in at a hundred a minute.
  await limiter.acquire(request("x", 0));
  assert.equal((await refusal(limiter, "x", 80)).retryAfterMs, 8 * HOUR_MS + 18 * SECOND_MS);
  // Nobody has taken from this one: it is full in whatever window it is first used.
  assert.equal((await refusal(limiter, "x", 80, "stranger")).retryAfterMs, 8 * HOUR_MS);
  clock.set(at("2026-06-15T18:00:00Z"));
  assert.equal((await limiter.tryAcquire(request("x", 80, "stranger"))).ok, true);
  clock.set(at("2026-06-15T18:00:17.999Z"));
  assert.equal((await refusal(limiter, "x", 80)).retryAfterMs, 1);
  clock.set(at("2026-06-15T18:00:18Z"));
  assert.equal((await limiter.tryAcquire(request("x", 80))).ok, true);
  // Emptied half a minute before the window opens: thirty drip in by nine, and twenty more at half the rate.
  clock.set(at("2026-06-16T08:59:30Z"));
  await drain(limiter, "x");
  assert.equal((await refusal(limiter, "x", 50)).retryAfterMs, 30 * SECOND_MS);
  assert.equal((await refusal(limiter, "x", 30)).retryAfterMs, 18 * SECOND_MS);
});

test("a wait looks through resets, and for the moment at which all limits fit together", async () => {
  const { limiter, clock } = await openWith(
    "2026-06-15T20:00:00Z",
    Limit.quota("day", 10, { reset: { cron: "0 0 * * *" } }),
    Limit.perMinute("rpm", 60, { schedule: [{ cron: "* 0-5 * * *", capacity: 5 }] }),
  );
  await limiter.acquire(request("day", 10));
  const both = { entityId: "a", resource: "api", consume: { day: 1, rpm: 20 } };
  // The day is full again at midnight, but until six the other holds only five; then fifteen drip in.
  // It fits now, so that it is looked at again when the day has been waited for, whichever is named first.
  for (const consume of [both.consume, { rpm: 20, day: 1 }]) {
    const outcome = await limiter.tryAcquire({ ...both, consume });
    assert.ok(!outcome.ok);
    assert.equal(outcome.retryAfterMs, 10 * HOUR_MS + 15 * SECOND_MS);
    assert.equal(outcome.primary.limit, "rpm");
    assert.equal(await limiter.timeUntilAvailable({ ...both, consume }), outcome.retryAfterMs);
  }
  clock.set(at("2026-06-16T06:00:14.999Z"));
  assert.equal((await limiter.tryAcquire(both)).ok, false);
  clock.set(at("2026-06-16T06:00:15Z"));
  assert.equal((await limiter.tryAcquire(both)).ok, true);
});

test("who waits is let in by the reset, at its very instant", async () => {
  const quota = Limit.quota("q", 10, { reset: { cron: "0 * * * *" } });
  const { limiter, clock } = await openWith("2026-06-15T10:59:58Z", quota);
  await drain(limiter, "q");
  const waiting = limiter.acquire({ ...request("q", 3), wait: { maxMs: 10_000 } });
  await clock.advance(1_999);
  assert.equal(clock.nextWakeMs, at("2026-06-15T11:00:00Z"));
  await clock.advance(1);
  assert.deepEqual((await waiting).consumed, { q: 3 });
});

test("more than a limit holds in any window can never be granted; more than it holds now can", async () => {
  const schedule = [{ cron: "* 0-5 * * *", capacity: 500 }];
  const { limiter } = await openWith("2026-06-15T10:00:00Z", Limit.perMinute("x", 100, { schedule }));
  const tooMuch = { name: "ValidationError", code: "amount_above_capacity", message: /501 .*the capacity is 500/ };
  await assert.rejects(limiter.tryAcquire(request("x", 501)), tooMuch);
  assert.equal(await limiter.timeUntilAvailable(request("x", 501)), Number.POSITIVE_INFINITY);
  // At midnight a hundred are there; four hundred drip in during four minutes.
  await limiter.acquire(request("x", 0));
  assert.equal((await refusal(limiter, "x", 500)).retryAfterMs, 14 * HOUR_MS + 4 * MINUTE_MS);
});

test("a soft limit lets everything through, says so on the lease, and usage counts it", async () => {
  const soft = Limit.perMinute("tpm", 1_000, { soft: true });
  const { limiter, clock } = await openWith("2026-06-15T10:00:00Z", soft, Limit.perMinute("rpm", 2));
  const first = await limiter.acquire({ entityId: "a", resource: "api", consume: { rpm: 1, tpm: 900 } });
  assert.deepEqual(first.overdrawn, []);
  await first.adjust({ tpm: 600 });
  assert.deepEqual(first.overdrawn, ["tpm"]);
  const second = await limiter.acquire({ entityId: "a", resource: "api", consume: { rpm: 1, tpm: 5_000 } });
  assert.deepEqual(second.overdrawn, ["tpm"]);
  assert.deepEqual(await held(limiter), { tpm: -5_500, rpm: 0 });
  await assert.rejects(limiter.acquire({ entityId: "a", resource: "api", consume: { rpm: 1, tpm: 1 } }), (error) => {
    assert.ok(error instanceof RateLimitExceeded);
    assert.deepEqual(
      error.violations.map(({ limit }) => limit),
      ["rpm"],
    );
    return true;
  });
  const [usage] = await limiter.usage({ entityId: "a", window: "hourly" });
  assert.deepEqual(usage?.overdrafts, { tpm: 1 });
  assert.deepEqual(usage?.counters, { tpm: 6_500, rpm: 2 });
  clock.set(at("2026-06-15T10:05:30Z"));
  assert.deepEqual(first.overdrawn, [], "as the bucket was last seen, five and a half minutes have paid for it");
});

test("a lease that outlives its period gives back nothing into the next one, on any level", async () => {
  const daily = (amount: number) => [Limit.quota("q", amount, { reset: { cron: "0 0 * * *", tz: "Europe/Berlin" } })];
  const { limiter, clock } = await openAt("2026-06-15T21:59:00Z");
  await limiter.createEntity({ id: "team" });
  await limiter.createEntity({ id: "a", parentId: "team", cascade: true });
  await limiter.setLimits("team", daily(20));
  await limiter.setLimits("a", daily(10));
  const lease = await limiter.acquire(request("q", 4));
  clock.set(at("2026-06-15T22:00:00Z"));
  await limiter.acquire(request("q", 10));
  await lease.rollback();
  assert.deepEqual(await limiter.available({ entityId: "a", resource: "api" }), [
    { entityId: "a", resource: "api", limit: "q", counts: "q", available: 0, capacity: 10 },
    { entityId: "team", resource: "api", limit: "q", counts: "q", available: 10, capacity: 20 },
  ]);
});

test("an adjustment of a quota that was not named at the start is given back when the work fails", async () => {
  const { limiter } = await openWith(
    "2026-06-15T10:00:00Z",
    Limit.perMinute("rpm", 60),
    Limit.quota("day", 1_000, { reset: { cron: "0 0 * * *" } }),
  );
  const failed = limiter.withLease(request("rpm", 1), async (lease) => {
    await lease.adjust({ day: 600 });
    await lease.adjust({ day: -100, rpm: 2 });
    throw new Error("the model did not answer");
  });
  await assert.rejects(failed, /did not answer/);
  assert.deepEqual(await held(limiter), { rpm: 60, day: 1_000 });
});

test("every kind on one bucket: a request takes of all or none, each by its own time", async () => {
  const { limiter, clock } = await openWith(
    "2026-06-15T08:59:00Z",
    Limit.perMinute("rpm", 60, { schedule: [{ cron: "* 9-17 * * 1-5", scale: 0.5 }] }),
    Limit.quota("month", 200, { reset: { cron: "0 0 1 * *" } }),
    Limit.quota("sitting", 90, { resetAfterMs: 5 * HOUR_MS }),
  );
  const all = { entityId: "a", resource: "api", consume: { rpm: 30, month: 30, sitting: 30 } };
  assert.equal((await limiter.tryAcquire(all)).ok, true);
  clock.set(at("2026-06-15T09:00:00Z"));
  assert.equal((await limiter.tryAcquire(all)).ok, true);
  assert.deepEqual(await held(limiter), { rpm: 0, month: 140, sitting: 30 });
  clock.set(at("2026-06-15T09:01:00Z"));
  assert.equal((await limiter.tryAcquire(all)).ok, true);
  clock.set(at("2026-06-15T09:02:00Z"));
  const outcome = await limiter.tryAcquire(all);
  assert.ok(!outcome.ok);
  assert.equal(outcome.primary.limit, "sitting");
  assert.equal(outcome.retryAfterMs, at("2026-06-15T13:59:00Z") - at("2026-06-15T09:02:00Z"));
  assert.deepEqual(await held(limiter), { rpm: 30, month: 110, sitting: 0 });
  assert.equal(await admitted(limiter, "rpm", 100), 30);
});
