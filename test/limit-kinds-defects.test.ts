import assert from "node:assert/strict";
import { test } from "node:test";
import { openMemory } from "../src/adapters/memory/store.ts";
import { createCalendar } from "../src/adapters/system/calendar.ts";
import { systemEvents } from "../src/adapters/system/events.ts";
import { systemRandom } from "../src/adapters/system/random.ts";
import type { Tokens } from "../src/domain/amounts.ts";
import { Limiter } from "../src/engine/limiter.ts";
import { Limit, RateLimitExceeded, ValidationError } from "../src/entry/index.ts";
import type { Calendar } from "../src/ports/calendar.ts";
import { SimulatedClock } from "../src/testing/simulated-clock.ts";
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

// Defects of the newest original (reference/original-0.17-core.md, section 5) that concern kinds and policies, each as the
// symptom a caller saw, through the public API.
//
// | defect                                                | tested                                                       |
// | ----------------------------------------------------- | ------------------------------------------------------------ |
// | X4 resets double or vanish when the clock is changed  | here; test/limit-kinds.test.ts has the other zones           |
// | X5 resets beyond a month or a year are not seen       | here; test/limit-kinds.test.ts                               |
// | X6 a changed kind breaks live buckets                 | here; contract-kinds.ts on every store                       |
// | X7 a removed limit keeps refusing                     | here                                                         |
// | X8 deleted limits stay active                         | here                                                         |
// | X9 a reset of every minute locks an entity out        | here; src/domain/limit.test.ts                               |
// | X10 refill over a boundary at the new rate            | here; contract-schedules.ts on every store                   |
// | X11 a wait that ignores the capacity                  | here; src/domain/limit-state.test.ts has the property        |
// | X12 limits of a request become the stored ones        | here                                                         |
// | X13 giving back what was never taken                  | here; src/domain/bucket-kinds.test.ts has the property       |
// | X14 limits and policies overwrite each other          | here; contract-policies.ts on every store                    |
// | X15 a soft limit made hard locks its owner out        | here; contract-schedules.ts on every store                   |
// | X16 fractions poison a bucket                         | here                                                         |
// | X17 a refusal searches the calendar                   | here                                                         |
// | X22 a refusal speaks of a share, or of another time   | here                                                         |
// | X24 marks of a removed quota stay                     | here; contract-kinds.ts on every store                       |
// | X25 an idle bucket gives twice its capacity           | here; src/domain/bucket-promise.test.ts has the property     |

test("X4: a daily quota admits 20 over the day on which New York repeats 01:30, not 30", async () => {
  const quota = Limit.quota("q", 10, { reset: { cron: "30 1 * * *", tz: "America/New_York" } });
  const { limiter, clock } = await openWith("2026-11-01T05:00:00Z", quota);
  let count = 0;
  for (let ms = at("2026-11-01T05:00:00Z"); ms < at("2026-11-02T06:30:00Z"); ms += 15 * MINUTE_MS) {
    clock.set(ms);
    count += await admitted(limiter, "q", 12);
  }
  assert.equal(count, 20);
});

test("X5: a quota of the 31st that was used up on 15 January is there again on 5 March", async () => {
  const { limiter, clock } = await openWith(
    "2026-01-15T00:00:00Z",
    Limit.quota("q", 10, { reset: { cron: "0 0 31 * *" } }),
  );
  await drain(limiter, "q");
  clock.set(at("2026-03-05T00:00:00Z"));
  assert.equal(await drain(limiter, "q"), 10);
  assert.equal((await refusal(limiter, "q", 1)).primary.resetsAtMs, at("2026-03-31T00:00:00Z"));
});

test("X5: the last minute of a long month still belongs to that month", async () => {
  const { limiter, clock } = await openWith(
    "2026-10-01T00:00:00Z",
    Limit.quota("q", 10, { reset: { cron: "0 0 1 * *", tz: "Europe/Berlin" } }),
  );
  await drain(limiter, "q");
  clock.set(at("2026-10-31T22:59:30Z"));
  const { primary, retryAfterMs } = await refusal(limiter, "q", 1);
  assert.deepEqual([primary.resetsAtMs, retryAfterMs], [at("2026-10-31T23:00:00Z"), 30 * SECOND_MS]);
});

