import assert from "node:assert/strict";
import { after, test } from "node:test";
import pg from "pg";
import { inSchema } from "../../src/adapters/postgres/connection.ts";
import { warmTakes } from "../../src/adapters/postgres/warm-takes.ts";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { describePostgres } from "./postgres.ts";

await describePostgres("connections to PostgreSQL", ({ url, newSchema }) => {
  const pool = new pg.Pool({ connectionString: url, max: 2 });
  after(() => pool.end());

  const opened = async (options: { readonly poolMax?: number; readonly poolIdleMs?: number }) => {
    const schema = newSchema();
    const name = `connections-${schema}`;
    const store = `${url}${url.includes("?") ? "&" : "?"}schema=${schema}&application_name=${name}`;
    const limiter = await RateLimiter.open({ store, timeoutMs: 60_000, ...options });
    await limiter.setResourceDefaults("api", [Limit.perMinute("rpm", 1_000_000)]);
    const connections = async () => {
      const text = "SELECT count(*)::int AS open FROM pg_stat_activity WHERE application_name = $1";
      return (await pool.query(text, [name])).rows[0].open as number;
    };
    /** Asks until it is so: what a server shows of connections comes a moment later. */
    const until = async (isSo: (open: number) => boolean) => {
      let open = await connections();
      for (let tries = 0; tries < 2_000 && !isSo(open); tries++) open = await connections();
      return open;
    };
    const take = (entityId: string) => limiter.tryAcquire({ entityId, resource: "api", consume: { rpm: 1 } });
    const burst = (count: number) => Promise.all(Array.from({ length: count }, (_, i) => take(`id-${i % 200}`)));
    return { schema, limiter, take, burst, connections, until };
  };

  test("one caller needs one connection, a crowd gets more of them and never more than poolMax", async () => {
    const { limiter, take, burst, connections, until } = await opened({ poolMax: 4 });
    for (let i = 0; i < 20; i++) await take("alone");
    assert.ok((await connections()) <= 2, "requests of one caller wait for nobody");
    for (let i = 0; i < 10; i++) assert.ok((await burst(300)).every(({ ok }) => ok));
    const open = await until((now) => now >= 3);
    assert.ok(open >= 3 && open <= 4, `${open} connections`);
    await limiter.close();
    assert.equal(await until((now) => now === 0), 0);
  });

  test("a connection that nobody uses is closed after poolIdleMs, and the next request opens another one", async () => {
    const { limiter, take, burst, until } = await opened({ poolMax: 4, poolIdleMs: 20 });
    for (let i = 0; i < 5; i++) await burst(300);
    assert.equal(await until((now) => now === 0), 0);
    assert.equal((await take("alone")).ok, true);
    await limiter.close();
  });

  test("a wrong poolIdleMs is refused, and so is one beside a client", async () => {
    for (const poolIdleMs of [0, -1, 1.5, Number.NaN]) {
      await assert.rejects(RateLimiter.open({ store: url, poolIdleMs }), { code: "option_invalid" });
    }
    const refused = RateLimiter.open({ store: "postgres", client: pool, poolIdleMs: 5 });
    await assert.rejects(refused, /poolIdleMs and client are both given/);
  });

  test("what prepares a connection takes on every way, and leaves nothing", async () => {
    const { schema, limiter } = await opened({ poolMax: 1 });
    const client = await pool.connect();
    const answers: string[] = [];
    await warmTakes(async (text, values) => {
      const { rows } = await client.query(inSchema(text, schema), values as unknown[]);
      if (rows[0]?.answer !== undefined) answers.push(rows[0].answer);
    }, "lane");
    client.release();
    const [made, changed, summed] = answers.map((text) => JSON.parse(text));
    const kinds = [made, changed].map(({ replies }) => replies.map(({ kind }: { kind: string }) => kind));
    assert.deepEqual(kinds, [["applied"], ["applied", "applied", "applied"]]);
    assert.equal(summed.kind, "applied");
    for (const table of ["bucket", "lane", "usage"]) {
      const { rows } = await pool.query(`SELECT * FROM "${schema}".${table}`);
      assert.deepEqual(rows, [], table);
    }
    await limiter.close();
  });
});
