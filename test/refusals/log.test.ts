import assert from "node:assert/strict";
import { describe, type TestContext, test } from "node:test";
import {
  Limit,
  type LoggedRefusal,
  type OpenOptions,
  RateLimiter,
  type RefusalLogRequest,
} from "../../src/entry/index.ts";
import { openMemory } from "../../src/entry/memory.ts";
import type { Store } from "../../src/ports/store.ts";
import type { WrittenLogRow } from "../../src/ports/usage-store.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { tempFile } from "../sqlite/temp-store.ts";

const T0 = Date.UTC(2026, 2, 15, 12);
const HOUR_MS = 3_600_000;

/** The store, with every batch of rows of the log that is written to it. */
function recorded(inner: Store): { readonly store: Store; readonly batches: (readonly WrittenLogRow[])[] } {
  const batches: (readonly WrittenLogRow[])[] = [];
  const scope: Store["scope"] = (id) => {
    const ports = inner.scope(id);
    const { refusalLog } = ports;
    return {
      ...ports,
      refusalLog: {
        list: (...args) => refusalLog.list(...args),
        write: (rows, nowMs) => {
          batches.push(rows);
          return refusalLog.write(rows, nowMs);
        },
      },
    };
  };
  return { store: { ...inner, namespaces: inner.namespaces, scope }, batches };
}

async function opened(options: OpenOptions = {}) {
  const clock = new SimulatedClock(T0);
  const limiter = await RateLimiter.open({ store: "memory", clock, ...options });
  await limiter.setSystemDefaults([Limit.quota("rpm", 1, { resetAfterMs: 7 * 24 * HOUR_MS })]);
  return { clock, limiter };
}

/** Asks until it is refused so many times, a millisecond apart. */
async function refuse(limiter: RateLimiter, clock: SimulatedClock, entityId: string, times: number): Promise<void> {
  for (let refused = 0; refused < times; ) {
    if (!(await limiter.tryAcquire({ entityId, resource: "api", consume: { rpm: 1 } })).ok) refused++;
    await clock.advance(1);
  }
}

async function log(limiter: RateLimiter, query: RefusalLogRequest = {}): Promise<readonly LoggedRefusal[]> {
  const found: LoggedRefusal[] = [];
  for await (const one of limiter.refusalLog(query)) found.push(one);
  return found;
}

describe("why a customer was refused can be asked for", () => {
  const stores = [
    ["memory", () => "memory"],
    ["SQLite", (t: TestContext) => `sqlite:${tempFile(t)}`],
  ] as const;
  for (const [name, storeOf] of stores) {
    test(`on ${name}: when, for what, by which limit, how much was there, and under which id`, async (t) => {
      const clock = new SimulatedClock(T0);
      const limiter = await RateLimiter.open({ store: storeOf(t), clock });
      t.after(() => limiter.close());
      await limiter.createEntity({ id: "org" });
      await limiter.createEntity({ id: "key", parentId: "org", cascade: true });
      await limiter.setLimits("org", [Limit.perMinute("tpm", 100)]);
      await limiter.setTotals("key", [Limit.quota("day", 5, { resetAfterMs: HOUR_MS, counts: "rpm" })]);
      const ask = (consume: Record<string, number>, requestId?: string) =>
        limiter.tryAcquire({ entityId: "key", resource: "api", consume, ...(requestId && { requestId }) });
      assert.equal((await ask({ rpm: 5, tpm: 90 })).ok, true);
      await clock.advance(60);
      assert.equal((await ask({ tpm: 50, requests: 0 }, `${"é".repeat(70)}`)).ok, false);
      await clock.advance(100);
      assert.equal((await ask({ rpm: 1, tpm: 0 })).ok, false);
      const of = { entityId: "key", resource: "api" };
      const expected: LoggedRefusal[] = [
        {
          ...{ atMs: T0 + 160, ...of, limit: "day", counts: "rpm", level: "key", total: true },
          ...{ requested: 1, available: 0, capacity: 5, retryAfterMs: HOUR_MS - 160 },
        },
        {
          ...{ atMs: T0 + 60, ...of, limit: "tpm", counts: "tpm", level: "org", total: false },
          ...{ requested: 50, available: 10, capacity: 100, retryAfterMs: 23_940, requestId: "é".repeat(64) },
        },
      ];
      // Before they are written as well as after, and in the answers of another process.
      assert.deepEqual(await log(limiter), expected);
      await clock.advance(10_000);
      assert.deepEqual(await log(limiter), expected);
      assert.deepEqual(await log(limiter, { limit: "tpm" }), expected.slice(1));
      assert.deepEqual(await log(limiter, { resource: "gpu" }), []);
      assert.deepEqual(await log(limiter, { entityId: "org" }), []);
      // From the first instant, to before the last.
      assert.deepEqual(await log(limiter, { fromMs: T0 + 60, toMs: T0 + 160 }), expected.slice(1));
      assert.deepEqual(await log(limiter, { fromMs: T0 + 61, toMs: T0 + 161 }), expected.slice(0, 1));
    });
  }
});

