import assert from "node:assert/strict";
import { createServer } from "node:net";
import { after, describe, test } from "node:test";
import { addressOf, nameOf } from "../../src/adapters/redis/address.ts";
import { LimiterError } from "../../src/domain/names/errors.ts";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { openRedis, type RedisStoreOptions } from "../../src/entry/redis.ts";
import { inspectRedis } from "../../src/entry/redis-admin.ts";
import { NARROW_ACL } from "./acl.ts";
import { newPrefix } from "./kit.ts";
import { describeRedisServers, type RedisServer } from "./redis-server.ts";

/** The error of opening a store, by its code and its words; none of them has the password. */
async function refuses(options: RedisStoreOptions, code: string, words: RegExp): Promise<void> {
  const error = await openRedis({ adminTimeoutMs: 2_000, ...options }).then(
    async (store) => {
      await store.close();
      return undefined;
    },
    (thrown: unknown) => thrown,
  );
  assert.ok(error instanceof LimiterError, `It was opened, or failed with ${error}.`);
  assert.equal(error.code, code, error.message);
  assert.match(error.message, words);
  assert.doesNotMatch(`${error.message} ${error.cause} ${error.stack}`, /secret/);
}

async function opens(options: RedisStoreOptions): Promise<void> {
  const store = await openRedis(options);
  assert.equal((await store.namespaces.get("default"))?.id, "default");
  await store.close();
}

describe("the address of a Redis store", () => {
  test("has the parts of a URL, and a name without user and password", () => {
    const address = addressOf("rediss://web:s%2Fcret@[::1]:7000/3?prefix=limits");
    assert.deepEqual(address, {
      ...{ host: "::1", port: 7000, user: "web", password: "s/cret", database: 3, prefix: "limits" },
      ...{ isSecure: true, isCluster: false },
    });
    assert.equal(nameOf(address), "rediss://[::1]:7000/3?prefix=limits");
    assert.equal(nameOf(addressOf("valkey://cache")), "redis://cache:6379/0?prefix=zael");
    assert.equal(addressOf("redis://cache").isSecure, false);
  });

  for (const [url, words] of [
    ["redis://", /no host/],
    ["redis://:sec/ret@cache", /percent sign/],
    ["redis://cache?prefx=a", /prefix/],
    ["redis://cache?prefix=a%7B", /prefix is/],
    ["redis://cache/one", /give a number/],
    ["redis://cache/1?cluster=true", /database 0 only/],
    ["redis://cache?cluster=yes", /true or false/],
    ["redis://cache:99999", /65535/],
  ] as const) {
    test(`${url} is refused with what is wrong`, () => {
      assert.throws(() => addressOf(url), words);
    });
  }
});

