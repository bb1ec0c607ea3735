import type { Credentials, CredentialsProvider } from "../adapters/dynamodb/credentials.ts";
import type { SdkClient } from "../adapters/dynamodb/sdk-client.ts";
import { isPostgresUrl } from "../adapters/postgres/address.ts";
import { isRedisUrl } from "../adapters/redis/address.ts";
import type { SendCommand } from "../adapters/redis/connection.ts";
import { steadyMs } from "../adapters/system/clock.ts";
import { fromEnvironment } from "../adapters/system/environment.ts";
import { jitter } from "../adapters/system/random.ts";
import type { UnnamedLimits } from "../domain/charge/charges.ts";
import type { OnUnavailable, OutageShareOption, UnknownEntities } from "../domain/config/config.ts";
import { FILE_RETENTION } from "../domain/config/retention.ts";
import type { Calendar } from "../domain/limits/schedule.ts";
import { given } from "../domain/names/given.ts";
import { KnownNames } from "../domain/names/known-names.ts";
import { shown } from "../domain/names/names.ts";
import type { MaybePromise } from "../ports/bucket-store.ts";
import type { Store } from "../ports/store.ts";
import type { Clock } from "../ports/system.ts";
import { DYNAMO_STORE } from "./dynamodb-options.ts";
import type { PostgresClient } from "./postgres.ts";
import { type RetentionOptions, retentionOf } from "./retention.ts";

// A store is one row of this file: how it is named, and how it is opened. Nothing of a store is loaded before it is opened.

/** Every option may be left out. An option that one store alone knows names that store first. */
export interface OpenOptions extends RetentionOptions {
  /**
   * `"memory"`, `"sqlite:FILE"`, `"postgres://…"` (`"postgres"`: the address in `DATABASE_URL`), `"redis://…"` or
   * `"valkey://…"` (`"redis"`: the address in `REDIS_URL`), `"dynamodb:STACK"` (`"dynamodb"`: the stack of `ZAEL_STACK`),
   * or a store object.
   * Default: `ZAEL_STORE`, else `"dynamodb:"` and `ZAEL_STACK`, else `"sqlite:.zae-limiter/limiter.db"`.
   */
  readonly store?: string | Store;
  /**
   * SQLite, PostgreSQL and Redis: `false` makes no file, tables or keys and migrates none; what is missing is
   * `store_not_found`, what is old `schema_older`. Default: `true`.
   */
  readonly create?: boolean;
  /** The tenant. It must be registered, except `default`. Default: `ZAEL_NAMESPACE`, else `"default"`. */
  readonly namespace?: string;
  /**
   * A clock for tests and simulations. The limiter uses it as it is and never corrects it. Default: the system clock,
   * corrected to the time of the store where the store has one.
   */
  readonly clock?: { now(): number; sleep?: Clock["sleep"] };
  /** How long the limiter remembers stored limits, in ms; 0 = not at all. Default: 60,000. */
  readonly configTtlMs?: number;
  /** How long a refusal may be answered from memory, in ms; 0 = never. Default: 1,000; 0 on the memory store. */
  readonly denyMemoryMs?: number;
  /**
   * What happens with the id of an entity that was never created. `"allow"`: the default limits apply, and it has no
   * parent. `"refuse"`: takes, questions and changes of it throw `entity_not_found`. Default: `"allow"`.
   */
  readonly unknownEntities?: UnknownEntities;
  /**
   * What happens when a request leaves out a measure that a hard limit counts, and when weights of an LLM adapter are
   * counted by nothing. `"warn"`: nothing is taken there, and Node warns once for each limit (`ZAEL_LIMIT_UNNAMED`).
   * `"allow"`: the same, silently. `"refuse"`: the request throws `measure_missing`, unless the level is bypassed, or
   * `limit_unknown`. Default: `"warn"`.
   */
  readonly unnamedLimits?: UnnamedLimits;
  /**
   * Whether mistakes that would leave something without a limit are errors: `unknownEntities` and `unnamedLimits` are
   * `"refuse"`, unless they are given. Default: `false`.
   */
  readonly strict?: boolean;
  /**
   * Whether refused requests are counted for `refusals()`, which throws without it. Counts are kept as long as usage.
   * Default: `true`.
   */
  readonly countRefusals?: boolean;
  /**
   * Whether refused requests are kept one by one for `refusalLog()`, which throws without it: of each entity and hour the
   * first 20 and the last 20 of each process, for 48 hours. Default: `true`.
   */
  readonly refusalLog?: boolean;
  /** Whether requests that are under way at the same time share one write. Default: `true`. */
  readonly coalesce?: boolean;
  /**
   * What happens to requests while the store does not answer; it overrides the stored setting. `{ share: 1 / 8 }`: an
   * eighth of every limit is granted in this process, uncounted. Default: the stored setting, else `"block"`.
   */
  readonly onUnavailable?: OnUnavailable | OutageShareOption;
  /** How long one acquire may wait for the store, in ms. Default: 1,000. */
  readonly timeoutMs?: number;
  /** DynamoDB, PostgreSQL and Redis: how long all other reads and changes may take, in ms. Default: 10,000. */
  readonly adminTimeoutMs?: number;
  /**
   * What a loss of power (SQLite) or a crash of the server (PostgreSQL) may take away: the last moments (`"normal"`), or
   * nothing (`"full"`). Redis: what its own settings allow (`"normal"`), or only a server that loses nothing (`"full"`).
   * Default: `"normal"` on SQLite and Redis, `"full"` on PostgreSQL.
   */
  readonly durability?: "normal" | "full";
  /** PostgreSQL: how many connections are opened at most. Default: 4. */
  readonly poolMax?: number;
  /** PostgreSQL: a connection that nobody uses is closed after so many ms. Default: 600,000 (10 minutes). */
  readonly poolIdleMs?: number;
  /** PostgreSQL with `client`: the schema that the tables are in. Default: `"zae_limiter"`. */
  readonly schema?: string;
  /** Redis with `send`: the first part of every key. Default: `"zael"`. */
  readonly prefix?: string;
  /**
   * Redis, with the store `"redis"`: a function that sends one command of a client of the caller's, who closes it. Default:
   * connections of this package.
   */
  readonly send?: SendCommand;
  /** Redis: a take is answered when this many replicas have confirmed it. Default: 0. */
  readonly replicas?: number;
  /** Redis: whether a server may be used that removes keys when its memory is full. Default: `false`. */
  readonly allowEviction?: boolean;
  /** Redis with `durability: "full"`: whether a server that does not show its settings is taken at its word. Default: `false`. */
  readonly trustServer?: boolean;
  /** Redis: at most this many batches are under way at once. Default: 2. */
  readonly lanes?: number;
  /** DynamoDB: the AWS region. Default: as the AWS SDK finds it. */
  readonly region?: string;
  /** DynamoDB: another address, such as `http://localhost:8000` for DynamoDB Local. Default: the address of the region. */
  readonly endpoint?: string;
  /** DynamoDB: the credentials, or a function that fetches them. Default: the provider chain of the AWS SDK. */
  readonly credentials?: Credentials | CredentialsProvider;
  /**
   * PostgreSQL, with the store `"postgres"`: a `pg.Pool`, a `pg.Client`, PGlite, or any object with `query(text, values)`.
   * DynamoDB: a `DynamoDBClient` to send requests with, at several times the CPU. The caller closes it. Default:
   * connections of this package.
   */
  readonly client?: PostgresClient | SdkClient;
  /**
   * DynamoDB: whether the Python original writes to this table too. Without it such a table is refused. Default:
   * `false`.
   */
  readonly sharedTable?: boolean;
  /** DynamoDB: whether a full bucket is counted without tolerance, at the price of more writes. Default: `false`. */
  readonly exact?: boolean;
}

