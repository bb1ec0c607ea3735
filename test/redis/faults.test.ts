import assert from "node:assert/strict";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { afterEach, test } from "node:test";
import { CHANNELS } from "../../src/adapters/system/events.ts";
import { RateLimiterUnavailable } from "../../src/domain/names/errors.ts";
import { Limit, type OpenOptions, RateLimiter } from "../../src/entry/index.ts";
import { openRedis } from "../../src/entry/redis.ts";
import type { DegradedEvent } from "../../src/ports/events.ts";
import { SeededRandom } from "../../src/testing/random.ts";
import { atDepth } from "../depth.ts";
import { CuttingProxy } from "../postgres/cutting-proxy.ts";
import { SwitchingProxy } from "../postgres/switching-proxy.ts";
import { newPrefix } from "./kit.ts";
import { describeRedisServers, type RedisServer, startRedis } from "./redis-server.ts";

// What becomes of takes while connections are cut, scripts are forgotten, the memory is full, and the server dies.

const CAPACITY = 1_000_000;
const clock = { now: () => Date.UTC(2026, 2, 15, 12) };
const request = { entityId: "key-1", resource: "api", consume: { all: 1 } };

interface Counts {
  answered: number;
  /** The most that may have been taken without an answer. */
  unknown: number;
}

async function opened(store: string, more: OpenOptions = {}): Promise<RateLimiter> {
  const limiter = await RateLimiter.open({ store, clock, timeoutMs: 20_000, adminTimeoutMs: 60_000, ...more });
  left.push(limiter);
  return limiter;
}

/** Those that a test which fails leaves open would keep the process alive. */
const left: RateLimiter[] = [];
afterEach(async () => {
  await Promise.all(left.splice(0).map((limiter) => limiter.close()));
});

/** Nothing comes back to either while the clock stands: what is gone was taken. */
const LIMITS = {
  "takes that are summed": Limit.perDay("all", CAPACITY),
  "takes that are judged one by one": Limit.quota("all", CAPACITY, { resetAfterMs: 86_400_000 }),
} as const;

async function setUp(limiter: RateLimiter, limit: Limit = LIMITS["takes that are summed"]): Promise<void> {
  await limiter.setSystemDefaults([limit]);
  await limiter.createEntity({ id: "org" });
  await limiter.createEntity({ id: "key-1", parentId: "org" });
}

/** The tokens that are gone from the levels, and the usage. */
async function taken(limiter: RateLimiter): Promise<readonly number[]> {
  const left = await limiter.available({ entityId: "key-1", resource: "api" });
  const { total } = await limiter.usageSummary({ entityId: "key-1", window: "daily" });
  return [...left.map(({ available }) => CAPACITY - available), total.all ?? 0];
}

/** Takes by many callers at once, until so many are answered, or `isOver`. */
async function load(limiter: RateLimiter, callers: number, isOver: (counts: Counts) => boolean): Promise<Counts> {
  const counts: Counts = { answered: 0, unknown: 0 };
  const call = async () => {
    while (!isOver(counts)) {
      try {
        if ((await limiter.tryAcquire(request)).ok) counts.answered++;
      } catch (error) {
        assert.ok(error instanceof RateLimiterUnavailable, String(error));
        counts.unknown++;
      }
    }
  };
  await Promise.all(Array.from({ length: callers }, call));
  return counts;
}

function within([low, high]: readonly [number, number], found: readonly number[]): void {
  for (const one of found) assert.ok(one >= low && one <= high, `${one} are gone, of ${low} to ${high}`);
}

async function offsetOf(server: RedisServer, name: "master_repl_offset" | "slave_repl_offset"): Promise<number> {
  return Number(new RegExp(`^${name}:(\\d+)`, "m").exec(await server.ask("INFO", "replication"))?.[1]);
}

/** Waits until a replica has what its primary had written up to an offset. */
async function hasReceived(replica: RedisServer, offset: number): Promise<void> {
  while ((await offsetOf(replica, "slave_repl_offset")) < offset);
}

const address = (server: RedisServer, query = "") => `${server.url}/0?prefix=${newPrefix()}${query}`;

