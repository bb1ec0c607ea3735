import assert from "node:assert/strict";
import { findLimit } from "../../src/domain/bucket/bucket-state.ts";
import { Limit } from "../../src/domain/limits/limit.ts";
import type { SetOrigin } from "../../src/domain/limits/limit-set.ts";
import { claim, HOUR_MS, Kinds, levelOf, MINUTE_MS, type Suite, T0 } from "./contract-kit.ts";

const ten = [Limit.perMinute("rpm", 10)];
const sixty = [Limit.perMinute("rpm", 60)];
const five = [Limit.perMinute("rpm", 5)];

const older: SetOrigin = { asOfMs: T0, generation: 1 };
const newer: SetOrigin = { asOfMs: T0 + 1, generation: 2 };

const monthly = (amount: number) => [Kinds.quota("rpm", amount, { reset: { cron: "0 0 1 * *" } })];
const hourLong = (amount: number) => [Kinds.quota("rpm", amount, { resetAfterMs: HOUR_MS })];
/** Limits that a request brings, the later ones by a higher number. */
const nth = (n: number): SetOrigin => ({ asOfMs: T0 + n, generation: null });

/** How changed limits reach a bucket that exists. */
export function changedLimitsContract(suite: Suite): void {
  suite.test("a raised limit keeps what was used: it fills at the new rate, not at once", async (place) => {
    await place.take([claim("a", ten, { rpm: 10 }, { origin: older })], T0);
    assert.equal(await place.grants(claim("a", sixty, { rpm: 1 }, { origin: newer }), T0), false);
    assert.equal(await place.grants(claim("a", sixty, { rpm: 1 }, { origin: newer }), T0 + 1_000), true);
    assert.equal(await place.level("a", "rpm", T0 + 2 * MINUTE_MS), 60_000);
  });

  suite.test("the time before a change counts at the old rate, the time after it at the new one", async (place) => {
    await place.take([claim("a", ten, { rpm: 10 }, { origin: older })], T0);
    // 30 s at ten a minute, brought by a claim that takes nothing, then 10 s at sixty a minute.
    await place.take([claim("a", sixty, { rpm: 0 }, { origin: newer })], T0 + 30_000);
    assert.equal(await place.level("a", "rpm", T0 + 40_000), 5_000 + 10_000);
  });

  suite.test("a lowered limit clips what is there to its new capacity at once", async (place) => {
    await place.take([claim("a", sixty, { rpm: 1 }, { origin: older })], T0);
    assert.equal(
      await place.drain((tokens) => claim("a", five, { rpm: tokens }, { origin: newer }), T0 + MINUTE_MS, 60),
      5,
    );
  });

  for (const [kind, quota] of [
    ["calendar", monthly],
    ["session", hourLong],
  ] as const) {
    suite.test(`a ${kind} quota keeps what was used, whatever its amount becomes`, async (place) => {
      const wanted = (amount: number, tokens: number, n: number) =>
        claim("a", quota(amount), { rpm: tokens }, { origin: nth(n) });
      const [answer] = await place.take([wanted(1_000, 900, 0)], T0);
      assert.equal(await place.holds(wanted(100_000, 0, 1), "rpm", T0 + 1), 99_100_000);
      // A wrong plan for a moment, and back.
      await place.take([wanted(10, 0, 2)], T0 + 2);
      assert.equal(await place.level("a", "rpm", T0 + 2), -890_000);
      assert.equal(await place.grants(wanted(10, 1, 2), T0 + 2), false);
      await place.topUp(wanted(1_000, 0, 3), { rpm: 50 }, T0 + 3);
      assert.equal(await place.level("a", "rpm", T0 + 3), 150_000);
      await place.take([wanted(500, 0, 4)], T0 + 4);
      assert.equal(await place.level("a", "rpm", T0 + 4), -350_000);
      assert.ok(answer?.kind === "taken");
      await place.giveBack(wanted(500, 0, 4), answer.ticket, { rpm: 400 }, T0 + 5);
      assert.equal(await place.drain((tokens) => wanted(500, tokens, 4), T0 + 5, 100), 50);
      // The next period is full by the new amount, and what was bought is gone.
      assert.equal(await place.holds(wanted(500, 0, 4), "rpm", Date.UTC(2027, 0, 1)), 500_000);
    });
  }

  suite.test(
    "what is left of a quota is counted by the limits of each request, whoever brings which",
    async (place) => {
      const by = (amount: number, n: number) =>
        place.grants(claim("a", monthly(amount), { rpm: 1 }, { origin: nth(n) }), T0);
      const granted: boolean[] = [];
      for (let n = 0; n < 12; n++) granted.push(await by(n % 2 === 0 ? 8 : 3, n));
      assert.deepEqual(granted.map(Number), [1, 1, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0]);
    },
  );

  suite.test("a quota that was taken away and comes back with another amount keeps what was used", async (place) => {
    const [both, one] = [
      (amount: number) => [...monthly(amount), Limit.perMinute("tpm", 5)],
      [Limit.perMinute("tpm", 5)],
    ];
    await place.take([claim("a", both(100), { rpm: 60 }, { origin: nth(0) })], T0);
    await place.take([claim("a", one, { tpm: 1 }, { origin: nth(1) })], T0 + 1);
    assert.equal(await place.holds(claim("a", both(70), {}, { origin: nth(2) }), "rpm", T0 + 2), 10_000);
  });

  suite.test("a change reaches the bucket also with a claim that is refused, and is stored", async (place) => {
    await place.take([claim("a", ten, { rpm: 10 }, { origin: older })], T0);
    const [answer] = await place.take([claim("a", sixty, { rpm: 20 }, { origin: newer })], T0);
    assert.equal(answer?.kind, "short");
    assert.equal(findLimit(answer.state, "rpm")?.terms.capacityMilli, 60_000);
    const stored = await place.state("a");
    assert.ok(stored !== undefined);
    assert.equal(findLimit(stored, "rpm")?.terms.capacityMilli, 60_000);
    // Five seconds at the new rate, counted from the refusal on.
    assert.equal(levelOf(stored, "rpm", T0 + 5_000), 5_000);
  });

  suite.test(
    "a change reaches a bucket that is only spared because another claim of the call was short",
    async (place) => {
      await place.take([claim("child", ten, { rpm: 1 }, { origin: older }), claim("parent", ten, { rpm: 10 })], T0);
      const claims = [claim("child", five, { rpm: 1 }, { origin: newer }), claim("parent", ten, { rpm: 1 })];
      await place.take(claims, T0, { atomic: true });
      assert.equal(await place.level("child", "rpm", T0), 5_000);
    },
  );

  suite.test("a limit that is new on a bucket starts full, and the others keep what they have", async (place) => {
    await place.take([claim("a", ten, { rpm: 10 }, { origin: older })], T0);
    const both = [...ten, Limit.perMinute("tpm", 100)];
    assert.equal(await place.grants(claim("a", both, { tpm: 100 }, { origin: newer }), T0), true);
    assert.equal(await place.grants(claim("a", both, { rpm: 1, tpm: 0 }, { origin: newer }), T0), false);
    assert.equal(await place.grants(claim("a", both, { tpm: 1 }, { origin: newer }), T0), false);
  });

  suite.test("removing a limit and adding it again mints nothing", async (place) => {
    const both = [...ten, Limit.perMinute("tpm", 100)];
    await place.take([claim("a", both, { rpm: 10, tpm: 100 }, { origin: older })], T0);
    await place.take([claim("a", [both[1]!], { tpm: 0 }, { origin: newer })], T0);
    const again: SetOrigin = { asOfMs: T0 + 2, generation: 3 };
    assert.equal(await place.grants(claim("a", both, { rpm: 1 }, { origin: again }), T0), false);
    assert.equal(await place.grants(claim("a", both, { rpm: 1 }, { origin: again }), T0 + 6_000), true);
  });

  suite.test(
    "a process with older configuration goes by the limits on the bucket, and does not undo them",
    async (place) => {
      await place.take([claim("a", ten, { rpm: 1 }, { origin: older })], T0);
      await place.take([claim("a", five, { rpm: 1 }, { origin: newer })], T0);
      assert.equal(await place.grants(claim("a", ten, { rpm: 5 }, { origin: older }), T0), false);
      assert.equal(await place.grants(claim("a", ten, { rpm: 4 }, { origin: older }), T0), true);
      const state = await place.state("a");
      assert.ok(state !== undefined);
      assert.equal(findLimit(state, "rpm")?.terms.capacityMilli, 5_000);
    },
  );

  suite.test("a limit that only older configuration names is still counted", async (place) => {
    await place.take([claim("a", ten, { rpm: 1 }, { origin: newer })], T0);
    const both = [...ten, Limit.perMinute("tpm", 100)];
    const asks = await Promise.all(
      [60, 60].map((tpm) => place.take([claim("a", both, { tpm }, { origin: older })], T0)),
    );
    assert.deepEqual(
      asks
        .flat()
        .map(({ kind }) => kind)
        .sort(),
      ["short", "taken"],
    );
  });

  suite.test("of limits given in requests the ones in use since later win, whoever asks last", async (place) => {
    const early: SetOrigin = { asOfMs: T0, generation: null };
    const late: SetOrigin = { asOfMs: T0 + 1, generation: null };
    await place.take([claim("a", ten, { rpm: 0 }, { origin: early })], T0 + 2);
    await place.take([claim("a", five, { rpm: 0 }, { origin: late })], T0 + 2);
    await place.take([claim("a", ten, { rpm: 0 }, { origin: early })], T0 + 2);
    assert.equal(await place.level("a", "rpm", T0 + MINUTE_MS), 5_000);
  });

  suite.test("changing a limit over and over neither mints nor starves", async (place) => {
    const [one, other] = [
      [Limit.custom("rpm", { capacity: 10, refillAmount: 10, refillPeriodMs: 60_000 })],
      [Limit.custom("rpm", { capacity: 10, refillAmount: 70, refillPeriodMs: 420_000 })],
    ] as const;
    await place.take([claim("a", one, { rpm: 10 }, { origin: older })], T0);
    const changes = Math.min(300, suite.repeatsMax);
    for (let i = 1; i <= changes; i++) {
      const origin: SetOrigin = { asOfMs: T0 + i, generation: 1 + i };
      await place.take([claim("a", i % 2 === 0 ? one : other, { rpm: 0 }, { origin })], T0 + (i * 3_000) / changes);
    }
    // Both are ten a minute: three seconds of it.
    const level = await place.level("a", "rpm", T0 + 3_000);
    assert.ok(level === 500 || level === 499, `${level} millitokens`);
  });
}
