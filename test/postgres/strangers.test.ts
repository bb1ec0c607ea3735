import assert from "node:assert/strict";
import { after, before, type TestContext, test } from "node:test";
import { inspect } from "node:util";
import pg from "pg";
import { RateLimiterUnavailable } from "../../src/domain/names/errors.ts";
import { Limit, type OpenOptions, RateLimiter } from "../../src/entry/index.ts";
import { here } from "../cli/in-process.ts";
import { describePostgres } from "./postgres.ts";

// What others do on the same server: end our connections, hold locks, leave transactions open, start with us at once.

const CAPACITY = 1_000_000;
const clock = { now: () => Date.UTC(2026, 2, 15, 12) };
const request = (entityId: string) => ({ entityId, resource: "api", consume: { all: 1 } });

await describePostgres("strangers on PostgreSQL", ({ url, newSchema }) => {
  const admin = new pg.Pool({ connectionString: url, max: 4 });
  after(() => admin.end());
  const schema = newSchema();
  const opened = (more: OpenOptions = {}) =>
    RateLimiter.open({ store: `${url}?schema=${schema}&application_name=ours_${schema}`, clock, ...more });

  before(async () => {
    const limiter = await opened();
    // Nothing comes back to it: what is gone was taken.
    await limiter.setSystemDefaults([Limit.quota("all", CAPACITY, { resetAfterMs: 86_400_000 })]);
    await limiter.close();
  });

  const taken = async (limiter: RateLimiter, entityId: string): Promise<number> => {
    const [left] = await limiter.available({ entityId, resource: "api" });
    return CAPACITY - (left?.available ?? Number.NaN);
  };
  /** A lock that is not had in time is told by the server (contended: try again at once), or not heard of in time. */
  const notMade = async (asked: ReturnType<RateLimiter["tryAcquire"]>) => {
    const outcome = await asked.catch((error: unknown) => {
      assert.ok(error instanceof RateLimiterUnavailable, inspect(error));
      return { ok: false, retryAfterMs: 1 } as const;
    });
    assert.ok(!outcome.ok && outcome.retryAfterMs === 1, inspect(outcome));
  };
  const stranger = async (t: TestContext): Promise<pg.Client> => {
    const client = new pg.Client({ connectionString: url });
    client.on("error", () => {});
    await client.connect();
    t.after(() => client.end());
    return client;
  };

  test("pg_terminate_backend of all our connections, again and again: every take is answered once and charged once", async () => {
    const limiter = await opened({ timeoutMs: 60_000, adminTimeoutMs: 60_000 });
    let answered = 0;
    let ended = 0;
    const end = async () => {
      const { rowCount } = await admin.query(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1",
        [`ours_${schema}`],
      );
      ended += rowCount ?? 0;
    };
    await Promise.all(
      Array.from({ length: 8 }, async () => {
        for (let i = 0; i < 40; i++) {
          assert.ok((await limiter.tryAcquire(request("ended"))).ok);
          answered++;
          if (answered % 20 === 0) await end();
        }
      }),
    );
    assert.ok(ended >= 8, `${ended} connections were ended`);
    assert.equal(await taken(limiter, "ended"), 8 * 40);
    await limiter.close();
  });

  test("while a stranger holds the row of a bucket, its takes end in their time and are not made, and others go on", async (t) => {
    const limiter = await opened({ timeoutMs: 700 });
    const patient = await opened({ timeoutMs: 60_000 });
    assert.ok((await patient.tryAcquire(request("held"))).ok);
    const other = await stranger(t);
    await other.query("BEGIN");
    await other.query(`SELECT * FROM ${schema}.bucket WHERE entity = 'held' FOR UPDATE`);
    await notMade(limiter.tryAcquire(request("held")));
    assert.ok((await patient.tryAcquire(request("free"))).ok, "another bucket");
    assert.equal(await taken(patient, "held"), 1, "who reads waits for nobody");
    const waiting = patient.tryAcquire(request("held"));
    await other.query("ROLLBACK");
    assert.ok((await waiting).ok);
    assert.equal(await taken(patient, "held"), 2);
    await limiter.close();
    await patient.close();
  });

  test("a stranger that locks the table of buckets holds up takes and nothing else, until it ends", async (t) => {
    const limiter = await opened({ timeoutMs: 700 });
    const other = await stranger(t);
    await other.query("BEGIN");
    await other.query(`LOCK TABLE ${schema}.bucket IN EXCLUSIVE MODE`);
    await notMade(limiter.tryAcquire(request("locked")));
    await limiter.createEntity({ id: "made-meanwhile" });
    await other.query("ROLLBACK");
    const after = await opened({ timeoutMs: 60_000 });
    assert.ok((await after.tryAcquire(request("locked"))).ok);
    assert.equal(await taken(after, "locked"), 1);
    await limiter.close();
    await after.close();
  });

  test("a transaction that is left open with a snapshot changes no verdict and no count", async (t) => {
    const limiter = await opened({ timeoutMs: 60_000 });
    const other = await stranger(t);
    await other.query("BEGIN ISOLATION LEVEL REPEATABLE READ");
    await other.query(`SELECT count(*) FROM ${schema}.bucket`);
    await Promise.all(
      Array.from({ length: 4 }, async () => {
        for (let i = 0; i < 30; i++) assert.ok((await limiter.tryAcquire(request("seen"))).ok);
      }),
    );
    assert.equal(await taken(limiter, "seen"), 120);
    await limiter.setSystemDefaults([Limit.quota("all", CAPACITY, { resetAfterMs: 86_400_000 })]);
    const { rows } = await other.query(`SELECT count(*)::int AS n FROM ${schema}.bucket WHERE entity = 'seen'`);
    assert.deepEqual(rows, [{ n: 0 }], "it sees what was there when it began");
    await other.query("COMMIT");
    await limiter.close();
  });

  test("8 that make the same schema at once all find it whole", async (t) => {
    const fresh = newSchema();
    t.after(() => admin.query(`DROP SCHEMA ${fresh} CASCADE`));
    const store = ["--store", `${url}?schema=${fresh}`, "--timeout", "60s", "--json"];
    const made = await Promise.all(Array.from({ length: 8 }, () => here(["init", ...store])));
    for (const { code, stderr } of made) assert.deepEqual([code, stderr], [0, ""]);
    const { items } = JSON.parse((await here(["namespace", "list", ...store])).stdout);
    assert.deepEqual(
      items.map(({ name }: { name: string }) => name),
      ["default"],
    );
  });
});
