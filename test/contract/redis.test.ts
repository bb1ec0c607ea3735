import { after } from "node:test";
import { Redis } from "ioredis";
import { createClient, RESP_TYPES } from "redis";
import { openRedis, type RedisStoreOptions } from "../../src/entry/redis.ts";
import type { Store } from "../../src/ports/store.ts";
import { atDepth, isDeep } from "../depth.ts";
import { describeSuite } from "../kit/contract.ts";
import { suiteOn } from "../kit/contract-kit.ts";
import { NARROW_ACL } from "../redis/acl.ts";
import { connectionTo, newPrefix } from "../redis/kit.ts";
import { CLUSTER, describeRedis, type RedisServer } from "../redis/redis-server.ts";

/** Stories go by their own readings. */
const clock = { now: () => Date.UTC(2026, 2, 15, 12) };

/** Takes sweep nothing away from this store; what many of them do that few do not is told on stores that are quicker. */
const FEW_REPEATS = 40;

/** The address or the client of a store under this prefix. */
type Way = (prefix: string) => Pick<RedisStoreOptions, "url" | "send" | "prefix" | "coalesce">;

/** `url`: of a user who may remove everything between stories. */
function contractOn(name: string, url: string, way: Way): void {
  const prefix = newPrefix();
  const admin = connectionTo(url, prefix);
  const opened = async () => {
    const open = () => openRedis({ ...way(prefix), clock, adminTimeoutMs: 60_000 });
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
        await admin.send([["FLUSHDB"]]);
      },
    };
  };
  describeSuite(name, suiteOn(opened, ["pastHours"], atDepth(FEW_REPEATS, undefined)));
}

function bySend({ url }: RedisServer): Way {
  const client = new Redis(url, { lazyConnect: true });
  after(() => client.disconnect());
  const send: RedisStoreOptions["send"] = ([name, ...rest]) => client.callBuffer(String(name), ...(rest as Buffer[]));
  return (prefix) => ({ send, prefix });
}

function byNodeRedis({ url }: RedisServer): Way {
  const client = createClient({ url });
  const typed = client.withTypeMapping({ [RESP_TYPES.BLOB_STRING]: Buffer });
  const connected = lazily(() => client.connect());
  after(() => (client.isOpen ? client.destroy() : undefined));
  const send: RedisStoreOptions["send"] = async (parts) => {
    await connected();
    return typed.sendCommand(parts as Buffer[]);
  };
  return (prefix) => ({ send, prefix });
}

function lazily<Value>(work: () => Promise<Value>): () => Promise<Value> {
  let made: Promise<Value> | undefined;
  return () => {
    made ??= work();
    return made;
  };
}

await describeRedis("on a server", (server) => {
  const { url } = server;
  for (const coalesce of atDepth([true], [true, false])) {
    const name = coalesce ? "redis" : "redis, call by call";
    contractOn(name, url, (prefix) => ({ url: `${url}?prefix=${prefix}`, coalesce }));
  }
  if (isDeep) contractOn("redis, by a client of the caller", url, bySend(server));
  if (isDeep) contractOn("redis, by node-redis", url, byNodeRedis(server));
});

if (isDeep) {
  const { sendByGlide } = await import("../redis/glide.ts");
  await describeRedis(
    "on a server, by a user with few rights",
    ({ url, port }) => {
      const limited = url.replace("//", "//limiter:secret@");
      contractOn("redis, with few rights", url, (prefix) => ({ url: `${limited}?prefix=${prefix}` }));
      const send = sendByGlide({ port, credentials: { username: "limiter", password: "secret" } });
      contractOn("redis, by GLIDE, with few rights", url, (prefix) => ({ send, prefix }));
    },
    ["--user", "limiter", "on", ">secret", "resetchannels", "~{t*}*", ...NARROW_ACL.split(" ")],
  );
  await describeRedis(
    "on a cluster",
    ({ url, port }) => {
      contractOn("redis, a cluster", `${url}?cluster=true`, (prefix) => ({
        url: `${url}?cluster=true&prefix=${prefix}`,
      }));
      const send = sendByGlide({ port, isCluster: true });
      contractOn("redis, by GLIDE on a cluster", `${url}?cluster=true`, (prefix) => ({ send, prefix }));
    },
    CLUSTER,
  );
}
