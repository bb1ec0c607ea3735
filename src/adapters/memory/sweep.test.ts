import assert from "node:assert/strict";
import { test } from "node:test";
import { bucketKey } from "../../domain/bucket/bucket-key.ts";
import {
  availableMilli,
  type BucketState,
  bucketFor,
  findLimit,
  type LimitState,
} from "../../domain/bucket/bucket-state.ts";
import { PLAIN_TICKET } from "../../domain/bucket/give-back.ts";
import { HOUR_MS } from "../../domain/charge/usage.ts";
import type { Retention } from "../../domain/config/retention.ts";
import { Limit } from "../../domain/limits/limit.ts";
import { limitSet } from "../../domain/limits/limit-set.ts";
import type { Claim } from "../../ports/bucket-store.ts";
import type { ScopedStore } from "../../ports/store.ts";
import { createCalendar } from "../system/calendar.ts";
import { systemTurns } from "../system/clock.ts";
import { dataOf, newMemoryData } from "./data.ts";
import { memoryOver } from "./store.ts";

const NOON = Date.UTC(2026, 5, 15, 12);
const DAY_MS = 24 * HOUR_MS;
const calendar = createCalendar();
const PER_MINUTE = [Limit.perMinute("rpm", 10)];
const WITHOUT_USAGE: Retention = { usageKeepMs: undefined, auditKeepMs: DAY_MS };

function opened(retention: Retention) {
  const data = newMemoryData(retention, systemTurns);
  const { buckets, usage } = memoryOver(data, calendar).scope("default") as ScopedStore;
  const { buckets: cells } = dataOf(data, "default");
  const take = (entityId: string, nowMs: number, limits: readonly Limit[] = PER_MINUTE, tokens = 1) => {
    const reply = buckets.takeSync?.([claim(entityId, limits, tokens, nowMs)], context(nowMs));
    assert.ok(reply !== undefined && reply !== "stale");
    return reply[0]?.kind;
  };
  return { buckets, usage, cells, take };
}

function claim(entityId: string, limits: readonly Limit[], tokens: number, nowMs: number): Claim {
  const take = [{ limit: (limits[0] as Limit).name, milli: tokens * 1000 }];
  const origin = { asOfMs: nowMs, generation: null };
  return { bucket: bucketKey(entityId, "gpt-4"), set: limitSet(limits), origin, take, bypass: false };
}

const context = (nowMs: number) => ({ nowMs, timeoutMs: 1_000, generation: undefined, atomic: false });

test("ids that come once and never again do not stay in memory", () => {
  const { cells, take } = opened(WITHOUT_USAGE);
  // One new id a second for seven hours: at any time some 3,600 of them are not yet idle.
  let most = 0;
  for (let second = 0; second < 25_000; second++) {
    take(`id-${second}`, NOON + second * 1_000);
    most = Math.max(most, cells.size);
  }
  assert.ok(most < 1.5 * 3_660, `${most} cells at most`);
});

test("two days after a rush of ids nothing is left of them, once a few requests have come", () => {
  const { cells, take } = opened({ usageKeepMs: 2 * DAY_MS, auditKeepMs: DAY_MS });
  for (let i = 0; i < 20_000; i++) take(`id-${i}`, NOON);
  assert.equal(cells.size, 20_000);
  const later = NOON + 2 * DAY_MS + HOUR_MS;
  // 64 cells are looked at by each request.
  for (let i = 0; i <= Math.ceil(20_001 / 64); i++) take("busy", later, [Limit.perSecond("rpm", 1_000)]);
  assert.equal(cells.size, 1);
});

test("usage goes when its time is over, also of an id that stays busy", async () => {
  const { cells, usage, take } = opened({ usageKeepMs: DAY_MS, auditKeepMs: DAY_MS });
  for (let hour = 0; hour < 100; hour++) take("busy", NOON + hour * HOUR_MS);
  // The hours of a day, the one under way, and the one that ended just a day ago or is about to.
  const { hours } = cells.get(bucketKey("busy", "gpt-4").id) as { hours: readonly unknown[] };
  assert.ok(hours.length <= 26, `${hours.length} hours`);
  const page = await usage.query({ window: "hourly", fromMs: 0, toMs: Number.MAX_SAFE_INTEGER }, { limit: 1_000 });
  assert.equal(page.items.length, hours.length);
  assert.equal(page.items.at(-1)?.windowStartMs, NOON + 99 * HOUR_MS);
});

test("asking in vain for ids that never got anything takes no memory", () => {
  const { cells, take } = opened(WITHOUT_USAGE);
  for (let i = 0; i < 1_000; i++) assert.equal(take(`id-${i}`, NOON, PER_MINUTE, 11), "short");
  assert.equal(cells.size, 0);
});

