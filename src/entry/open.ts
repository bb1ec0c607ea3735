import type { Credentials, CredentialsProvider } from "../adapters/dynamodb/credentials.ts";
import type { SdkClient } from "../adapters/dynamodb/sdk-client.ts";
import { openMemory } from "../adapters/memory/store.ts";
import { clockFrom, steadyMs, systemClock } from "../adapters/system/clock.ts";
import { systemDigest } from "../adapters/system/digest.ts";
import { environment, fromEnvironment } from "../adapters/system/environment.ts";
import { observableEvents } from "../adapters/system/events.ts";
import { jitter, systemRandom } from "../adapters/system/random.ts";
import { systemTurns } from "../adapters/system/turns.ts";
import { systemWarnings } from "../adapters/system/warnings.ts";
import type { UnnamedLimits } from "../domain/charges.ts";
import type { OnUnavailable, OutageShareOption, UnknownEntities } from "../domain/config.ts";
import { ValidationError } from "../domain/errors.ts";
import { KnownNames } from "../domain/known-names.ts";
import { checkNamespace, shown } from "../domain/names.ts";
import { DEFAULT_NAMESPACE } from "../domain/namespace.ts";
import { FILE_RETENTION, MEMORY_RETENTION } from "../domain/retention.ts";
import { namespaceMissing } from "../engine/namespaces.ts";
import type { EngineDeps, Settings } from "../engine/settings.ts";
import type { Store } from "../ports/store.ts";
import type { Clock } from "../ports/system.ts";
import { DYNAMO_STORE } from "./dynamodb-options.ts";
import { calendar } from "./limits.ts";
import type { PostgresClient, PostgresStoreOptions } from "./postgres.ts";
import { type RetentionOptions, refuseRetention, retentionOf } from "./retention.ts";
import { isAddress, isPostgresAddress, shownStore, storeOfEnvironment } from "./store-choice.ts";