test("X6: a limit that becomes a quota stops dripping for those who use it already: 100 a day, not 60,000 in ten hours", async () => {
  const { limiter, clock } = await openWith("2026-06-15T10:00:00Z", Limit.perMinute("x", 100));
  await limiter.acquire(request("x", 60));
  await limiter.setResourceDefaults("api", [Limit.quota("x", 100, { reset: { cron: "0 0 * * *" } })]);
  let count = 0;
  for (let hour = 0; hour < 10; hour++) {
    count += await admitted(limiter, "x", 200);
    clock.set(clock.now() + HOUR_MS);
  }
  assert.equal(count, 40);
  assert.equal(await admitted(limiter, "x", 200, "newcomer"), 100);
});

test("X6: a quota that becomes a limit that drips lets its users in again, and never says to come back at once", async () => {
  const { limiter, clock } = await openAt("2026-06-15T10:00:00Z");
  await limiter.setSystemDefaults([Limit.quota("x", 10, { reset: { cron: "0 0 * * *" } })]);
  await drain(limiter, "x");
  await limiter.setSystemDefaults([Limit.perMinute("x", 100)]);
  assert.equal((await refusal(limiter, "x", 1)).retryAfterMs, 600);
  clock.set(at("2026-06-15T10:01:00Z"));
  assert.equal(await drain(limiter, "x"), 100);
});

test("X7: a limit that was removed refuses nobody, and whoever still names it is told that it is unknown", async () => {
  const [rpm, day] = [Limit.perMinute("rpm", 600), Limit.quota("day", 10, { reset: { cron: "0 0 * * *" } })];
  const { limiter, clock } = await openWith("2026-06-15T10:00:00Z", rpm, day);
  await limiter.acquire({ entityId: "a", resource: "api", consume: { rpm: 1, day: 10 } });
  await limiter.setResourceDefaults("api", [rpm]);
  assert.equal(await admitted(limiter, "rpm", 400), 400);
  clock.set(at("2026-06-15T10:01:00Z"));
  await assert.rejects(limiter.acquire({ entityId: "a", resource: "api", consume: { rpm: 1, day: 1 } }), {
    code: "limit_unknown",
    message: /No limit "day" applies .* known limits: rpm/,
  });
  assert.deepEqual(await held(limiter), { rpm: 600 });
});

test("X8: deleting an entity's default limits brings the resource's back, quotas of a VIP included", async () => {
  const { limiter } = await openWith("2026-06-15T10:00:00Z", Limit.perMinute("tpm", 100));
  await limiter.setLimits("a", [Limit.quota("tpm", 1_000_000, { reset: { cron: "0 0 * * *" } })]);
  await limiter.acquire(request("tpm", 100_000));
  assert.equal(await limiter.deleteLimits("a"), true);
  await assert.rejects(limiter.acquire(request("tpm", 100_000)), { code: "amount_above_capacity" });
  assert.equal(await admitted(limiter, "tpm", 150), 100);
});

test("X9: a quota that would reset with every minute is refused when it is made, and cannot be stored", async () => {
  const everyMinute = { reset: { cron: "* * * * *" } };
  assert.throws(() => Limit.quota("q", 10, everyMinute), { code: "cron_invalid", message: /never stops firing/ });
  const { limiter } = await openWith("2026-06-15T10:00:00Z", Limit.perMinute("q", 10));
  const given = { name: "q", capacity: 10, refillAmount: 0, refillPeriodMs: 1_000, ...everyMinute };
  await assert.rejects(limiter.setLimits("a", [given]), { code: "cron_invalid" });
  await assert.rejects(limiter.acquire({ ...request("q", 1), limits: [given] }), { code: "cron_invalid" });
  assert.equal(await admitted(limiter, "q", 20), 10);
});

test("X10: 6 a minute until nine and 6,000 after admit 370 a tenth of a second after nine, not 6,000", async () => {
  const schedule = [{ cron: "* 9-17 * * *", refillAmount: 6_000 }];
  const limit = Limit.custom("x", { capacity: 6_000, refillAmount: 6, refillPeriodMs: MINUTE_MS, schedule });
  const { limiter, clock } = await openWith("2026-06-15T08:00:00Z", limit);
  await limiter.acquire(request("x", 6_000));
  clock.set(at("2026-06-15T09:00:00.100Z"));
  assert.equal(await drain(limiter, "x"), 370);
});