test("a bucket that is not full, or not for an hour yet, is not forgotten", () => {
  const { cells, take } = opened(WITHOUT_USAGE);
  take("slow", NOON, [Limit.perDay("rpd", 24)], 10);
  take("quick", NOON, PER_MINUTE, 10);
  const has = (id: string) => cells.get(bucketKey(id, "gpt-4").id)?.state !== undefined;
  const calls = (nowMs: number) => {
    for (let i = 0; i < 600; i++) take(`other-${i}`, nowMs);
  };
  calls(NOON + 59_999 + HOUR_MS);
  assert.ok(has("slow") && has("quick"));
  calls(NOON + 60_000 + HOUR_MS + HOUR_MS / 4);
  assert.ok(has("slow") && !has("quick"));
  calls(NOON + 11 * HOUR_MS - 1);
  assert.ok(has("slow"));
  calls(NOON + 12 * HOUR_MS);
  assert.ok(!has("slow"));
});

test("a limit that was lowered looks full soon, and is remembered until its old rule would have filled it", () => {
  const { buckets, take } = opened(WITHOUT_USAGE);
  const [daily, lowered] = [[Limit.perDay("rpd", 2_400)], [Limit.perDay("rpd", 5)]];
  assert.equal(take("key", NOON, daily, 2_400), "taken");
  take("key", NOON + 1, lowered, 0);
  const later = NOON + 6 * HOUR_MS;
  for (let i = 0; i < 600; i++) take(`other-${i}`, later - HOUR_MS);
  for (let i = 0; i < 600; i++) take(`other-${i}`, later);
  const [state] = buckets.read([bucketKey("key", "gpt-4")]) as readonly (BucketState | undefined)[];
  const now = bucketFor(state, claim("key", daily, 1, later), later, calendar);
  const heldMilli = availableMilli(now, findLimit(now, "rpd") as LimitState, later);
  assert.ok(heldMilli <= 5_000, `${heldMilli} millitokens after 6 hours`);
});

test("a lease that outlives its bucket gives back without lifting a new one over its brim", () => {
  const { buckets, cells, take } = opened(WITHOUT_USAGE);
  const wanted = claim("key", PER_MINUTE, 10, NOON);
  assert.equal(take("key", NOON, PER_MINUTE, 10), "taken");
  const later = NOON + 3 * HOUR_MS;
  for (let i = 0; i < 600; i++) take(`other-${i}`, later - HOUR_MS);
  for (let i = 0; i < 600; i++) take(`other-${i}`, later);
  assert.ok(!cells.has(wanted.bucket.id));
  const { bucket, set, origin, bypass } = wanted;
  const held = { bucket, set, origin, bypass, ticket: PLAIN_TICKET };
  assert.deepEqual(buckets.credit(held, wanted.take, context(later)), { kind: "gone" });
  assert.equal(take("key", later, PER_MINUTE, 10), "taken");
  assert.equal(take("key", later, PER_MINUTE, 1), "short");
});

test("a clock that was put a year ahead and back again does not stop the sweep for a year", () => {
  const { cells, take } = opened(WITHOUT_USAGE);
  take("early", NOON + 365 * DAY_MS);
  for (let i = 0; i < 1_000; i++) take(`id-${i}`, NOON);
  for (let i = 0; i < 50; i++) take("busy", NOON + 2 * HOUR_MS);
  assert.ok(cells.size <= 257, `${cells.size} cells`);
});

test("a hold that ended by itself on a bucket that is forgotten is in the usage", async () => {
  const { usage, cells, take } = opened({ usageKeepMs: DAY_MS, auditKeepMs: DAY_MS });
  assert.equal(take("key", NOON, [Limit.concurrent("parallel", 5, { holdMs: 20_000 })], 3), "taken");
  const later = NOON + 3 * HOUR_MS;
  for (let i = 0; i < 600; i++) take(`other-${i}`, later - HOUR_MS);
  for (let i = 0; i < 600; i++) take(`other-${i}`, later);
  assert.equal(cells.get(bucketKey("key", "gpt-4").id)?.state, undefined, "it is forgotten");
  const asked = { entityId: "key", window: "monthly", fromMs: 0, toMs: later } as const;
  const { items } = await usage.query(asked, { limit: 9 });
  assert.deepEqual(
    items.map(({ requests, counters, heldMs }) => ({ requests, counters, heldMs })),
    [{ requests: 1, counters: { parallel: 3 }, heldMs: { parallel: 60_000 } }],
  );
});
