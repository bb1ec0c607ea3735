import assert from "node:assert/strict";
import { describe, type TestContext, test } from "node:test";
import { CallerBook } from "../../src/engine/usage/caller-book.ts";
import { Limit, type OpenOptions, RateLimiter, type UsageSnapshot } from "../../src/entry/index.ts";
import { openMemory } from "../../src/entry/memory.ts";
import { StoredLeases } from "../../src/leases/stored-leases.ts";
import type { Store } from "../../src/ports/store.ts";
import type { CallerRow, CallerStore } from "../../src/ports/usage-store.ts";
import { SeededRandom } from "../../src/testing/random.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { tempFile } from "../sqlite/temp-store.ts";

const T0 = Date.UTC(2026, 2, 15, 12);
const HOUR_MS = 3_600_000;

const STORES = [
  ["memory", () => "memory"],
  ["SQLite", (t: TestContext) => `sqlite:${tempFile(t)}`],
] as const;

/** An organisation with limits, and a key of it without any. */
async function opened(t: TestContext, store: OpenOptions["store"] = "memory", options: OpenOptions = {}) {
  const clock = new SimulatedClock(T0);
  const limiter = await RateLimiter.open({ store, clock, ...options });
  t.after(() => limiter.close());
  await limiter.ensureEntity({ id: "org" });
  await limiter.ensureEntity({ id: "key", parentId: "org", cascade: true });
  await limiter.setLimits("org", [Limit.perHour("rpm", 10_000), Limit.perHour("tpm", 1_000_000)]);
  return { clock, limiter };
}

const asks = { entityId: "key", resource: "gpt", consume: { rpm: 1, tpm: 500 } } as const;

/** What was counted of an entity, as `hour resource` (hours since the beginning): requests, and tokens by name. */
async function rowsOf(limiter: RateLimiter, entityId: string) {
  const rows: Record<string, unknown> = {};
  for await (const row of limiter.usage({ window: "hourly", entityId })) rows[placeOf(row)] = shownOf(row);
  return rows;
}

function placeOf({ windowStartMs, resource }: UsageSnapshot): string {
  return `${(windowStartMs - T0) / HOUR_MS} ${resource}`;
}

function shownOf({ requests, counters, bypassed }: UsageSnapshot) {
  return Object.keys(bypassed).length === 0 ? { requests, ...counters } : { requests, ...counters, bypassed };
}