test("X10: what was earned at 6,000 a minute is not forgotten when the rate drops to 6", async () => {
  const schedule = [{ cron: "* 9-17 * * *", refillAmount: 6 }];
  const limit = Limit.custom("x", { capacity: 6_000, refillAmount: 6_000, refillPeriodMs: MINUTE_MS, schedule });
  const { limiter, clock } = await openWith("2026-06-15T08:00:00Z", limit);
  await limiter.acquire(request("x", 6_000));
  clock.set(at("2026-06-15T09:00:01Z"));
  assert.equal(await drain(limiter, "x"), 6_000);
});

test("X11: 80 of 100 at half capacity are told to wait for the end of the window, 28,800 s, not 36 s", async () => {
  const limit = Limit.perMinute("x", 100, { schedule: [{ cron: "* 9-17 * * *", scale: 0.5 }] });
  const { limiter } = await openWith("2026-06-15T10:00:00Z", limit);
  assert.equal((await refusal(limiter, "x", 80)).retryAfterMs, 28_800 * SECOND_MS);
});

test("X12: limits of one request do not outlive it: 1,000,000 given once, and then 100 a minute as stored", async () => {
  const { limiter } = await openWith("2026-06-15T10:00:00Z", Limit.perMinute("x", 100));
  const generous = [Limit.quota("x", 1_000_000, { reset: { cron: "0 0 * * *" } })];
  await limiter.acquire({ ...request("x", 1), limits: generous });
  assert.equal(await admitted(limiter, "x", 300), 100);
  await assert.rejects(limiter.acquire({ ...request("x", 1), limits: [] }), { code: "limits_empty" });
});

test("X13: releasing 50 of a quota of which one was taken gives back that one", async () => {
  const { limiter } = await openWith("2026-06-15T10:00:00Z", Limit.quota("q", 10, { reset: { cron: "0 0 * * *" } }));
  const [mine, other] = [await limiter.acquire(request("q", 1)), await limiter.acquire(request("q", 1))];
  await mine.release({ q: 50 });
  await mine.adjust({ q: -50 });
  assert.deepEqual(mine.consumed, { q: 0 });
  assert.deepEqual(other.consumed, { q: 1 });
  assert.equal(await drain(limiter, "q"), 9);
});

test("X14: limits, access and cascading that are set at once are all in force on the next request", async () => {
  const { limiter } = await openWith("2026-06-15T10:00:00Z", Limit.perMinute("x", 100));
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
  const { limiter, clock } = await openWith("2026-06-15T10:00:00Z", Limit.perMinute("x", 100, { soft: true }));
  for (let i = 0; i < 50; i++) await limiter.acquire(request("x", 100));
  await limiter.setResourceDefaults("api", [Limit.perMinute("x", 100)]);
  assert.equal((await refusal(limiter, "x", 1)).retryAfterMs, 600);
  clock.set(clock.now() + 600);
  assert.equal((await limiter.tryAcquire(request("x", 1))).ok, true);
});

