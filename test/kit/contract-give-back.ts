import assert from "node:assert/strict";
import { Limit } from "../../src/domain/limits/limit.ts";
import { claim, HOUR_MS, kinds, levelOf, type Suite, T0 } from "./contract-kit.ts";

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
