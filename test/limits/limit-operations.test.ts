import assert from "node:assert/strict";
import { test } from "node:test";
import { Limit } from "../../src/entry/index.ts";
import { at, DAY_MS, drain, HOUR_MS, held, MINUTE_MS, openAt, openWith, refusal, request } from "./kinds-kit.ts";

// What an operator does to a bucket by hand, and what `explain` shows of it.

const START = "2026-06-15T10:00:00Z";
const ON_API = { entityId: "a", resource: "api" };

test("a top-up is there at once, also for those who were just refused or who wait", async () => {
  const { limiter, clock } = await openWith(START, Limit.quota("q", 10, { reset: { cron: "0 0 * * *" } }));
  await drain(limiter, "q");
  await refusal(limiter, "q", 3);
  const waiting = limiter.acquire({ ...request("q", 5), wait: { maxMs: MINUTE_MS } });
  let served = false;
  waiting.then(() => {
    served = true;
  });
  await clock.advance(10);
  const bought = { ...ON_API, amounts: { q: 8 }, idempotencyKey: "order-1", principal: "shop" };
  assert.deepEqual(await limiter.topUp(bought), { ...ON_API, amounts: { q: 8 }, repeated: false });
  await clock.advance(0);
  assert.ok(served, "it still waits");
  assert.deepEqual((await waiting).consumed, { q: 5 });
  assert.equal((await limiter.tryAcquire(request("q", 3))).ok, true);
  assert.deepEqual(await limiter.topUp(bought), { ...ON_API, amounts: { q: 8 }, repeated: true });
  assert.deepEqual(await held(limiter), { q: 0 });
  const { events } = await limiter.auditEvents({ entityId: "a" });
  assert.deepEqual(
    events.map(({ action, resource, principal, details }) => ({ action, resource, principal, details })),
    [
      {
        action: "bucket_topped_up",
        resource: "api",
        principal: "shop",
        details: { amounts: { q: 8 }, idempotencyKey: "order-1" },
      },
    ],
  );
  clock.set(at(START) + 10 + 30 * DAY_MS);
  assert.equal((await limiter.topUp(bought)).repeated, false, "a key is remembered for 30 days");
});

test("a reset fills some or all limits, forgives debt, and ends a session; leases from before it give nothing back", async () => {
  const { limiter } = await openWith(
    START,
    Limit.quota("day", 10, { reset: { cron: "0 0 * * *" } }),
    Limit.quota("s", 10, { resetAfterMs: HOUR_MS }),
    Limit.perHour("rph", 10),
  );
  const lease = await limiter.acquire({ ...ON_API, consume: { day: 10, s: 10, rph: 10 } });
  await lease.adjust({ day: 5, s: 5, rph: 5 });
  assert.deepEqual(await limiter.resetBucket({ ...ON_API, limits: ["rph", "s"] }), {
    ...ON_API,
    amounts: {},
    repeated: false,
  });
  assert.deepEqual(await held(limiter), { day: -5, s: 10, rph: 10 });
  await limiter.resetBucket(ON_API);
  await limiter.acquire({ ...ON_API, consume: { day: 1, s: 1 } });
  await lease.release({ day: 15, s: 15 });
  assert.deepEqual(await held(limiter), { day: 9, s: 9, rph: 10 });
  await assert.rejects(limiter.resetBucket({ ...ON_API, limits: ["month"] }), {
    code: "limit_unknown",
    message: /"month" .*known limits: day, s, rph/,
  });
});

test("operations refuse what makes no sense, with its value", async () => {
  const { limiter } = await openWith(START, Limit.quota("q", 10, { reset: { cron: "0 0 * * *" } }));
  const topUp = (more: object) => limiter.topUp({ ...ON_API, amounts: { q: 1 }, ...more });
  await assert.rejects(topUp({ amounts: { month: 1 } }), { code: "limit_unknown" });
  await assert.rejects(topUp({ amounts: { q: -1 } }), { code: "amount_invalid", message: /topUp of "q" is -1/ });
  await assert.rejects(topUp({ amounts: { q: 9_000_000_000_000 } }), { code: "top_up_too_large", message: /by less/ });
  await assert.rejects(topUp({ idempotencyKey: "a b" }), {
    code: "idempotency_key_invalid",
    message: /"a b"; use 1 to 64/,
  });
  await assert.rejects(topUp({ idempotencyKey: "" }), { code: "idempotency_key_invalid" });
  await assert.rejects(topUp({ resource: "other" }), { code: "limits_missing" });
  assert.deepEqual(await held(limiter), { q: 10 });
});