export const OPEN_OPTIONS = new KnownNames<OpenOptions>({
  ...{ store: true, create: true, namespace: true, clock: true, configTtlMs: true, denyMemoryMs: true },
  ...{ timeoutMs: true, coalesce: true, countRefusals: true, refusalLog: true, onUnavailable: true, strict: true },
  ...{ unknownEntities: true, unnamedLimits: true, durability: true, adminTimeoutMs: true, usage: true },
  ...{ auditKeepMs: true },
  ...{ region: true, endpoint: true, credentials: true, client: true, sharedTable: true, exact: true },
  ...{ poolMax: true, poolIdleMs: true, schema: true },
  ...{ prefix: true, send: true, replicas: true, allowEviction: true, trustServer: true, lanes: true },
});

/** Options that some stores alone have, by the stores that have them. The others would pass over them in silence. */
export const STORES_OF_OPTION = {
  poolMax: "PostgreSQL",
  poolIdleMs: "PostgreSQL",
  schema: "PostgreSQL",
  durability: "SQLite, PostgreSQL and Redis",
  client: "PostgreSQL and DynamoDB",
  prefix: "Redis",
  send: "Redis",
  replicas: "Redis",
  allowEviction: "Redis",
  trustServer: "Redis",
  lanes: "Redis",
} as const;

/** A kind of store: how it is named in the option `store`, and how it is opened. */
export interface StoreKind {
  /** How its name is written in a program. */
  readonly written: string;
  /** Which of the options that some stores alone have are its own. */
  readonly options: readonly (keyof typeof STORES_OF_OPTION)[];
  /** Whether a text is the name of a store of this kind, complete or not. */
  names(store: string): boolean;
  /** Undefined: the name lacks what has to follow. */
  open(store: string, options: OpenOptions, calendar: Calendar): MaybePromise<Store | undefined>;
}