describeRedisServers("faults on Redis", (start) => {
  const shared = start();

  for (const [name, limit] of Object.entries(LIMITS)) {
    test(`${name}: whose answer is lost learns what became of the take; nothing is charged twice, nothing is unknown`, async (t) => {
      const server = await shared;
      const random = new SeededRandom(7);
      const draw = () =>
        random.weighted([
          [6, "pass"],
          [2, "beforeSending"],
          [2, "afterSending"],
        ] as const);
      let decide: () => "pass" | "beforeSending" | "afterSending" = () => "pass";
      const proxy = await CuttingProxy.before(server.port, () => decide(), "EVALSHA");
      t.after(() => proxy.close());
      const limiter = await opened(address(server).replace(String(server.port), String(proxy.port)));
      await setUp(limiter, limit);
      decide = draw;
      const counts = await load(limiter, 4, ({ answered }) => answered >= atDepth(120, 600));
      decide = () => "pass";
      assert.ok(proxy.cuts > 5, `only ${proxy.cuts} connections were cut`);
      assert.equal(counts.unknown, 0);
      assert.deepEqual(await taken(limiter), [counts.answered, counts.answered, counts.answered]);
      await limiter.close();
    });

    test(`${name}: scripts that are forgotten and connections that are killed cost nobody a token`, async () => {
      const server = await shared;
      const limiter = await opened(address(server));
      await setUp(limiter, limit);
      let isOver = false;
      const disturbing = (async () => {
        for (let i = 0; i < 10; i++) {
          await server.ask("SCRIPT", "FLUSH");
          await server.ask("CLIENT", "KILL", "TYPE", "normal");
        }
        isOver = true;
      })();
      const counts = await load(limiter, 8, () => isOver);
      await disturbing;
      assert.equal(counts.unknown, 0);
      assert.deepEqual(await taken(limiter), [counts.answered, counts.answered, counts.answered]);
      await limiter.close();
    });
  }

  test("a server that pauses answers late: what nobody waited for is given back", async () => {
    const server = await shared;
    const store = address(server);
    const limiter = await opened(store, { timeoutMs: 1_000 });
    await setUp(limiter);
    await load(limiter, 2, ({ answered }) => answered >= 10);
    const before = await taken(limiter);
    // Until it is told to go on: a pause of some milliseconds may be over before the take is sent. Other commands than writes pass.
    await server.ask("CLIENT", "PAUSE", "60000", "WRITE");
    await assert.rejects(limiter.tryAcquire(request), RateLimiterUnavailable);
    await server.ask("CLIENT", "UNPAUSE");
    await limiter.close();
    const after = await opened(store);
    assert.deepEqual(await taken(after), before);
    await after.close();
  });

  test("a full memory refuses takes, counts none of them, and passes when there is room", async () => {
    const server = await start();
    const limiter = await opened(address(server), { timeoutMs: 2_000 });
    await setUp(limiter);
    await load(limiter, 4, ({ answered }) => answered >= 50);
    const before = await taken(limiter);
    await server.ask("CONFIG", "SET", "maxmemory", "1000");
    await assert.rejects(limiter.tryAcquire(request), (error: unknown) => {
      assert.ok(error instanceof RateLimiterUnavailable);
      assert.match(String(error.message), /OOM/);
      return true;
    });
    await server.ask("CONFIG", "SET", "maxmemory", "0");
    assert.deepEqual(await taken(limiter), before);
    assert.equal((await limiter.tryAcquire(request)).ok, true);
    await limiter.close();
    await server.kill();
  });

  for (const [name, settings] of [
    ["with appendfsync always", ["--appendonly", "yes", "--appendfsync", "always"]],
    [
      "whose default user is off",
      [
        "--appendonly",
        "yes",
        "--appendfsync",
        "always",
        "--user",
        "default",
        "off",
        "--user",
        "web",
        "on",
        "nopass",
        "+@all",
        "~*",
      ],
    ],
  ] as const) {
    test(`after SIGKILL of a server ${name} everything that was answered is there`, async () => {
      const server = await start([...settings]);
      const store = address(server).replace("//", name.includes("off") ? "//web:any@" : "//");
      const limiter = await opened(store, { timeoutMs: 5_000 });
      await setUp(limiter);
      let isKilled = false;
      const kill = async () => {
        await server.kill();
        isKilled = true;
        await server.restart();
      };
      let killing: Promise<void> | undefined;
      const counts = await load(limiter, 8, ({ answered }) => {
        if (answered >= 300) killing ??= kill();
        return isKilled;
      });
      await killing;
      const again = await opened(store);
      within([counts.answered, counts.answered + counts.unknown], await taken(again));
      assert.equal((await again.tryAcquire(request)).ok, true);
      await again.close();
      await limiter.close();
      await server.kill();
    });
  }

  test("a server without persistence loses everything with SIGKILL, and the limiter tells how much", async (t) => {
    const server = await start();
    const told: DegradedEvent[] = [];
    const listener = (event: unknown) => told.push(event as DegradedEvent);
    subscribe(CHANNELS.degraded, listener);
    t.after(() => unsubscribe(CHANNELS.degraded, listener));
    const limiter = await opened(address(server), { timeoutMs: 5_000, configTtlMs: 0 });
    await setUp(limiter);
    const counts = await load(limiter, 4, ({ answered }) => answered >= 100);
    assert.ok(counts.answered >= 100);
    await server.kill();
    await server.restart();
    // The namespace is gone with its limits: the limiter says so, or goes by what it has read.
    const lost = () => told.find(({ kind }) => kind === "writes_lost");
    while (lost() === undefined) await limiter.tryAcquire(request).catch(() => {});
    assert.match(lost()?.reason ?? "", /lost \d+ or more of the writes/);
    await limiter.close();
    await server.kill();
  });

  test("a server that begins to remove keys has lost writes, and the limiter that was let on it tells it", async (t) => {
    const server = await start();
    const told: DegradedEvent[] = [];
    const listener = (event: unknown) => told.push(event as DegradedEvent);
    subscribe(CHANNELS.degraded, listener);
    t.after(() => unsubscribe(CHANNELS.degraded, listener));
    const [store, prefix] = [address(server), newPrefix()];
    const own = await openRedis({ url: `${server.url}?prefix=${prefix}`, allowEviction: true, clock });
    const limiter = await RateLimiter.open({ store: own, clock, timeoutMs: 20_000 });
    await setUp(limiter);
    await load(limiter, 4, ({ answered }) => answered >= 50);
    await server.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-random");
    await assert.rejects(RateLimiter.open({ store }), /allkeys-random/);
    await server.ask("CONFIG", "SET", "maxmemory", "1");
    while ((await server.ask("DBSIZE")) !== "0") await server.ask("SET", "filler", "x").catch(() => {});
    await server.ask("CONFIG", "SET", "maxmemory", "0");
    const lost = () => told.find(({ kind }) => kind === "writes_lost");
    while (lost() === undefined) await limiter.tryAcquire(request).catch(() => {});
    assert.match(lost()?.reason ?? "", /lost \d+ or more of the writes/);
    await limiter.close();
    await own.close();
    await server.kill();
  });

  test("a change of limits that a failover has lost holds nobody up", async (t) => {
    const server = await start();
    const limiter = await opened(address(server), { timeoutMs: 20_000 });
    t.after(() => limiter.close());
    await setUp(limiter);
    assert.equal((await limiter.tryAcquire(request)).ok, true);
    const keys = (await server.ask("KEYS", "*:default}[gn]")).split("\n");
    assert.equal(keys.length, 2);
    const before = await Promise.all(keys.map(async (key) => [key, await server.ask("GET", key)]));
    await limiter.setResourceDefaults("other", [Limit.perMinute("rpm", 1)]);
    assert.equal((await limiter.tryAcquire(request)).ok, true);
    // As on a replica that had not received it.
    await server.ask("MSET", ...before.flat());
    assert.equal((await limiter.tryAcquire(request)).ok, true);
    assert.equal((await limiter.tryAcquire({ ...request, entityId: "key-2" })).ok, true);
  });

  test("a failover to a replica loses what it has not received; with `replicas` nothing that was answered", async (t) => {
    for (const replicas of atDepth([1], [0, 1])) {
      const primary = await start(["--repl-diskless-sync-delay", "0"]);
      const replica = await startRedis(["--replicaof", "127.0.0.1", String(primary.port)]);
      while (!/master_link_status:up/.test(await replica.ask("INFO", "replication")));
      const proxy = await SwitchingProxy.to(primary.port);
      t.after(() => proxy.close());
      const store = address(primary).replace(String(primary.port), String(proxy.port));
      const limiter = await opened(store, { timeoutMs: 1_000, replicas });
      await setUp(limiter);
      await hasReceived(replica, await offsetOf(primary, "master_repl_offset"));
      let isFailed = false;
      const fail = async () => {
        await primary.kill();
        await replica.ask("REPLICAOF", "NO", "ONE");
        proxy.leadTo(replica.port);
        isFailed = true;
      };
      let failing: Promise<void> | undefined;
      const counts = await load(limiter, 8, ({ answered }) => {
        if (answered >= 200) failing ??= fail();
        return isFailed;
      });
      await failing;
      const low = replicas === 0 ? 0 : counts.answered;
      within([low, counts.answered + counts.unknown], await taken(limiter));
      // The new primary has no replica that could confirm.
      if (replicas === 0) assert.equal((await limiter.tryAcquire(request)).ok, true);
      else await assert.rejects(limiter.tryAcquire(request), /Fewer than 1 replicas|No answer/);
      await limiter.close();
      await replica.kill();
    }
  });
});
