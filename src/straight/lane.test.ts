import assert from "node:assert/strict";
import { test } from "node:test";
import { StraightStore } from "../../test/kit/straight-store.ts";
import { calendar } from "../../test/straight/same-as-memory.ts";
import { systemTurns } from "../adapters/system/clock.ts";
import { systemDigest } from "../adapters/system/random.ts";
import { bucketKey } from "../domain/bucket/bucket-key.ts";
import { Limit } from "../domain/limits/limit.ts";
import { limitSet } from "../domain/limits/limit-set.ts";
import type { Batch, BatchReply } from "../ports/batch-store.ts";
import type { Claim } from "../ports/bucket-store.ts";
import { SeededRandom } from "../testing/random.ts";
import { StraightTakes } from "./takes.ts";

const T0 = Date.UTC(2026, 2, 15, 11, 30);

/** Waits that are counted, and end only when they are told to. */
class Timers {
  steadyMs = 0;
  readonly open = new Set<{ readonly ms: number; readonly work: () => void }>();

  readonly waiting = {
    steadyMs: () => this.steadyMs,
    after: (ms: number, work: () => void) => {
      const timer = { ms, work };
      this.open.add(timer);
      return () => this.open.delete(timer);
    },
  };
}

/** A store whose answers wait until they are let through. */
class HeldStore extends StraightStore {
  letThrough: () => void = () => {};

  override async apply(batch: Batch): Promise<BatchReply> {
    await new Promise<void>((resolve) => {
      this.letThrough = resolve;
    });
    return super.apply(batch);
  }
}

function kit() {
  const timers = new Timers();
  const store = new HeldStore(() => 0);
  store.generations.set("default", 1);
  const takes = new StraightTakes({
    ...{ store, turns: systemTurns, waiting: timers.waiting, calendar, digest: systemDigest, clock: undefined },
    ...{ random: new SeededRandom(1), laneCount: 1, countsUsage: true, coalesce: true },
    ...{ onAnswer: () => {}, requireOpen: () => {} },
  });
  const buckets = takes.bucketsOf("default", {
    generation: () => 1,
    isUnchanged: () => false,
    resolve: () => Promise.reject(new Error("Nothing is stored.")),
  });
  const set = limitSet([Limit.perMinute("rpm", 10)]);
  const claim: Claim = {
    ...{ bucket: bucketKey("a", "api"), set, origin: { asOfMs: T0, generation: 1 }, bypass: false },
    take: [{ limit: "rpm", milli: 1_000 }],
  };
  const take = async (timeoutMs: number) => {
    const reply = await buckets.take([claim], { nowMs: T0, timeoutMs, generation: 1, atomic: true });
    return reply === "stale" ? reply : reply[0]?.kind;
  };
  return { timers, store, take };
}

const turns = async (count: number) => {
  for (let i = 0; i < count; i++) await new Promise((resolve) => setImmediate(resolve));
};

test("calls with different times that are answered leave no timer behind: a process that has closed ends", async () => {
  const { timers, store, take } = kit();
  const calls = [take(30_000), take(20_000), take(10_000)];
  await turns(3);
  calls.push(take(15_000), take(25_000));
  await turns(3);
  store.letThrough();
  await Promise.all(calls.slice(0, 3));
  await turns(3);
  store.letThrough();
  assert.deepEqual(await Promise.all(calls), Array(5).fill("taken"));
  assert.equal(timers.open.size, 0);
});

test("a call that waited behind another batch waits for what is left of its time, not for all of it anew", async () => {
  const { timers, store, take } = kit();
  const first = take(30_000);
  await turns(3);
  const second = take(1_000);
  const third = take(30_000);
  timers.steadyMs = 600;
  store.letThrough();
  await first;
  await turns(3);
  const own = [...timers.open].filter(({ ms }) => ms <= 1_000);
  assert.deepEqual(
    own.map(({ ms }) => ms),
    [1_000],
  );
  timers.steadyMs = 1_000;
  own[0]?.work();
  assert.equal(await second, "unavailable");
  store.letThrough();
  assert.equal(await third, "taken");
  // The second took after its time was up: the lane gives that back by a call of its own.
  await turns(3);
  store.letThrough();
  await turns(3);
  assert.equal(timers.open.size, 0);
});
