import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, test } from "node:test";
import { Redis } from "ioredis";
import { createClient, RESP_TYPES } from "redis";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { openRedis, type RedisStoreOptions, type SendCommand } from "../../src/entry/redis.ts";
import { sendByGlide } from "./glide.ts";
import { newPrefix } from "./kit.ts";
import { CLUSTER, describeRedisServers } from "./redis-server.ts";

// Any client by one call, and a cluster: the same limits, the same counts.

/** One process: limits, a chain, a lease, a refusal, a list, usage. */
async function use(options: RedisStoreOptions): Promise<void> {
  const store = await openRedis(options);
  const limiter = await RateLimiter.open({ store });
  await limiter.setSystemDefaults([Limit.perDay("all", 5)]);
  await limiter.createEntity({ id: "org", name: "Größe \u{1F600}" });
  await limiter.createEntity({ id: "key", parentId: "org" });
  const request = { entityId: "key", resource: "api", consume: { all: 2 } };
  assert.equal((await limiter.tryAcquire(request)).ok, true);
  assert.equal((await limiter.tryAcquire(request)).ok, true);
  assert.equal((await limiter.tryAcquire(request)).ok, false);
  const { total } = await limiter.usageSummary({ entityId: "org", window: "daily" });
  assert.equal(total.all, 4);
  assert.equal((await limiter.getEntity("org")).name, "Größe \u{1F600}");
  const tenant = await limiter.registerNamespace("tenant");
  assert.equal(tenant.name, "tenant");
  await limiter.deleteNamespace("tenant");
  await limiter.purgeNamespace(tenant.id);
  await limiter.deleteEntity("key");
  assert.equal((await limiter.auditEvents({ limit: 1 })).events[0]?.action, "entity_deleted");
  await limiter.close();
  await store.close();
}

