import assert from "node:assert/strict";
import { test } from "node:test";
import { SimulatedClock } from "./simulated-clock.ts";

test("sleepers wake earliest first, each at its own instant, whatever the order in which they fell asleep", async () => {
  const clock = new SimulatedClock(1_000);
  const woken: [string, number][] = [];
  const sleeper = async (name: string, ms: number) => {
    await clock.sleep(ms, undefined);
    woken.push([name, clock.now()]);
  };
  const all = [sleeper("late", 50), sleeper("early", 10), sleeper("twin", 50), sleeper("never", 500)];
  assert.equal(clock.nextWakeMs, 1_010);
  await clock.advance(100);
  assert.deepEqual(woken, [
    ["early", 1_010],
    ["late", 1_050],
    ["twin", 1_050],
  ]);
  assert.equal(clock.now(), 1_100);
  await clock.advance(400);
  await Promise.all(all);
});

test("who sleeps again when he wakes is woken again on the way", async () => {
  const clock = new SimulatedClock(0);
  const ticks: number[] = [];
  const ticking = (async () => {
    for (let i = 0; i < 3; i++) {
      await clock.sleep(10, undefined);
      ticks.push(clock.now());
    }
  })();
  await clock.advance(1_000);
  await ticking;
  assert.deepEqual(ticks, [10, 20, 30]);
});

test("an aborted sleeper wakes at once, with the reason, and is not woken again", async () => {
  const clock = new SimulatedClock(0);
  const abort = new AbortController();
  const sleeping = clock.sleep(10, abort.signal);
  abort.abort(new Error("enough"));
  await assert.rejects(sleeping, /enough/);
  assert.equal(clock.nextWakeMs, undefined);
  await assert.rejects(clock.sleep(10, abort.signal), /enough/);
});

test("a clock that is put wakes nobody before time passes", async () => {
  const clock = new SimulatedClock(0);
  let woken = false;
  const sleeping = clock.sleep(10, undefined).then(() => {
    woken = true;
  });
  clock.set(-500);
  await clock.advance(100);
  assert.deepEqual([clock.now(), woken], [-400, false]);
  clock.set(50);
  await clock.advance(0);
  await sleeping;
  assert.equal(clock.now(), 50);
});

test("a skewed clock is off by its offset, drifts, and can be put back", async () => {
  const clock = new SimulatedClock(1_000_000);
  const fast = clock.skewed(300, 200);
  const slow = clock.skewed(-300, -200);
  assert.deepEqual([fast.now(), slow.now()], [1_000_300, 999_700]);
  await clock.advance(10_000_000);
  assert.deepEqual([fast.now(), slow.now()], [11_002_300, 10_997_700]);
  fast.step(-5_000);
  assert.equal(fast.now(), 10_997_300);
});

test("whoever sleeps by a skewed clock has slept long enough by that clock", async () => {
  const clock = new SimulatedClock(12_345);
  for (const ppm of [-100_000, -200, 0, 200, 100_000]) {
    const skewed = clock.skewed(77, ppm);
    const startMs = skewed.now();
    let sleptMs: number | undefined;
    const sleeping = skewed.sleep(9_999, undefined).then(() => {
      sleptMs = skewed.now() - startMs;
    });
    await clock.advance(20_000);
    await sleeping;
    assert.ok(sleptMs !== undefined && sleptMs >= 9_999 && sleptMs <= 10_001, `${sleptMs} at ${ppm} ppm`);
  }
});