test("explain says what applies, from which level, what is held and what would happen, and takes nothing", async () => {
  const { limiter, clock } = await openAt(START);
  const tz = "Europe/Berlin";
  await limiter.createEntity({ id: "team" });
  await limiter.createEntity({ id: "a", parentId: "team", cascade: false });
  const rpm = Limit.perMinute("rpm", 100, { schedule: [{ cron: "* 9-17 * * 1-5", tz, scale: 0.5 }] });
  const month = Limit.quota("month", 1_000, { reset: { cron: "0 0 1 * *", tz } });
  await limiter.setResourceDefaults("api", [rpm, month]);
  await limiter.setLimits("team", [Limit.perMinute("rpm", 40)]);
  await limiter.setCascade({ resource: "api" }, true);
  await limiter.topUp({ ...ON_API, amounts: { month: 500 } });
  await limiter.acquire({ ...ON_API, consume: { rpm: 10, month: 30 } });
  const told = await limiter.explain({ ...ON_API, consume: { rpm: 35 } });
  assert.deepEqual(told.levels, [
    {
      entityId: "a",
      source: "resource",
      access: "enforce",
      accessSource: "none",
      cascade: true,
      cascadeSource: "resource",
      parentId: "team",
      limits: [
        {
          limit: "rpm",
          counts: "rpm",
          source: "resource",
          kind: "drip",
          soft: false,
          shadow: false,
          definition: rpm,
          capacity: 50,
          available: 40,
          inWindow: true,
          toppedUp: 0,
          changesAtMs: at("2026-06-15T16:00:00Z"),
        },
        {
          limit: "month",
          counts: "month",
          source: "resource",
          kind: "calendar",
          soft: false,
          shadow: false,
          definition: month,
          capacity: 1_500,
          available: 1_470,
          inWindow: false,
          toppedUp: 500,
          resetsAtMs: at("2026-06-30T22:00:00Z"),
          changesAtMs: at("2026-06-30T22:00:00Z"),
        },
      ],
      totals: [],
    },
    {
      entityId: "team",
      source: "entityDefault",
      access: "enforce",
      accessSource: "none",
      cascade: true,
      cascadeSource: "resource",
      limits: [
        {
          limit: "rpm",
          counts: "rpm",
          source: "entityDefault",
          kind: "drip",
          soft: false,
          shadow: false,
          definition: Limit.perMinute("rpm", 40),
          capacity: 40,
          available: 30,
          inWindow: false,
          toppedUp: 0,
        },
      ],
      totals: [],
    },
  ]);
  // Five are missing at the team, which has forty a minute.
  assert.deepEqual([told.outcome, told.retryAfterMs, told.primary?.entityId], ["refused", 7_500, "team"]);
  assert.match(told.reason ?? "", /rpm of team has 30 left, 35 requested/);
  assert.equal((await limiter.explain({ ...ON_API, consume: { rpm: 30 } })).outcome, "granted");
  const never = await limiter.explain({ ...ON_API, consume: { rpm: 101 } });
  assert.deepEqual([never.outcome, never.retryAfterMs], ["never", Number.POSITIVE_INFINITY]);
  await limiter.setAccess({ entityId: "team" }, "disabled");
  const disabled = await limiter.explain(ON_API);
  assert.deepEqual([disabled.outcome, disabled.levels[1]?.accessSource], ["disabled", "entityDefault"]);
  assert.deepEqual([await held(limiter), await held(limiter, "team")], [{ rpm: 40, month: 1_470 }, { rpm: 30 }]);
  assert.equal(clock.now(), at(START));
});

test("the capacity of a resource is that in force, after a reset and in a window that nobody has seen yet", async () => {
  const schedule = [{ cron: "* 12 * * *", capacity: 4 }];
  const { limiter, clock } = await openWith(START, Limit.quota("q", 10, { reset: { cron: "0 11 * * *" }, schedule }));
  await drain(limiter, "q");
  await limiter.acquire(request("q", 3, "b"));
  const told = async (instant: string) => {
    clock.set(at(instant));
    const { totalCapacity, totalAvailable, entities } = await limiter.resourceCapacity("api", "q");
    return [totalCapacity, totalAvailable, entities.map(({ available }) => available)];
  };
  assert.deepEqual(await told("2026-06-15T10:59:59.999Z"), [20, 7, [0, 7]]);
  assert.deepEqual(await told("2026-06-15T11:00:00Z"), [20, 20, [10, 10]]);
  assert.deepEqual(await told("2026-06-15T12:00:00Z"), [8, 8, [4, 4]]);
});