/** A kind that the command line knows, too. */
interface NamedKind extends StoreKind {
  /** How its name is written on the command line. */
  readonly typed: string;
  /** What a shorter name stands for. */
  readonly shorter?: string;
}

const sqlite: NamedKind = {
  written: '"sqlite:FILE"',
  typed: "sqlite:FILE",
  options: ["durability"],
  names: (store) => store.startsWith("sqlite:"),
  open: async (store, options, calendar) => {
    const file = nameAfter("sqlite:", store);
    if (file === undefined) return undefined;
    const { openSqlite } = await import("../adapters/sqlite/store.ts");
    const { durability = "normal", coalesce = true, create = true } = options;
    const retention = retentionOf(options, FILE_RETENTION);
    return openSqlite({ file, create, durability, coalesce, retention, random: jitter, steadyMs, calendar });
  },
};

const postgres: NamedKind = {
  written: '"postgres://..."',
  typed: "postgres://HOST/DATABASE",
  shorter: "postgres: the one in DATABASE_URL",
  options: ["poolMax", "poolIdleMs", "schema", "durability", "client"],
  names: (store) => store === "postgres" || isPostgresUrl(store),
  open: async (store, options) => {
    const { openPostgres } = await import("./postgres.ts");
    return openPostgres(serverOptions(store, "postgres", postgres, options));
  },
};

const redis: NamedKind = {
  written: '"redis://..."',
  typed: "redis://HOST",
  shorter: "redis: the one in REDIS_URL",
  options: ["durability", "prefix", "send", "replicas", "allowEviction", "trustServer", "lanes"],
  names: (store) => store === "redis" || isRedisUrl(store),
  open: async (store, options) => {
    const { openRedis } = await import("./redis.ts");
    return openRedis(serverOptions(store, "redis", redis, options));
  },
};

/** The options of a store on a server, without those of the limiter; `inEnvironment`: the name that stands for an address there. */
function serverOptions(store: string, inEnvironment: string, kind: StoreKind, options: OpenOptions): object {
  const names = [...kind.options, "create", "coalesce", "adminTimeoutMs", "clock", "auditKeepMs"] as const;
  const { callers: _, ...kept } = options.usage || {};
  return given({
    ...Object.fromEntries(names.map((name) => [name, options[name]])),
    ...{ url: store === inEnvironment ? undefined : store, usage: options.usage && kept },
  });
}

const dynamodb: NamedKind = {
  written: '"dynamodb:STACK" ("dynamodb" with ZAEL_STACK set)',
  typed: "dynamodb:STACK",
  options: ["client"],
  names: (store) => store === "dynamodb" || store.startsWith("dynamodb:"),
  open: async (store, options) => {
    const stack = store === "dynamodb" ? fromEnvironment("ZAEL_STACK") : nameAfter("dynamodb:", store);
    if (stack === undefined) return undefined;
    const { openDynamo } = await import("./dynamodb.ts");
    return openDynamo({ ...DYNAMO_STORE.pick(options as OpenOptions & { client?: SdkClient }), stack });
  },
};

/** Every store but the one in memory, which belongs to `open.ts`: a bundle may have it alone. */
export const STORE_KINDS = { sqlite, postgres, redis, dynamodb };

/** What follows a prefix; undefined: nothing, or an address of something else, for no file or table is called so. */
export function nameAfter(prefix: string, store: string): string | undefined {
  const name = store.slice(prefix.length);
  return name === "" || /:\/\/|^\/\/[^/]*@/.test(name) ? undefined : name;
}

const STORE_DEFAULT = "sqlite:.zae-limiter/limiter.db";

/** The store that the environment names, or the default; the command line decides by the same. Empty counts as unset. */
export function storeOfEnvironment(env: Readonly<Record<string, string | undefined>>): string {
  if (env.ZAEL_STORE !== undefined && env.ZAEL_STORE !== "") return env.ZAEL_STORE;
  return env.ZAEL_STACK === undefined || env.ZAEL_STACK === "" ? STORE_DEFAULT : `dynamodb:${env.ZAEL_STACK}`;
}

/** A store that is not known, for a message: an address of somewhere else may have a password in it, wherever that is mistyped. */
export function shownStore(store: unknown): string {
  if (typeof store !== "string" || /^((dynamodb|sqlite):)?[\w.-]*$/.test(store)) return shown(store);
  return `"${/^[a-z][\w+.-]{0,20}:/i.exec(store)?.[0] ?? ""}..."`;
}
