import assert from "node:assert/strict";
import { describe, type TestContext, test } from "node:test";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { applyManifest, exportManifest, parseManifest, planManifest } from "../../src/entry/manifest.ts";
import { openMemory } from "../../src/entry/memory.ts";
import { createService } from "../../src/entry/server.ts";
import { openSqlite } from "../../src/entry/sqlite.ts";
import type { Store } from "../../src/ports/store.ts";
import { atDepth } from "../depth.ts";
import { tempFile } from "../sqlite/temp-store.ts";

/** Stores that answer at once: they never let go of the thread by themselves. */
const STORES: readonly (readonly [string, (t: TestContext) => Store])[] = [
  ["memory", () => openMemory()],
  ["SQLite", (t) => openSqlite({ file: tempFile(t) })],
];

const BUCKETS = atDepth(1_000, 3_000);
const ENTITIES = atDepth(300, 600);
/** At most this many rows are read between two turns of the event loop. */
const ROWS_PER_TURN = 128;

/** One hour for all: a walk over hours must not come to the next one. */
const NOON = { now: () => Date.UTC(2026, 5, 15, 12) };

async function filled(t: TestContext, open: (t: TestContext) => Store) {
  const store = open(t);
  // Other programs on the machine must not make a take time out.
  const limiter = await RateLimiter.open({ store, timeoutMs: 60_000, clock: NOON });
  t.after(async () => {
    await limiter.close();
    await store.close();
  });
  await limiter.setResourceDefaults("api", [Limit.perMinute("rpm", 60)]);
  const ids = Array.from({ length: BUCKETS }, (_, i) => `user-${(i * 7_919) % BUCKETS}`);
  for (let from = 0; from < BUCKETS; from += 100) {
    const some = ids.slice(from, from + 100);
    await Promise.all(some.map((entityId) => limiter.acquire({ entityId, resource: "api", consume: { rpm: 1 } })));
  }
  for (const id of ids.slice(0, ENTITIES)) await limiter.createEntity({ id });
  return limiter;
}

async function count(rows: AsyncIterable<unknown>): Promise<number> {
  let found = 0;
  for await (const _ of rows) found++;
  return found;
}

/** How often the event loop turned while the work was done. */
async function turnsOf(work: () => Promise<unknown>): Promise<number> {
  let turns = 0;
  let isOver = false;
  const tick = () => {
    turns++;
    if (!isOver) setImmediate(tick);
  };
  setImmediate(tick);
  await work();
  isOver = true;
  return turns;
}

const manifestOf = (entities: number): string =>
  `entities:\n${Array.from({ length: entities }, (_, i) => `  e-${i}: { resources: { api: { limits: { rpm: 5 } } } }\n`).join("")}`;

