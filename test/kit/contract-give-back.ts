import assert from "node:assert/strict";
import { Limit } from "../../src/domain/limits/limit.ts";
import { claim, HOUR_MS, Kinds, kinds, levelOf, type Suite, T0 } from "./contract-kit.ts";

const rpm = [Limit.perMinute("rpm", 10)];
const both = [Limit.perMinute("rpm", 10), Limit.perMinute("tpm", 100)];

/** Debits, which may go into debt, and give-backs, which are exact. */
export function giveBackContract(suite: Suite): void {
  suite.test("a debit goes below zero, and nothing is granted until time has paid it back", async (place) => {
    await place.take([claim("a", rpm, { rpm: 10 })], T0);
    const reply = await place.debit(claim("a", rpm, {}), { rpm: 5 }, T0);
    assert.equal(reply.kind, "applied");
    assert.equal(levelOf(reply.state, "rpm", T0), -5_000);
    assert.equal(await place.grants(claim("a", rpm, { rpm: 1 }), T0 + 35_999), false);
    assert.equal(await place.grants(claim("a", rpm, { rpm: 1 }), T0 + 36_000), true);
  });

  suite.test("a claim of nothing is refused while the limit is in debt, and granted at zero", async (place) => {
    await place.take([claim("a", rpm, { rpm: 10 })], T0);
    assert.equal(await place.grants(claim("a", rpm, { rpm: 0 }), T0), true);
    await place.debit(claim("a", rpm, {}), { rpm: 1 }, T0);
    assert.equal(await place.grants(claim("a", rpm, { rpm: 0 }), T0), false);
  });

  suite.test("a debit after an idle hour counts in full, and does not vanish in the overflow", async (place) => {
    await place.take([claim("a", rpm, { rpm: 1 })], T0);
    await place.debit(claim("a", rpm, {}), { rpm: 4 }, T0 + HOUR_MS);
    assert.equal(await place.drain((tokens) => claim("a", rpm, { rpm: tokens }), T0 + HOUR_MS, 100), 6);
  });

  suite.test("a debit where there is no bucket makes one, full but for the debit", async (place) => {
    const reply = await place.debit(claim("a", both, {}), { rpm: 4 }, T0);
    assert.equal(reply.kind, "applied");
    assert.equal(await place.level("a", "rpm", T0), 6_000);
    assert.equal(await place.level("a", "tpm", T0), 100_000);
  });

  suite.test("what is given back can be taken again, to the token", async (place) => {
    await place.take([claim("a", both, { rpm: 10, tpm: 100 })], T0);
    const reply = await place.credit(claim("a", both, {}), { rpm: 3, tpm: 50 }, T0);
    assert.equal(reply.kind, "applied");
    assert.equal(levelOf(reply.state, "tpm", T0), 50_000);
    assert.equal(await place.drain((tokens) => claim("a", both, { rpm: tokens }), T0, 100), 3);
  });

  suite.test("give-backs above the brim do not raise what can be taken at once above the capacity", async (place) => {
    await place.take([claim("a", rpm, { rpm: 9 })], T0);
    // Ten seconds short of full again; the give-back lifts it over.
    await place.credit(claim("a", rpm, {}), { rpm: 9 }, T0 + 50_000);
    assert.equal(await place.level("a", "rpm", T0 + 50_000), 10_000);
    assert.equal(await place.drain((tokens) => claim("a", rpm, { rpm: tokens }), T0 + 50_000, 100), 10);
  });

  suite.test("a give-back pays a debt first", async (place) => {
    await place.take([claim("a", rpm, { rpm: 10 })], T0);
    await place.debit(claim("a", rpm, {}), { rpm: 5 }, T0);
    await place.credit(claim("a", rpm, {}), { rpm: 7 }, T0);
    assert.equal(await place.level("a", "rpm", T0), 2_000);
  });

  suite.test("a give-back with a clock that is behind is not lost", async (place) => {
    await place.take([claim("a", rpm, { rpm: 10 })], T0);
    await place.credit(claim("a", rpm, {}), { rpm: 4 }, T0 - HOUR_MS);
    assert.equal(await place.level("a", "rpm", T0), 4_000);
  });

  suite.test("a refund gives back what is missing, by time and by debts, and never more", async (place) => {
    await place.take([claim("a", both, { rpm: 10, tpm: 30 })], T0);
    // Half a minute has brought 5 of the 10 back, and all of the 30.
    assert.deepEqual(await place.refund(claim("a", both, {}), { rpm: 9, tpm: 9 }, T0 + 30_000), { rpm: 5_000 });
    assert.equal(await place.drain((tokens) => claim("a", both, { rpm: tokens }), T0 + 30_000, 100), 10);
    await place.debit(claim("a", both, {}), { rpm: 4 }, T0 + 30_000);
    assert.deepEqual(await place.refund(claim("a", both, {}), { rpm: 3 }, T0 + 30_000), { rpm: 3_000 });
    assert.equal(await place.level("a", "rpm", T0 + 30_000), -1_000);
    assert.deepEqual(await place.refund(claim("a", both, {}), { other: 1 }, T0 + 30_000), {});
  });

  suite.test(
    "a refund of a quota gives back what its period has used, and nothing of the one before",
    async (place) => {
      const quotas = [
        Kinds.quota("day", 100, { reset: { cron: "0 0 * * *" } }),
        Kinds.quota("five", 50, { resetAfterMs: 5 * HOUR_MS }),
      ];
      await place.take([claim("a", quotas, { day: 40, five: 40 })], T0);
      assert.deepEqual(await place.refund(claim("a", quotas, {}), { day: 30, five: 60 }, T0), {
        day: 30_000,
        five: 40_000,
      });
      // The window is over, and has not begun anew.
      assert.deepEqual(await place.refund(claim("a", quotas, {}), { day: 1, five: 1 }, T0 + 6 * HOUR_MS), {
        day: 1_000,
      });
      assert.deepEqual(await place.refund(claim("a", quotas, {}), { day: 9 }, T0 + 24 * HOUR_MS), {});
      assert.equal(await place.grants(claim("a", quotas, { day: 100 }), T0 + 24 * HOUR_MS), true);
    },
  );

  suite.test("refunds, takes and debits at once leave what they add up to", async (place) => {
    const day = [Kinds.quota("day", 100, { reset: { cron: "0 0 * * *" } })];
    await place.take([claim("a", day, { day: 20 })], T0);
    const work = Array.from({ length: 24 }, async (_, i) => {
      if (i % 4 === 0) return (await place.grants(claim("a", day, { day: 1 }), T0)) ? -1_000 : 0;
      const given = await place.refund(claim("a", day, {}), { day: 3 }, T0);
      return given === "gone" ? 0 : (given.day ?? 0);
    });
    const changed = (await Promise.all(work)).reduce((sum, milli) => sum + milli, 0);
    assert.equal(await place.level("a", "day", T0), 80_000 + changed);
    const all = { entityId: "a", window: "hourly", fromMs: 0, toMs: Number.MAX_SAFE_INTEGER } as const;
    const { items } = await place.scope.usage.query(all, { limit: 10 });
    assert.equal((items[0]?.counters.day ?? 0) * 1_000, 20_000 - changed);
  });

  suite.test("a refund to a bucket that is not there makes none: it is full", async (place) => {
    assert.equal(await place.refund(claim("a", rpm, {}), { rpm: 4 }, T0), "gone");
    assert.equal(await place.state("a"), undefined);
  });

  suite.test("a give-back to a bucket that is gone makes none: it would have no limits", async (place) => {
    const reply = await place.credit(claim("a", rpm, {}), { rpm: 4 }, T0);
    assert.deepEqual(reply, { kind: "gone" });
    assert.equal(await place.state("a"), undefined);
  });

  suite.test("debits and give-backs at once all count", async (place) => {
    const one = claim("a", both, {});
    await place.take([claim("a", both, { tpm: 100 })], T0);
    await Promise.all(
      Array.from({ length: 40 }, (_, i) =>
        i % 4 === 0 ? place.debit(one, { tpm: 2 }, T0) : place.credit(one, { tpm: 1 }, T0),
      ),
    );
    assert.equal(await place.level("a", "tpm", T0), 10_000);
  });

  suite.test("a debit beyond all exact numbers is refused and changes nothing", async (place) => {
    const most = 9_000_000_000_000;
    await place.take([claim("a", rpm, { rpm: 1 })], T0);
    await place.debit(claim("a", rpm, {}), { rpm: most }, T0);
    const before = await place.level("a", "rpm", T0);
    assert.deepEqual(await place.debit(claim("a", rpm, {}), { rpm: most }, T0), { kind: "tooDeep" });
    assert.equal(await place.level("a", "rpm", T0), before);
    assert.deepEqual(kinds(await place.take([claim("b", rpm, { rpm: 1 })], T0)), ["taken"]);
  });
}