for (const [name, storeOf] of STORES) {
  describe(`usage of callers on ${name}`, () => {
    test("who has no limits has rows of its own, and sums over entities have each request once", async (t) => {
      const { limiter } = await opened(t, storeOf(t));
      await limiter.withLease(asks, async () => {});
      await limiter.withLease({ ...asks, also: { images: { rpm: 2 } } }, async () => {});
      assert.deepEqual(await rowsOf(limiter, "key"), {
        "0 gpt": { requests: 2, rpm: 2, tpm: 1_000 },
        "0 images": { requests: 1, rpm: 2 },
      });
      assert.deepEqual(await rowsOf(limiter, "org"), {
        "0 gpt": { requests: 2, rpm: 2, tpm: 1_000 },
        "0 images": { requests: 1, rpm: 2 },
      });
      const summary = await limiter.usageSummary({ window: "hourly" });
      assert.deepEqual([summary.requests, summary.total], [3, { rpm: 4, tpm: 1_000 }]);
      const by = async (what: "entity" | "resource") =>
        (await limiter.usageTotals({ window: "monthly", by: what })).map(({ entityId, resource, requests, total }) => [
          entityId ?? resource,
          requests,
          total.tpm ?? 0,
        ]);
      assert.deepEqual(await by("entity"), [
        ["key", 3, 1_000],
        ["org", 3, 1_000],
      ]);
      assert.deepEqual(await by("resource"), [
        ["gpt", 2, 1_000],
        ["images", 1, 0],
      ]);
    });

    test("a change of a lease counts in its own hour, and comes to what the caller used", async (t) => {
      const { clock, limiter } = await opened(t, storeOf(t));
      const lease = await limiter.acquire(asks);
      clock.set(T0 + HOUR_MS);
      await lease.adjust({ tpm: 100 });
      await lease.consume({ tpm: 30 });
      clock.set(T0 + 2 * HOUR_MS);
      await lease.release({ tpm: 10_000 });
      clock.set(T0 + 3 * HOUR_MS);
      await lease.settle({ tpm: 44 });
      const undone = await limiter.acquire(asks);
      clock.set(T0 + 4 * HOUR_MS);
      await undone.rollback();
      await assert.rejects(undone.adjust({ tpm: 5 }), { code: "lease_closed" });
      const counted = {
        "0 gpt": { requests: 1, rpm: 1, tpm: 500 },
        "1 gpt": { requests: 1, tpm: 130 },
        "2 gpt": { requests: 0, tpm: -630 },
        "3 gpt": { requests: 1, tpm: 544, rpm: 1 },
        "4 gpt": { requests: 0, rpm: -1, tpm: -500 },
      };
      assert.deepEqual(await rowsOf(limiter, "key"), counted);
      assert.deepEqual(await rowsOf(limiter, "org"), counted, "as its organisation was charged");
    });

    test("the book is written in the background and when the limiter closes, and counts nothing twice", async (t) => {
      const store = name === "memory" ? openMemory() : storeOf(t);
      const { clock, limiter } = await opened(t, store);
      const other = await RateLimiter.open({ store, clock });
      t.after(() => other.close());
      await limiter.acquire(asks);
      assert.deepEqual(await rowsOf(limiter, "key"), { "0 gpt": { requests: 1, rpm: 1, tpm: 500 } }, "its own at once");
      if (name === "SQLite") assert.deepEqual(await rowsOf(other, "key"), {}, "not written yet");
      await clock.advance(10_000);
      await limiter.acquire(asks);
      for (const one of name === "SQLite" ? [limiter] : [limiter, other]) {
        assert.deepEqual(await rowsOf(one, "key"), { "0 gpt": { requests: 2, rpm: 2, tpm: 1_000 } });
      }
      await limiter.close();
      assert.equal(clock.nextWakeMs, undefined, "no timer is left");
      await other.acquire(asks);
      assert.deepEqual(await rowsOf(other, "key"), { "0 gpt": { requests: 3, rpm: 3, tpm: 1_500 } });
      await other.deleteEntity("key");
      assert.deepEqual(await rowsOf(other, "key"), {}, "it goes with its entity");
    });

    test("a list of both is the same whatever the size of its pages", async (t) => {
      const { clock, limiter } = await opened(t, storeOf(t));
      await limiter.setResourceDefaults("web", [Limit.perHour("rpm", 1_000)]);
      for (const hour of [0, 1, 26]) {
        clock.set(T0 + hour * HOUR_MS);
        for (const entityId of ["key", "a", "zoe"]) {
          await limiter.acquire({ entityId, resource: "web", consume: { rpm: 1 } });
        }
        await limiter.acquire(asks);
        if (hour === 0) await clock.advance(10_000);
      }
      for (const window of ["hourly", "daily"] as const) {
        const all = await limiter.usage({ window });
        assert.deepEqual(
          all.map((row) => `${row.windowStartMs} ${row.entityId} ${row.resource}`),
          all.map((row) => `${row.windowStartMs} ${row.entityId} ${row.resource}`).toSorted(),
        );
        assert.equal(
          all.reduce((sum, row) => sum + (row.counters.rpm ?? 0), 0),
          // Of the key and its organisation on both resources, and of two others.
          3 * (2 + 2 + 2),
        );
        for (const limit of [1, 2, 3, 5]) {
          const paged: UsageSnapshot[] = [];
          let cursor: string | undefined;
          do {
            const page = await limiter.usage({ window, limit, ...(cursor === undefined ? {} : { cursor }) });
            assert.ok(page.length <= limit);
            paged.push(...page);
            cursor = page.cursor;
          } while (cursor !== undefined);
          assert.deepEqual(paged, [...all], `pages of ${limit}`);
        }
        const walked: UsageSnapshot[] = [];
        for await (const row of limiter.usage({ window, limit: 2 })) walked.push(row);
        assert.deepEqual(walked, [...all]);
      }
      for (const cursor of ["x", "[1,2,3]", '["","",""]'])
        await assert.rejects(async () => limiter.usage({ window: "hourly", cursor }), { code: "cursor_invalid" });
    });

    test("stored leases are counted by whoever settles them or finds them expired", async (t) => {
      const store = name === "memory" ? openMemory() : storeOf(t);
      const { clock, limiter } = await opened(t, store);
      const other = await RateLimiter.open({ store, clock });
      t.after(() => other.close());
      const options = { holdMs: 60_000, holdMaxMs: 600_000, onExpiry: "refund", onChange: () => {} } as const;
      const [here, there] = [new StoredLeases(limiter, options), new StoredLeases(other, options)];
      const first = await here.acquire({ ...asks, idempotencyKey: "once" });
      await here.acquire({ ...asks, idempotencyKey: "once" });
      const second = await here.acquire(asks);
      await there.adjust(first.lease.leaseId as string, { delta: { tpm: 20 } });
      await there.consume(first.lease.leaseId as string, { amounts: { tpm: 5 } });
      await there.settle(first.lease.leaseId as string, { consumed: { tpm: 321 } });
      await clock.advance(10_000);
      const both = await rowsOf(other, "key");
      assert.deepEqual(both, { "0 gpt": { requests: 3, rpm: 2, tpm: 821 } });
      await clock.advance(HOUR_MS);
      assert.equal(await there.expireDue(), 1);
      assert.equal((await there.get(second.lease.leaseId as string)).status, "expired");
      assert.deepEqual(await rowsOf(other, "key"), { ...both, "1 gpt": { requests: 0, rpm: -1, tpm: -500 } });
      assert.deepEqual(await rowsOf(other, "org"), await rowsOf(other, "key"), "as their organisation was charged");
    });
  });
}

