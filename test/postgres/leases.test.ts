import assert from "node:assert/strict";
import { after, test } from "node:test";
import pg from "pg";
import type { PostgresClient } from "../../src/adapters/postgres/connection.ts";
import { Limit } from "../../src/entry/index.ts";
import { openPostgres } from "../../src/entry/postgres.ts";
import type { LeaseRequest } from "../../src/leases/lease-request.ts";
import type { LeaseView } from "../../src/leases/lease-view.ts";
import type { StoredLeases } from "../../src/leases/stored-leases.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { openStoredLeases, still, T0, taking } from "../stored-leases/kit.ts";
import { describePostgres } from "./postgres.ts";

const DEAD_AFTER_MS = 15_000;

await describePostgres("leases that takes write, on PostgreSQL", ({ url, newSchema }) => {
  const pool = new pg.Pool({ connectionString: url, max: 4 });
  after(() => pool.end());

  /** A key below a project, with limits of every kind; processes on one schema. */
  const opened = async () => {
    const schema = newSchema();
    const clock = new SimulatedClock(T0);
    const stores: { close(): unknown }[] = [];
    const process = async (client: PostgresClient = pool) => {
      const store = await openPostgres({ client, schema, clock, adminTimeoutMs: 60_000 });
      stores.push(store);
      return openStoredLeases(store, clock, { timeoutMs: 30_000 });
    };
    const first = await process();
    const { limiter } = first;
    await limiter.setResourceDefaults("gpt-4", [still("rpm", 60), still("tpm", 6_000)]);
    await limiter.setResourceDefaults("quotas", [
      Limit.quota("daily", 50, { reset: { cron: "0 0 * * *", tz: "Europe/Berlin" } }),
      Limit.quota("session", 40, { resetAfterMs: 5 * 3_600_000 }),
      { ...Limit.perMinute("soft", 3), soft: true },
    ]);
    await limiter.setSystemDefaults([Limit.perDay("all", 100_000)]);
    await limiter.createEntity({ id: "proj-1" });
    await limiter.createEntity({ id: "key-1", parentId: "proj-1", cascade: true });
    await limiter.setLimits("proj-1", [still("tpm", 9_000)], { resource: "gpt-4" });
    const left = async (limit: string) =>
      (await limiter.available({ entityId: "key-1", resource: "gpt-4" })).find((one) => one.limit === limit)?.available;
    return { first, process, clock, left, close: async () => Promise.all(stores.map((store) => store.close())) };
  };

  const SHAPES: readonly (readonly [name: string, request: LeaseRequest])[] = [
    ["two levels", taking({ rpm: 1, tpm: 500 }, { onExpiry: "refund", requestId: "r-1" })],
    ["quotas, a window and a soft limit in debt", { ...taking({ daily: 2, session: 3, soft: 5 }), resource: "quotas" }],
    ["nothing of a limit", taking({ rpm: 0, tpm: 1 })],
    ["further resources", taking({ rpm: 1 }, { also: { quotas: { daily: 1, soft: 1 } } })],
    ["under a key", taking({ tpm: 20 }, { idempotencyKey: "k-1" })],
    ["under a key, and charged at once", taking({ tpm: 30 }, { idempotencyKey: "k-2", holdMs: 0 })],
  ];

  test("another process reads a lease as it was answered, and repeats its answer under the key", async () => {
    const { first, process, clock, close } = await opened();
    const other = await process();
    for (const [name, request] of SHAPES) {
      await clock.advance(1_234);
      const { lease, standings } = await first.storedLeases.acquire(request);
      if (lease.leaseId !== null) assert.deepEqual(await other.storedLeases.get(lease.leaseId), lease, name);
      if (request.idempotencyKey === undefined) continue;
      assert.deepEqual(await other.storedLeases.acquire(request), { lease, standings, replayed: true }, name);
    }
    await close();
  });

  test("what a take has written is changed, listed and ended like any lease", async () => {
    const { first, process, clock, left, close } = await opened();
    const other = await process();
    const idOf = async (request: LeaseRequest) => (await first.storedLeases.acquire(request)).lease.leaseId as string;
    const ids = [];
    for (let i = 0; i < 4; i++) ids.push(await idOf(taking({ tpm: 100 }, { onExpiry: "refund" })));
    const [one = "", two = "", three = "", four = ""] = ids;
    assert.equal((await other.storedLeases.consume(one, { amounts: { tpm: 10 } })).lease.consumed.tpm, 110);
    assert.equal((await other.storedLeases.settle(two, { consumed: { tpm: 40 } })).status, "settled");
    assert.equal((await other.storedLeases.rollback(three)).status, "rolledBack");
    const listed = await openOf(other.storedLeases);
    assert.deepEqual(listed.map(({ leaseId }) => leaseId).sort(), [one, four].sort());
    assert.equal(await left("tpm"), 6_000 - 110 - 40 - 100);
    await clock.advance(300_000);
    await other.storedLeases.expireDue();
    assert.equal(await left("tpm"), 6_000 - 40);
    await close();
  });

  test("a lease costs its take no further statement", async () => {
    const { process, close } = await opened();
    const texts: string[] = [];
    const counting: PostgresClient = {
      query: (text, values) => {
        texts.push(text);
        return pool.query(text, values);
      },
    };
    const { storedLeases } = await process(counting);
    await storedLeases.acquire(taking({ tpm: 1 }));
    texts.length = 0;
    await storedLeases.acquire(taking({ tpm: 1 }));
    assert.equal(texts.length, 1, texts.join("\n"));
    assert.match(texts[0] as string, /take_2/);
    await close();
  });

  test("a process that dies in an acquire, wherever: sent again under its key it is charged once, and there is one lease", async () => {
    for (let at = 0; ; at++) {
      const { first, process, clock, left, close } = await opened();
      let calls = -1;
      let die = () => {};
      const died = new Promise<"died">((resolve) => {
        die = () => resolve("died");
      });
      // A dead process hears no answer. Once all is looked at its call ends, so that nothing waits for it any longer.
      let bury = () => {};
      const dead = () => {
        die();
        return new Promise<never>((_, reject) => {
          bury = () => reject(new Error("The process is dead."));
        });
      };
      // Dies before its statement is sent, and after the server has done it, in turn.
      const dying: PostgresClient = {
        query: async (text, values) => {
          if (calls >= 0 && calls++ === at) return dead();
          const answer = await pool.query(text, values);
          return calls >= 0 && calls++ === at ? dead() : answer;
        },
      };
      const { storedLeases } = await process(dying);
      await storedLeases.acquire(taking({ rpm: 1 }));
      calls = 0;
      const request = taking({ tpm: 500 }, { idempotencyKey: "order-7" });
      // As long as it is not dead it is answered.
      const acquired = storedLeases.acquire(request).then(() => "answered");
      const outcome = await Promise.race([acquired, died]);
      await clock.advance(DEAD_AFTER_MS);
      const { lease } = await first.storedLeases.acquire(request);
      assert.equal(await left("tpm"), 5_500, `died at ${at}`);
      const listed = await openOf(first.storedLeases);
      const held = listed.filter(({ consumed }) => consumed.tpm === 500);
      assert.deepEqual(held, [lease], `died at ${at}`);
      bury();
      await acquired.catch(() => {});
      await close();
      if (outcome === "answered") {
        assert.ok(at >= 6, `${at} places to die at`);
        return;
      }
    }
  });
});

async function openOf(storedLeases: StoredLeases): Promise<readonly LeaseView[]> {
  const found: LeaseView[] = [];
  for await (const lease of storedLeases.list({ entityId: "key-1" })) found.push(lease);
  return found;
}
