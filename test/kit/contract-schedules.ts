import assert from "node:assert/strict";
import type { UsageSnapshot } from "../../src/domain/charge/usage.ts";
import type { Limit } from "../../src/domain/limits/limit.ts";
import type { SetOrigin } from "../../src/domain/limits/limit-set.ts";
import type { ScheduleEntry } from "../../src/domain/limits/schedule.ts";
import {
  claim,
  HOUR_MS,
  Kinds,
  kinds,
  MINUTE_MS,
  SECOND_MS,
  type Suite,
  T0,
  type TestedNamespace,
} from "./contract-kit.ts";

/** T0 is noon; this window is open from 13:00 to 14:00. */
const ONE = T0 + HOUR_MS;
const TWO = T0 + 2 * HOUR_MS;
const AT_ONE = "* 13 * * *";
const MIDNIGHT = Date.UTC(2026, 2, 16);

const older: SetOrigin = { asOfMs: T0, generation: 1 };
const newer: SetOrigin = { asOfMs: T0 + 1, generation: 2 };

function perMinute(rate: number, ...schedule: readonly ScheduleEntry[]): readonly Limit[] {
  return [Kinds.perMinute("x", rate, { schedule })];
}

/** Windows in which a limit is another, soft limits, and all kinds together on one bucket. */
export function schedulesContract(suite: Suite): void {
  suite.test(
    "what a window does not hold is gone when it opens, and does not come back when it ends",
    async (place) => {
      const limits = [Kinds.perDay("x", 864, { burst: 100, schedule: [{ cron: AT_ONE, capacity: 50 }] })];
      assert.equal(await holds(place, limits, ONE - 1), 100_000);
      assert.equal(await holds(place, limits, ONE), 50_000);
      assert.equal(await holds(place, limits, TWO), 50_000);
      // 864 a day are one in a hundred seconds.
      assert.equal(await holds(place, limits, TWO + 250 * SECOND_MS), 50_000 + 2_500);
    },
  );

  suite.test("a window that passes while nobody looks clips all the same", async (place) => {
    const limits = [Kinds.perDay("x", 864, { burst: 100, schedule: [{ cron: AT_ONE, capacity: 50 }] })];
    await place.take([claim("a", limits, { x: 1 })], T0);
    assert.equal(await drained(place, limits, TWO), 50);
  });

  suite.test("each side of a boundary drips at its own rate, not all of it at the new one (X10)", async (place) => {
    const limits = [
      Kinds.custom("x", {
        capacity: 6_000,
        refillAmount: 6,
        refillPeriodMs: MINUTE_MS,
        schedule: [{ cron: AT_ONE, refillAmount: 6_000 }],
      }),
    ];
    await place.take([claim("a", limits, { x: 6_000 })], T0);
    // An hour at six a minute, then a tenth of a second at a hundred a second.
    assert.equal(await holds(place, limits, ONE + 100), 360_000 + 10_000);
    // And down again: half a minute at the high rate, one second at the low one.
    await place.take([claim("b", limits, { x: 6_000 })], TWO - 30 * SECOND_MS);
    assert.equal(await place.holds(claim("b", limits, {}), "x", TWO + SECOND_MS), 3_000_000 + 100);
  });

  suite.test("a scale changes capacity and rate; values replace one by one, and the rest stays", async (place) => {
    const halved = perMinute(100, { cron: AT_ONE, scale: 0.5 });
    assert.equal(await drained(place, halved, ONE), 50);
    assert.equal(await holds(place, halved, ONE + 30 * SECOND_MS), 25_000);
    const slower = perMinute(100, { cron: AT_ONE, refillPeriodMs: 2 * MINUTE_MS });
    const wanted = (tokens: number) => claim("b", slower, { x: tokens });
    assert.equal(await place.drain(wanted, ONE, 200), 100);
    assert.equal(await place.holds(wanted(0), "x", ONE + 30 * SECOND_MS), 25_000);
    const larger = perMinute(100, { cron: AT_ONE, capacity: 150 });
    assert.equal(await place.drain((tokens) => claim("c", larger, { x: tokens }), ONE, 200), 150);
  });

  suite.test("of several windows the first that is open counts, whatever the others say", async (place) => {
    const limits = perMinute(100, { cron: "30-59 13 * * *", capacity: 7 }, { cron: "* 12-14 * * *", capacity: 20 });
    assert.equal(await holds(place, limits, T0), 20_000);
    assert.equal(await holds(place, limits, ONE + 30 * MINUTE_MS), 7_000);
    // Full again at the capacity of the second: 13 more, at a hundred a minute.
    assert.equal(await holds(place, limits, TWO), 7_000);
    assert.equal(await holds(place, limits, TWO + 8 * SECOND_MS), 20_000);
    assert.equal(await holds(place, limits, T0 + 3 * HOUR_MS + MINUTE_MS), 100_000);
  });

  suite.test("windows go by the clock of their zone", async (place) => {
    // 13:00 in Berlin is 12:00 UTC in winter: summer time begins on 29 March 2026.
    const limits = perMinute(100, { cron: AT_ONE, tz: "Europe/Berlin", capacity: 50 });
    assert.equal(await holds(place, limits, T0), 50_000);
    assert.equal(await holds(place, limits, ONE + MINUTE_MS), 100_000);
    const summerNoon = Date.UTC(2026, 2, 30, 12);
    assert.equal(await holds(place, limits, summerNoon - 1), 50_000);
    assert.equal(await holds(place, limits, summerNoon + MINUTE_MS), 100_000);
  });

  suite.test(
    "a window with more room mints nothing: a quota has what it had, until its reset in the window",
    async (place) => {
      const schedule = [{ cron: "* 13,0 * * *", capacity: 200 }];
      const limits = [Kinds.quota("x", 100, { reset: { cron: "0 0 * * *" }, schedule })];
      await place.take([claim("a", limits, { x: 40 })], T0);
      assert.equal(await holds(place, limits, ONE), 60_000);
      assert.equal(await holds(place, limits, MIDNIGHT), 200_000);
      assert.equal(await holds(place, limits, MIDNIGHT + HOUR_MS), 100_000);
    },
  );

  suite.test("a top-up stands on whatever capacity is in force", async (place) => {
    const schedule = [{ cron: AT_ONE, capacity: 50 }];
    const limits = [Kinds.quota("x", 100, { reset: { cron: "0 0 * * *" }, schedule })];
    await place.topUp(claim("a", limits, {}), { x: 30 }, T0);
    assert.equal(await holds(place, limits, T0), 130_000);
    assert.equal(await holds(place, limits, ONE), 80_000);
    assert.equal(await holds(place, limits, TWO), 80_000);
  });

  suite.test("what is given back after a narrow window has passed is not clipped by it", async (place) => {
    const schedule = [{ cron: AT_ONE, capacity: 50 }];
    const limits = [Kinds.quota("x", 100, { reset: { cron: "0 0 * * *" }, schedule })];
    const ticket = await place.ticket(claim("a", limits, { x: 60 }), T0);
    await place.giveBack(claim("a", limits, {}), ticket, { x: 60 }, TWO);
    assert.equal(await drained(place, limits, TWO), 100);
  });

  suite.test("a soft limit never refuses: it goes into debt and pays it back like any other", async (place) => {
    const limits = [Kinds.perMinute("x", 60, { soft: true })];
    assert.equal(await place.grants(claim("a", limits, { x: 100 }), T0), true);
    assert.equal(await place.grants(claim("a", limits, { x: 50 }), T0), true);
    assert.equal(await place.grants(claim("a", limits, { x: 0 }), T0), true);
    assert.equal(await holds(place, limits, T0), -90_000);
    assert.equal(await holds(place, limits, T0 + 100 * SECOND_MS), 10_000);
  });

  suite.test("a hard limit beside a soft one refuses, and then the soft one is not debited", async (place) => {
    const limits = [Kinds.perMinute("soft", 10, { soft: true }), Kinds.perMinute("hard", 10)];
    assert.deepEqual(kinds(await place.take([claim("a", limits, { soft: 15, hard: 11 })], T0)), ["short"]);
    assert.equal(await place.holds(claim("a", limits, {}), "soft", T0), 10_000);
    assert.deepEqual(kinds(await place.take([claim("a", limits, { soft: 15, hard: 10 })], T0)), ["taken"]);
    assert.equal(await place.holds(claim("a", limits, {}), "soft", T0), -5_000);
  });

  suite.test(
    "the deepest debt of a soft limit is where numbers stop being exact, and even there it refuses nothing",
    async (place) => {
      const limits = [Kinds.perMinute("x", 10, { soft: true })];
      const most = 9_000_000_000_000;
      for (let i = 0; i < 3; i++) assert.equal(await place.grants(claim("a", limits, { x: most }), T0), true);
      const [answer] = await place.take([claim("a", limits, { x: 1 })], T0);
      assert.equal(answer?.kind, "taken");
    },
  );

  suite.test("a soft limit that becomes hard starts from zero, not from its debt (X15)", async (place) => {
    const soft = [Kinds.perMinute("x", 100, { soft: true })];
    const hard = [Kinds.perMinute("x", 100)];
    for (let i = 0; i < 50; i++) await place.take([claim("a", soft, { x: 100 }, { origin: older })], T0);
    assert.equal(await holds(place, soft, T0), -4_900_000);
    const wanted = claim("a", hard, { x: 1 }, { origin: newer });
    assert.equal(await place.grants(wanted, T0), false);
    assert.equal(await place.grants(wanted, T0 + 599), false);
    assert.equal(await place.grants(wanted, T0 + 600), true);
  });

  suite.test(
    "a hard limit that becomes soft keeps its debt, and so does one that only changes its rate",
    async (place) => {
      const hard = [Kinds.perMinute("x", 100)];
      await place.take([claim("a", hard, { x: 100 }, { origin: older })], T0);
      await place.debit(claim("a", hard, {}), { x: 30 }, T0);
      const soft = claim("a", [Kinds.perMinute("x", 50, { soft: true })], {}, { origin: newer });
      assert.equal(await place.holds(soft, "x", T0), -30_000);
    },
  );

  suite.test("every kind on one bucket goes by its own time, and a claim takes of all or none", async (place) => {
    const limits = [
      Kinds.perMinute("drip", 60),
      Kinds.quota("day", 100, { reset: { cron: "0 0 * * *" } }),
      Kinds.quota("sitting", 50, { resetAfterMs: 5 * HOUR_MS }),
      Kinds.perMinute("office", 60, { schedule: [{ cron: AT_ONE, scale: 0.5 }] }),
      Kinds.perMinute("soft", 60, { soft: true }),
    ];
    const all = (tokens: number) =>
      claim("a", limits, { drip: tokens, day: tokens, sitting: tokens, office: tokens, soft: tokens });
    const levels = async (nowMs: number) => {
      const [answer] = await place.take([all(0)], nowMs);
      assert.ok(answer?.kind === "taken");
      return Promise.all(limits.map(({ name }) => place.holds(all(0), name, nowMs)));
    };
    assert.deepEqual(kinds(await place.take([all(40)], T0)), ["taken"]);
    assert.deepEqual(kinds(await place.take([all(40)], T0)), ["short"]);
    assert.deepEqual(await levels(T0), [20_000, 60_000, 10_000, 20_000, 20_000]);
    assert.deepEqual(await levels(T0 + 10 * SECOND_MS), [30_000, 60_000, 10_000, 30_000, 30_000]);
    assert.deepEqual(await levels(ONE), [60_000, 60_000, 10_000, 30_000, 60_000]);
    assert.deepEqual(await levels(T0 + 5 * HOUR_MS - 1), [60_000, 60_000, 10_000, 60_000, 60_000]);
    assert.deepEqual(await levels(T0 + 5 * HOUR_MS), [60_000, 60_000, 50_000, 60_000, 60_000]);
    assert.deepEqual(await levels(MIDNIGHT), [60_000, 100_000, 50_000, 60_000, 60_000]);
  });

  suite.test("a child with a quota and a parent with a window are taken from together or not at all", async (place) => {
    const child = [Kinds.quota("x", 10, { reset: { cron: "0 0 * * *" } })];
    const parent = perMinute(100, { cron: AT_ONE, capacity: 4 });
    const both = (tokens: number) => [claim("child", child, { x: tokens }), claim("parent", parent, { x: tokens })];
    assert.deepEqual(kinds(await place.take(both(5), ONE, { atomic: true })), ["skipped", "short"]);
    assert.deepEqual(kinds(await place.take(both(4), ONE, { atomic: true })), ["taken", "taken"]);
    assert.deepEqual(kinds(await place.take(both(7), TWO + MINUTE_MS, { atomic: true })), ["short", "skipped"]);
    assert.deepEqual(kinds(await place.take(both(6), TWO + MINUTE_MS, { atomic: true })), ["taken", "taken"]);
  });

  suite.test("usage counts each request that left a soft limit below zero, and no other", async (place) => {
    const limits = [Kinds.perMinute("x", 60, { soft: true }), Kinds.perMinute("hard", 3)];
    await place.take([claim("a", limits, { x: 60 })], T0);
    await place.take([claim("a", limits, { x: 1 })], T0);
    await place.take([claim("a", limits, { x: 9, hard: 3 })], T0);
    await place.take([claim("a", limits, { x: 1, hard: 1 })], T0);
    await place.take([claim("a", limits, { x: 10 })], T0 + 30 * SECOND_MS);
    const usage = await usageOf(place);
    assert.deepEqual(usage.counters, { x: 80, hard: 3 });
    assert.deepEqual(usage.overdrafts, { x: 2 });
    assert.equal(usage.requests, 4);
  });

  suite.test(
    "usage is lowered by what comes back, also when it is too late for its period: it was not used",
    async (place) => {
      const limits = [Kinds.quota("x", 10, { reset: { cron: "0 13 * * *" } })];
      const ticket = await place.ticket(claim("a", limits, { x: 4 }), ONE - 1);
      await place.giveBack(claim("a", limits, {}), ticket, { x: 1 }, ONE - 1);
      await place.giveBack(claim("a", limits, {}), ticket, { x: 3 }, ONE);
      assert.deepEqual((await usageOf(place)).counters, { x: 0 });
    },
  );
}

function holds(place: TestedNamespace, limits: readonly Limit[], nowMs: number): Promise<number> {
  return place.holds(claim("a", limits, {}), "x", nowMs);
}

function drained(place: TestedNamespace, limits: readonly Limit[], nowMs: number): Promise<number> {
  return place.drain((tokens) => claim("a", limits, { x: tokens }), nowMs, 10_000);
}

/** What "a" used on one day, in one snapshot. */
async function usageOf(place: TestedNamespace): Promise<UsageSnapshot> {
  const query = { entityId: "a", window: "daily", fromMs: 0, toMs: Number.MAX_SAFE_INTEGER } as const;
  const { items } = await place.scope.usage.query(query, { limit: 10 });
  assert.equal(items.length, 1);
  return items[0] as UsageSnapshot;
}