describeRedisServers("clients of Redis", (start) => {
  const shared = start();

  test("ioredis by callBuffer", async () => {
    const client = new Redis((await shared).port);
    after(() => client.disconnect());
    await use({
      send: ([name, ...rest]) => client.callBuffer(name as string, ...(rest as Buffer[])),
      prefix: newPrefix(),
    });
  });

  test("usage of a resource is asked of the buckets of that resource alone, and of an entity of its own", async () => {
    const client = new Redis((await shared).port);
    after(() => client.disconnect());
    const [prefix, asked] = [newPrefix(), new Set<string>()];
    const send: RedisStoreOptions["send"] = ([name, ...rest]) => {
      for (const key of String(name) === "MGET" ? rest.map(String) : []) if (key.includes("}b#")) asked.add(key);
      return client.callBuffer(name as string, ...(rest as Buffer[]));
    };
    const store = await openRedis({ send, prefix });
    const limiter = await RateLimiter.open({ store });
    await limiter.setSystemDefaults([Limit.perDay("all", 5)]);
    for (const entityId of ["a", "b", "c"]) {
      for (const resource of ["api", "gpu"]) await limiter.tryAcquire({ entityId, resource, consume: { all: 1 } });
    }
    const total = async (of: { readonly entityId?: string; readonly resource?: string }) => {
      asked.clear();
      const snapshots = await limiter.usage({ window: "daily", ...of });
      return [snapshots.reduce((sum, { counters }) => sum + (counters.all ?? 0), 0), asked.size];
    };
    assert.deepEqual(await total({ resource: "api" }), [3, 3]);
    assert.deepEqual(await total({ entityId: "a" }), [2, 2]);
    assert.deepEqual(await total({ entityId: "a", resource: "gpu" }), [1, 1]);
    await limiter.close();
    await store.close();
  });

  test("node-redis by sendCommand", async () => {
    const client = await createClient({ url: (await shared).url }).connect();
    after(() => client.destroy());
    const typed = client.withTypeMapping({ [RESP_TYPES.BLOB_STRING]: Buffer });
    const send: RedisStoreOptions["send"] = (parts) =>
      typed.sendCommand(parts.map((part) => (typeof part === "string" ? part : Buffer.from(part))));
    await use({ send, prefix: newPrefix() });
  });

  test("GLIDE by customCommand, also on a cluster, and where the server has forgotten the scripts", async () => {
    const { port } = await shared;
    await use({ send: sendByGlide({ port }), prefix: newPrefix() });
    const node = await start(CLUSTER);
    await use({ send: sendByGlide({ port: node.port, isCluster: true }), prefix: newPrefix() });
    await node.ask("SCRIPT", "FLUSH");
    await use({ send: sendByGlide({ port: node.port, isCluster: true }), prefix: newPrefix() });
    await node.kill();
  });

  test("GLIDE on a server that is not as it should be is told what is missing, as with every client", async () => {
    const running = await start([
      "--maxmemory-policy",
      "allkeys-lru",
      "--user",
      "few",
      "on",
      ">secret",
      "~*",
      "-@all",
      "+info",
    ]);
    const prefix = newPrefix();
    const refused = async (send: SendCommand, more: RedisStoreOptions, words: RegExp) => {
      await assert.rejects(openRedis({ send, prefix, ...more }), { code: "store_refused", message: words });
    };
    const send = sendByGlide({ port: running.port });
    await refused(send, {}, /maxmemory-policy allkeys-lru/);
    await running.ask("CONFIG", "SET", "maxmemory-policy", "noeviction");
    await refused(send, { durability: "full" }, /keeps no append-only file/);
    await running.ask("CONFIG", "SET", "appendonly", "yes");
    await refused(send, { durability: "full" }, /appendfsync everysec/);
    await running.ask("CONFIG", "SET", "appendfsync", "always");
    await (await openRedis({ send, prefix, durability: "full" })).close();
    const few = sendByGlide({ port: running.port, credentials: { username: "few", password: "secret" } });
    await refused(few, {}, /right is missing.*'get' command/);
    await running.kill();
  });

  test("a service of HTTP, commands and replies as base64", async () => {
    const client = new Redis((await shared).port);
    const encoded = (reply: unknown): unknown => {
      if (Buffer.isBuffer(reply)) return reply.toString("base64");
      return Array.isArray(reply) ? reply.map(encoded) : reply;
    };
    const service = createServer(async (request, response) => {
      const texts = JSON.parse(Buffer.concat(await request.toArray()).toString()) as string[];
      const [name, ...rest] = texts.map((text) => Buffer.from(text, "base64"));
      const reply = await client.callBuffer(String(name), ...rest).then(
        (result) => ({ result: encoded(result) }),
        (error: Error) => ({ error: error.message }),
      );
      response.end(JSON.stringify(reply));
    });
    await new Promise<void>((resolve) => service.listen(0, "127.0.0.1", resolve));
    after(() => {
      service.closeAllConnections();
      service.close();
      client.disconnect();
    });
    const { port } = service.address() as { readonly port: number };
    const decoded = (result: unknown): unknown => {
      if (typeof result === "string") return Buffer.from(result, "base64");
      return Array.isArray(result) ? result.map(decoded) : result;
    };
    const send: RedisStoreOptions["send"] = async (parts) => {
      const body = JSON.stringify(parts.map((part) => Buffer.from(part as Uint8Array).toString("base64")));
      const answer = await fetch(`http://127.0.0.1:${port}`, { method: "POST", body });
      const { result, error } = (await answer.json()) as { readonly result?: unknown; readonly error?: string };
      if (error !== undefined) throw new Error(error);
      return decoded(result);
    };
    await use({ send, prefix: newPrefix() });
  });

  test("a cluster: a namespace is one slot, and no command crosses slots", async () => {
    const node = await start(CLUSTER);
    await use({ url: `${node.url}?cluster=true&prefix=${newPrefix()}` });
    await node.kill();
  });
});
