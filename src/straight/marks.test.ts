import assert from "node:assert/strict";
import { test } from "node:test";
import { StraightStore } from "../../test/kit/straight-store.ts";
import { bucketsOn, calendar } from "../../test/straight/same-as-memory.ts";
import { bucketKey } from "../domain/bucket/bucket-key.ts";
import { limitMakers } from "../domain/limits/limit.ts";
import { type LimitSet, limitSet } from "../domain/limits/limit-set.ts";
import type { BatchStore } from "../ports/batch-store.ts";
import { overriding } from "../testing/fault-store.ts";
import { SeededRandom } from "../testing/random.ts";

// Marks of periods that are over by the time they are looked at, or land; and of uses that are.

const T0 = Date.UTC(2026, 2, 15, 12);
const DAY_MS = 86_400_000;
const NOTIFY = { notifyAt: [80, 95] };
const SET = limitSet([limitMakers(calendar).quota("day", 100, { reset: "daily", ...NOTIFY })]);
const REFILLING = limitSet([limitMakers(calendar).perMinute("day", 100, NOTIFY)]);

/** Processes know their marks by numbers of their own. */
const random = new SeededRandom(1);

function opened() {
  const store = new StraightStore(() => 0);
  store.generations.set("default", 1);
  return store;
}

/** A process whose marks come to a store in this way, and what it tells. */
function processOn(store: BatchStore, marks: Partial<BatchStore> = {}, set = SET) {
  const buckets = bucketsOn(overriding(store, marks), random.fork(), { coalesce: true });
  const told: number[] = [];
  buckets.watchThresholds?.(({ percent }) => told.push(percent));
  const take = async (tokens: number, nowMs: number) => {
    const claim = {
      ...{ bucket: bucketKey("a", "api"), set, origin: { asOfMs: T0, generation: 1 }, bypass: false },
      take: [{ limit: "day", milli: tokens * 1_000 }],
    };
    const reply = await buckets.take([claim], { nowMs, timeoutMs: 30_000, generation: 1, atomic: true });
    assert.equal(reply !== "stale" && reply[0]?.kind, "taken");
  };
  return { take, told, settled: () => buckets.thresholdsTold?.() };
}

function gate() {
  let open = () => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open: () => open() };
}

test("who looks late, and finds that the next period was told, takes no mark back", async () => {
  const store = opened();
  const { opened: looks, open } = gate();
  const late = processOn(store, { read: (...args) => looks.then(() => store.read(...args)) });
  const other = processOn(store);
  await late.take(85, T0);
  await other.take(95, T0 + DAY_MS);
  await other.settled();
  open();
  await late.settled();
  await other.take(1, T0 + DAY_MS + 1);
  await other.settled();
  assert.deepEqual([late.told, other.told], [[], [80, 95]]);
});

test("a mark that comes too late keeps no later period from being told", async () => {
  const store = opened();
  const first = gate();
  const second = gate();
  const late = processOn(store, { mark: (...args) => first.opened.then(() => store.mark(...args)) });
  const other = processOn(store, { mark: (...args) => second.opened.then(() => store.mark(...args)) });
  await late.take(85, T0);
  await other.take(95, T0 + DAY_MS);
  first.open();
  await late.settled();
  second.open();
  await other.settled();
  assert.deepEqual([late.told, other.told], [[80], [80, 95]]);
});

test("uses of several periods that wait for one mark are all told", async () => {
  const store = opened();
  const { opened: looks, open } = gate();
  const process = processOn(store, { read: (...args) => looks.then(() => store.read(...args)) });
  await process.take(80, T0);
  await process.take(15, T0 + 1);
  await process.take(85, T0 + DAY_MS);
  open();
  await process.settled();
  assert.deepEqual(process.told, [80, 95, 80]);
});

test("who looks late at what refills takes no mark back that others set since", async () => {
  const store = opened();
  const { opened: looks, open } = gate();
  const late = processOn(store, { read: (...args) => looks.then(() => store.read(...args)) }, REFILLING);
  const other = processOn(store, {}, REFILLING);
  await other.take(85, T0);
  await other.settled();
  const fullMs = T0 + 120_000;
  await late.take(1, fullMs);
  await other.take(85, fullMs);
  await other.settled();
  open();
  await late.settled();
  await other.take(1, fullMs);
  await other.settled();
  assert.deepEqual([late.told, other.told], [[], [80, 80]]);
});

test("what was used of a quota is told, also where it refills by the time its mark is written", async () => {
  const store = opened();
  const [isRead, isMarked] = [gate(), gate()];
  const other = processOn(store, { mark: (...args) => isRead.opened.then(() => store.mark(...args)) });
  const late = processOn(store, {
    mark: (...args) => {
      isRead.open();
      return isMarked.opened.then(() => store.mark(...args));
    },
  });
  await other.take(80, T0);
  await late.take(15, T0);
  await other.settled();
  const rate = limitSet([limitMakers(calendar).perSecond("day", 1_000)]);
  await processOn(store, {}, rate).take(1, T0);
  isMarked.open();
  await late.settled();
  assert.deepEqual([other.told, late.told], [[80], [95]]);
});

const BOTH = limitSet([
  limitMakers(calendar).quota("day", 100, { reset: "daily", ...NOTIFY }),
  limitMakers(calendar).perMinute("rpm", 100, NOTIFY),
]);

/** The thresholds that a take of several limits of one bucket tells, half a minute later. */
function tellingOf(store: BatchStore, set: LimitSet, marks: Partial<BatchStore> = {}) {
  const clock = { aheadMaxMs: T0, now: () => T0 + 30_000 };
  const buckets = bucketsOn(overriding(store, marks), random.fork(), { coalesce: true, clock });
  const told: string[] = [];
  buckets.watchThresholds?.(({ limit, percent, used }) => told.push(`${limit} ${percent}: ${used}`));
  const take = async (limits: readonly string[]) => {
    const amounts = limits.map((limit) => ({ limit, milli: 80_000 }));
    const claim = { bucket: bucketKey("a", "api"), set, origin: { asOfMs: T0, generation: 1 }, bypass: false };
    const options = { nowMs: T0, timeoutMs: 30_000, generation: 1, atomic: true };
    const reply = await buckets.take([{ ...claim, take: amounts }], options);
    assert.equal(reply !== "stale" && reply[0]?.kind, "taken");
  };
  return { take, told, settled: () => buckets.thresholdsTold?.() };
}

test("what refills is told by the take that reached it, also when the mark of another limit came between", async () => {
  const store = opened();
  const { opened: marks, open } = gate();
  const late = tellingOf(store, BOTH, { mark: (...args) => marks.then(() => store.mark(...args)) });
  const other = tellingOf(store, BOTH);
  await late.take(["rpm"]);
  await other.take(["day"]);
  await other.settled();
  open();
  await late.settled();
  assert.deepEqual([late.told, other.told], [["rpm 80: 80"], ["day 80: 80"]]);
});

test("a take that reaches percentages of many limits tells them all, with one mark after the other", async () => {
  const store = opened();
  let refused = 0;
  const mark: BatchStore["mark"] = async (...args) => {
    const isWritten = await store.mark(...args);
    if (!isWritten) refused++;
    return isWritten;
  };
  const names = Array.from({ length: 10 }, (_, i) => `limit-${i}`);
  const set = limitSet(names.map((name) => limitMakers(calendar).perMinute(name, 100, NOTIFY)));
  const process = tellingOf(store, set, { mark });
  await process.take(names);
  await process.settled();
  assert.deepEqual([process.told, refused], [names.map((name) => `${name} 80: 80`), 0]);
});