/** Every option may be left out. An option that one store alone knows names that store first. */
export interface OpenOptions extends RetentionOptions {
  /**
   * `"memory"`, `"sqlite:FILE"`, `"postgres://…"` (`"postgres"`: the address in `DATABASE_URL`), `"dynamodb:STACK"`
   * (`"dynamodb"`: the stack of `ZAEL_STACK`), or a store object.
   * Default: `ZAEL_STORE`, else `"dynamodb:"` and `ZAEL_STACK`, else `"sqlite:.zae-limiter/limiter.db"`.
   */
  readonly store?: string | Store;
  /**
   * SQLite and PostgreSQL: `false` makes no file or tables and migrates none; what is missing is `store_not_found`, what
   * is old `schema_older`. Default: `true`.
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
  /** Whether requests that are under way at the same time share one write. Default: `true`. */
  readonly coalesce?: boolean;
  /**
   * What happens to requests while the store does not answer; it overrides the stored setting. `{ share: 1 / 8 }`: an
   * eighth of every limit is granted in this process, uncounted. Default: the stored setting, else `"block"`.
   */
  readonly onUnavailable?: OnUnavailable | OutageShareOption;
  /** How long one acquire may wait for the store, in ms. Default: 1,000. */
  readonly timeoutMs?: number;
  /** DynamoDB and PostgreSQL: how long all other reads and changes may take, in ms. Default: 10,000. */
  readonly adminTimeoutMs?: number;
  /**
   * What a loss of power (SQLite) or a crash of the server (PostgreSQL) may take away: the last moments (`"normal"`), or
   * nothing (`"full"`). Default: `"normal"` on SQLite, `"full"` on PostgreSQL.
   */
  readonly durability?: "normal" | "full";
  /** PostgreSQL: how many connections are opened at most. Default: 4. */
  readonly poolMax?: number;
  /** PostgreSQL with `client`: the schema that the tables are in. Default: `"zae_limiter"`. */
  readonly schema?: string;
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

/**
 * Twice what is meant to be in use at once: the older half is dropped when the younger is full. Of an id that is forgotten, limits are
 * read again, which costs some ten times a take from memory.
 */
const BUCKETS_MAX = 200_000;

const OPEN_OPTIONS = new KnownNames<OpenOptions>({
  ...{
    store: true,
    create: true,
    namespace: true,
    clock: true,
    configTtlMs: true,
    denyMemoryMs: true,
    timeoutMs: true,
  },
  ...{
    coalesce: true,
    countRefusals: true,
    onUnavailable: true,
    unknownEntities: true,
    unnamedLimits: true,
    strict: true,
    durability: true,
    adminTimeoutMs: true,
    usage: true,
    auditKeepMs: true,
  },
  ...{ region: true, endpoint: true, credentials: true, client: true, sharedTable: true, exact: true },
  ...{ poolMax: true, schema: true },
});

/** How the stores that are more than memory are loaded, once one is asked for by its name. */
export interface StoreLoaders {
  readonly sqlite: () => Promise<Pick<typeof import("../adapters/sqlite/store.ts"), "openSqlite">>;
  readonly dynamodb: () => Promise<Pick<typeof import("./dynamodb.ts"), "openDynamo">>;
  readonly postgres: () => Promise<Pick<typeof import("./postgres.ts"), "openPostgres">>;
}

/** Everything a limiter is made of, from the options of the public edge: the one place that has defaults. */
export async function prepare(
  options: OpenOptions,
  loaders: StoreLoaders,
): Promise<{ deps: EngineDeps; settings: Settings }> {
  checkOptions(options);
  const { onUnavailable, strict = false } = options;
  const { unknownEntities = strict ? "refuse" : "allow", unnamedLimits = strict ? "refuse" : "warn" } = options;
  const namespace = checkNamespace(options.namespace ?? fromEnvironment("ZAEL_NAMESPACE") ?? DEFAULT_NAMESPACE);
  const configTtlMs = checkMs("configTtlMs", options.configTtlMs ?? 60_000, 0);
  const denyMemoryMs = checkMs("denyMemoryMs", options.denyMemoryMs ?? 1_000, 0);
  const timeoutMs = checkMs("timeoutMs", options.timeoutMs ?? 1_000, 1);
  if (options.adminTimeoutMs !== undefined) checkMs("adminTimeoutMs", options.adminTimeoutMs, 1);
  if (typeof onUnavailable === "object") checkShare(onUnavailable);
  else checkChoice("onUnavailable", onUnavailable, ["allow", "block"]);
  checkChoice("unknownEntities", options.unknownEntities, ["allow", "refuse"]);
  checkChoice("unnamedLimits", options.unnamedLimits, ["allow", "warn", "refuse"]);
  checkChoice("durability", options.durability, ["normal", "full"]);
  for (const name of ["create", "strict", "coalesce", "countRefusals", "sharedTable", "exact"] as const)
    checkChoice(name, options[name], [true, false]);
  const given = options.clock === undefined ? undefined : clockFrom(checkClock(options.clock));
  const store = await openStore(
    options.store === undefined ? storeOfEnvironment(environment()) : options.store,
    { ...options, denyMemoryMs, timeoutMs },
    loaders,
  );
  try {
    const clock = clockOf(store, given, options);
    const found = await store.namespaces.get(namespace);
    if (found === undefined) throw namespaceMissing(namespace);
    return {
      deps: {
        store,
        scope: store.scope(found.id),
        clock,
        calendar,
        random: systemRandom,
        digest: systemDigest,
        events: observableEvents(),
        turns: systemTurns,
        warnings: systemWarnings(placeOf(options.store)),
      },
      settings: {
        namespace,
        namespaceId: () => found.id,
        configTtlMs,
        denyMemoryMs: options.denyMemoryMs === undefined && store.name === "memory" ? 0 : denyMemoryMs,
        timeoutMs,
        onUnavailable,
        unknownEntities,
        unnamedLimits,
        countRefusals: options.countRefusals ?? true,
        bucketsMax: BUCKETS_MAX,
      },
    };
  } catch (error) {
    // A store that was given stays the caller's.
    if (typeof options.store !== "object") await store.close();
    throw error;
  }
}

/** Where a store is that others of this process may open too; undefined: nobody else has it. */
function placeOf(store: OpenOptions["store"] = storeOfEnvironment(environment())): string | undefined {
  return typeof store === "string" && store !== "memory" ? store : undefined;
}

async function openStore(store: string | Store, options: OpenOptions, loaders: StoreLoaders): Promise<Store> {
  if (typeof store === "object" && store !== null && typeof store.scope === "function") {
    refuseRetention(options, store.name);
    return store;
  }
  const isPostgres = store === "postgres" || (typeof store === "string" && isPostgresAddress(store));
  const isFile = typeof store === "string" && store.startsWith("sqlite:");
  refuseOthers(options, ["poolMax", "schema"], store, isPostgres ? undefined : "PostgreSQL");
  refuseOthers(options, ["durability"], store, isPostgres || isFile ? undefined : "SQLite and PostgreSQL");
  refuseOthers(options, ["client"], store, isFile || store === "memory" ? "PostgreSQL and DynamoDB" : undefined);
  if (isPostgres) {
    const { openPostgres } = await loaders.postgres();
    return openPostgres({ ...postgresOptions(options), ...(store === "postgres" ? {} : { url: store as string }) });
  }
  if (store === "memory") {
    return openMemory(calendar, retentionOf(options, MEMORY_RETENTION), systemTurns);
  }
  if (typeof store === "string" && isAddress(store.slice(store.indexOf(":") + 1))) throw storeUnknown(store);
  if (typeof store === "string" && store.startsWith("sqlite:") && store.length > "sqlite:".length) {
    const { openSqlite } = await loaders.sqlite();
    const { durability = "normal", coalesce = true, create = true } = options;
    const file = store.slice("sqlite:".length);
    const retention = retentionOf(options, FILE_RETENTION);
    return openSqlite({ file, create, durability, coalesce, retention, random: jitter, steadyMs, calendar });
  }
  const stack = stackOf(store);
  if (stack !== undefined) {
    const { openDynamo } = await loaders.dynamodb();
    return openDynamo({ ...DYNAMO_STORE.pick(options as OpenOptions & { client?: SdkClient }), stack });
  }
  throw storeUnknown(store);
}

/** What another store would pass over in silence. `whose`: the stores that know it; undefined: this one does. */
function refuseOthers(
  options: OpenOptions,
  names: readonly ("poolMax" | "schema" | "durability" | "client")[],
  store: unknown,
  whose: string | undefined,
): void {
  const given = names.find((name) => options[name] !== undefined);
  if (whose === undefined || given === undefined) return;
  throw new ValidationError(
    "option_invalid",
    `${given} is for ${whose}, and the store is ${shownStore(store)}; leave it out, or name another store.`,
  );
}

function postgresOptions(options: OpenOptions): PostgresStoreOptions {
  const { create, durability, poolMax, schema, coalesce, adminTimeoutMs, clock, usage, auditKeepMs } = options;
  const client = options.client as PostgresClient | undefined;
  const given = { create, durability, poolMax, client, schema, coalesce, adminTimeoutMs, clock, usage, auditKeepMs };
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
}

function storeUnknown(store: unknown): ValidationError {
  return new ValidationError(
    "store_unknown",
    `Unknown store ${shownStore(store)}; give "memory", "sqlite:FILE", "postgres://...", "dynamodb:STACK" ("dynamodb" with ` +
      "ZAEL_STACK set), or a store object.",
  );
}

/** The stack that `"dynamodb:STACK"` names, or for `"dynamodb"` the environment. */
function stackOf(store: unknown): string | undefined {
  if (store === "dynamodb") return fromEnvironment("ZAEL_STACK");
  if (typeof store !== "string" || !store.startsWith("dynamodb:")) return undefined;
  return store.slice("dynamodb:".length) || undefined;
}

/** A limiter must use the clock of its store, where the store has one. */
function clockOf(store: Store, given: Clock | undefined, { store: asked }: OpenOptions): Clock {
  if (given !== undefined && store.clock !== undefined && typeof asked === "object") {
    throw new ValidationError(
      "option_invalid",
      `The store ${store.name} has its own clock; pass \`clock\` where that store is opened.`,
    );
  }
  return given ?? store.clock ?? systemClock;
}

function checkOptions(options: OpenOptions): void {
  if (typeof options === "string") {
    throw new ValidationError(
      "options_invalid",
      `RateLimiter.open takes options, not ${shownStore(options)}; give { store: ${shownStore(options)} }.`,
    );
  }
  OPEN_OPTIONS.check(options, "The options of RateLimiter.open");
}

function checkMs(name: string, value: unknown, least: number): number {
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < least) {
    throw new ValidationError(
      "option_invalid",
      `${name} is ${shown(value)}; give whole milliseconds, at least ${least}.`,
    );
  }
  return value;
}

function checkChoice(name: string, value: unknown, choices: readonly unknown[]): void {
  if (value === undefined || choices.includes(value)) return;
  const known = choices.map((choice) => JSON.stringify(choice)).join(" or ");
  throw new ValidationError("option_invalid", `${name} is ${shown(value)}; give ${known}.`);
}

const SHARE = new KnownNames<OutageShareOption>({ share: true });

function checkShare(given: OutageShareOption | null): void {
  const share = given === null ? undefined : SHARE.check(given, "onUnavailable").share;
  if (typeof share === "number" && share > 0 && share <= 1) return;
  throw new ValidationError(
    "on_unavailable_invalid",
    `onUnavailable is ${given === null ? "null" : `a share of ${shown(share)}`}; give { share } above 0 and at most 1, "allow" or "block".`,
  );
}

function checkClock<Given extends { now(): number }>(clock: Given): Given {
  if (typeof clock?.now !== "function") {
    throw new ValidationError("option_invalid", `clock is ${shown(clock)}; give an object with now(): milliseconds.`);
  }
  return clock;
}
