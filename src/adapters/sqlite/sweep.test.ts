import assert from "node:assert/strict";
import { test } from "node:test";
import { claim, context, kinds, NOON, openTemp, tokensMilli } from "../../../test/sqlite/temp-store.ts";
import { HOUR_MS } from "../../domain/charge/usage.ts";
import { Limit } from "../../domain/limits/limit.ts";

const PER_MINUTE = [Limit.perMinute("rpm", 10)];

const rowsOf = ({ connection }: ReturnType<typeof openTemp>) =>
  connection.prepare("SELECT count(*) FROM bucket").get()?.[0] as number;

test("entities that never come back do not stay for ever", async (t) => {
  const opened = openTemp(t);
  const { buckets } = opened;
  // One new entity a second for seven hours: at any time 3,600 and a few of them are not yet idle.
  let most = 0;
  for (let second = 0; second < 25_000; second += 50) {
    const calls = Array.from({ length: 50 }, (_, i) =>
      buckets.take([claim(`key-${second + i}`, PER_MINUTE, { rpm: 1 })], context(NOON + (second + i) * 1_000)),
    );
    await Promise.all(calls);
    most = Math.max(most, rowsOf(opened));
  }
  assert.ok(most < 3 * 3_600, `${most} rows at most`);
});

test("entities that come in great heaps do not outrun the sweep", async (t) => {
  const opened = openTemp(t);
  const { buckets } = opened;
  let most = 0;
  for (let hour = 0; hour < 20; hour += 2) {
    const nowMs = NOON + hour * HOUR_MS;
    const calls = Array.from({ length: 1_000 }, (_, i) =>
      buckets.take([claim(`key-${hour}-${i}`, PER_MINUTE, { rpm: 1 })], context(nowMs, { timeoutMs: 60_000 })),
    );
    await Promise.all(calls);
    most = Math.max(most, rowsOf(opened));
  }
  assert.ok(most <= 3_000, `${most} rows at most`);
});

test("a swept bucket keeps its usage, and comes back full as it was", async (t) => {
  const opened = openTemp(t);
  const { buckets, usage } = opened;
  await buckets.take([claim("early", PER_MINUTE, { rpm: 4 })], context(NOON));
  const later = NOON + 2 * HOUR_MS;
  for (let i = 0; i < 600; i++) buckets.takeSync!([claim("busy", PER_MINUTE, { rpm: 0 })], context(later));
  assert.equal(rowsOf(opened), 1);
  const found = await usage.query({ entityId: "early", window: "hourly", fromMs: 0, toMs: later }, { limit: 9 });
  assert.deepEqual(
    found.items.map(({ counters, requests }) => [counters, requests]),
    [[{ rpm: 4 }, 1]],
  );
  const again = claim("early", PER_MINUTE, { rpm: 10 });
  assert.deepEqual(kinds(await buckets.take([again], context(later))), ["taken"]);
  const [state] = await buckets.read([again.bucket]);
  assert.equal(tokensMilli(state, "rpm"), 0);
});

test("a bucket that is not full, or not for an hour yet, is not swept", async (t) => {
  const opened = openTemp(t);
  const { buckets } = opened;
  const slow = [Limit.perDay("rpd", 24)];
  await buckets.take([claim("slow", slow, { rpd: 10 })], context(NOON));
  await buckets.take([claim("quick", PER_MINUTE, { rpm: 10 })], context(NOON));
  const calls = (nowMs: number) =>
    Array.from({ length: 600 }, () => buckets.takeSync!([claim("busy", PER_MINUTE, { rpm: 0 })], context(nowMs)));
  // The quick one is full after a minute, the slow one after ten hours.
  calls(NOON + 59_999 + HOUR_MS);
  assert.equal(rowsOf(opened), 3);
  calls(NOON + 60_000 + HOUR_MS);
  assert.equal(rowsOf(opened), 2);
  calls(NOON + 11 * HOUR_MS - 1);
  assert.equal(rowsOf(opened), 2);
  calls(NOON + 11 * HOUR_MS);
  assert.equal(rowsOf(opened), 1);
});

test("a hold that ended by itself on a bucket that is swept is in the usage", async (t) => {
  const opened = openTemp(t);
  const { buckets, usage } = opened;
  const slots = [Limit.concurrent("parallel", 5, { holdMs: 20_000 })];
  await buckets.take([claim("early", slots, { parallel: 3 })], context(NOON));
  const later = NOON + 2 * HOUR_MS;
  for (let i = 0; i < 600; i++) buckets.takeSync!([claim("busy", PER_MINUTE, { rpm: 0 })], context(later));
  assert.equal(rowsOf(opened), 1);
  const asked = { entityId: "early", window: "monthly", fromMs: 0, toMs: later } as const;
  const { items } = await usage.query(asked, { limit: 9 });
  assert.deepEqual(
    items.map(({ requests, counters, heldMs }) => ({ requests, counters, heldMs })),
    [{ requests: 1, counters: { parallel: 3 }, heldMs: { parallel: 60_000 } }],
  );
});

test("what a take reached is told, whatever its transaction sweeps away", async (t) => {
  const { buckets } = openTemp(t);
  const told: string[] = [];
  buckets.watchThresholds!(({ bucket }) => told.push(bucket.entityId));
  const telling = [Limit.perMinute("rpm", 10, { notifyAt: [80] })];
  const ids = Array.from({ length: 100 }, (_, hour) => `key-${hour}`);
  for (const [hour, id] of ids.entries())
    await buckets.take([claim(id, telling, { rpm: 10 })], context(NOON + 2 * hour * HOUR_MS));
  assert.deepEqual(told, ids);
});
