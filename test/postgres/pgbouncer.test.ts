import assert from "node:assert/strict";
import { after, test } from "node:test";
import pg from "pg";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { openPostgres } from "../../src/entry/postgres.ts";
import type { Store } from "../../src/ports/store.ts";
import { here } from "../cli/in-process.ts";
import { isDeep } from "../depth.ts";
import { describeStore } from "../kit/contract.ts";
import type { OpenStore } from "../kit/contract-kit.ts";
import { describePgbouncer, SERVER_CONNECTIONS } from "./pgbouncer.ts";
import { emptied } from "./record-kit.ts";

const clock = { now: () => Date.UTC(2026, 2, 15, 12) };

await describePgbouncer("through a pooler in transaction mode", ({ url, pooledUrl, newSchema }) => {
  const direct = new pg.Pool({ connectionString: url, max: 2 });
  after(() => direct.end());

  const contractSchema = newSchema();
  const opened: OpenStore = async () => {
    const open = () =>
      openPostgres({ url: `${pooledUrl}?schema=${contractSchema}`, clock, adminTimeoutMs: 60_000, poolMax: 3 });
    const stores: Store[] = [await open()];
    return {
      store: stores[0] as Store,
      another: async () => {
        const other = await open();
        stores.push(other);
        return other;
      },
      close: async () => {
        for (const store of stores) await store.close();
        await emptied(direct, contractSchema);
      },
    };
  };
  if (isDeep) describeStore("postgres through pgbouncer", opened, ["pastHours"]);

  test("limiters with more connections than the pooler has count together, exactly", async () => {
    const store = `${pooledUrl}?schema=${newSchema()}`;
    const bounds = { clock, timeoutMs: 60_000, adminTimeoutMs: 60_000 };
    const limiters = await Promise.all(Array.from({ length: 4 }, () => RateLimiter.open({ store, ...bounds })));
    await limiters[0]?.setSystemDefaults([Limit.perMinute("rpm", 200)]);
    let granted = 0;
    await Promise.all(
      limiters.flatMap((limiter) =>
        Array.from({ length: 8 }, async () => {
          for (let i = 0; i < 10; i++) {
            const outcome = await limiter.tryAcquire({ entityId: "a", resource: "api", consume: { rpm: 1 } });
            if (outcome.ok) granted++;
          }
        }),
      ),
    );
    assert.equal(granted, 200);
    for (const limiter of limiters) await limiter.close();
  });

  test("a take leaves a session of the pooler as it was", async () => {
    const store = `${pooledUrl}?schema=${newSchema()}`;
    const limiter = await RateLimiter.open({ store, clock, durability: "normal", timeoutMs: 60_000 });
    await limiter.setSystemDefaults([Limit.perMinute("rpm", 200)]);
    for (let i = 0; i < 20; i++) {
      assert.ok((await limiter.tryAcquire({ entityId: "a", resource: "api", consume: { rpm: 1 } })).ok);
    }
    await limiter.close();
    const pooled = new pg.Pool({ connectionString: pooledUrl, max: SERVER_CONNECTIONS });
    const text = `SELECT pg_backend_pid() AS pid, current_setting('synchronous_commit') AS commit,
      current_setting('lock_timeout') AS lock, current_setting('search_path') AS path, pg_sleep(0.05)`;
    const seen = await Promise.all(Array.from({ length: SERVER_CONNECTIONS }, () => pooled.query(text)));
    for (const { rows } of seen) {
      const [{ commit, lock, path }] = rows;
      assert.deepEqual([commit, lock, path], ["on", "0", '"$user", public']);
    }
    await pooled.end();
  });

  test("doctor and init work through it", async () => {
    const store = ["--store", `${pooledUrl}?schema=${newSchema()}`, "--timeout", "30s"];
    assert.equal((await here(["init", ...store])).code, 0);
    const { stdout } = await here(["doctor", "--json", ...store]);
    const { checks } = JSON.parse(stdout) as { checks: { name: string; ok: boolean }[] };
    // The server of these tests does not write to its disk; nothing else is the matter.
    assert.deepEqual(
      checks.filter(({ ok }) => !ok).map(({ name }) => name),
      process.env.ZAEL_TEST_POSTGRES_URL ? [] : ["durability"],
    );
  });
});