test("of each entity and hour the first 20 and the last 20 are kept", async () => {
  const { clock, limiter } = await opened();
  await limiter.acquire({ entityId: "a", resource: "api", consume: { rpm: 1 } });
  await refuse(limiter, clock, "a", 55);
  const ofHour = (all: readonly LoggedRefusal[]) => all.map(({ atMs }) => atMs - T0).sort((a, b) => a - b);
  const kept = [...Array.from({ length: 20 }, (_, i) => i), ...Array.from({ length: 20 }, (_, i) => 35 + i)];
  assert.deepEqual(ofHour(await log(limiter)), kept);
  await clock.advance(10_000);
  assert.deepEqual(ofHour(await log(limiter)), kept);
  // Written again and again: what left the last 20 meanwhile is not there twice.
  await refuse(limiter, clock, "a", 7);
  const shown = await log(limiter);
  await limiter.close();
  assert.equal(new Set(shown.map(({ atMs }) => atMs)).size, shown.length);
  assert.ok(shown.length <= 47);
  await clock.advance(0);
});

test("a page of what is stored and of what is not written yet shows each once, whatever its size", async () => {
  const { clock, limiter } = await opened();
  for (const entityId of ["b", "a", "c"]) await refuse(limiter, clock, entityId, 4);
  await clock.advance(HOUR_MS);
  for (const entityId of ["c", "a"]) await refuse(limiter, clock, entityId, 3);
  await clock.advance(10_000);
  for (const entityId of ["a", "d"]) await refuse(limiter, clock, entityId, 2);
  const all = await log(limiter);
  assert.equal(all.length, 22);
  assert.deepEqual(
    all,
    all.toSorted((a, b) => b.atMs - a.atMs),
  );
  for (const pageSize of [1, 2, 3, 7, 21, 22, 1_000])
    assert.deepEqual(await log(limiter, { pageSize }), all, `pages of ${pageSize}`);
});

test("what waited and was then refused says how long; what waited and was granted is not in the log", async () => {
  const clock = new SimulatedClock(T0);
  const limiter = await RateLimiter.open({ store: "memory", clock });
  await limiter.setSystemDefaults([Limit.perMinute("rpm", 1)]);
  const ask = (maxMs: number) =>
    limiter.tryAcquire({ entityId: "a", resource: "api", consume: { rpm: 1 }, wait: { maxMs } });
  await ask(0);
  const refused = ask(5_000);
  await clock.advance(5_000);
  assert.equal((await refused).ok, false);
  const granted = ask(60_000);
  await clock.advance(60_000);
  assert.equal((await granted).ok, true);
  const [one, ...others] = await log(limiter);
  assert.deepEqual([one?.atMs, one?.waitedMs, one?.retryAfterMs, others], [T0 + 5_000, 5_000, 55_000, []]);
});

test("after 48 hours a refusal is not shown any more, and then it is gone", async () => {
  const store = openMemory();
  const { clock, limiter } = await opened({ store });
  await refuse(limiter, clock, "a", 1);
  const [{ atMs } = { atMs: 0 }] = await log(limiter);
  await clock.advance(atMs + 48 * HOUR_MS - 1 - clock.now());
  assert.equal((await log(limiter)).length, 1);
  await clock.advance(1);
  assert.deepEqual(await log(limiter), []);
  const stored = async () =>
    (await store.scope("default").refusalLog.list({ fromMs: 0, toMs: clock.now() }, { limit: 10 })).items;
  await clock.advance(HOUR_MS);
  await refuse(limiter, clock, "b", 1);
  await clock.advance(10_000);
  assert.deepEqual(
    (await stored()).map(({ entityId }) => entityId),
    ["b"],
  );
});

