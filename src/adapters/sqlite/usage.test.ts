import assert from "node:assert/strict";
import { test } from "node:test";
import {
  amounts,
  claim,
  context,
  held,
  NOON,
  oneTime,
  openOn,
  openTemp,
  tempFile,
} from "../../../test/sqlite/temp-store.ts";
import { HOUR_MS, type UsageSnapshot, type UsageWindow } from "../../domain/charge/usage.ts";
import { Limit } from "../../domain/limits/limit.ts";
import type { Page } from "../../domain/names/paging.ts";
import type { UsageQuery, UsageStore } from "../../ports/usage-store.ts";

const LIMITS = [Limit.perSecond("rpm", 1_000), Limit.perSecond("tpm", 1_000_000)];
const ALL = { fromMs: 0, toMs: Number.MAX_SAFE_INTEGER };

async function every(usage: UsageStore, query: UsageQuery, limit: number): Promise<UsageSnapshot[]> {
  const found: UsageSnapshot[] = [];
  let page: Page<UsageSnapshot> = await usage.query(query, { limit });
  for (;;) {
    assert.ok(page.items.length <= limit);
    found.push(...page.items);
    if (page.cursor === undefined) return found;
    page = await usage.query(query, { limit, cursor: page.cursor });
  }
}

async function shown(usage: UsageStore, window: UsageWindow): Promise<unknown[]> {
  const snapshots = await every(usage, { window, ...ALL }, 100);
  return snapshots.map(({ windowStartMs, counters, requests }) => [
    new Date(windowStartMs).toISOString().slice(0, 13),
    counters,
    requests,
  ]);
}

test("usage is counted by event time in hours, days and months, over every boundary, also when the clock goes back", async (t) => {
  const { buckets, usage } = openTemp(t);
  const take = (at: string, tokens: Record<string, number>) =>
    buckets.take([claim("key", LIMITS, tokens)], context(Date.parse(at)));
  await take("2024-01-31T22:59:59.999Z", { rpm: 1, tpm: 100 });
  await take("2024-01-31T23:00:00.000Z", { rpm: 1 });
  await take("2024-02-01T00:00:00.000Z", { rpm: 1, tpm: 7 });
  await take("2024-01-31T22:30:00.000Z", { rpm: 1, tpm: 20 });
  await take("2024-02-01T00:59:00.000Z", { rpm: 2 });
  assert.deepEqual(await shown(usage, "hourly"), [
    ["2024-01-31T22", { rpm: 2, tpm: 120 }, 2],
    ["2024-01-31T23", { rpm: 1 }, 1],
    ["2024-02-01T00", { rpm: 3, tpm: 7 }, 2],
  ]);
  assert.deepEqual(await shown(usage, "daily"), [
    ["2024-01-31T00", { rpm: 3, tpm: 120 }, 3],
    ["2024-02-01T00", { rpm: 3, tpm: 7 }, 2],
  ]);
  assert.deepEqual(await shown(usage, "monthly"), [
    ["2024-01-01T00", { rpm: 3, tpm: 120 }, 3],
    ["2024-02-01T00", { rpm: 3, tpm: 7 }, 2],
  ]);
});

test("usage is net: debits count, give-backs are taken off in the hour in which they come", async (t) => {
  const { buckets, usage } = openTemp(t);
  const wanted = claim("key", LIMITS, { rpm: 1, tpm: 500 });
  await buckets.take([wanted], context(NOON));
  await buckets.debit(held(wanted), amounts({ tpm: 50 }), context(NOON + 1));
  await buckets.credit(held(wanted), amounts({ rpm: 1 }), context(NOON + 2));
  await buckets.credit(held(wanted), amounts({ tpm: 200 }), context(NOON + HOUR_MS));
  assert.deepEqual(await shown(usage, "hourly"), [
    ["2024-06-15T12", { rpm: 0, tpm: 550 }, 1],
    ["2024-06-15T13", { tpm: -200 }, 0],
  ]);
});

test("refused, spared and stale claims are not usage", async (t) => {
  const { buckets, usage } = openTemp(t);
  const fitting = claim("child", LIMITS, { rpm: 1 });
  const tooMuch = claim("parent", [oneTime("rpm", 1)], { rpm: 2 });
  await buckets.take([fitting, tooMuch], context(NOON));
  await buckets.take([fitting], context(NOON, { generation: 99 }));
  assert.deepEqual(await shown(usage, "hourly"), []);
});

