import assert from "node:assert/strict";
import { test } from "node:test";
import { RateLimitExceeded, RateLimiterUnavailable } from "../../src/entry/index.ts";
import type { Fault } from "../../src/testing/fault-store.ts";
import { SeededRandom } from "../../src/testing/random.ts";
import { family, grants, held, type Kit, rpm, take, until } from "./kit.ts";

// Defects of the original under faults of the store; the table in defects-w.test.ts says which.

export function faultDefects(kit: Kit): void {
  const FAULTS: readonly Fault[] = ["refused", "lostBefore", "lostAfter"];

  for (const call of ["resolve", "take"] as const) {
    test(`W11: an outage at ${call} follows onUnavailable`, async () => {
      for (const onUnavailable of ["allow", "block"] as const) {
        const { limiter, faults } = await kit.openFaulty({ onUnavailable });
        await limiter.setSystemDefaults(rpm(10));
        faults.failNext(call, "refused");
        const asked = limiter.tryAcquire({ entityId: "a", resource: "api", consume: { rpm: 1 } });
        if (onUnavailable === "block") await assert.rejects(asked, RateLimiterUnavailable);
        else {
          const outcome = await asked;
          assert.ok(outcome.ok);
          assert.match(String(outcome.lease.degraded), /unavailable/);
          assert.deepEqual(outcome.lease.consumed, call === "take" ? { rpm: 0 } : {});
        }
      }
    });
  }

  for (const [level, passing] of [
    ["child", 0],
    ["parent", 1],
  ] as const) {
    test(`W18: when the ${level} cannot be reached, the other gets back what was taken from it`, async () => {
      for (const fault of ["refused", "lostBefore"] as const) {
        const { limiter, faults } = await kit.openFaulty({}, { split: true });
        await family(limiter, { child: 10, parent: 10 });
        faults.failNext("take", fault, passing);
        await assert.rejects(take(limiter, "child", { rpm: 4 }), RateLimiterUnavailable);
        assert.deepEqual(await held(limiter, "child"), { rpm: 10 });
        assert.deepEqual(await held(limiter, "parent"), { rpm: 10 });
      }
    });
  }

  test("W18: a take whose answer was lost counts once, and nothing is given back on a guess", async () => {
    const { limiter, faults } = await kit.openFaulty();
    await limiter.setSystemDefaults(rpm(10));
    faults.failNext("take", "lostAfter");
    await assert.rejects(take(limiter, "a", { rpm: 4 }), RateLimiterUnavailable);
    assert.deepEqual(await held(limiter, "a"), { rpm: 6 });
  });

  test("W18: a refusal stays a refusal when giving back to the child fails", async () => {
    for (const fault of FAULTS) {
      const { limiter, faults } = await kit.openFaulty({}, { split: true });
      await family(limiter, { child: 10, parent: 3 });
      await take(limiter, "child", { rpm: 3 });
      for (let i = 0; i < 3; i++) faults.failNext("credit", fault);
      await assert.rejects(take(limiter, "child", { rpm: 2 }), RateLimitExceeded);
      // Certainly not applied is tried again, three times; what may have been is never repeated.
      assert.deepEqual(await held(limiter, "child"), { rpm: fault === "lostAfter" ? 7 : 5 });
    }
  });

  test("W18: a body that is aborted gives back, also what it adjusts behind its caller's back", async () => {
    const { limiter } = await kit.openFaulty();
    await family(limiter, { child: 10, parent: 10 });
    const abort = new AbortController();
    let isRunning = false;
    let late: Promise<unknown> | undefined;
    const request = { entityId: "child", resource: "api", consume: { rpm: 4 }, signal: abort.signal };
    const running = limiter.withLease(request, (lease) => {
      isRunning = true;
      return new Promise((_, reject) => {
        abort.signal.addEventListener("abort", () => {
          late = lease.adjust({ rpm: 1 }).catch((error: unknown) => error);
          reject(abort.signal.reason);
        });
      });
    });
    await until(() => isRunning);
    assert.deepEqual(await held(limiter, "parent"), { rpm: 6 });
    abort.abort(new Error("enough"));
    await assert.rejects(running, /enough/);
    await late;
    for (const id of ["child", "parent"]) assert.deepEqual(await held(limiter, id), { rpm: 10 });
  });

  test("W18: who is aborted while entering keeps nothing", async () => {
    let answer = () => {};
    let isTaken = false;
    const answered = new Promise<void>((resolve) => {
      answer = resolve;
    });
    const pause = async (call: string, before: string) => {
      if (call !== "take" || before !== "answering") return;
      isTaken = true;
      await answered;
    };
    const { limiter } = await kit.openFaulty({}, { pause });
    await limiter.setSystemDefaults(rpm(10));
    const abort = new AbortController();
    const entering = limiter.acquire({ entityId: "a", resource: "api", consume: { rpm: 10 }, signal: abort.signal });
    await until(() => isTaken);
    abort.abort(new Error("too long"));
    answer();
    await assert.rejects(entering, /too long/);
    assert.deepEqual(await held(limiter, "a"), { rpm: 10 });
  });

  test("W26: a body that is done is not undone because its adjustment could not be stored at once", async () => {
    const { limiter, faults } = await kit.openFaulty();
    await family(limiter, { child: 100, parent: 100 });
    const request = { entityId: "child", resource: "api", consume: { rpm: 10 } };
    const value = await limiter.withLease(request, async (lease) => {
      // All three attempts at the child, the parent's only one between them; tried again when the lease is settled.
      for (const passing of [0, 1, 0]) faults.failNext("debit", "refused", passing);
      await lease.adjust({ rpm: 5 });
      assert.equal(lease.degraded, "an adjustment is not stored yet");
      assert.deepEqual(await held(limiter, "child"), { rpm: 90 });
      assert.deepEqual(await held(limiter, "parent"), { rpm: 85 });
      return "done";
    });
    assert.equal(value, "done");
    for (const id of ["child", "parent"]) assert.deepEqual(await held(limiter, id), { rpm: 85 }, id);
  });

  test("W26: that the child's adjustment cannot be stored does not keep the parent from being charged", async () => {
    const { limiter, faults } = await kit.openFaulty();
    await family(limiter, { child: 100, parent: 100 });
    const lease = await take(limiter, "child", { rpm: 10 });
    // Three attempts at each level when adjusting; when settling, the child's again in vain.
    for (let i = 0; i < 6; i++) faults.failNext("debit", "refused");
    await lease.adjust({ rpm: 5 });
    for (const passing of [0, 1, 0]) faults.failNext("debit", "refused", passing);
    await assert.rejects(lease.settle(), /child on api could not be stored/);
    assert.deepEqual(await held(limiter, "child"), { rpm: 90 });
    assert.deepEqual(await held(limiter, "parent"), { rpm: 85 });
    assert.deepEqual(lease.consumed, { rpm: 10 });
  });

  test("W26: an adjustment that cannot be stored at all leaves the body's value and the other level's charge", async () => {
    const { limiter } = await kit.openFaulty({}, { random: new SeededRandom(1), rates: { debit: 1 } });
    await family(limiter, { child: 100, parent: 100 });
    const request = { entityId: "child", resource: "api", consume: { rpm: 10 } };
    let degraded: string | false = false;
    const value = await limiter.withLease(request, async (lease) => {
      await lease.adjust({ rpm: 5 });
      degraded = lease.degraded;
      return "done";
    });
    assert.equal(value, "done");
    assert.match(String(degraded), /adjustment/);
    assert.ok(((await held(limiter, "child")).rpm ?? 0) <= 90);
  });

  test("W32: an outage costs one read an acquire, and one for all who ask for the same at once", async () => {
    let reads = 0;
    const onFault = () => {
      reads++;
    };
    const faultOptions = { random: new SeededRandom(1), rates: { resolve: 1 }, onFault, pause: async () => {} };
    const { limiter } = await kit.openFaulty({ onUnavailable: "allow" }, faultOptions);
    for (let i = 0; i < 5; i++) assert.equal(await grants(limiter, "a", { rpm: 1 }), true);
    assert.equal(reads, 5);
    await Promise.all(Array.from({ length: 10 }, () => grants(limiter, "a", { rpm: 1 })));
    assert.equal(reads, 6);
  });

  test("X13: a rollback whose answer was lost gives back once, not twice", async () => {
    const { limiter, faults } = await kit.openFaulty();
    await limiter.setSystemDefaults(rpm(100));
    await take(limiter, "a", { rpm: 50 });
    const lease = await take(limiter, "a", { rpm: 20 });
    faults.failNext("credit", "lostAfter");
    await lease.rollback();
    await lease.rollback();
    assert.deepEqual(await held(limiter, "a"), { rpm: 50 });
  });
}
