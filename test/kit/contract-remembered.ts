import assert from "node:assert/strict";
import { bucketKey } from "../../src/domain/bucket/bucket-key.ts";
import { Limit } from "../../src/domain/limits/limit.ts";
import type { SetOrigin } from "../../src/domain/limits/limit-set.ts";
import { claim, DAY_MS, HOUR_MS, Kinds, type Suite, T0, type TestedNamespace } from "./contract-kit.ts";

const other = Limit.perMinute("other", 10);
const hundred = Limit.perDay("rpd", 100);
const five = Limit.perDay("rpd", 5);
const quota = Kinds.quota("rpd", 39, { reset: { cron: "0 0 * * *" } });
const session = Kinds.quota("rpd", 39, { resetAfterMs: 5 * HOUR_MS });
const fast = Limit.perSecond("rpd", 50);
const windowed = Kinds.custom("rpd", {
  capacity: 10,
  refillAmount: 10,
  refillPeriodMs: DAY_MS,
  schedule: [{ cron: "* 14-15 * * *", scale: 10 }],
});

/** A limit that is lowered, removed or forgotten, and comes back, remembers what was taken under its earlier rules. */
export function rememberedContract(suite: Suite): void {
  suite.test("a limit lowered, removed and added again at the same instant grants its capacity once", async (place) => {
    const bucket = new Changing(place);
    assert.equal(await bucket.drain([other, hundred], T0, 90), 90);
    for (const limits of [[other, five], [other]]) await bucket.touch(limits, T0);
    assert.equal(await bucket.drain([other, hundred], T0, 100), 5);
  });

  suite.test("a limit lowered until it looks full and raised hours later has what its rates brought", async (place) => {
    const bucket = new Changing(place);
    assert.equal(await bucket.drain([hundred], T0, 90), 90);
    await bucket.touch([five], T0);
    await others(suite, place, T0 + 3 * HOUR_MS);
    // At most a capacity and three hours of the higher of the rates.
    assert.ok((await bucket.drain([hundred], T0 + 3 * HOUR_MS, 100)) <= 10 + 12);
  });

  suite.test("a limit that drips, lowered, removed and added within seconds, grants 10 of 10", async (place) => {
    const bucket = new Changing(place);
    const [ten, half] = [Limit.perMinute("rpd", 10), Limit.perMinute("rpd", 5)];
    assert.equal(await bucket.drain([other, ten], T0, 5), 5);
    await bucket.touch([other, half], T0 + 1_000);
    await bucket.touch([other], T0 + 2_000);
    assert.equal(await bucket.drain([other, ten], T0 + 3_000, 10), 5);
  });

  suite.test(
    "a quota that dripped meanwhile and was removed comes back in its period as it was spent",
    async (place) => {
      const bucket = new Changing(place);
      assert.equal(await bucket.drain([other, quota], T0, 39), 39);
      await bucket.touch([other, Limit.perSecond("rpd", 3)], T0 + 1_000);
      await bucket.touch([other], T0 + 60_000);
      await others(suite, place, T0 + 4 * HOUR_MS);
      assert.ok((await bucket.drain([other, quota], T0 + 4 * HOUR_MS, 39)) <= 3);
      assert.equal(await bucket.drain([other, quota], T0 + 12 * HOUR_MS, 39), 39);
    },
  );

  suite.test("a lease of a quota gives nothing back after another rule has filled the quota again", async (place) => {
    const bucket = new Changing(place);
    const ticket = await place.ticket(claim("a", [other, quota], { rpd: 20 }, { origin: bucket.next() }), T0);
    await bucket.touch([other, fast], T0 + 1_000);
    await bucket.touch([other], T0 + 5_000);
    const drained = await bucket.drain([other, quota], T0 + 6_000, 39);
    await place.giveBack(claim("a", [other, quota], {}), ticket, { rpd: 20 }, T0 + 6_000);
    assert.equal(drained + (await bucket.drain([other, quota], T0 + 6_000, 39)), 39);
  });

  suite.test("a session that dripped meanwhile and was removed is remembered until its window ends", async (place) => {
    const bucket = new Changing(place);
    assert.equal(await bucket.drain([other, session], T0, 30), 30);
    await bucket.touch([other, Limit.perSecond("rpd", 3)], T0 + 1_000);
    await bucket.touch([other], T0 + 60_000);
    await others(suite, place, T0 + 3 * HOUR_MS);
    assert.ok((await bucket.drain([other, session], T0 + 3 * HOUR_MS, 39)) <= 3);
  });

  suite.test("a limit that holds more in a window, lowered and removed before it, is not full in it", async (place) => {
    const bucket = new Changing(place);
    assert.equal(await bucket.drain([other, windowed], T0, 10), 10);
    await bucket.touch([other, Limit.perSecond("rpd", 2)], T0 + 1_000);
    await bucket.touch([other], T0 + 60_000);
    // In its window at 14:00 one that nobody has taken from holds 100.
    assert.ok((await bucket.drain([other, windowed], T0 + 2 * HOUR_MS, 100)) <= 2);
  });

  suite.test("once every rule it went by would have filled it, a limit starts full again", async (place) => {
    const bucket = new Changing(place);
    assert.equal(await bucket.drain([other, hundred], T0, 90), 90);
    await bucket.touch([other, five], T0);
    await bucket.touch([other], T0 + 1_000);
    await bucket.touch([other], T0 + DAY_MS);
    await bucket.touch([other, Limit.perMinute("third", 1)], T0 + DAY_MS);
    assert.equal(await bucket.drain([other, hundred], T0 + DAY_MS, 100), 100);
  });

  suite.test("a bucket deleted and made again in a period takes nothing back from leases of before", async (place) => {
    await place.create({ id: "a" });
    const before = claim("a", [quota], { rpd: 20 });
    const ticket = await place.ticket(before, T0);
    await place.scope.entities.delete("a", place.event("entity_deleted", "a"));
    assert.deepEqual(await place.scope.buckets.read([bucketKey("a", "api")]), [undefined]);
    assert.equal(await place.grants(claim("a", [quota], { rpd: 39 }), T0 + 1), true);
    await place.giveBack(before, ticket, { rpd: 20 }, T0 + 2);
    assert.equal(await place.grants(claim("a", [quota], { rpd: 1 }), T0 + 2), false);
  });
}

/** A bucket whose limits change again and again: each change is newer than the one before. */
class Changing {
  readonly #place: TestedNamespace;
  #changes = 0;

  constructor(place: TestedNamespace) {
    this.#place = place;
  }

  next(): SetOrigin {
    this.#changes++;
    return { asOfMs: T0 + this.#changes, generation: this.#changes };
  }

  async touch(limits: readonly Limit[], nowMs: number): Promise<void> {
    const [first] = limits as [Limit];
    await this.#place.take([claim("a", limits, { [first.name]: 0 }, { origin: this.next() })], nowMs);
  }

  drain(limits: readonly Limit[], nowMs: number, most: number): Promise<number> {
    const origin = this.next();
    return this.#place.drain((rpd) => claim("a", limits, { rpd }, { origin }), nowMs, most);
  }
}

/** Other traffic, so that a store that forgets idle buckets now and then has every occasion to. */
async function others(suite: Suite, place: TestedNamespace, nowMs: number): Promise<void> {
  const times = Math.min(300, suite.repeatsMax);
  for (let i = 0; i < times; i++) await place.take([claim(`other-${i % 3}`, [other], { other: 0 })], nowMs);
}
