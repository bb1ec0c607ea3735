import assert from "node:assert/strict";
import { test } from "node:test";
import { RecordTable } from "../../test/kit/record-table.ts";
import { StraightStore } from "../../test/kit/straight-store.ts";
import { bucketsOn, calendar } from "../../test/straight/same-as-memory.ts";
import { bucketKey } from "../domain/bucket/bucket-key.ts";
import { FILE_RETENTION } from "../domain/config/retention.ts";
import { Limit } from "../domain/limits/limit.ts";
import { limitSet } from "../domain/limits/limit-set.ts";
import type { Claim } from "../ports/bucket-store.ts";
import { SeededRandom } from "../testing/random.ts";
import { SimulatedClock } from "../testing/simulated-clock.ts";
import { StoreSweep } from "./store-sweep.ts";
import { BucketSweep } from "./sweep.ts";

const T0 = Date.UTC(2026, 2, 15, 12);
const HOUR_MS = 3_600_000;
const SET = limitSet([Limit.perMinute("rpm", 1_000)]);

function claim(entityId: string): Claim {
  const take = [{ limit: "rpm", milli: 1_000 }];
  return {
    bucket: bucketKey(entityId, "api"),
    set: SET,
    origin: { asOfMs: T0, generation: null },
    take,
    bypass: false,
  };
}

function opened() {
  const clock = new SimulatedClock(T0);
  const store = new StraightStore(() => clock.now());
  const sweep = new StoreSweep({
    // The limits of these takes are those of requests: no change of stored ones is met.
    buckets: new BucketSweep(store, calendar, true, () => ({ generation: () => 0, resolve: () => assert.fail() })),
    counts: new RecordTable(),
    retention: FILE_RETENTION,
    clock,
  });
  const onAnswer = sweep.afterBatch.bind(sweep);
  const buckets = bucketsOn(store, new SeededRandom(1), { coalesce: true, onAnswer });
  const take = async (entityIds: readonly string[]) => {
    const context = { nowMs: clock.now(), timeoutMs: 1_000, generation: undefined, atomic: true };
    await Promise.all(entityIds.map((id) => buckets.take([claim(id)], context)));
  };
  /** Lets what is under way come to its end: in memory each of its steps is ready at once. */
  const settled = async () => {
    for (let turn = 0; turn < 100; turn++) await new Promise((resolve) => setImmediate(resolve));
  };
  return { store, sweep, clock, take, settled };
}

test("buckets of those who never come back go while others are taken from, also behind many that stay", async () => {
  const { store, sweep, clock, take, settled } = opened();
  const crowd = Array.from({ length: 170 }, (_, i) => `user-${String(i).padStart(4, "0")}`);
  await take(crowd);
  clock.set(clock.now() + 2 * HOUR_MS);
  // The first by name come back and stay; they are more than one step looks at.
  const back = crowd.slice(0, 60);
  await take(back);
  await settled();
  for (let batch = 0; batch < 4 * 256; batch++) await take(["user-0000"]);
  await settled();
  await sweep.close();
  assert.equal(store.rows.size, back.length);
});

test("entities that come in great heaps do not outrun the sweep", async () => {
  const { store, sweep, clock, take, settled } = opened();
  let most = 0;
  for (let round = 0; round < 8; round++) {
    await take(Array.from({ length: 600 }, (_, i) => `key-${round}-${i}`));
    await settled();
    most = Math.max(most, store.rows.size);
    clock.set(clock.now() + 2 * HOUR_MS);
  }
  await sweep.close();
  assert.ok(most <= 3 * 600, `${most} rows at most`);
});
