import { checkPrefix, PREFIX_DEFAULT, redisUrlOf } from "../adapters/redis/address.ts";
import { Connection, type SendCommand } from "../adapters/redis/connection.ts";
import { openStore } from "../adapters/redis/store.ts";
import { wireOfSend } from "../adapters/redis/wires.ts";
import { fromEnvironment } from "../adapters/system/environment.ts";
import { ValidationError } from "../domain/names/errors.ts";
import { KnownNames, requireOption } from "../domain/names/known-names.ts";
import type { Store } from "../ports/store.ts";
import type { Clock } from "../ports/system.ts";
import { connectionTo } from "./redis-connection.ts";
import type { RetentionOptions } from "./retention.ts";
import { serverStoreParts } from "./server-store.ts";

export type { SendCommand } from "../adapters/redis/connection.ts";
export type { RetentionOptions } from "./retention.ts";

/** Which server, and what must not be lost. Give `url` or `send`. */
export interface RedisStoreOptions extends RetentionOptions {
  /** `redis://user:password@host:6379/0?prefix=zael`, or `rediss://`, `valkey://`, `valkeys://`. Default: `REDIS_URL`. */
  readonly url?: string;
  /**
   * Sends one command, in place of `url`, and resolves with the reply, texts as bytes: `(parts) => client.callBuffer(...parts)`
   * of ioredis. The caller closes the client. Default: connections of this package, by `url`.
   */
  readonly send?: SendCommand;
  /** With `send`: the first part of every key. Default: `"zael"`. */
  readonly prefix?: string;
  /** `false` makes no store; a missing one is `store_not_found`. Default: `true`. */
  readonly create?: boolean;
  /** `"full"` refuses a server that could lose what it has answered. Default: `"normal"`: what the server is set to. */
  readonly durability?: "normal" | "full";
  /** With `durability: "full"`: whether a server that does not show its settings is taken at its word. Default: `false`. */
  readonly trustServer?: boolean;
  /** A take is answered when this many replicas have confirmed it. Default: 0. */
  readonly replicas?: number;
  /** Whether a server may be used that removes keys when its memory is full. Default: `false`. */
  readonly allowEviction?: boolean;
  /** At most this many batches are under way at once. Default: 2. */
  readonly lanes?: number;
  /** Whether calls that are under way at the same time share one batch. Default: `true`. */
  readonly coalesce?: boolean;
  /** Reads and changes outside of requests may take this long, in ms. Default: 10,000. */
  readonly adminTimeoutMs?: number;
  /** A clock for tests and simulations, used as it is. Default: the system clock, corrected to the server's time. */
  readonly clock?: { now(): number; sleep?: Clock["sleep"] };
}

const REDIS_STORE = new KnownNames<RedisStoreOptions>({
  ...{ url: true, send: true, prefix: true, create: true, durability: true, trustServer: true, replicas: true },
  ...{ allowEviction: true, lanes: true, coalesce: true, adminTimeoutMs: true, clock: true },
  ...{ usage: true, auditKeepMs: true },
});

const LANES_DEFAULT = 2;

/** Replicas have so long to confirm a batch; a take whose batch is not confirmed counts as taken. */
const REPLICAS_TIMEOUT_MS = 500;

/**
 * Opens a store on a Redis or Valkey server, for `RateLimiter.open({ store })`. Any number of processes on any machines share it.
 *
 * ```ts
 * const store = await openRedis({ url: "rediss://limiter@redis.internal" });
 * ```
 */
export async function openRedis(options: RedisStoreOptions): Promise<Store> {
  REDIS_STORE.check(options, "The options of openRedis");
  const { create = true, durability = "normal", coalesce = true, adminTimeoutMs = 10_000 } = options;
  const { trustServer = false, allowEviction = false, replicas = 0, lanes = LANES_DEFAULT } = options;
  requireOption("durability", durability, ["normal", "full"].includes(durability), '"normal" or "full"');
  requireNumber("replicas", replicas, 0);
  requireNumber("lanes", lanes, 1);
  return openStore({
    connection: await connected(options, adminTimeoutMs),
    ...{ create, durability, trustServer, allowEviction, coalesce, adminTimeoutMs, laneCount: lanes },
    replicas: { count: replicas, timeoutMs: REPLICAS_TIMEOUT_MS },
    ...serverStoreParts(options),
  });
}

function requireNumber(name: string, value: number, least: number): void {
  requireOption(name, value, Number.isSafeInteger(value) && value >= least, `a whole number, at least ${least}`);
}

async function connected(options: RedisStoreOptions, adminTimeoutMs: number): Promise<Connection> {
  const { send, prefix, url } = options;
  if (send === undefined) {
    if (prefix !== undefined) {
      throw new ValidationError(
        "option_invalid",
        "prefix is given with an address; write it there: redis://…?prefix=NAME.",
      );
    }
    return connectionTo(redisUrlOf(url, fromEnvironment("REDIS_URL")), adminTimeoutMs);
  }
  requireOption("send", send, typeof send === "function", "a function of the parts of a command");
  if (url !== undefined) {
    throw new ValidationError(
      "option_invalid",
      "url and send are both given, but a client has its own; leave one out.",
    );
  }
  const own = checkPrefix(prefix ?? PREFIX_DEFAULT);
  return new Connection({ name: `redis://client?prefix=${own}`, prefix: own, wire: wireOfSend(send), adminTimeoutMs });
}
