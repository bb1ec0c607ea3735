import { isIP } from "node:net";
import type { Cluster, Redis } from "ioredis";
import type { RedisAddress } from "./address.ts";
import type { Outcome, Part, Reply, SendCommand, Wire } from "./connection.ts";
import { NotConnected } from "./faults.ts";

/** A wire on a client of the caller's, by one call. Commands of a pipeline wait for each other: the client may spread them over connections. */
export function wireOfSend(send: SendCommand): Wire {
  return {
    ready: () => undefined,
    pipeline: async (commands) => {
      const outcomes: Outcome[] = [];
      for (const command of commands) outcomes.push(await outcomeOf(async () => flat(await send([...command]))));
      return outcomes;
    },
    close: async () => {},
  };
}

async function outcomeOf(work: () => Promise<unknown>): Promise<Outcome> {
  try {
    return { reply: (await work()) as Reply };
  } catch (error) {
    return { error };
  }
}

/** A map, in whichever form a client has it, is a list of names and values in turn, as servers have always sent it. */
function flat(reply: unknown): unknown {
  if (typeof reply !== "object" || reply === null || reply instanceof Uint8Array) return reply;
  if (reply instanceof Map) return [...reply].flat();
  if (!Array.isArray(reply)) return Object.entries(reply).flat();
  return reply.every(isPair) ? reply.flatMap(({ key, value }) => [key, value]) : reply;
}

/** GLIDE keeps names that are bytes so. */
function isPair(one: unknown): one is { readonly key: unknown; readonly value: unknown } {
  return typeof one === "object" && one !== null && "key" in one && "value" in one;
}

/** What of the library is used. */
interface Library {
  readonly Redis: typeof Redis;
  readonly Cluster: typeof Cluster;
}

/** The longest pause between two attempts to connect. */
const PAUSE_MAX_MS = 2_000;

/**
 * The client of ioredis, set to do nothing unasked: it sends no command twice, keeps none for later, and gives up none but by our time.
 */
export function wireOfIoredis(
  { Redis, Cluster }: Library,
  address: RedisAddress,
  { timeoutMs, random }: { readonly timeoutMs: number; readonly random: () => number },
): Wire {
  const { host, port, user, password, database, isSecure, isCluster } = address;
  const own = {
    // By it ioredis keeps a process alive that closes a connection which ended by itself.
    disconnectTimeout: 50,
    ...(user === undefined ? {} : { username: user }),
    ...(password === undefined ? {} : { password }),
    ...(isSecure ? { tls: isIP(host) === 0 ? { servername: host } : {} } : {}),
    ...{ autoResendUnfulfilledCommands: false, maxRetriesPerRequest: 0, enableOfflineQueue: false },
    ...({
      enableAutoPipelining: false,
      connectTimeout: timeoutMs,
      protocol: 2,
      disableClientInfo: true,
      enableReadyCheck: false,
    } as const),
    reconnectOnError: (error: Error) => error.message.startsWith("READONLY"),
  };
  const retryStrategy = (times: number) => pauseMs(times, random());
  if (isCluster) {
    const settings = {
      redisOptions: own,
      enableOfflineQueue: false,
      lazyConnect: true,
      clusterRetryStrategy: retryStrategy,
    };
    return new ClientWire(new Cluster([{ host, port }], settings));
  }
  return new ClientWire(new Redis({ ...own, host, port, db: database, retryStrategy, lazyConnect: true }));
}

/** The first pauses are short: a connection that was cut is there again at once. */
const ATTEMPTS_WAITED_FOR = 4;

function pauseMs(times: number, chance: number): number {
  const pause = Math.min(PAUSE_MAX_MS, 50 * 2 ** Math.min(times - 1, 10));
  return Math.ceil(pause * (0.5 + chance / 2));
}

class ClientWire implements Wire {
  readonly #client: Redis | Cluster;
  #lastError: unknown;
  /** Connections that ended since there was one that could be used. */
  #failures = 0;
  #wasReady = false;

  constructor(client: Redis | Cluster) {
    this.#client = client;
    // The reason of the last attempt; without a listener ioredis prints it.
    client.on("error", (error: unknown) => {
      this.#lastError = error;
    });
    client.on("ready", () => {
      this.#lastError = undefined;
      this.#failures = 0;
      this.#wasReady = true;
    });
    client.on("close", () => {
      this.#failures++;
    });
  }

  /** Waits for the attempt that is under way, or is about to begin; where several have failed, nobody waits for the next. */
  ready(): Promise<void> | undefined {
    return this.#client.status === "ready" ? undefined : this.#connected();
  }

  async #connected(): Promise<void> {
    const client = this.#client;
    for (;;) {
      if (client.status === "ready") return;
      // Its error is the last one, too.
      if (client.status === "wait") client.connect().catch(() => {});
      else if (client.status === "end" || this.#failures > (this.#wasReady ? ATTEMPTS_WAITED_FOR : 0)) {
        throw this.#notConnected();
      }
      await new Promise<void>((resolve) => {
        const settle = () => {
          client.off("ready", settle);
          client.off("close", settle);
          resolve();
        };
        client.on("ready", settle);
        client.on("close", settle);
      });
    }
  }

  async pipeline(commands: readonly (readonly Part[])[]): Promise<readonly Outcome[]> {
    if (this.#client.status !== "ready") throw this.#notConnected();
    // A pipeline of one would cost as much as the command itself.
    if (commands.length === 1) return [await outcomeOf(() => this.#call(commands[0] as readonly Part[]))];
    const pipeline = this.#client.pipeline();
    for (const [name, ...rest] of commands) pipeline.callBuffer(name as string, ...(rest as Buffer[]));
    const replies = await pipeline.exec();
    return (replies ?? []).map(([error, reply]) => (error === null ? { reply: reply as Reply } : { error }));
  }

  #call([name, ...rest]: readonly Part[]): Promise<unknown> {
    return this.#client.callBuffer(name as string, ...(rest as Buffer[]));
  }

  async close(): Promise<void> {
    this.#client.disconnect();
  }

  #notConnected(): NotConnected {
    return new NotConnected("There is no connection to the server.", { cause: this.#lastError });
  }
}
