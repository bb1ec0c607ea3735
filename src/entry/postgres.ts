import { addressOf, checkSchema, nameOf, postgresUrlOf, SCHEMA_DEFAULT } from "../adapters/postgres/address.ts";
import { Connection, type PostgresClient } from "../adapters/postgres/connection.ts";
import { ClientSession, openPool } from "../adapters/postgres/sessions.ts";
import { openStore } from "../adapters/postgres/store.ts";
import { fromEnvironment } from "../adapters/system/environment.ts";
import { ValidationError } from "../domain/names/errors.ts";
import { KnownNames, requireOption } from "../domain/names/known-names.ts";
import type { Store } from "../ports/store.ts";
import type { Clock } from "../ports/system.ts";
import type { RetentionOptions } from "./retention.ts";
import { serverStoreParts } from "./server-store.ts";

export type { PostgresClient } from "../adapters/postgres/connection.ts";
export type { RetentionOptions } from "./retention.ts";

/** Which server, and how takes are written. Give `url` or `client`. */
export interface PostgresStoreOptions extends RetentionOptions {
  /** `postgres://user:password@host:5432/database?schema=limits`. Default: `DATABASE_URL`. */
  readonly url?: string;
  /**
   * A client to send statements with, in place of `url`: a `pg.Pool`, a `pg.Client`, PGlite, or any object with
   * `query(text, values)`. The caller closes it. Default: connections of this package, by `url`.
   */
  readonly client?: PostgresClient;
  /** With `client`: the schema that the tables are in. Default: `"zae_limiter"`. */
  readonly schema?: string;
  /** `false` makes no tables and changes none; missing ones are `store_not_found`, old ones `schema_older`. Default: `true`. */
  readonly create?: boolean;
  /** What a crash of the server may take away: nothing (`"full"`), or the last moments (`"normal"`). Default: `"full"`. */
  readonly durability?: "normal" | "full";
  /** With `url`: how many connections are opened at most, as they are needed. Takes never use all of several. Default: 4. */
  readonly poolMax?: number;
  /** With `url`: a connection that nobody uses is closed after so many ms. Default: 600,000 (10 minutes). */
  readonly poolIdleMs?: number;
  /** Whether calls that are under way at the same time share one transaction. Default: `true`. */
  readonly coalesce?: boolean;
  /** How long reads and changes outside of requests may take, in ms. Default: 10,000. */
  readonly adminTimeoutMs?: number;
  /** A clock for tests and simulations, used as it is. Default: the system clock, corrected to the server's time. */
  readonly clock?: { now(): number; sleep?: Clock["sleep"] };
}

const POSTGRES_STORE = new KnownNames<PostgresStoreOptions>({
  ...{ url: true, client: true, schema: true, create: true, durability: true, poolMax: true, poolIdleMs: true },
  ...{ coalesce: true, adminTimeoutMs: true, clock: true, usage: true, auditKeepMs: true },
});

/**
 * Opens a store on a PostgreSQL server, for `RateLimiter.open({ store })`. Any number of processes on any machines share it.
 *
 * ```ts
 * const store = await openPostgres({ url: "postgres://limiter@db.internal/app?schema=limits" });
 * ```
 */
export async function openPostgres(options: PostgresStoreOptions): Promise<Store> {
  POSTGRES_STORE.check(options, "The options of openPostgres");
  const { create = true, durability = "full", coalesce = true, adminTimeoutMs = 10_000 } = options;
  const { connection, laneCount } = await connected(options, adminTimeoutMs);
  return openStore({
    ...{ connection, laneCount, create, durability, coalesce, adminTimeoutMs },
    ...serverStoreParts(options),
  });
}

async function connected(
  options: PostgresStoreOptions,
  adminTimeoutMs: number,
): Promise<{ readonly connection: Connection; readonly laneCount: number }> {
  const { client, schema, poolMax, poolIdleMs = POOL_IDLE_DEFAULT_MS } = options;
  if (client !== undefined) {
    requireOption("client", client, typeof client?.query === "function", "an object with query(text, values)");
    if (options.url !== undefined) throw both("url");
    if (poolMax !== undefined) throw both("poolMax");
    if (options.poolIdleMs !== undefined) throw both("poolIdleMs");
    const session = new ClientSession(client);
    const own = checkSchema(schema ?? SCHEMA_DEFAULT);
    const name = `postgres://client?schema=${own}`;
    return {
      connection: new Connection({ name, schema: own, takes: session, others: session, adminTimeoutMs }),
      laneCount: LANES_OF_CLIENT,
    };
  }
  const address = addressOf(postgresUrlOf(options.url, fromEnvironment("DATABASE_URL")));
  if (schema !== undefined) {
    throw new ValidationError(
      "option_invalid",
      "schema is given with an address; write it there: postgres://…?schema=NAME.",
    );
  }
  const connections = poolMax ?? POOL_DEFAULT;
  const isCount = (value: number) => Number.isSafeInteger(value) && value >= 1;
  requireOption("poolMax", poolMax, isCount(connections), "a whole number, at least 1");
  requireOption("poolIdleMs", poolIdleMs, isCount(poolIdleMs), "a whole number of ms, at least 1");
  const pool = await openPool(address, { poolMax: connections, poolIdleMs, timeoutMs: adminTimeoutMs });
  const sides = { takes: pool.session("takes"), others: pool.session("others") };
  // A command ends before it would be worth it.
  const warmed = connections < WARMED_FROM ? {} : { warmBy: pool.warmBy.bind(pool) };
  const grown = { othersMax: Math.ceil(connections / 2), ...warmed };
  return {
    connection: new Connection({ name: nameOf(address), schema: address.schema, ...sides, ...grown, adminTimeoutMs }),
    laneCount: Math.max(1, connections - 1),
  };
}

const POOL_DEFAULT = 4;

/** Longer than the pauses of most services: the first take of a connection costs the server as much as twenty others. */
const POOL_IDLE_DEFAULT_MS = 600_000;

/** The connections of a smaller pool are not prepared. */
const WARMED_FROM = 3;

/** A pool of the caller's may have one connection or a hundred. */
const LANES_OF_CLIENT = 3;

function both(name: "url" | "poolMax" | "poolIdleMs"): ValidationError {
  return new ValidationError(
    "option_invalid",
    `${name} and client are both given, but a client has its own; leave one out.`,
  );
}