test("a sum far beyond 2^53 millitokens is exact", async (t) => {
  const { buckets, usage } = openTemp(t);
  const huge = claim("key", [Limit.custom("tokens", { capacity: 9e12, refillAmount: 9e12, refillPeriodMs: 1_000 })], {
    tokens: 9e12,
  });
  for (let i = 0; i < 101; i++) await buckets.take([huge], context(NOON + i * 1_000));
  await buckets.credit(held(huge), amounts({ tokens: 1 }), context(NOON + 101_000));
  assert.deepEqual(await shown(usage, "hourly"), [["2024-06-15T12", { tokens: 101 * 9e12 - 1 }, 101]]);
});

test("counts survive a change of limits, in the limits and in their order", async (t) => {
  const { buckets, usage } = openTemp(t);
  await buckets.take([claim("key", LIMITS, { rpm: 1, tpm: 10 })], context(NOON));
  const turned = claim("key", LIMITS.toReversed(), { rpm: 1, tpm: 20 }, { asOfMs: 1, generation: null });
  await buckets.take([turned], context(NOON + 1));
  const fewer = claim("key", LIMITS.slice(0, 1), { rpm: 1 }, { asOfMs: 2, generation: null });
  await buckets.take([fewer], context(NOON + 60_000));
  assert.deepEqual(await shown(usage, "hourly"), [["2024-06-15T12", { rpm: 3, tpm: 30 }, 3]]);
});

test("pages of any size show the same snapshots: by window, then entity, then resource", async (t) => {
  const { buckets, usage } = openTemp(t);
  const expected: string[] = [];
  for (let hour = 0; hour < 3; hour++) {
    for (const id of ["a", "b", "c"]) {
      const nowMs = NOON + hour * HOUR_MS;
      await buckets.take([claim(id, LIMITS, { rpm: hour + 1 })], context(nowMs));
      expected.push(`${hour} ${id} ${hour + 1}`);
    }
  }
  for (const limit of [1, 2, 4, 9, 100]) {
    const found = await every(usage, { window: "hourly", ...ALL }, limit);
    const lines = found.map((one) => `${(one.windowStartMs - NOON) / HOUR_MS} ${one.entityId} ${one.counters.rpm}`);
    assert.deepEqual(lines, expected);
    const daily = await every(usage, { window: "daily", ...ALL }, limit);
    assert.deepEqual(
      daily.map((one) => [one.entityId, one.counters.rpm, one.requests]),
      [
        ["a", 6, 3],
        ["b", 6, 3],
        ["c", 6, 3],
      ],
    );
  }
});

test("a query is cut by entity, resource and the start of the window", async (t) => {
  const { buckets, usage } = openTemp(t);
  for (const id of ["a", "b"]) {
    for (let hour = 0; hour < 3; hour++) {
      await buckets.take([claim(id, LIMITS, { rpm: 1 })], context(NOON + hour * HOUR_MS));
    }
  }
  const count = async (query: Partial<UsageQuery>) =>
    (await every(usage, { window: "hourly", ...ALL, ...query }, 2)).length;
  assert.equal(await count({}), 6);
  assert.equal(await count({ entityId: "b" }), 3);
  assert.equal(await count({ entityId: "nobody" }), 0);
  assert.equal(await count({ resource: "gpt-4" }), 6);
  assert.equal(await count({ resource: "other" }), 0);
  assert.equal(await count({ fromMs: NOON + 1, toMs: NOON + 2 * HOUR_MS }), 2);
  assert.equal(await count({ window: "daily", fromMs: NOON }), 0);
});

test("usage of another process's buckets is seen, whether its hour is over or not", async (t) => {
  const file = tempFile(t);
  const { buckets } = openOn(t, file);
  await buckets.take([claim("key", LIMITS, { rpm: 1 })], context(NOON));
  await buckets.take([claim("key", LIMITS, { rpm: 2 })], context(NOON + HOUR_MS));
  assert.deepEqual(await shown(openOn(t, file).usage, "hourly"), [
    ["2024-06-15T12", { rpm: 1 }, 1],
    ["2024-06-15T13", { rpm: 2 }, 1],
  ]);
});
