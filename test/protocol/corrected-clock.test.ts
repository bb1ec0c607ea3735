import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { DisciplinedClock } from "../../src/clock/disciplined-clock.ts";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { SeededRandom } from "../../src/testing/random.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { conditionalWorld, openConditional } from "../kit/conditional-store.ts";
import { calendar } from "../limits/kind-arbitraries.ts";

// A process hears the server's time with the first answer, and its clock may be corrected by hours in the middle of a request.
// What it is told then must be said of the instant that the store decided by, not of the one that the clock showed before.

const T0 = Date.UTC(2026, 2, 15, 12);
const HOUR_MS = 3_600_000;
/** And some seconds, so that a clock right to the second shows the same tokens. */
const HALF_HOUR_MS = 30 * 60_000 + 10_000;
/** A token a minute: an hour off fills or empties it. */
const HOURLY = Limit.perHour("r", 60);
const ASK = { entityId: "e", resource: "api", consume: { r: 60 } };

const OFFSETS = [
  ["an hour ahead", HOUR_MS],
  ["an hour behind", -HOUR_MS],
] as const;

/** One table, and processes whose clocks are off until it has answered them. */
class Machines {
  readonly clock = new SimulatedClock(T0);
  readonly #random = new SeededRandom(7);
  readonly #world = conditionalWorld(
    { now: () => this.clock.now(), random: this.#random, writesPerSecond: Number.POSITIVE_INFINITY, staleMs: 0 },
    calendar,
  );

  async open(offsetMs: number, denyMemoryMs: number): Promise<RateLimiter> {
    const random = this.#random.fork();
    const clock = new DisciplinedClock(this.clock.skewed(offsetMs), () => this.clock.now());
    const store = openConditional(this.#world, {
      clock,
      random: () => random.next(),
      denyMemoryMs,
      serverTime: { latestMs: () => clock.latestServerMs(), isKnown: () => clock.isDisciplined },
      line: { stamp: () => clock.stamp(), onDate: (seen) => clock.observe(seen) },
    });
    return RateLimiter.open({ store, clock, denyMemoryMs });
  }
}

for (const [name, offsetMs] of OFFSETS) {
  describe(`a clock that is ${name} and corrected by the first answer`, () => {
    test("the refusal shows what the store refused by, and when to come back", async () => {
      const machines = new Machines();
      const [right, wrong] = [await machines.open(0, 0), await machines.open(offsetMs, 0)];
      await right.setLimits("e", [HOURLY]);
      assert.ok((await right.tryAcquire(ASK)).ok);
      await machines.clock.advance(HALF_HOUR_MS);
      const refusal = await wrong.tryAcquire(ASK);
      assert.ok(!refusal.ok, "more was granted than there was");
      const [status] = refusal.statuses;
      assert.deepEqual([status?.available, status?.exceeded], [30, true]);
      // The server tells its time to the second, to either process.
      assert.ok(
        Math.abs(refusal.retryAfterMs - (HOUR_MS - HALF_HOUR_MS)) <= 2_000,
        `wait for ${refusal.retryAfterMs} ms`,
      );
    });

    test("what there is, and when there is more, is shown as it is", async () => {
      const machines = new Machines();
      const right = await machines.open(0, 0);
      await right.setLimits("e", [HOURLY]);
      assert.ok((await right.tryAcquire(ASK)).ok);
      await machines.clock.advance(HALF_HOUR_MS);
      const isSoon = (waitMs: number) => Math.abs(waitMs - (HOUR_MS - HALF_HOUR_MS)) <= 2_000;
      const shown = await (await machines.open(offsetMs, 0)).available(ASK);
      assert.deepEqual(
        shown.map(({ available }) => available),
        [30],
      );
      const waitMs = await (await machines.open(offsetMs, 0)).timeUntilAvailable(ASK);
      assert.ok(isSoon(waitMs), `wait for ${waitMs} ms`);
      const explained = await (await machines.open(offsetMs, 0)).explain(ASK);
      assert.equal(explained.outcome, "refused");
      assert.ok(isSoon(explained.retryAfterMs), `wait for ${explained.retryAfterMs} ms, explained`);
    });

    test("a lease shows what its take left", async () => {
      const machines = new Machines();
      const [right, wrong] = [await machines.open(0, 0), await machines.open(offsetMs, 0)];
      await right.setLimits("e", [HOURLY]);
      assert.ok((await right.tryAcquire(ASK)).ok);
      await machines.clock.advance(HALF_HOUR_MS);
      const lease = await wrong.acquire({ ...ASK, consume: { r: 10 } });
      assert.deepEqual(
        lease.remaining.map(({ available }) => available),
        [20],
      );
    });
  });
}

test("a refusal by a clock that was half a minute ahead is not remembered half a minute later", async () => {
  const machines = new Machines();
  const [right, wrong] = [await machines.open(0, 1_000), await machines.open(30_000, 1_000)];
  await right.setLimits("e", [Limit.custom("r", { capacity: 60, refillAmount: 1, refillPeriodMs: 24 * HOUR_MS })]);
  const lease = await right.acquire(ASK);
  assert.ok(!(await wrong.tryAcquire(ASK)).ok);
  await lease.rollback();
  // By now its clock shows again what it showed then.
  await machines.clock.advance(30_000 - 500);
  assert.ok((await wrong.tryAcquire(ASK)).ok, "refused by what was seen half a minute ago");
});
