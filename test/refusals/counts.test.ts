import assert from "node:assert/strict";
import { describe, type TestContext, test } from "node:test";
import { CHANNELS, Limit, type OpenOptions, RateLimiter, type RefusalCount } from "../../src/entry/index.ts";
import { openMemory } from "../../src/entry/memory.ts";
import type { Store } from "../../src/ports/store.ts";
import type { RefusalRow } from "../../src/ports/usage-store.ts";
import { FaultStore } from "../../src/testing/fault-store.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { heard } from "../limiter/listening.ts";
import { tempFile } from "../sqlite/temp-store.ts";

const T0 = Date.UTC(2026, 2, 15, 12);
const HOUR_MS = 3_600_000;

/** The store, with every batch of rows that is written to it. */
function recorded(inner: Store): { readonly store: Store; readonly batches: (readonly RefusalRow[])[] } {
  const batches: (readonly RefusalRow[])[] = [];
  const store: Store = {
    ...inner,
    namespaces: inner.namespaces,
    scope: (id) => {
      const scope = inner.scope(id);
      const { refusals } = scope;
      return {
        ...scope,
        refusals: {
          isKept: refusals.isKept,
          writeEveryMs: refusals.writeEveryMs,
          write: (rows, nowMs) => {
            batches.push(rows);
            return refusals.write(rows, nowMs);
          },
          query: (...args) => refusals.query(...args),
        },
      };
    },
  };
  return { store, batches };
}

async function opened(options: OpenOptions = {}) {
  const clock = new SimulatedClock(T0);
  const limiter = await RateLimiter.open({ store: "memory", clock, ...options });
  await limiter.setSystemDefaults([Limit.quota("rpm", 1, { resetAfterMs: 86_400_000 })]);
  return { clock, limiter };
}

/** Asks so often that it is refused so many times. */
async function refuse(limiter: RateLimiter, entityId: string, times: number, resource = "api"): Promise<void> {
  let refused = 0;
  while (refused < times) if (!(await limiter.tryAcquire({ entityId, resource, consume: { rpm: 1 } })).ok) refused++;
}

async function summed(limiter: RateLimiter, query: Partial<RefusalCount> = {}): Promise<Record<string, number>> {
  const sums: Record<string, number> = {};
  for await (const { entityId, count } of limiter.refusals({ window: "hourly", ...query } as { window: "hourly" })) {
    sums[entityId] = (sums[entityId] ?? 0) + count;
  }
  return sums;
}

describe("who was refused can be asked for", () => {
  const stores = [
    ["memory", () => "memory"],
    ["SQLite", (t: TestContext) => `sqlite:${tempFile(t)}`],
  ] as const;
  for (const [name, storeOf] of stores) {
    test(`on ${name}: by whom, for what, and whose limit stood in the way`, async (t) => {
      const clock = new SimulatedClock(T0);
      const limiter = await RateLimiter.open({ store: storeOf(t), clock });
      t.after(() => limiter.close());
      await limiter.createEntity({ id: "org" });
      await limiter.createEntity({ id: "key", parentId: "org", cascade: true });
      await limiter.setLimits("org", [Limit.perMinute("tpm", 100)]);
      await limiter.setLimits("key", [Limit.perMinute("rpm", 5), Limit.perMinute("tpm", 1_000)]);
      const ask = (consume: Record<string, number>) =>
        limiter.tryAcquire({ entityId: "key", resource: "api", consume });
      assert.equal((await ask({ rpm: 5, tpm: 100 })).ok, true);
      for (let i = 0; i < 3; i++) assert.equal((await ask({ tpm: 50 })).ok, false);
      assert.equal((await ask({ rpm: 5 })).ok, false);
      const at = { entityId: "key", resource: "api", total: false, window: "hourly", windowStartMs: T0 };
      const expected = [
        { ...at, limit: "rpm", level: "key", count: 1 },
        { ...at, limit: "tpm", level: "org", count: 3 },
      ];
      // Before they are written as well as after.
      assert.deepEqual([...(await limiter.refusals({ window: "hourly" }))], expected);
      await clock.advance(10_000);
      assert.deepEqual([...(await limiter.refusals({ window: "hourly" }))], expected);
      assert.deepEqual([...(await limiter.refusals({ window: "hourly", limit: "tpm" }))], expected.slice(1));
      const [first] = await limiter.refusals({ window: "daily", limit: 1 });
      assert.equal(first?.windowStartMs, Date.UTC(2026, 2, 15));
      assert.deepEqual(await limiter.refusalTotals({ by: "limit", top: 1 }), [{ limit: "tpm", count: 3 }]);
      assert.deepEqual(await limiter.refusalTotals({ by: "entity", top: 5 }), [{ entityId: "key", count: 4 }]);
      assert.deepEqual(await limiter.refusalTotals({ by: "resource", top: 5 }), [{ resource: "api", count: 4 }]);
    });
  }
});