describeRedisServers("opening a store on Redis", (start) => {
  const server = start();
  const url = async (query = ""): Promise<string> => `${(await server).url}${query}`;
  /** A user of the server, with rules. */
  const userOf = async (running: RedisServer, name: string, ...rules: readonly string[]) => {
    await running.ask("ACL", "SETUSER", name, "reset", "on", ">secret", ...rules);
    return running.url.replace("//", `//${name}:secret@`);
  };

  test("a store that is missing is made, or told of", async () => {
    const prefix = newPrefix();
    await refuses({ url: await url(`?prefix=${prefix}`), create: false }, "store_not_found", /zae-limiter init/);
    await opens({ url: await url(`?prefix=${prefix}`) });
    await opens({ url: await url(`?prefix=${prefix}`), create: false });
  });

  test("a server that cannot be reached, is none, or has no TLS, is told of without the password", async () => {
    await refuses({ url: "redis://web:secret@127.0.0.1:1" }, "unavailable", /ECONNREFUSED/);
    const web = createServer((socket) => socket.end("HTTP/1.1 400 Bad Request\r\n\r\n"));
    await new Promise<void>((resolve) => web.listen(0, "127.0.0.1", resolve));
    after(() => web.close());
    const { port } = web.address() as { readonly port: number };
    await refuses({ url: `redis://web:secret@127.0.0.1:${port}` }, "unavailable", /does not respond/);
    // A server without TLS waits for more of what it takes for a command.
    const secure = (await url()).replace("redis:", "rediss:");
    await refuses({ url: secure, adminTimeoutMs: 200 }, "unavailable", /No connection could be had within 200 ms/);
  });

  test("a wrong user or password is told of, and never shown", async () => {
    const running = await server;
    await userOf(running, "web", "+@all", "~*");
    await refuses({ url: running.url.replace("//", "//web:secret2@") }, "store_refused", /Check user and password/);
  });

  test("a server that removes keys is refused, unless that is allowed", async () => {
    const running = await start(["--maxmemory-policy", "volatile-lru"]);
    await refuses({ url: running.url }, "store_refused", /maxmemory-policy volatile-lru/);
    await opens({ url: running.url, allowEviction: true });
    await running.kill();
  });

  test("doctor counts the scripts of this store in the slow log, and says where it is not shown", async () => {
    const running = await server;
    const [own, other] = [newPrefix(), newPrefix()];
    const slow = async (address: string, prefix: string) =>
      (await inspectRedis({ url: `${address}?prefix=${prefix}`, timeoutMs: 10_000 })).slow;
    await opens({ url: await url(`?prefix=${own}`) });
    await running.ask("CONFIG", "SET", "slowlog-log-slower-than", "0");
    const limiter = await RateLimiter.open({ store: await url(`?prefix=${own}`) });
    await limiter.setSystemDefaults([Limit.perDay("all", 5)]);
    await limiter.acquire({ entityId: "a", resource: "api", consume: { all: 1 } });
    await running.ask("CONFIG", "SET", "slowlog-log-slower-than", "10000");
    await limiter.close();
    const { count = 0, slowestMs = 0 } = (await slow(running.url, own)) ?? {};
    assert.ok(count >= 2 && slowestMs > 0, `${count} scripts, the slowest of ${slowestMs} ms`);
    assert.deepEqual(await slow(running.url, other), { count: 0, slowestMs: 0 });
    const narrow = await userOf(running, "narrow", "+@all", "-slowlog", "~*");
    assert.equal(await slow(narrow, own), undefined);
  });

  test("a replica is refused", async () => {
    const primary = await server;
    const replica = await start(["--replicaof", "127.0.0.1", String(primary.port)]);
    await refuses({ url: replica.url }, "store_refused", /a replica, which only reads/);
    await replica.kill();
  });

  test("full durability is refused where the server does not have it", async () => {
    await refuses({ url: await url(), durability: "full" }, "store_refused", /set `appendonly yes` and/);
    const second = await start(["--appendonly", "yes", "--appendfsync", "everysec"]);
    await refuses({ url: second.url, durability: "full" }, "store_refused", /appendfsync everysec/);
    await second.ask("CONFIG", "SET", "appendfsync", "always");
    await opens({ url: second.url, durability: "full" });
    const blind = await userOf(second, "blind", "~*", "+@all", "-config", "-info");
    await refuses({ url: blind, durability: "full" }, "store_refused", /trustServer/);
    await opens({ url: blind, durability: "full", trustServer: true });
    await second.kill();
  });

  test("keys of others under our prefix are told of, and not touched", async () => {
    const running = await server;
    const prefix = newPrefix();
    await running.ask("SET", `{${prefix}:}meta`, "something else");
    await refuses({ url: await url(`?prefix=${prefix}`) }, "store_invalid", /choose another prefix/);
    const other = newPrefix();
    await running.ask("SADD", `{${other}:}xi`, "a");
    await refuses({ url: await url(`?prefix=${other}`) }, "store_invalid", /Choose another prefix/);
    const third = newPrefix();
    await running.ask("SET", `{${third}:}meta`, "zae-limiter 99");
    await refuses({ url: await url(`?prefix=${third}`) }, "schema_newer", /upgrade zae-limiter/);
  });

  test("options that contradict each other are refused with a sentence", async () => {
    const send = async () => null;
    await refuses({ url: await url(), send }, "option_invalid", /leave one out/);
    await refuses({ url: await url(), prefix: "a" }, "option_invalid", /prefix is given with an address/);
    await refuses({ url: await url(), replicas: -1 }, "option_invalid", /replicas is -1/);
    await refuses({ url: await url(), lanes: 0 }, "option_invalid", /lanes is 0/);
    await assert.rejects(RateLimiter.open({ store: "memory", lanes: 2 }), /lanes is an option of Redis|Redis/);
    await refuses({ url: "http://cache" }, "option_invalid", /does not begin with redis:/);
  });

  test("the user of the guide can do everything, and each command that is taken away is named", async () => {
    const running = await server;
    const prefix = newPrefix();
    const limited = (rules: string) =>
      userOf(running, "limiter", "resetchannels", `~{${prefix}*}*`, ...rules.split(" "));
    const use = async (address: string): Promise<void> => {
      const limiter = await RateLimiter.open({ store: `${address}?prefix=${prefix}` });
      try {
        await limiter.setSystemDefaults([Limit.perMinute("rpm", 1000)]);
        await limiter.createEntity({ id: "a" });
        await limiter.acquire({ entityId: "a", resource: "api", consume: { rpm: 1 } });
        await limiter.deleteEntity("a");
        await limiter.auditEvents({ entityId: "a" });
      } finally {
        await limiter.close();
      }
    };
    await use(await limited(NARROW_ACL));
    for (const command of ["eval", "evalsha", "get", "mget", "mset", "zadd", "zscore", "zrangebylex"]) {
      const address = await limited(NARROW_ACL.replace(` +${command} `, " "));
      const error = await use(address).then(
        () => undefined,
        (thrown: unknown) => thrown,
      );
      if (command === "eval") {
        // The server knows the scripts by now.
        assert.equal(error, undefined);
        continue;
      }
      assert.ok(error instanceof LimiterError, `${command}: ${error}`);
      assert.equal(error.code, "store_refused", `${command}: ${error.message}`);
    }
    assert.match(await running.ask("ACL", "LIST"), /limiter/);
  });
});