test("X16: a fraction is refused wherever a number is taken, and the bucket is as before", async () => {
  const { limiter } = await openWith("2026-06-15T10:00:00Z", Limit.quota("q", 10, { reset: { cron: "0 0 * * *" } }));
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

/** A limiter whose questions to the calendar are counted. */
async function counted(...limits: readonly Limit[]) {
  const real = createCalendar();
  let questions = 0;
  const counting = new Proxy(real, {
    get: (target, name: keyof Calendar) => {
      const ask = target[name] as (...args: unknown[]) => unknown;
      return (...args: unknown[]) => {
        questions++;
        return ask(...args);
      };
    },
  });
  const clock = new SimulatedClock(at("2026-06-15T10:00:00Z"));
  const store = openMemory(counting);
  const world = {
    store,
    scope: store.scope("default"),
    clock: { now: () => clock.now(), sleep: clock.sleep.bind(clock) },
    calendar: counting,
    random: systemRandom,
    events: systemEvents,
  };
  const settings = {
    namespace: "default",
    namespaceId: "default",
    configTtlMs: 60_000,
    denyMemoryMs: 1_000,
    timeoutMs: 1_000,
    onUnavailable: undefined,
  };
  const limiter = new Limiter(world, settings, true);
  await limiter.setResourceDefaults("api", limits);
  /** Asks so many times for the same, and says how many questions to the calendar that took. */
  const ask = async (consume: Tokens, times: number, granted: boolean): Promise<number> => {
    questions = 0;
    for (let i = 0; i < times; i++) {
      assert.equal((await limiter.tryAcquire({ entityId: "a", resource: "api", consume })).ok, granted);
    }
    return questions;
  };
  return { clock, ask };
}

test("X17: neither a grant nor a refusal searches the calendar: a few questions each, whatever the schedule", async () => {
  const weekly = Limit.perMinute("x", 100, { schedule: [{ cron: "7,23 3 * * 1", scale: 2 }] });
  const tenWindows = Limit.perMinute("x", 100, {
    schedule: Array.from({ length: 10 }, (_, i) => ({ cron: `${i} ${i} ${i + 1} * *`, scale: 2 })),
  });
  const monthly = Limit.quota("x", 100, { reset: { cron: "0 0 1 * *", tz: "Europe/Berlin" } });
  for (const limit of [weekly, tenWindows, monthly]) {
    const { clock, ask } = await counted(limit);
    const windows = limit.schedule?.length ?? 0;
    await ask({ x: 100 }, 1, true);
    clock.set(clock.now() + 1);
    // A grant within a window asks nothing, but for the end of its period, to be given back in.
    assert.equal(await ask({ x: 0 }, 100, true), limit.reset === undefined ? 0 : 100);
    clock.set(clock.now() + 2 * SECOND_MS);
    const first = await ask({ x: 50 }, 1, false);
    assert.ok(first <= 20 + 10 * windows, `${first} questions for a refusal`);
    // From memory a refusal is told anew, with no more questions than the first.
    assert.ok((await ask({ x: 50 }, 100, false)) <= 100 * first);
  }
});

test("X17: a wait that no window ever ends is given up at a horizon, once, and not once more for every limit", async () => {
  // The wide window opens every other minute and is closed again before it could fill.
  const schedule = [{ cron: "*/2 * * * *", capacity: 122 }];
  const limit = (name: string) => Limit.custom(name, { capacity: 2, refillAmount: 1, refillPeriodMs: 1_000, schedule });
  const { clock, ask } = await counted(limit("x"), limit("y"));
  clock.set(clock.now() + MINUTE_MS);
  await ask({ x: 2, y: 2 }, 1, true);
  const one = await ask({ x: 122 }, 1, false);
  assert.ok(one > 2_000, "it was not looked for");
  const both = await ask({ x: 122, y: 122 }, 1, false);
  assert.ok(one < 30_000 && both < 2 * one, `${one} questions for one limit, ${both} for two`);
});

test("X22: a refusal speaks of the whole capacity and of its own instant, however late it is shown", async () => {
  const { limiter, clock } = await openWith(
    "2026-06-15T10:00:00Z",
    Limit.quota("q", 10, { reset: { cron: "0 * * * *" } }),
  );
  await drain(limiter, "q");
  const error = await limiter.acquire(request("q", 3)).catch((reason: unknown) => reason);
  assert.ok(error instanceof RateLimitExceeded);
  clock.set(clock.now() + DAY_MS);
  const status = {
    entityId: "a",
    resource: "api",
    limit: "q",
    available: 0,
    capacity: 10,
    requested: 3,
    exceeded: true,
    kind: "calendar",
    soft: false,
    resetsAtMs: at("2026-06-15T11:00:00Z"),
    retryAfterMs: HOUR_MS,
  };
  assert.deepEqual(error.toJSON().statuses, [status]);
  assert.deepEqual(error.toProblem().statuses, [status]);
});

test("X24: a quota that was topped up, removed and added again has no more than its capacity in the next period", async () => {
  const month = Limit.quota("q", 10, { reset: { cron: "0 0 1 * *" } });
  const { limiter, clock } = await openWith("2026-06-15T10:00:00Z", month);
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
  const { limiter, clock } = await openWith("2026-06-15T10:30:00Z", Limit.perMinute("x", 100, { schedule }));
  await limiter.acquire(request("x", 1));
  clock.set(at("2026-06-15T11:30:00Z"));
  assert.equal(await admitted(limiter, "x", 300), 100);
});

test("X25: a debit after a long body counts in full, also when a window was passed meanwhile", async () => {
  const schedule = [{ cron: "* 10 * * *", scale: 0.5 }];
  const { limiter, clock } = await openWith("2026-06-15T10:30:00Z", Limit.perMinute("x", 100, { schedule }));
  const lease = await limiter.acquire(request("x", 1));
  clock.set(at("2026-06-15T11:30:00Z"));
  await lease.adjust({ x: 70 });
  assert.equal(await drain(limiter, "x"), 30);
});