for (const [name, open] of STORES) {
  describe(`long walks let others run, on ${name}`, () => {
    test("whatever is read of all, timers and sockets have their turn many times before it ends", async (t) => {
      const limiter = await filled(t, open);
      const window = "hourly";
      const walks: Readonly<Record<string, readonly [rows: number, walk: () => Promise<unknown>]>> = {
        usageSummary: [BUCKETS, () => limiter.usageSummary({ window })],
        "usageSummary of a resource that nobody uses": [0, () => limiter.usageSummary({ window, resource: "rare" })],
        usageTotals: [BUCKETS, () => limiter.usageTotals({ window, by: "entity" })],
        usage: [BUCKETS, () => count(limiter.usage({ window }))],
        "a page of usage": [
          BUCKETS,
          async () => assert.equal((await limiter.usage({ window, limit: 9_999 })).length, BUCKETS),
        ],
        exportUsage: [BUCKETS, () => count(limiter.exportUsage({ window, format: "csv" }))],
        listBuckets: [BUCKETS, () => count(limiter.listBuckets())],
        "listBuckets of a resource": [BUCKETS, () => count(limiter.listBuckets({ resource: "api" }))],
        resourceCapacity: [BUCKETS, () => limiter.resourceCapacity("api", "rpm")],
        overview: [BUCKETS, () => limiter.overview()],
        auditEvents: [ENTITIES, () => count(limiter.auditEvents())],
        listEntities: [ENTITIES, () => count(limiter.listEntities())],
        exportManifest: [ENTITIES, () => exportManifest(limiter)],
      };
      for (const [what, [rows, walk]] of Object.entries(walks)) {
        const turns = await turnsOf(walk);
        assert.ok(turns >= Math.floor(rows / ROWS_PER_TURN), `${what}: ${turns} turns for ${rows} rows`);
      }
    });

    test("a take that comes during a sum is answered before the sum is", async (t) => {
      const limiter = await filled(t, open);
      const ended: string[] = [];
      const summary = limiter.usageSummary({ window: "hourly" }).then(() => ended.push("summary"));
      await new Promise((resolve) => setImmediate(resolve));
      const take = limiter.acquire({ entityId: "hot", resource: "api", consume: { rpm: 1 } });
      await Promise.all([summary, take.then(() => ended.push("take"))]);
      assert.deepEqual(ended, ["take", "summary"]);
    });

    test("rows that are written during a walk neither hide others nor show them twice", async (t) => {
      const limiter = await filled(t, open);
      const seen = new Map<string, number>();
      let written = 0;
      for await (const { entityId } of limiter.usage({ window: "hourly" })) {
        seen.set(entityId, (seen.get(entityId) ?? 0) + 1);
        if (seen.size % 100 === 0) {
          const at = { resource: "api", consume: { rpm: 1 } };
          await limiter.acquire({ entityId: `new-${written++}`, ...at });
          await limiter.acquire({ entityId: "user-1", ...at });
        }
      }
      for (let i = 0; i < BUCKETS; i++) assert.equal(seen.get(`user-${i}`), 1);
      for (const times of seen.values()) assert.equal(times, 1);
    });

    test("an apply that is aborted from outside stops after the change at hand, and goes on when applied again", async (t) => {
      const limiter = await RateLimiter.open({ store: open(t) });
      t.after(() => limiter.close());
      const manifest = parseManifest(manifestOf(200));
      const plan = await planManifest(limiter, manifest, {});
      const controller = new AbortController();
      const made: string[] = [];
      let madeThen = 0;
      const onChange = ({ entityId }: { readonly entityId?: string }) => {
        made.push(entityId ?? "");
        if (made.length !== 5) return;
        // As a signal or a timer has it: not in the turn of the change.
        setImmediate(() => {
          madeThen = made.length;
          controller.abort(new Error("stop"));
        });
      };
      await assert.rejects(applyManifest(limiter, plan, { signal: controller.signal, onChange }), /stop/);
      assert.ok(made.length <= madeThen + 1, `${made.length - madeThen} changes after it was told to stop`);
      assert.ok(made.length < 200);
      const rest = await planManifest(limiter, manifest, {});
      assert.equal((await applyManifest(limiter, rest, {})).changes.length, rest.changes.length);
      assert.deepEqual((await planManifest(limiter, manifest, {})).changes, []);
    });
  });
}

test("a take on the service during a sum over all usage is answered before the sum", async (t) => {
  const limiter = await filled(t, (t) => openSqlite({ file: tempFile(t) }));
  const service = await createService({ limiter, open: true, dashboard: false, log: () => {} });
  t.after(() => service.close());
  const ns = "http://localhost/v1/namespaces/default";
  const ended: string[] = [];
  const summary = service.fetch(new Request(`${ns}/usage/summary?window=hourly`)).then(async (answer) => {
    assert.equal(answer.status, 200, await answer.text());
    ended.push("summary");
  });
  const body = JSON.stringify({ entityId: "hot", resource: "api", consume: { rpm: 1 }, holdMs: 0 });
  const takes = Array.from({ length: 3 }, async () => {
    const headers = { "content-type": "application/json" };
    const answer = await service.fetch(new Request(`${ns}/acquire`, { method: "POST", headers, body }));
    assert.equal(answer.status, 200, await answer.text());
    ended.push("take");
  });
  await Promise.all([summary, ...takes]);
  assert.deepEqual(ended, ["take", "take", "take", "summary"]);
});
