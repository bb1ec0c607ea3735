import type { Credentials, CredentialsProvider } from "../adapters/dynamodb/credentials.ts";
import type { SdkClient } from "../adapters/dynamodb/sdk-client.ts";
import { openMemory } from "../adapters/memory/store.ts";
import { checkReading, clockFrom, steadyMs, systemClock } from "../adapters/system/clock.ts";
import { systemDigest } from "../adapters/system/digest.ts";
import { environment, fromEnvironment } from "../adapters/system/environment.ts";
import { observableEvents } from "../adapters/system/events.ts";
import { jitter, systemRandom } from "../adapters/system/random.ts";
import { systemTurns } from "../adapters/system/turns.ts";
import type { UnnamedLimits } from "../domain/charges.ts";
import type { OnUnavailable, UnknownEntities } from "../domain/config.ts";
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
import { type RetentionOptions, refuseRetention, retentionOf } from "./retention.ts";
import { isAddress, shownStore, storeOfEnvironment } from "./store-choice.ts";

/** Options of `RateLimiter.open`; all are optional. Options of a single store name it. */
export interface OpenOptions extends RetentionOptions {
  /**
   * `"memory"`, `"sqlite:FILE"`, `"dynamodb:STACK"` (`"dynamodb"`: the stack of `ZAEL_STACK`), or a store object. Default:
   * `ZAEL_STORE`, else `"dynamodb:"` and `ZAEL_STACK`, else `"sqlite:.zae-limiter/limiter.db"`.
   */
  readonly store?: string | Store;
  /** SQLite: `false` neither creates nor upgrades a file (`NotFoundError`, `VersionError`). Default true. */
  readonly create?: boolean;
  /** The namespace (tenant); it must be registered, except `default`. Default: `ZAEL_NAMESPACE`, else `"default"`. */
  readonly namespace?: string;
  /** For tests and simulations; used as it is, never corrected. Default: the system's, kept to the store's where it has one. */
  readonly clock?: { now(): number; sleep?: Clock["sleep"] };
  /** How long stored configuration may be remembered; 0 = never. Default 60,000. */
  readonly configTtlMs?: number;
  /** How long a refusal may be answered from memory; 0 = off. Default 1,000; on the memory store 0, where asking is cheap. */
  readonly denyMemoryMs?: number;
  /**
   * What an id means that was never created. `"allow"` (default): it is limited by defaults, and has no parent. `"refuse"`:
   * `NotFoundError` for whoever takes or asks for it, and for who sets limits, access or cascading of it, tops it up or resets it.
   */
  readonly unknownEntities?: UnknownEntities;
  /**
   * What a hard limit means whose measure a request leaves out. `"allow"` (default): it takes nothing there. `"refuse"`:
   * `ValidationError` `measure_missing`, whichever level has it; not where the level is bypassed.
   */
  readonly unnamedLimits?: UnnamedLimits;
  /** Count refused requests, for `refusals()`; kept as long as usage. Default true; `false`: asking for them is an error. */
  readonly countRefusals?: boolean;
  /** Combine concurrent requests into one write. Default true. */
  readonly coalesce?: boolean;
  /** What happens to requests while the store is unavailable; overrides the stored setting. Default: stored, else `"block"`. */
  readonly onUnavailable?: OnUnavailable;
  /** Timeout of one acquire's I/O. Default 1,000. */
  readonly timeoutMs?: number;
  /** DynamoDB: timeout of reads and changes outside of acquires. Default 10,000. */
  readonly adminTimeoutMs?: number;
  /** SQLite: `"normal"`, or `"full"` to survive a power loss. Default `"normal"`. */
  readonly durability?: "normal" | "full";
  /** DynamoDB: the region. Default: as the AWS SDK finds it. */
  readonly region?: string;
  /** DynamoDB: an address to use instead of the region's, such as `http://localhost:8000` for DynamoDB Local. */
  readonly endpoint?: string;
  /** DynamoDB: the credentials. Default: the AWS SDK's chain. */
  readonly credentials?: Credentials | CredentialsProvider;
  /** DynamoDB: a `DynamoDBClient` to use instead of our transport, at several times the CPU. The caller closes it. */
  readonly client?: SdkClient;
  /** DynamoDB: the Python original writes to this table too. Default false: such a table is refused. */
  readonly sharedTable?: boolean;
  /** DynamoDB: no tolerance at a full bucket: more writes, and not a millitoken is held back. Default false. */
  readonly exact?: boolean;
}

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
    durability: true,
    adminTimeoutMs: true,
    usage: true,
    auditKeepMs: true,
  },
  ...{ region: true, endpoint: true, credentials: true, client: true, sharedTable: true, exact: true },
});

