import { addressOf } from "../adapters/redis/address.ts";
import type { Connection } from "../adapters/redis/connection.ts";
import { NotConnected, reasonOf, thrownFor } from "../adapters/redis/faults.ts";
import { namespaceKeys } from "../adapters/redis/keys.ts";
import { writesOf } from "../adapters/redis/lost-writes.ts";
import {
  type ServerFacts,
  type SlowScripts,
  serverFacts,
  serverTime,
  slowScripts,
  storeVersion,
} from "../adapters/redis/server.ts";
import { connectionTo } from "./redis-connection.ts";
import { aheadOf, isLocalHost } from "./server-store.ts";

export type { NamespaceWrites } from "../adapters/redis/lost-writes.ts";

/** Which server, and how long a command may take. */
export interface AskedServer {
  readonly url: string;
  readonly timeoutMs: number;
}

/** A server as `doctor` sees it. */
export interface RedisInspection {
  /** What the server says of itself; undefined: this user may not ask. */
  readonly facts: ServerFacts | undefined;
  /** The lead of this machine's clock over the server's, in ms; to half a round trip. Undefined: the server does not tell its time. */
  readonly aheadMs: number | undefined;
  /** The slow log of the server, as far as it has our scripts. Undefined: this user may not ask, or there is none. */
  readonly slow: SlowScripts | undefined;
  /** The reads that this user may not do, each with the server's words. */
  readonly refused: readonly string[];
  /** The server is on this machine, as far as its address tells. */
  readonly isLocal: boolean;
  readonly isEncrypted: boolean;
}

/** The form of the store; undefined: there is none. Makes and changes nothing. */
export function redisVersionOf(asked: AskedServer): Promise<number | undefined> {
  return asking(asked, storeVersion);
}

/** What a limiter depends on, as it is found there. Makes and changes nothing. */
export function inspectRedis(asked: AskedServer): Promise<RedisInspection> {
  return asking(asked, async (connection) => {
    await connection.ask([["PING"]]);
    const facts = await serverFacts(connection);
    // The connection is there by now, so that this is one trip.
    const aheadMs = await aheadOf(() => serverTime(connection));
    const { host, isSecure } = addressOf(asked.url);
    const slow = await slowScripts(connection);
    return {
      facts,
      aheadMs,
      slow,
      refused: await refusedReads(connection),
      isLocal: isLocalHost(host),
      isEncrypted: isSecure,
    };
  });
}

/** The writes of a namespace, and those that its server has lost, as far as a process has noticed. */
export function redisWritesOf({ namespaceId, ...asked }: AskedServer & { readonly namespaceId: string }) {
  return asking(asked, (connection) => writesOf(connection, namespaceKeys(connection.prefix, namespaceId)));
}

/** Commands that every limiter sends and that change nothing; those that change something are tried when a store is opened. */
async function refusedReads(connection: Connection): Promise<readonly string[]> {
  const keys = namespaceKeys(connection.prefix, "default");
  const index = keys.index("entities");
  const commands = [
    ["MGET", keys.generation],
    ["ZRANGEBYLEX", index, "-", "+", "LIMIT", "0", "1"],
    ["ZREVRANGEBYLEX", index, "+", "-", "LIMIT", "0", "1"],
    ["EVAL", "return redis.call('GET', KEYS[1])", "1", keys.generation],
    ["EVAL", "return redis.call('ZSCORE', KEYS[1], 'a')", "1", index],
    ["EVAL", "return redis.call('ZLEXCOUNT', KEYS[1], '-', '+')", "1", index],
  ];
  const refused: string[] = [];
  for (const command of commands) {
    try {
      await connection.send([command]);
    } catch (error) {
      if (error instanceof NotConnected) throw thrownFor(error, connection.name);
      refused.push(reasonOf(error));
    }
  }
  return refused;
}

async function asking<Answer>(
  { url, timeoutMs }: AskedServer,
  work: (connection: Connection) => Promise<Answer>,
): Promise<Answer> {
  const connection = await connectionTo(url, timeoutMs);
  try {
    return await work(connection);
  } finally {
    await connection.close();
  }
}
