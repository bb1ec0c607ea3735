import assert from "node:assert/strict";
import { findLimit } from "../../src/domain/bucket/bucket-state.ts";
import type { Limit } from "../../src/domain/limits/limit.ts";
import type { SetOrigin } from "../../src/domain/limits/limit-set.ts";
import {
  claim,
  DAY_MS,
  HOUR_MS,
  Kinds,
  kinds,
  MINUTE_MS,
  type Suite,
  T0,
  type TestedNamespace,
} from "./contract-kit.ts";

/** T0 is noon of 15 March 2026, a Sunday, in UTC. */
const MIDNIGHT = Date.UTC(2026, 2, 16);
const SESSION_MS = 5 * HOUR_MS;

const daily = [Kinds.quota("q", 10, { reset: { cron: "0 0 * * *" } })];
const session = [Kinds.quota("s", 10, { resetAfterMs: SESSION_MS })];

const older: SetOrigin = { asOfMs: T0, generation: 1 };
const newer: SetOrigin = { asOfMs: T0 + 1, generation: 2 };
const newest: SetOrigin = { asOfMs: T0 + 2, generation: 3 };

/** Quotas by the calendar and by first use, and what becomes of a balance when its limit changes. */
export function kindsContract(suite: Suite): void {
  suite.test("a calendar quota gives its capacity once, and again from the millisecond of its reset", async (place) => {
    assert.equal(await drained(place, daily, "q", T0), 10);
    assert.equal(await place.grants(claim("a", daily, { q: 1 }), MIDNIGHT - 1), false);
    assert.equal(await drained(place, daily, "q", MIDNIGHT), 10);
    assert.equal(await place.grants(claim("a", daily, { q: 1 }), MIDNIGHT + 23 * HOUR_MS), false);
  });

  suite.test("two resets that nobody saw are one: the quota is full, not twice full", async (place) => {
    await place.take([claim("a", daily, { q: 3 })], T0);
    assert.equal(await drained(place, daily, "q", MIDNIGHT + 2 * DAY_MS), 10);
  });

  suite.test("a reset forgives a debt, and nothing else does", async (place) => {
    await place.take([claim("a", daily, { q: 10 })], T0);
    await place.debit(claim("a", daily, {}), { q: 5 }, T0);
    assert.equal(await place.holds(claim("a", daily, {}), "q", MIDNIGHT - 1), -5_000);
    assert.equal(await place.holds(claim("a", daily, {}), "q", MIDNIGHT), 10_000);
  });

  suite.test("what was taken before a reset is not given back into the period after it", async (place) => {
    const ticket = await place.ticket(claim("a", daily, { q: 4 }), T0);
    await place.giveBack(claim("a", daily, {}), ticket, { q: 1 }, MIDNIGHT - 1);
    assert.equal(await place.holds(claim("a", daily, {}), "q", MIDNIGHT - 1), 7_000);
    assert.equal(await drained(place, daily, "q", MIDNIGHT), 10);
    await place.giveBack(claim("a", daily, {}), ticket, { q: 3 }, MIDNIGHT + 1);
    assert.equal(await place.grants(claim("a", daily, { q: 1 }), MIDNIGHT + 1), false);
  });

  suite.test(
    "nor is it when nobody has been there since the reset: the bucket is full, not overfull",
    async (place) => {
      const ticket = await place.ticket(claim("a", daily, { q: 4 }), T0);
      await place.giveBack(claim("a", daily, {}), ticket, { q: 4 }, MIDNIGHT);
      assert.equal(await drained(place, daily, "q", MIDNIGHT), 10);
    },
  );

  suite.test("nor when the cron has changed meanwhile, so that the old period would still run", async (place) => {
    const monthly = [Kinds.quota("q", 10, { reset: { cron: "0 0 1 * *" } })];
    const ticket = await place.ticket(claim("a", monthly, { q: 5 }, { origin: older }), T0);
    await place.take([claim("a", daily, { q: 0 }, { origin: newer })], T0 + 1);
    assert.equal(await drained(place, daily, "q", MIDNIGHT, newer), 10);
    await place.giveBack(claim("a", daily, {}), ticket, { q: 5 }, MIDNIGHT + 1);
    assert.equal(await place.grants(claim("a", daily, { q: 1 }, { origin: newer }), MIDNIGHT + 1), false);
  });

  suite.test("a debit in a later period is given back into that period, the take before it is not", async (place) => {
    await place.take([claim("a", daily, { q: 4 })], T0);
    const reply = await place.debit(claim("a", daily, {}), { q: 6 }, MIDNIGHT + 1);
    assert.ok(reply.kind === "applied" && reply.ticket !== undefined, "a debit of a quota has a ticket of its own");
    await place.giveBack(claim("a", daily, {}), reply.ticket, { q: 6 }, MIDNIGHT + 2);
    assert.equal(await place.holds(claim("a", daily, {}), "q", MIDNIGHT + 2), 10_000);
  });

  suite.test("a top-up raises the brim by exactly its amount until the reset, and not beyond it", async (place) => {
    await place.take([claim("a", daily, { q: 10 })], T0);
    assert.deepEqual(await place.topUp(claim("a", daily, {}), { q: 5 }, T0), {
      kind: "done",
      repeated: false,
      amounts: [{ limit: "q", milli: 5_000 }],
    });
    const ticket = await place.ticket(claim("a", daily, { q: 5 }), T0 + 1);
    assert.equal(await place.grants(claim("a", daily, { q: 1 }), T0 + 1), false);
    // It is not lost when it is given back, either.
    await place.giveBack(claim("a", daily, {}), ticket, { q: 5 }, T0 + 2);
    assert.equal(await drained(place, daily, "q", T0 + 2), 5);
    assert.equal(await drained(place, daily, "q", MIDNIGHT), 10);
  });

  suite.test(
    "a quota that is full holds its capacity and what was topped up, and one that is in debt less",
    async (place) => {
      await place.topUp(claim("a", daily, {}), { q: 5 }, T0);
      assert.equal(await drained(place, daily, "q", T0), 15);
      await place.debit(claim("a", daily, {}), { q: 7 }, T0);
      await place.topUp(claim("a", daily, {}), { q: 3 }, T0);
      assert.equal(await place.holds(claim("a", daily, {}), "q", T0), -4_000);
    },
  );

  suite.test(
    "an operator's reset begins a new period: full, debt and top-up gone, earlier leases left out",
    async (place) => {
      await place.topUp(claim("a", daily, {}), { q: 5 }, T0);
      const ticket = await place.ticket(claim("a", daily, { q: 15 }), T0);
      await place.debit(claim("a", daily, {}), { q: 5 }, T0);
      assert.deepEqual(await place.reset(claim("a", daily, {}), undefined, T0 + 1), {
        kind: "done",
        repeated: false,
        amounts: [],
      });
      assert.equal(await drained(place, daily, "q", T0 + 2), 10);
      await place.giveBack(claim("a", daily, {}), ticket, { q: 15 }, T0 + 3);
      assert.equal(await place.grants(claim("a", daily, { q: 1 }), T0 + 3), false);
      // The calendar goes on as before.
      assert.equal(await drained(place, daily, "q", MIDNIGHT), 10);
    },
  );

  suite.test(
    "a lease from before an operator's reset is not given back later either, however idle the bucket",
    async (place) => {
      const ticket = await place.ticket(claim("a", daily, { q: 5 }), T0);
      await place.reset(claim("a", daily, {}), undefined, T0 + 1);
      // Others keep the store busy: it may clean up meanwhile, and has full buckets to find.
      const later = T0 + 3 * HOUR_MS;
      const times = Math.min(600, suite.repeatsMax);
      for (let i = 0; i < times; i++) await place.take([claim("busy", daily, { q: 0 })], later);
      assert.equal(await drained(place, daily, "q", later), 10);
      await place.giveBack(claim("a", daily, {}), ticket, { q: 5 }, later);
      assert.equal(await place.grants(claim("a", daily, { q: 1 }), later), false);
    },
  );

  suite.test("some limits of a bucket can be reset, and the others stay as they are", async (place) => {
    const both = [...daily, Kinds.perHour("rph", 60)];
    await place.take([claim("a", both, { q: 10, rph: 60 })], T0);
    await place.reset(claim("a", both, {}), ["rph"], T0);
    assert.equal(await place.holds(claim("a", both, {}), "rph", T0), 60_000);
    assert.equal(await place.holds(claim("a", both, {}), "q", T0), 0);
  });

  suite.test("a session opens with its first use and ends so long after it, at that millisecond", async (place) => {
    const firstMs = T0 + HOUR_MS;
    await place.take([claim("a", session, { s: 4 })], firstMs);
    await place.take([claim("a", session, { s: 6 })], firstMs + 2 * HOUR_MS);
    const endMs = firstMs + SESSION_MS;
    assert.equal(await place.grants(claim("a", session, { s: 1 }), endMs - 1), false);
    assert.equal(await drained(place, session, "s", endMs), 10);
    // The next one opened with that use, not with the end of the one before.
    assert.equal(await place.grants(claim("a", session, { s: 1 }), endMs + SESSION_MS - 1), false);
    assert.equal(await place.grants(claim("a", session, { s: 1 }), endMs + SESSION_MS), true);
  });

  suite.test("neither a claim of nothing nor one that is refused opens a session", async (place) => {
    const both = [...session, Kinds.perDay("rpd", 1)];
    await place.take([claim("a", both, { s: 0, rpd: 1 })], T0);
    assert.deepEqual(kinds(await place.take([claim("a", both, { s: 3, rpd: 1 })], T0 + 1)), ["short"]);
    assert.equal(await windowStart(place, "s"), undefined);
    await place.take([claim("a", both, { s: 3 })], T0 + 4 * HOUR_MS);
    assert.equal(await windowStart(place, "s"), T0 + 4 * HOUR_MS);
    assert.equal(await place.holds(claim("a", both, {}), "s", T0 + SESSION_MS), 7_000);
  });

  suite.test("time in which nobody comes opens no session", async (place) => {
    await place.take([claim("a", session, { s: 10 })], T0);
    const returnMs = T0 + SESSION_MS + 3 * HOUR_MS;
    await place.take([claim("a", session, { s: 10 })], returnMs);
    assert.equal(await place.grants(claim("a", session, { s: 1 }), returnMs + SESSION_MS - 1), false);
    assert.equal(await place.grants(claim("a", session, { s: 1 }), returnMs + SESSION_MS), true);
  });

  suite.test("what was taken in an earlier session is not given back into a later one", async (place) => {
    const ticket = await place.ticket(claim("a", session, { s: 4 }), T0);
    await place.giveBack(claim("a", session, {}), ticket, { s: 1 }, T0 + SESSION_MS - 1);
    assert.equal(await place.holds(claim("a", session, {}), "s", T0 + SESSION_MS - 1), 7_000);
    assert.equal(await drained(place, session, "s", T0 + SESSION_MS), 10);
    await place.giveBack(claim("a", session, {}), ticket, { s: 3 }, T0 + SESSION_MS + 1);
    assert.equal(await place.grants(claim("a", session, { s: 1 }), T0 + SESSION_MS + 1), false);
  });

  suite.test("giving everything back leaves the session open: it began", async (place) => {
    const ticket = await place.ticket(claim("a", session, { s: 4 }), T0);
    await place.giveBack(claim("a", session, {}), ticket, { s: 4 }, T0 + 1);
    await place.take([claim("a", session, { s: 10 })], T0 + 4 * HOUR_MS);
    assert.equal(await place.grants(claim("a", session, { s: 1 }), T0 + SESSION_MS), true);
  });

  suite.test("a debit opens a session, a top-up does, and an operator's reset ends it", async (place) => {
    await place.debit(claim("a", session, {}), { s: 12 }, T0);
    assert.equal(await windowStart(place, "s"), T0);
    await place.reset(claim("a", session, {}), ["s"], T0 + HOUR_MS);
    assert.equal(await windowStart(place, "s"), undefined);
    await place.topUp(claim("a", session, {}), { s: 5 }, T0 + 2 * HOUR_MS);
    assert.equal(await windowStart(place, "s"), T0 + 2 * HOUR_MS);
    assert.equal(await drained(place, session, "s", T0 + 3 * HOUR_MS), 15);
    assert.equal(await drained(place, session, "s", T0 + 2 * HOUR_MS + SESSION_MS), 10);
  });

  suite.test("a session that is closed is full at whatever its capacity is changed to", async (place) => {
    await place.take([claim("a", session, { s: 0 }, { origin: older })], T0);
    const raised = [Kinds.quota("s", 20, { resetAfterMs: SESSION_MS })];
    await place.take([claim("a", raised, { s: 0 }, { origin: newer })], T0 + 1);
    assert.equal(await windowStart(place, "s"), undefined);
    assert.equal(await drained(place, raised, "s", T0 + HOUR_MS, newer), 20);
  });

  suite.test("a session whose length is cut below the time it has run is over", async (place) => {
    await place.take([claim("a", session, { s: 10 }, { origin: older })], T0);
    const short = [Kinds.quota("s", 10, { resetAfterMs: HOUR_MS })];
    assert.equal(await place.grants(claim("a", short, { s: 1 }, { origin: newer }), T0 + HOUR_MS - 1), false);
    const other = [Kinds.quota("s", 10, { resetAfterMs: 1_800_000 })];
    assert.equal(await drained(place, other, "s", T0 + HOUR_MS - 1, newest), 10);
  });

  suite.test("a limit that becomes a quota keeps its balance, and no longer drips (X6)", async (place) => {
    const drip = [Kinds.perMinute("q", 100)];
    const quota = [Kinds.quota("q", 100, { reset: { cron: "0 0 * * *" } })];
    await place.take([claim("a", drip, { q: 60 }, { origin: older })], T0);
    assert.equal(await drained(place, quota, "q", T0, newer), 40);
    assert.equal(await place.grants(claim("a", quota, { q: 1 }, { origin: newer }), T0 + 10 * HOUR_MS), false);
    assert.equal(await drained(place, quota, "q", MIDNIGHT, newer), 100);
  });

  suite.test(
    "a quota that becomes a limit that drips keeps its balance, and drips from then on (X6)",
    async (place) => {
      const drip = [Kinds.perMinute("q", 60)];
      await place.take([claim("a", daily, { q: 10 }, { origin: older })], T0);
      assert.equal(await place.grants(claim("a", drip, { q: 1 }, { origin: newer }), T0 + HOUR_MS), false);
      assert.equal(await place.grants(claim("a", drip, { q: 1 }, { origin: newer }), T0 + HOUR_MS + 1_000), true);
      assert.equal(await drained(place, drip, "q", T0 + 2 * HOUR_MS, newer), 60);
    },
  );

  suite.test(
    "a calendar quota that becomes a session keeps what was used, and the session begins with the change",
    async (place) => {
      const hundred = [Kinds.quota("s", 100, { reset: { cron: "0 0 * * *" } })];
      await place.take([claim("a", hundred, { s: 95 }, { origin: older })], T0);
      assert.equal(await place.holds(claim("a", session, {}, { origin: newer }), "s", T0 + HOUR_MS), -85_000);
      await place.take([claim("b", hundred, { s: 5 }, { origin: older })], T0);
      // Five were used: they are five of the ten, in a session that begins with the change.
      const wanted = (tokens: number) => claim("b", session, { s: tokens }, { origin: newer });
      await place.take([wanted(0)], T0 + HOUR_MS);
      assert.equal(await place.drain(wanted, T0 + 3 * HOUR_MS, 10), 5);
      assert.equal(await place.grants(wanted(1), T0 + HOUR_MS + SESSION_MS - 1), false);
      assert.equal(await place.drain(wanted, T0 + HOUR_MS + SESSION_MS, 10), 10);
    },
  );

  suite.test("a quota that is removed and added again in its period keeps what was spent", async (place) => {
    const rpm = [Kinds.perMinute("rpm", 100)];
    await place.take([claim("a", [...rpm, ...daily], { q: 8 }, { origin: older })], T0);
    await place.take([claim("a", rpm, { rpm: 1 }, { origin: newer })], T0 + MINUTE_MS);
    assert.equal(await drained(place, [...rpm, ...daily], "q", T0 + HOUR_MS, newest), 2);
    assert.equal(await drained(place, [...rpm, ...daily], "q", MIDNIGHT, newest), 10);
  });

  suite.test(
    "what was bought for a quota that is removed is there when it is added again, but only in its period (X24)",
    async (place) => {
      const rpm = [Kinds.perMinute("rpm", 100)];
      const both = [...rpm, ...daily];
      for (const [entityId, againMs, due] of [
        ["a", T0 + HOUR_MS, 508],
        ["b", MIDNIGHT + HOUR_MS, 10],
      ] as const) {
        const ticket = await place.ticket(claim(entityId, both, { q: 2 }, { origin: older }), T0);
        await place.topUp(claim(entityId, both, {}, { origin: older }), { q: 500 }, T0);
        await place.take([claim(entityId, rpm, { rpm: 1 }, { origin: newer })], T0 + MINUTE_MS);
        const wanted = (tokens: number) => claim(entityId, both, { q: tokens }, { origin: newest });
        assert.equal(await place.drain(wanted, againMs, 1_000), due);
        // Only what was taken in this period can be given back.
        await place.giveBack(wanted(0), ticket, { q: 2 }, againMs + 1);
        assert.equal(await place.drain(wanted, againMs + 1, 1_000), entityId === "a" ? 2 : 0);
      }
    },
  );

  suite.test(
    "the window of a session that is removed and added again after its end is no longer open (X24)",
    async (place) => {
      const rpm = [Kinds.perMinute("rpm", 100)];
      const both = [...rpm, ...session];
      await place.take([claim("a", both, { s: 8 }, { origin: older })], T0);
      await place.take([claim("a", rpm, { rpm: 1 }, { origin: newer })], T0 + 1);
      const againMs = T0 + 6 * HOUR_MS;
      assert.equal(await drained(place, both, "s", againMs, newest), 10);
      // A store may count the first use that comes with changed limits a moment later.
      const openedMs = await windowStart(place, "s");
      assert.ok(openedMs === againMs || openedMs === againMs + 1, `${openedMs}`);
    },
  );
}

/** How much of a limit of "a" can be taken, in whole tokens. */
function drained(
  place: TestedNamespace,
  limits: readonly Limit[],
  name: string,
  nowMs: number,
  origin: SetOrigin = older,
): Promise<number> {
  return place.drain((tokens) => claim("a", limits, { [name]: tokens }, { origin }), nowMs, 1_000);
}

async function windowStart(place: TestedNamespace, name: string): Promise<number | undefined> {
  const state = await place.state("a");
  assert.ok(state !== undefined, "the bucket is not stored");
  return findLimit(state, name)?.quota?.windowStartMs;
}
