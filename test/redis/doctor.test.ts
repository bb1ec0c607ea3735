import assert from "node:assert/strict";
import { test } from "node:test";
import { RateLimiter } from "../../src/entry/index.ts";
import { here } from "../cli/in-process.ts";
import { newPrefix } from "./kit.ts";
import { CLUSTER, describeRedisServers, startRedis } from "./redis-server.ts";

// Each row of `doctor` on servers that are as it tells; src/cli/redis-checks.test.ts has its words for what no server here is.

type Check = { readonly name: string; readonly ok: boolean | null; readonly detail: string; readonly remedy?: string };

/** The rows by name, and the exit code. */
async function asked(store: string): Promise<{ readonly code: number; readonly rows: Map<string, Check> }> {
  const { code, stdout, stderr } = await here(["doctor", "--json", "--store", store]);
  assert.doesNotMatch(stdout + stderr, /secret/);
  const { checks } = JSON.parse(stdout) as { readonly checks: readonly Check[] };
  return { code, rows: new Map(checks.map((check) => [check.name, check])) };
}

function told(rows: ReadonlyMap<string, Check>, name: string, ok: boolean, words: RegExp): void {
  const check = rows.get(name);
  assert.equal(check?.ok, ok, `${name}: ${check?.detail}`);
  assert.match(`${check?.detail} | ${check?.remedy ?? ""}`, words);
}

