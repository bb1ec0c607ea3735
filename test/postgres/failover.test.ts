import assert from "node:assert/strict";
import { test } from "node:test";
import pg from "pg";
import { RateLimiterUnavailable } from "../../src/domain/names/errors.ts";
import { Limit, type OpenOptions, RateLimiter } from "../../src/entry/index.ts";
import { here } from "../cli/in-process.ts";
import { describeServers, newSchema } from "./postgres.ts";
import { type PostgresProcess, startStandby } from "./postgres-process.ts";
import { SwitchingProxy } from "./switching-proxy.ts";

// What a failover to a standby takes away: nothing where takes wait for it, what it has not received where they do not.

const CAPACITY = 1_000_000;
const clock = { now: () => Date.UTC(2026, 2, 15, 12) };
const request = { entityId: "key-1", resource: "api", consume: { all: 1 } };

await describeServers("failover on PostgreSQL", (start) => {
  const SETTINGS = ["wal_level=replica", "max_wal_senders=4", "hot_standby=on"];

  const opened = async (store: string, more: OpenOptions = {}): Promise<RateLimiter> => {
    const limiter = await RateLimiter.open({ store, clock, timeoutMs: 20_000, adminTimeoutMs: 60_000, ...more });
    return limiter;
  };
  const setUp = async (limiter: RateLimiter) => {
    // Nothing comes back to it: what is gone was taken.
    await limiter.setSystemDefaults([Limit.quota("all", CAPACITY, { resetAfterMs: 86_400_000 })]);
    await limiter.createEntity({ id: "org" });
    await limiter.createEntity({ id: "key-1", parentId: "org" });
  };
  const taken = async (limiter: RateLimiter): Promise<readonly number[]> => {
    const left = await limiter.available({ entityId: "key-1", resource: "api" });
    const { total } = await limiter.usageSummary({ entityId: "key-1", window: "daily" });
    return [...left.map(({ available }) => CAPACITY - available), total.all ?? 0];
  };
  const sql = async (server: PostgresProcess, text: string) => {
    const client = new pg.Client({ connectionString: server.url });
    await client.connect();
    try {
      return (await client.query(text)).rows;
    } finally {
      await client.end();
    }
  };
  const received = async (primary: PostgresProcess) => {
    for (;;) {
      const text = "SELECT 1 FROM pg_stat_replication WHERE replay_lsn >= pg_current_wal_lsn()";
      if ((await sql(primary, text)).length > 0) return;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  };

  const left = async (primary: PostgresProcess) => {
    while ((await sql(primary, "SELECT 1 FROM pg_stat_replication")).length > 0) {
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  };

  test("where takes wait for a standby, nothing that was answered is lost, and a limiter goes on at the same address", async (t) => {
    const primary = await start(SETTINGS);
    const standby = await startStandby(primary, "west", []);
    await sql(primary, "ALTER SYSTEM SET synchronous_standby_names = 'west'");
    await sql(primary, "SELECT pg_reload_conf()");
    const proxy = await SwitchingProxy.to(primary.port);
    t.after(() => proxy.close());
    const store = `postgres://postgres@127.0.0.1:${proxy.port}/postgres?schema=${newSchema()}`;
    const limiter = await opened(store);
    await setUp(limiter);
    const doctor = await here(["doctor", "--json", "--store", store, "--timeout", "30s"]);
    const { checks } = JSON.parse(doctor.stdout) as { checks: { name: string; detail: string }[] };
    assert.match(checks.find(({ name }) => name === "durability")?.detail ?? "", /takes wait for west/);

    let [asked, answered] = [0, 0];
    let until = 100;
    const call = async () => {
      while (answered < until) {
        asked++;
        const outcome = await limiter.tryAcquire(request).catch((error: unknown) => {
          assert.ok(error instanceof RateLimiterUnavailable, String(error));
          return undefined;
        });
        if (outcome?.ok) answered++;
      }
    };
    const load = () => Promise.all(Array.from({ length: 8 }, call));
    await load();
    until = Number.POSITIVE_INFINITY;
    const through = load();
    await primary.kill();
    proxy.leadTo(standby.port);
    await sql(standby, "SELECT pg_promote()");
    // Nobody waits for a standby of its own.
    await sql(standby, "ALTER SYSTEM SET synchronous_standby_names = ''");
    await sql(standby, "SELECT pg_reload_conf()");
    until = answered + 50;
    await through;
    const found = await taken(limiter);
    assert.equal(new Set(found).size, 1, `a chain and its usage: ${found}`);
    const [stored = 0] = found;
    assert.ok(stored >= answered, `${answered} takes were answered, ${stored} are stored`);
    assert.ok(stored <= asked, `${asked} takes were asked for, ${stored} are stored`);
    await limiter.close();
    await standby.kill();
  });

  test("where the standby that takes wait for is lost, they wait with their rows locked until the server is told to go on", async (t) => {
    const primary = await start(SETTINGS);
    const standby = await startStandby(primary, "west", []);
    const store = `${primary.url}?schema=${newSchema()}`;
    const patient = await opened(store);
    const limiter = await opened(store, { timeoutMs: 1_000 });
    const other = await opened(store, { timeoutMs: 1_000 });
    const goOn = async () => {
      await sql(primary, "ALTER SYSTEM SET synchronous_standby_names = ''");
      await sql(primary, "SELECT pg_reload_conf()");
    };
    t.after(async () => {
      await goOn();
      await Promise.all([patient, limiter, other].map((each) => each.close()));
      await primary.kill();
    });
    await setUp(patient);
    await sql(primary, "ALTER SYSTEM SET synchronous_standby_names = 'west'");
    await sql(primary, "SELECT pg_reload_conf()");
    await received(primary);
    let [asked, answered] = [0, 0];
    const take = async (from: RateLimiter) => {
      asked++;
      if ((await from.tryAcquire(request)).ok) answered++;
    };
    await take(patient);
    await standby.kill();
    await left(primary);

    const before = answered;
    // Nobody knows what became of it. Who comes later waits for the row, which it has locked, and is refused with nothing taken.
    await assert.rejects(take(limiter), RateLimiterUnavailable);
    for (let round = 0; round < 2; round++) {
      for (const from of [other, limiter]) {
        await take(from).catch((error: unknown) => assert.ok(error instanceof RateLimiterUnavailable, String(error)));
      }
    }
    assert.equal(answered, before);
    const waiting = await sql(primary, "SELECT count(*)::int AS n FROM pg_stat_activity WHERE wait_event = 'SyncRep'");
    const stuck = Number((waiting[0] as { n: number }).n);
    // One that was told to end would only answer once it need not wait any longer: they must not become more and more.
    assert.ok(stuck >= 1 && stuck <= 2, `${stuck} connections wait for the standby`);

    await goOn();
    // They go on by themselves, the one whose take had waited as well.
    for (const from of [limiter, other]) {
      for (const until = answered + 1; answered < until; ) await take(from).catch(() => {});
    }
    const found = await taken(patient);
    assert.equal(new Set(found).size, 1, `a chain and its usage: ${found}`);
    const [stored = 0] = found;
    assert.ok(stored >= answered, `${answered} takes were answered, ${stored} are stored`);
    assert.ok(stored <= asked, `${asked} takes were asked for, ${stored} are stored`);
  });

  test("where they do not, what the standby has not received is lost whole, and can be taken again", async () => {
    const primary = await start(SETTINGS);
    const standby = await startStandby(primary, "west", []);
    const schema = newSchema();
    const limiter = await opened(`${primary.url}?schema=${schema}`);
    await setUp(limiter);
    for (let i = 0; i < 20; i++) assert.ok((await limiter.tryAcquire(request)).ok);
    await received(primary);
    await sql(standby, "ALTER SYSTEM SET primary_conninfo = ''");
    await sql(standby, "SELECT pg_reload_conf()");
    await left(primary);
    for (let i = 0; i < 7; i++) assert.ok((await limiter.tryAcquire(request)).ok);
    assert.deepEqual(await taken(limiter), [27, 27, 27]);
    await primary.kill();
    await limiter.close();

    // Before it is promoted it only reads: a take is certain not to have been made.
    const early = await opened(`${standby.url}?schema=${schema}`, { create: false, timeoutMs: 2_000 });
    assert.deepEqual(await taken(early), [20, 20, 20]);
    await assert.rejects(early.tryAcquire(request), RateLimiterUnavailable);
    const doctor = await here(["doctor", "--json", "--store", `${standby.url}?schema=${schema}`, "--timeout", "30s"]);
    assert.equal(doctor.code, 1);
    assert.match(doctor.stdout, /a standby, which only reads/);
    const change = await here(["entity", "create", "other", "--json", "--store", `${standby.url}?schema=${schema}`]);
    assert.deepEqual([change.code, JSON.parse(change.stderr).error.code], [3, "unavailable"]);

    await sql(standby, "SELECT pg_promote()");
    assert.ok((await early.tryAcquire(request)).ok);
    assert.deepEqual(await taken(early), [21, 21, 21]);
    await early.close();
    await standby.kill();
  });

  test("while the standby that takes wait for is away, none is answered; durability normal answers", async () => {
    const primary = await start([...SETTINGS, "synchronous_standby_names=nobody"]);
    const schema = newSchema();
    // Whoever sets things up does not wait.
    await sql(primary, "SET synchronous_commit = local; ALTER ROLE postgres SET synchronous_commit = local");
    const setter = await opened(`${primary.url}?schema=${schema}`);
    await setUp(setter);
    await setter.close();
    await sql(primary, "ALTER ROLE postgres RESET synchronous_commit");
    // First: a take that waits for a standby holds the locks of its buckets for as long.
    const normal = await opened(`${primary.url}?schema=${schema}`, { create: false, durability: "normal" });
    assert.ok((await normal.tryAcquire(request)).ok);
    await normal.close();
    const full = await opened(`${primary.url}?schema=${schema}`, { create: false, timeoutMs: 300 });
    await assert.rejects(full.tryAcquire(request), RateLimiterUnavailable);
    await full.close();
    await primary.kill();
  });
});