test("a page of what is stored and of what is not written yet shows each once, whatever its size", async () => {
  const { clock, limiter } = await opened();
  for (const [i, entityId] of ["b", "d", "f"].entries()) await refuse(limiter, entityId, i + 1);
  await clock.advance(10_000);
  for (const [i, entityId] of ["a", "b", "c", "g"].entries()) await refuse(limiter, entityId, 10 * (i + 1));
  const expected = { a: 10, b: 21, c: 30, d: 2, f: 3, g: 40 };
  for (const limit of [1, 2, 3, 100]) {
    const seen: [string, number][] = [];
    let cursor: string | undefined;
    do {
      const page = await limiter.refusals({ window: "hourly", limit, ...(cursor === undefined ? {} : { cursor }) });
      assert.ok(page.length <= limit);
      for (const { entityId, count } of page) seen.push([entityId, count]);
      cursor = page.cursor;
    } while (cursor !== undefined);
    assert.deepEqual(seen, Object.entries(expected), `pages of ${limit}`);
  }
});

test("a process writes at most every ten seconds, and what it goes on counting into the same rows", async () => {
  const { store, batches } = recorded(openMemory());
  const { clock, limiter } = await opened({ store });
  for (let second = 0; second < 30; second++) {
    await refuse(limiter, "a", 1);
    await clock.advance(1_000);
  }
  assert.equal(batches.length, 3);
  assert.equal(new Set(batches.flat().map(({ id }) => id)).size, 1);
  assert.deepEqual(await summed(limiter), { a: 30 });
  await refuse(limiter, "a", 5);
  await limiter.close();
  assert.equal(batches.length, 4);
  assert.deepEqual(
    batches.at(-1)?.map(({ counts }) => counts.map(({ count }) => count)),
    [[35]],
  );
});

test("a process that nobody is refused in writes nothing", async () => {
  const { store, batches } = recorded(openMemory());
  const { clock, limiter } = await opened({ store });
  await limiter.acquire({ entityId: "a", resource: "api", consume: { rpm: 1 } });
  await clock.advance(HOUR_MS);
  await limiter.close();
  assert.equal(batches.length, 0);
});

test("an hour that is over keeps what was counted in it", async () => {
  const { clock, limiter } = await opened();
  await clock.advance(HOUR_MS - 5_000);
  await refuse(limiter, "a", 2);
  await clock.advance(6_000);
  await refuse(limiter, "a", 3);
  await clock.advance(HOUR_MS);
  await refuse(limiter, "a", 4);
  const rows = await limiter.refusals({ window: "hourly" });
  assert.deepEqual(
    rows.map(({ windowStartMs, count }) => [(windowStartMs - T0) / HOUR_MS, count]),
    [
      [0, 2],
      [1, 3],
      [2, 4],
    ],
  );
  assert.deepEqual(await limiter.refusalTotals({ by: "entity", fromMs: T0 + HOUR_MS, toMs: T0 + 2 * HOUR_MS }), [
    { entityId: "a", count: 3 },
  ]);
});

test("limiters of one process on one store see what the others have not written yet, each of its namespace", async () => {
  const { limiter } = await opened();
  await limiter.registerNamespace("tenant");
  const tenant = limiter.namespace("tenant");
  await tenant.setSystemDefaults([Limit.quota("rpm", 1, { resetAfterMs: 86_400_000 })]);
  await refuse(limiter, "a", 2);
  await refuse(tenant, "b", 3);
  assert.deepEqual(await summed(limiter.namespace("default")), { a: 2 });
  assert.deepEqual(await summed(limiter.namespace("tenant")), { b: 3 });
});

test("closing writes the refusals of every namespace before the store closes", async (t) => {
  const store = `sqlite:${tempFile(t)}`;
  const { limiter } = await opened({ store });
  await limiter.registerNamespace("tenant");
  const tenant = limiter.namespace("tenant");
  await tenant.setSystemDefaults([Limit.quota("rpm", 1, { resetAfterMs: 86_400_000 })]);
  await refuse(limiter, "a", 2);
  await refuse(tenant, "b", 3);
  await limiter.close();
  const again = await RateLimiter.open({ store });
  t.after(() => again.close());
  assert.deepEqual(await summed(again), { a: 2 });
  assert.deepEqual(await summed(again.namespace("tenant")), { b: 3 });
});

describe("thousands of different refused ids", () => {
  test("are a hundred rows and the rest for each write, and every refusal is counted", async () => {
    const { store, batches } = recorded(openMemory());
    const { clock, limiter } = await opened({ store });
    await limiter.setSystemDefaults([Limit.custom("rpm", { capacity: 1, refillAmount: 1, refillPeriodMs: 1_000 })]);
    const IDS = 12_000;
    const PER_WRITE = 2_000;
    await refuse(limiter, "noisy", 1);
    for (let i = 0; i < IDS; i++) {
      // Two of one id: the second is refused.
      const entityId = `id-${i}`;
      limiter.tryAcquireSync({ entityId, resource: "api", consume: { rpm: 1 } });
      limiter.tryAcquireSync({ entityId, resource: "api", consume: { rpm: 1 } });
      if (i % 200 === 0) await refuse(limiter, "noisy", 3);
      if (i % PER_WRITE === PER_WRITE - 1) await clock.advance(10_000);
    }
    await clock.advance(10_000);
    assert.equal(batches.length, IDS / PER_WRITE);
    for (const batch of batches) {
      assert.ok(batch.length <= 101, `${batch.length} rows`);
      assert.ok(batch.some(({ entityId }) => entityId === "_other_"));
      assert.ok(
        batch.some(({ entityId }) => entityId === "noisy"),
        "the most refused are written by their names",
      );
    }
    const sums = await summed(limiter);
    assert.equal(sums.noisy, 181);
    assert.equal(
      Object.values(sums).reduce((all, count) => all + count, 0),
      IDS + 181,
    );
    const [top] = await limiter.refusalTotals({ by: "entity", top: 1 });
    assert.deepEqual(top, { entityId: "_other_", count: sums._other_ });
    assert.deepEqual(Object.keys(await summed(limiter, { entityId: "_other_" })), ["_other_"]);
  });
});