/** How the stores that are more than memory are loaded, once one is asked for by its name. */
export interface StoreLoaders {
  readonly sqlite: () => Promise<Pick<typeof import("../adapters/sqlite/store.ts"), "openSqlite">>;
  readonly dynamodb: () => Promise<Pick<typeof import("./dynamodb.ts"), "openDynamo">>;
}

/** Everything a limiter is made of, from the options of the public edge: the one place that has defaults. */
export async function prepare(
  options: OpenOptions,
  loaders: StoreLoaders,
): Promise<{ deps: EngineDeps; settings: Settings }> {
  checkOptions(options);
  const { onUnavailable, unknownEntities = "allow", unnamedLimits = "allow" } = options;
  const namespace = checkNamespace(options.namespace ?? fromEnvironment("ZAEL_NAMESPACE") ?? DEFAULT_NAMESPACE);
  const configTtlMs = checkMs("configTtlMs", options.configTtlMs ?? 60_000, 0);
  const denyMemoryMs = checkMs("denyMemoryMs", options.denyMemoryMs ?? 1_000, 0);
  const timeoutMs = checkMs("timeoutMs", options.timeoutMs ?? 1_000, 1);
  if (options.adminTimeoutMs !== undefined) checkMs("adminTimeoutMs", options.adminTimeoutMs, 1);
  checkChoice("onUnavailable", onUnavailable, ["allow", "block"]);
  checkChoice("unknownEntities", options.unknownEntities, ["allow", "refuse"]);
  checkChoice("unnamedLimits", options.unnamedLimits, ["allow", "refuse"]);
  checkChoice("durability", options.durability, ["normal", "full"]);
  for (const name of ["create", "coalesce", "countRefusals", "sharedTable", "exact"] as const)
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
        bucketsMax: 10_000,
      },
    };
  } catch (error) {
    // A store that was given stays the caller's.
    if (typeof options.store !== "object") await store.close();
    throw error;
  }
}

async function openStore(store: string | Store, options: OpenOptions, loaders: StoreLoaders): Promise<Store> {
  if (typeof store === "object" && store !== null && typeof store.scope === "function") {
    refuseRetention(options, store.name);
    return store;
  }
  if (options.durability !== undefined && !(typeof store === "string" && store.startsWith("sqlite:"))) {
    throw new ValidationError(
      "option_invalid",
      `durability is for SQLite, and the store is ${shownStore(store)}; leave it out.`,
    );
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
    return openDynamo({ ...DYNAMO_STORE.pick(options), stack });
  }
  throw storeUnknown(store);
}

function storeUnknown(store: unknown): ValidationError {
  return new ValidationError(
    "store_unknown",
    `Unknown store ${shownStore(store)}; give "memory", "sqlite:FILE", "dynamodb:STACK" ("dynamodb" with ZAEL_STACK set), or a ` +
      "store object.",
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

function checkClock<Given extends { now(): number }>(clock: Given): Given {
  if (typeof clock?.now !== "function") {
    throw new ValidationError("option_invalid", `clock is ${shown(clock)}; give an object with now(): milliseconds.`);
  }
  // One that cannot tell the time is better found now than by the first request.
  checkReading(clock.now());
  return clock;
}