test("a limit of the caller counts its measure, and the book the others", async (t) => {
  const { limiter } = await opened(t);
  await limiter.setLimits("key", [Limit.perHour("rpm", 100), Limit.perHour("tpm", 1_000, { counts: "chars" })]);
  await limiter.setTotals("org", [Limit.quota("usd", 1_000, { resetAfterMs: HOUR_MS })]);
  await limiter.acquire({ entityId: "key", resource: "gpt", consume: { rpm: 1, chars: 7, tpm: 5, usd: 3 } });
  const row = { requests: 1, rpm: 1, tpm: 7, "measure:tpm": 5, usd: 3 };
  assert.deepEqual(await rowsOf(limiter, "key"), { "0 gpt": row });
  const { total, requests, inTotal } = await limiter.usageSummary({ window: "hourly" });
  // No level counts dollars on the resource, so sums have those of the book; the organisation counts the others.
  assert.deepEqual(total, { rpm: 2, tpm: 12, usd: 3 });
  assert.deepEqual([requests, inTotal], [2, { total: { usd: 3 }, requests: 1 }]);
  assert.equal((await limiter.usageSummary({ window: "hourly", resource: "gpt" })).inTotal, undefined);
});

test("who has totals only has a row, and rows of totals are shown where they are asked for", async (t) => {
  const { limiter } = await opened(t);
  await limiter.setTotals("solo", [Limit.perDay("rpm", 1_000)]);
  await limiter.acquire({ entityId: "solo", resource: "gpt", consume: { rpm: 1 } });
  const query = { window: "hourly" } as const;
  assert.deepEqual(await rowsOf(limiter, "solo"), { "0 gpt": { requests: 1, rpm: 1 } });
  const resources = async (more: object) =>
    (await limiter.usage({ ...query, entityId: "solo", ...more })).map(({ resource }) => resource);
  assert.deepEqual(await resources({}), ["gpt"]);
  assert.deepEqual(await resources({ totals: true }), ["*", "gpt"]);
  assert.deepEqual(await resources({ resource: "*" }), ["*"]);
  await assert.rejects(async () => limiter.usage({ ...query, totals: 1 as never }), { code: "option_invalid" });
  await assert.rejects(limiter.usageSummary({ ...query, totals: true } as never), { code: "option_unknown" });
  assert.deepEqual(
    (await limiter.usageTotals({ ...query, by: "resource" })).map(({ resource, requests, inTotal }) => [
      resource,
      requests,
      inTotal,
    ]),
    [["gpt", 1, undefined]],
    "no level counted the request on the resource",
  );
  const [, ...others] = await limiter.usageTotals({ ...query, by: "entity" });
  assert.deepEqual(others, []);
  let csv = "";
  for await (const piece of limiter.exportUsage({ ...query, totals: true, format: "csv" })) csv += piece;
  assert.match(csv, /^solo,\*,/m);

  const off = (await opened(t, "memory", { usage: { callers: false } })).limiter;
  await off.setTotals("solo", [Limit.perDay("rpm", 1_000)]);
  await off.acquire({ entityId: "solo", resource: "gpt", consume: { rpm: 1 } });
  const [only] = await off.usageTotals({ ...query, by: "entity" });
  assert.deepEqual([only?.entityId, only?.requests, only?.inTotal], ["solo", 0, { total: { rpm: 1 }, requests: 1 }]);
});

