import assert from "node:assert/strict";
import { Limit } from "../../src/domain/limits/limit.ts";
import { claim, Kinds, type Suite, T0 } from "./contract-kit.ts";

const slots = (count: number, holdMs = 60_000) => [Limit.concurrent("parallel", count, { holdMs })];
const origin = (afterMs: number) => ({ asOfMs: T0 + afterMs, generation: null });

/** A claim by limits that this process goes by since then. */
function asOf(limits: readonly Limit[], parallel: number, afterMs: number) {
  return claim("a", limits, { parallel }, { origin: origin(afterMs) });
}

/** What is held when limits change: it is neither cut off nor forgotten. */
export function changedHoldsContract(suite: Suite): void {
  suite.test("more slots are free at once, with fewer nobody comes in until enough have left", async (place) => {
    const held = await place.ticket(asOf(slots(2), 2, 0), T0);
    assert.equal(await place.grants(asOf(slots(5), 3, 1), T0 + 1), true);
    assert.equal(await place.grants(asOf(slots(5), 1, 1), T0 + 2), false);
    assert.equal(await place.holds(asOf(slots(1), 0, 3), "parallel", T0 + 3), -4_000);
    assert.equal(
      await place.grants(asOf(slots(1), 0, 3), T0 + 4),
      false,
      "not even nothing, while more than N is held",
    );
    await place.settle(asOf(slots(1), 0, 3), held, { parallel: 2 }, T0 + 5);
    assert.equal(await place.holds(asOf(slots(1), 0, 3), "parallel", T0 + 5), -2_000);
    // The other three end by themselves.
    assert.equal(await place.grants(asOf(slots(1), 1, 3), T0 + 74_999), false);
    assert.equal(await place.grants(asOf(slots(1), 1, 3), T0 + 75_000), true);
  });

  suite.test("holds keep the end that they have, and what comes after goes by the new time", async (place) => {
    const old = await place.ticket(asOf(slots(2), 1, 0), T0);
    await place.take([asOf(slots(2, 10_000), 1, 1)], T0 + 1);
    assert.equal(await place.grants(asOf(slots(2, 10_000), 1, 1), T0 + 12_499), false);
    assert.equal(await place.grants(asOf(slots(2, 10_000), 1, 1), T0 + 12_500), true);
    // A renewal does not shorten, also where it would be for ten seconds now.
    assert.equal((await place.renew(asOf(slots(2, 10_000), 1, 1), old, { parallel: 1 }, T0 + 13_000)).kind, "renewed");
    assert.equal(await place.holds(asOf(slots(2, 10_000), 1, 1), "parallel", T0 + 59_999), 1_000);
    assert.equal(await place.holds(asOf(slots(2, 10_000), 1, 1), "parallel", T0 + 60_000), 2_000);
  });

  suite.test("many changes within one hold keep every slot, and all of them end", async (place) => {
    const times = [60_000, 59_000, 58_000, 57_000, 56_000, 55_000, 54_000, 53_000, 52_000, 51_000, 61_000, 62_000];
    for (const [i, holdMs] of times.entries()) {
      assert.equal(await place.grants(asOf(slots(20, holdMs), 1, i), T0 + i), true);
    }
    const last = slots(20, 62_000);
    assert.equal(await place.holds(asOf(last, 0, 20), "parallel", T0 + 20), 8_000);
    assert.equal(await place.holds(asOf(last, 0, 20), "parallel", T0 + 80_000), 20_000);
  });

  suite.test("a limit that was removed and comes back still has what is held", async (place) => {
    const both = [...slots(2), Limit.perMinute("rpm", 10)];
    const rate = [Limit.perMinute("rpm", 10)];
    const held = await place.ticket(claim("a", both, { parallel: 2, rpm: 1 }, { origin: origin(0) }), T0);
    await place.take([claim("a", rate, { rpm: 1 }, { origin: origin(1) })], T0 + 1);
    const back = claim("a", both, { parallel: 1 }, { origin: origin(2) });
    assert.equal(await place.grants(back, T0 + 2), false);
    await place.settle(back, held, { parallel: 1 }, T0 + 3);
    assert.equal(await place.grants(back, T0 + 4), true);
    assert.equal(await place.holds(back, "parallel", T0 + 60_000), 1_000);
  });

  suite.test(
    "what is another kind meanwhile keeps its holds, and they count when it is concurrent again",
    async (place) => {
      const drips = [Limit.perMinute("parallel", 10)];
      const old = await place.ticket(asOf(slots(2), 2, 0), T0);
      assert.equal(
        await place.holds(asOf(drips, 0, 1), "parallel", T0 + 1),
        10_000,
        "slots are no tokens: it begins full",
      );
      await place.settle(asOf(drips, 0, 1), old, { parallel: 1 }, T0 + 2);
      assert.equal(await place.holds(asOf(drips, 0, 1), "parallel", T0 + 2), 10_000);
      assert.equal(await place.holds(asOf(slots(3), 0, 3), "parallel", T0 + 3), 1_000);
      // It began anew: tickets of before find nothing, and what they hold ends by itself.
      await place.settle(asOf(slots(3), 0, 3), old, { parallel: 1 }, T0 + 4);
      assert.equal((await place.renew(asOf(slots(3), 0, 3), old, { parallel: 1 }, T0 + 4)).kind, "lost");
      assert.equal(await place.holds(asOf(slots(3), 0, 3), "parallel", T0 + 5), 1_000);
      assert.equal(await place.holds(asOf(slots(3), 0, 3), "parallel", T0 + 60_000), 3_000);
    },
  );

  suite.test("holds outlive sessions that nobody has begun, one after the other", async (place) => {
    const session = (count: number) => [Limit.quota("parallel", count, { resetAfterMs: 300_000 })];
    await place.take([asOf(slots(2), 2, 0)], T0);
    await place.take([asOf(session(5), 0, 1)], T0 + 1);
    await place.take([asOf(session(6), 0, 2)], T0 + 2);
    assert.equal(await place.holds(asOf(slots(3), 0, 3), "parallel", T0 + 3), 1_000);
    assert.equal(await place.holds(asOf(slots(3), 0, 3), "parallel", T0 + 75_000), 3_000);
  });

  suite.test("what is debited by limits of before are slots by those of now, and goes back as such", async (place) => {
    const before = asOf([Limit.perMinute("parallel", 10)], 1, 0);
    await place.take([before], T0);
    await place.take([asOf(slots(3), 1, 1)], T0 + 1);
    const reply = await place.debit(before, { parallel: 2 }, T0 + 2);
    assert.equal(reply.kind, "applied");
    assert.equal(await place.holds(asOf(slots(3), 0, 1), "parallel", T0 + 2), 0);
    const own = reply.kind === "applied" ? reply.ticket : undefined;
    assert.ok(own, "a ticket says in which slice they are");
    await place.settle(asOf(slots(3), 0, 1), own, { parallel: 2 }, T0 + 3);
    assert.equal(await place.holds(asOf(slots(3), 0, 1), "parallel", T0 + 3), 2_000);
  });

  suite.test("a rate that was spent is not full again by being concurrent for a moment", async (place) => {
    const drips = [Limit.perMinute("parallel", 10)];
    const month = [Kinds.quota("parallel", 10, { reset: { cron: "0 0 1 * *", tz: "UTC" } })];
    await place.take([asOf(drips, 10, 0)], T0);
    assert.equal(await place.holds(asOf(slots(5), 0, 1), "parallel", T0 + 1), 5_000, "and what was spent are no slots");
    assert.equal(await place.grants(asOf(drips, 1, 2), T0 + 2), false);
    // After the minute in which it would have filled it is full, whatever it was meanwhile.
    await place.take([asOf(slots(5), 0, 3)], T0 + 3);
    assert.equal(await place.holds(asOf(drips, 0, 4), "parallel", T0 + 120_000), 10_000);
    const spent = (parallel: number, afterMs: number) => claim("b", month, { parallel }, { origin: origin(afterMs) });
    await place.take([spent(10, 0)], T0);
    await place.take([claim("b", slots(5), { parallel: 1 }, { origin: origin(1) })], T0 + 1);
    assert.equal(await place.grants(spent(1, 2), T0 + 2), false);
  });

  suite.test("a window moves what is free by the difference, and cuts nothing", async (place) => {
    const busy = [
      Kinds.concurrent("parallel", 4, {
        holdMs: 3_600_000,
        schedule: [{ cron: "* 13 * * *", tz: "UTC", capacity: 1 }],
      }),
    ];
    const at = (hours: number) => T0 + hours * 3_600_000;
    const held = await place.ticket(claim("a", busy, { parallel: 3 }), at(0.5));
    assert.equal(await place.holds(claim("a", busy, {}), "parallel", at(1)), -2_000);
    await place.settle(claim("a", busy, {}), held, { parallel: 1 }, at(1.2));
    assert.equal(await place.grants(claim("a", busy, { parallel: 1 }), at(1.2)), false);
    // Both of the others have ended by then, and the window is over.
    assert.equal(await place.holds(claim("a", busy, {}), "parallel", at(2)), 4_000);
    await place.take([claim("b", busy, { parallel: 3 })], at(0.9));
    assert.equal(await place.holds(claim("b", busy, {}), "parallel", at(1.1)), -2_000);
    assert.equal(await place.holds(claim("b", busy, {}), "parallel", at(2)), 4_000);
  });
}