test("a process keeps refusals of 1,000 entities and writes 100 at a time, the longest unwritten first", async () => {
  const { store, batches } = recorded(openMemory());
  const { clock, limiter } = await opened({ store });
  for (let i = 0; i < 1_005; i++) await refuse(limiter, clock, `e-${i}`, 1);
  await clock.advance(10_000);
  assert.equal(batches[0]?.length, 100);
  assert.equal(batches[0]?.[0]?.entityId, "e-0");
  await refuse(limiter, clock, "e-0", 1);
  await clock.advance(100_000);
  const rows = batches.flat();
  assert.equal(new Set(rows.map(({ entityId }) => entityId)).size, 1_000);
  // One row for each entity and hour, however often it is written; the one that was refused again comes after the others.
  assert.equal(new Set(rows.map(({ id }) => id)).size, 1_000);
  assert.deepEqual(
    rows.filter(({ entityId }) => entityId === "e-0").map(({ refusals }) => refusals.length),
    [1, 2],
  );
  assert.equal(rows.at(-1)?.entityId, "e-0");
  const all = await log(limiter);
  assert.equal(all.length, 1_001);
  // Counts are whole.
  const counted = await limiter.refusalTotals({ by: "limit" });
  assert.equal(
    counted.reduce((sum, { count }) => sum + count, 0),
    1_006,
  );
});

test("a limiter writes what is left when it closes, and nothing where nobody was refused", async () => {
  const { store, batches } = recorded(openMemory());
  const { clock, limiter } = await opened({ store });
  await limiter.acquire({ entityId: "a", resource: "api", consume: { rpm: 1 } });
  await clock.advance(60_000);
  assert.equal(clock.nextWakeMs, undefined);
  assert.equal(batches.length, 0);
  await refuse(limiter, clock, "a", 2);
  await limiter.close();
  assert.equal(batches.flat()[0]?.refusals.length, 2);
  assert.equal(clock.nextWakeMs, undefined);
});

test("a row has at most 6 kB, whatever the names are", async () => {
  const { store, batches } = recorded(openMemory());
  const { clock, limiter } = await opened({ store });
  for (let i = 0; i < 45; i++) {
    const resource = `${"x".repeat(60)}${i}`;
    const request = { entityId: "e".repeat(256), resource, consume: { rpm: 1 }, requestId: `${"é".repeat(60)}${i}` };
    while ((await limiter.tryAcquire(request)).ok) {}
    await clock.advance(1);
  }
  await limiter.close();
  const [row] = batches.flat();
  assert.equal(row?.refusals.length, 40);
  const { items } = await store.scope("default").refusalLog.list({ fromMs: 0, toMs: clock.now() }, { limit: 10 });
  const kept = items[0]?.refusals.map(({ number }) => number) ?? [];
  // The first and the last ones stay.
  assert.ok(kept.length >= 6 && kept.length < 40, String(kept.length));
  assert.deepEqual([kept[0], kept[1], kept.at(-2), kept.at(-1)], [0, 1, 43, 44]);
});

test("without a log, or without counts, asking for it says what to open", async () => {
  const cases = [
    [{ refusalLog: false }, "refusal_log_not_kept"],
    [{ countRefusals: false }, "refusals_not_kept"],
    [{ countRefusals: false, refusalLog: true }, "refusals_not_kept"],
    [{ usage: false }, "refusals_not_kept"],
  ] as const;
  for (const [options, code] of cases) {
    const { clock, limiter } = await opened(options);
    await refuse(limiter, clock, "a", 2);
    await assert.rejects(async () => log(limiter), { code }, JSON.stringify(options));
  }
  const { clock, limiter } = await opened({ refusalLog: false });
  await refuse(limiter, clock, "a", 2);
  assert.equal((await limiter.refusalTotals({ by: "entity" }))[0]?.count, 2);
});

test("a query that means something else is refused, with the value", async () => {
  const { limiter } = await opened();
  const wrong = [
    [{ pageSize: 0 }, "page_invalid"],
    [{ pageSize: 1_001 }, "page_invalid"],
    [{ limit: 100 }, "limit_name_invalid"],
    [{ entityId: "a b" }, "entity_id_invalid"],
    [{ fromMs: 1_773_576_000 }, "instant_invalid"],
    [{ fromMs: T0, toMs: T0 - 1 }, "instant_invalid"],
    [{ cursor: "nothing" }, "cursor_invalid"],
    [{ window: "hourly" }, "option_unknown"],
  ] as const;
  for (const [query, code] of wrong) {
    await assert.rejects(
      async () => log(limiter, query as RefusalLogRequest),
      (error: Error & { code: string }) => {
        assert.equal(error.code, code, `${JSON.stringify(query)}: ${error.message}`);
        return true;
      },
    );
  }
});

test("a deleted entity takes its log with it, also what was not written yet", async () => {
  const { clock, limiter } = await opened();
  await limiter.createEntity({ id: "a" });
  await refuse(limiter, clock, "a", 2);
  await clock.advance(10_000);
  await limiter.deleteEntity("a");
  assert.deepEqual(await log(limiter), []);
});