test("what a bypassed caller asks is counted, and as bypassed, too", async (t) => {
  const { limiter } = await opened(t);
  await limiter.setAccess({ entityId: "key" }, "bypass");
  const lease = await limiter.acquire(asks);
  await lease.adjust({ tpm: -200 });
  assert.deepEqual(await rowsOf(limiter, "key"), {
    "0 gpt": { requests: 1, rpm: 1, tpm: 300, bypassed: { rpm: 1, tpm: 300 } },
  });
});

test("slots come back, so that the book does not count them", async (t) => {
  const { limiter } = await opened(t);
  await limiter.setLimits("org", [Limit.concurrent("parallel", 3)], { resource: "gpu" });
  await limiter.withLease({ entityId: "key", resource: "gpu", consume: { parallel: 2 } }, async () => {});
  assert.deepEqual(await rowsOf(limiter, "key"), { "0 gpu": { requests: 1 } });
});

test("a refused request is not counted, nor what another level gave back for it", async (t) => {
  const { limiter } = await opened(t);
  await limiter.setLimits("org", [Limit.perHour("rpm", 1)]);
  const ask = { entityId: "key", resource: "gpt", consume: { rpm: 1 } };
  assert.equal((await limiter.tryAcquire(ask)).ok, true);
  assert.equal((await limiter.tryAcquire(ask)).ok, false);
  assert.deepEqual(await rowsOf(limiter, "key"), { "0 gpt": { requests: 1, rpm: 1 } });
});

/** The store, with every batch of rows that is written to its book. */
function recorded(inner: Store): { readonly store: Store; readonly batches: (readonly CallerRow[])[] } {
  const batches: (readonly CallerRow[])[] = [];
  const store: Store = {
    ...inner,
    namespaces: inner.namespaces,
    scope: (id) => {
      const scope = inner.scope(id);
      const callers = scope.callers as CallerStore;
      const write: CallerStore["write"] = (rows, nowMs) => {
        batches.push(rows);
        return callers.write(rows, nowMs);
      };
      return { ...scope, callers: { ...callers, write, query: (...args) => callers.query(...args) } };
    },
  };
  return { store, batches };
}