describe("a store that does not answer", () => {
  test("delays no refusal, and what was counted meanwhile is written once it is back, nothing twice", async (t) => {
    const faulty = new FaultStore(openMemory(), {});
    const degraded = heard(t, CHANNELS.degraded);
    const { clock, limiter } = await opened({ store: faulty });
    const other = await RateLimiter.open({ store: faulty, clock });
    t.after(() => other.close());
    await refuse(limiter, "a", 3);
    // Applied, and the answer lost: sent again it must not count twice.
    faulty.failNext("count", "lostAfter");
    await clock.advance(10_000);
    assert.deepEqual(await summed(limiter), { a: 3 });
    await refuse(limiter, "a", 2);
    faulty.failNext("count", "lostBefore");
    await clock.advance(10_000);
    await refuse(limiter, "a", 1);
    faulty.failNext("count", "refused");
    await clock.advance(10_000);
    assert.equal(degraded.length, 3);
    assert.match(degraded[0]?.reason ?? "", /^counts of refusals may not be stored: /);
    await clock.advance(10_000);
    assert.equal(degraded.length, 3);
    assert.deepEqual(await summed(limiter), { a: 6 });
    await clock.advance(60_000);
    assert.deepEqual(await summed(limiter), { a: 6 });
  });

  test("keeps neither closing nor anything else waiting, and takes no more memory", async () => {
    const faulty = new FaultStore(openMemory(), { rates: {} });
    const { clock, limiter } = await opened({ store: faulty });
    for (let minute = 0; minute < 5; minute++) {
      for (let i = 0; i < 1_500; i++) await refuse(limiter, `id-${minute}-${i}`, 1);
      for (let i = 0; i < 6; i++) faulty.failNext("count", i % 2 === 0 ? "lostAfter" : "lostBefore");
      await clock.advance(60_000);
    }
    await clock.advance(60_000);
    const sums = await summed(limiter);
    assert.equal(
      Object.values(sums).reduce((all, count) => all + count, 0),
      5 * 1_500,
    );
    faulty.failNext("count", "refused");
    await refuse(limiter, "late", 1);
    await limiter.close();
  });
});

test("an entity that is deleted takes its refusals along; those that come after count anew", async () => {
  const { clock, limiter } = await opened();
  await limiter.createEntity({ id: "a" });
  await refuse(limiter, "a", 5);
  await clock.advance(10_000);
  await limiter.deleteEntity("a");
  assert.deepEqual(await summed(limiter), {});
  await refuse(limiter, "a", 2);
  await clock.advance(10_000);
  assert.deepEqual(await summed(limiter), { a: 2 });
});

test("where refusals are not kept, asking for them says so", async (t) => {
  const refused = heard(t, CHANNELS.refused);
  const off = (await opened({ countRefusals: false })).limiter;
  await refuse(off, "a", 1);
  const without = (await opened({ usage: false })).limiter;
  await refuse(without, "a", 1);
  assert.equal(refused.length, 2);
  for (const limiter of [off, without]) {
    await assert.rejects(async () => limiter.refusals({ window: "hourly" }), { code: "refusals_not_kept" });
    await assert.rejects(limiter.refusalTotals({ by: "entity", top: 3 }), { code: "refusals_not_kept" });
  }
});

test("questions that cannot be meant are refused with a remedy", async () => {
  const { limiter } = await opened();
  const wrong = (query: object) => async () => limiter.refusals(query as { window: "hourly" });
  await assert.rejects(wrong({}), { code: "window_invalid" });
  await assert.rejects(wrong({ window: "hourly", entityId: "#" }), { code: "entity_id_invalid" });
  await assert.rejects(wrong({ window: "hourly", limit: 0 }), { code: "page_invalid" });
  await assert.rejects(wrong({ window: "hourly", limit: 5, pageSize: 5 }), { code: "page_invalid" });
  await assert.rejects(wrong({ window: "hourly", cursor: "x" }), { code: "cursor_invalid" });
  await assert.rejects(wrong({ window: "hourly", level: "a" }), { name: "ValidationError" });
  await assert.rejects(limiter.refusalTotals({ by: "level" as "limit", top: 1 }), { code: "option_invalid" });
  await assert.rejects(limiter.refusalTotals({ by: "limit", top: 0 }), { code: "option_invalid" });
});