describeRedisServers("doctor on Redis", (start) => {
  test("a sound server is told row by row", async () => {
    const server = await start(["--appendonly", "yes", "--appendfsync", "always"]);
    const store = `${server.url}?prefix=${newPrefix()}`;
    await (await RateLimiter.open({ store })).close();
    const { code, rows } = await asked(store);
    assert.equal(code, 0);
    told(rows, "store", true, /redis:\/\/127\.0\.0\.1.* answers/);
    told(rows, "namespace", true, /default exists/);
    told(rows, "version", true, /schema 1/);
    told(rows, "clock", true, /ms (behind|ahead of) the server, whose clock counts/);
    told(rows, "permissions", true, /every command that was tried is allowed/);
    told(rows, "server", true, /^(Redis|Valkey) \d+\.\d+\.\d+, a primary \| $/);
    told(rows, "eviction", true, /nothing is removed/);
    told(rows, "memory", true, /\d+ MB used, without a bound/);
    told(rows, "durability", true, /nothing that was answered, nor does a loss of power \| $/);
    told(rows, "replicas", true, /^none/);
    told(rows, "writes", true, /^\d+, and no process has noticed that some were lost \| $/);
    told(rows, "slow", true, /slow log has/);
    told(rows, "tls", true, /the server is on this machine/);
    assert.equal(rows.size, 13);
    await server.kill();
  });

  test("settings that cost something are told: eviction, memory, durability, a default user that is off", async () => {
    const server = await start();
    const store = `${server.url}?prefix=${newPrefix()}`;
    await (await RateLimiter.open({ store })).close();
    told(
      (await asked(store)).rows,
      "durability",
      true,
      /loses everything since its last snapshot \| Set appendonly yes/,
    );
    await server.ask("CONFIG", "SET", "appendonly", "yes");
    const used = Number(/^used_memory:(\d+)/m.exec(await server.ask("INFO", "memory"))?.[1]);
    await server.ask("CONFIG", "SET", "maxmemory", String(Math.ceil(used * 1.05)));
    await server.ask("ACL", "SETUSER", "web", "on", ">secret", "~*", "+@all");
    const own = store.replace("//", "//web:secret@");
    const first = await asked(own);
    assert.equal(first.code, 0);
    told(first.rows, "memory", true, /MB used of \d+ MB \| Raise maxmemory/);
    told(
      first.rows,
      "durability",
      true,
      /nothing that was answered; a loss of power takes up to 2 s \(appendfsync everysec\)/,
    );
    await server.ask("CONFIG", "SET", "maxmemory-policy", "volatile-ttl");
    const second = await asked(own);
    assert.equal(second.code, 1);
    told(second.rows, "eviction", false, /maxmemory-policy is volatile-ttl.*Set maxmemory-policy noeviction/);
    told(second.rows, "store", false, /removes keys when its memory is full/);
    await server.ask("CONFIG", "SET", "maxmemory-policy", "noeviction");
    await server.ask("ACL", "SETUSER", "default", "off");
    told((await asked(own)).rows, "durability", true, /its default user is off, some servers drop transactions/);
    await server.kill();
  });

  test("a primary tells its replicas and how far they are behind; a replica is refused", async () => {
    const primary = await start(["--repl-diskless-sync-delay", "0"]);
    const replica = await startRedis(["--replicaof", "127.0.0.1", String(primary.port)]);
    const store = `${primary.url}?prefix=${newPrefix()}`;
    await (await RateLimiter.open({ store })).close();
    while (!/^slave0:.*state=online/m.test(await primary.ask("INFO", "replication")));
    told(
      (await asked(store)).rows,
      "replicas",
      true,
      new RegExp(`127\\.0\\.0\\.1:${replica.port} \\(\\d+ s behind\\)`),
    );
    const { code, rows } = await asked(store.replace(String(primary.port), String(replica.port)));
    assert.equal(code, 1);
    told(rows, "server", false, /a replica, which only reads \| Give the address of the primary/);
    await replica.kill();
    await primary.kill();
  });

  test("a user with few rights is told what is not shown, and which right is missing", async () => {
    const server = await start();
    const store = `${server.url}?prefix=${newPrefix()}`;
    await (await RateLimiter.open({ store })).close();
    await server.ask("ACL", "SETUSER", "few", "on", ">secret", "~*", "+@all", "-info", "-time", "-slowlog", "-zscore");
    const { code, rows } = await asked(store.replace("//", "//few:secret@"));
    assert.equal(code, 1);
    for (const name of ["server", "eviction", "memory", "durability", "replicas"]) {
      told(rows, name, true, /this user may not ask INFO \| Allow INFO/);
    }
    told(rows, "slow", true, /not shown to this user/);
    told(rows, "clock", true, /TIME is not allowed/);
    told(rows, "permissions", false, /refused: .*(can't run this command|no permissions to run)/);
    await server.kill();
  });

  test("a node of a cluster tells that its cluster is down", async () => {
    const node = await start(CLUSTER);
    const store = `${node.url}?prefix=${newPrefix()}`;
    await (await RateLimiter.open({ store: `${store}&cluster=true` })).close();
    told((await asked(`${store}&cluster=true`)).rows, "server", true, /a primary, a node of a cluster \| $/);
    await node.ask("CLUSTER", "DELSLOTS", "1");
    while (!/cluster_state:fail/.test(await node.ask("CLUSTER", "INFO")));
    const { code, rows } = await asked(store);
    assert.equal(code, 1);
    told(rows, "server", false, /a node of a cluster whose state is fail.* \| CLUSTER NODES/);
    await node.kill();
  });

  test("writes that a server has lost are told by doctor, after the process that noticed it has ended", async () => {
    const server = await start();
    const store = `${server.url}?prefix=${newPrefix()}`;
    const limiter = await RateLimiter.open({ store });
    for (let i = 0; i < 5; i++) await limiter.createEntity({ id: `a-${i}` });
    const [key = ""] = (await server.ask("KEYS", "*:default}n")).split("\n");
    const writes = Number(await server.ask("GET", key));
    assert.ok(writes >= 5);
    // As on a replica that had not received the last three.
    await server.ask("MSET", key, String(writes - 3));
    await limiter.createEntity({ id: "b" });
    while ((await server.ask("GET", `${key}l`)) === "") await limiter.getEntity("b");
    await limiter.close();
    told(
      (await asked(store)).rows,
      "writes",
      true,
      /^\d+; 2 or more were lost, as was noticed at 20.*Z: .* \| Look at failovers/,
    );
    await server.kill();
  });
});