test("a take writes nothing of the book, and a thousand rows are written at a time, the longest unwritten first", async (t) => {
  const { store, batches } = recorded(openMemory());
  const { clock, limiter } = await opened(t, store);
  const names = Array.from({ length: 1_200 }, (_, i) => `k${i}`);
  for (const id of names) await limiter.createEntity({ id, parentId: "org", cascade: true });
  for (const entityId of names) await limiter.acquire({ entityId, resource: "gpt", consume: { rpm: 1 } });
  assert.equal(batches.length, 0);
  await clock.advance(10_000);
  const rowsIn = (batch: readonly CallerRow[] = []) => batch.filter(({ entityId }) => entityId.startsWith("k"));
  assert.deepEqual(
    batches.map((batch) => rowsIn(batch).length).filter((length) => length > 0),
    [1_000],
  );
  await limiter.acquire({ entityId: "k0", resource: "gpt", consume: { rpm: 1 } });
  await clock.advance(10_000);
  const second = batches.map((batch) => rowsIn(batch)).filter(({ length }) => length > 0)[1];
  assert.equal(second?.length, 201);
  assert.equal(second?.at(-1)?.entityId, "k0", "it was written before");
});

test("beyond ten thousand callers in memory the rest is counted without their names", async (t) => {
  const { store } = recorded(openMemory());
  const book = new CallerBook(store.scope("default").callers as CallerStore, new SeededRandom(1));
  const user = { clock: new SimulatedClock(T0), notStored: () => t.assert.fail() };
  const sum = { name: "rpm", isAlone: true };
  for (let i = 0; i < 10_500; i++) book.add({ hourMs: T0, entityId: `k${i}`, resource: "gpt" }, sum, 1, user);
  const query = { window: "hourly", fromMs: T0, toMs: T0 + 1 } as const;
  const { items } = await book.page(query, { limit: 20_000 }, () => ({ items: [] }));
  const rest = items.find(({ entityId }) => entityId === "_other_")?.counts["rpm!"] ?? 0;
  assert.ok(rest > 0 && items.length <= 10_001, `${items.length} rows, ${rest} without a name`);
  assert.equal(items.length - 1 + rest, 10_500);
  await book.close("store", user);
  const stored = (await (store.scope("default").callers as CallerStore).query(query, { limit: 20_000 })).items;
  assert.deepEqual(stored.length, items.length);
  assert.equal(user.clock.nextWakeMs, undefined);
});

test("the overview has each granted request once, whoever counts it", async (t) => {
  const { limiter } = await opened(t);
  for (let i = 0; i < 3; i++) await limiter.acquire(asks);
  await limiter.acquire({ entityId: "org", resource: "gpt", consume: { rpm: 1 } });
  assert.equal((await limiter.overview()).hours.at(-1)?.requests, 4);
  const off = (await opened(t, "memory", { usage: { callers: false } })).limiter;
  await off.acquire(asks);
  assert.equal("requests" in ((await off.overview()).hours.at(-1) as object), false);
  assert.deepEqual(await rowsOf(off, "key"), {}, "and nothing of the caller is counted");
});

test("a caller with a bucket leaves no timer, whose wake a test would wait for", async (t) => {
  const { clock, limiter } = await opened(t);
  await limiter.acquire({ entityId: "org", resource: "gpt", consume: { rpm: 1 } });
  assert.equal(clock.nextWakeMs, undefined);
  await limiter.acquire(asks);
  assert.equal(clock.nextWakeMs, T0 + 10_000);
});

test("callers is true or false, and belongs to a limiter, not to a store", async () => {
  for (const usage of [{ callers: 1 }, { keep: 1 }, null]) {
    await assert.rejects(RateLimiter.open({ store: "memory", usage: usage as never }), { code: "option_invalid" });
  }
  assert.throws(() => openMemory({ usage: { callers: false } }), {
    code: "option_invalid",
    message: /RateLimiter\.open/,
  });
});
