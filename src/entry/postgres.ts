import { addressOf, checkSchema, nameOf, postgresUrlOf, SCHEMA_DEFAULT } from "../adapters/postgres/address.ts";
import { Connection, type PostgresClient } from "../adapters/postgres/connection.ts";
import { openPools } from "../adapters/postgres/pools.ts";
import { ClientSession } from "../adapters/postgres/sessions.ts";
import { openStore } from "../adapters/postgres/store.ts";
import { after, clockFrom, steadyMs, systemClock } from "../adapters/system/clock.ts";
import { systemDigest } from "../adapters/system/digest.ts";
import { fromEnvironment } from "../adapters/system/environment.ts";
import { systemRandom } from "../adapters/system/random.ts";
import { systemTurns } from "../adapters/system/turns.ts";
import { FILE_RETENTION } from "../domain/config/retention.ts";
import { ValidationError } from "../domain/names/errors.ts";
import { KnownNames } from "../domain/names/known-names.ts";
import { shown } from "../domain/names/names.ts";
import { leaseForm } from "../leases/draft-form.ts";
import type { Store } from "../ports/store.ts";
import type { Clock } from "../ports/system.ts";
import { calendar } from "./limits.ts";
import { type RetentionOptions, retentionOf } from "./retention.ts";

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
  /** With `url`: how many connections are opened at most. One of several is kept for what is no take. Default: 4. */
  readonly poolMax?: number;
  /** Whether calls that are under way at the same time share one transaction. Default: `true`. */
  readonly coalesce?: boolean;
  /** How long reads and changes outside of requests may take, in ms. Default: 10,000. */
  readonly adminTimeoutMs?: number;
  /** A clock for tests and simulations, used as it is. Default: the system clock, corrected to the server's time. */
  readonly clock?: { now(): number; sleep?: Clock["sleep"] };
}

const POSTGRES_STORE = new KnownNames<PostgresStoreOptions>({
  ...{ url: true, client: true, schema: true, create: true, durability: true, poolMax: true, coalesce: true },
  ...{ adminTimeoutMs: true, clock: true, usage: true, auditKeepMs: true },
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
  const { create = true, durability = "full", coalesce = true, adminTimeoutMs = 10_000, clock } = options;
  const { connection, laneCount } = await connected(options, adminTimeoutMs);
  return openStore({
    ...{ connection, laneCount, create, durability, coalesce, adminTimeoutMs, calendar, steadyMs, after },
    ...{ turns: systemTurns, digest: systemDigest, random: systemRandom },
    retention: retentionOf(options, FILE_RETENTION),
    leaseForm: leaseForm(calendar),
    clock: clock === undefined ? { kind: "kept", local: systemClock } : { kind: "given", clock: clockFrom(clock) },
  });
}

async function connected(
  options: PostgresStoreOptions,
  adminTimeoutMs: number,
): Promise<{ readonly connection: Connection; readonly laneCount: number }> {
  const { client, schema, poolMax } = options;
  if (client !== undefined) {
    if (typeof client?.query !== "function") {
      throw new ValidationError(
        "option_invalid",
        `client is ${shown(client)}; give an object with query(text, values).`,
      );
    }
    if (options.url !== undefined) throw both("url");
    if (poolMax !== undefined) throw both("poolMax");
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
  if (!Number.isSafeInteger(connections) || connections < 1) {
    throw new ValidationError("option_invalid", `poolMax is ${shown(poolMax)}; give a whole number, at least 1.`);
  }
  const sessions = await openPools(address, connections, adminTimeoutMs);
  return {
    connection: new Connection({ name: nameOf(address), schema: address.schema, ...sessions, adminTimeoutMs }),
    laneCount: Math.max(1, connections - 1),
  };
}

const POOL_DEFAULT = 4;

/** A pool of the caller's may have one connection or a hundred. */
const LANES_OF_CLIENT = 3;

function both(name: "url" | "poolMax"): ValidationError {
  return new ValidationError(
    "option_invalid",
    `${name} and client are both given, but a client has its own; leave one out.`,
  );
}
