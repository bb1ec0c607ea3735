import { accessSync, constants, existsSync, readdirSync } from "node:fs";
import { basename, dirname } from "node:path";
import { addressOf, nameOf, postgresUrlOf } from "../adapters/postgres/address.ts";
import { addressOf as redisAddressOf, nameOf as redisNameOf, redisUrlOf } from "../adapters/redis/address.ts";
import { NotFoundError } from "../domain/names/errors.ts";
import { given } from "../domain/names/given.ts";
import { nearestName } from "../domain/names/known-names.ts";
import { nameAfter, type OpenOptions, type STORE_KINDS } from "../entry/store-kinds.ts";
import type { TargetTable } from "../loadtest/target.ts";
import type { AddCheck } from "./check.ts";
import type { CommandContext } from "./command.ts";
import { UsageError } from "./exit-code.ts";
import { REDIS_CHECKS, redisChecks, writesCheck } from "./redis-checks.ts";

/** The store that a command works on: what is asked of it, whatever it is. */
export interface StoreTarget {
  /** For messages and answers: without user and password. */
  readonly name: string;
  /** How a limiter opens it; `store` may have a password in it. */
  readonly place: OpenOptions & { readonly store: string };
  /** Options of a limiter for one command. */
  readonly ofCommand?: Omit<OpenOptions, "store">;
  /** The command that creates it. */
  readonly init: string;
  /** Set where the store is a file. */
  readonly file?: string;
  /** Set where the store is a schema of a database: its name. */
  readonly schemaName?: string;
  /** Set where the store is a table of DynamoDB. */
  readonly table?: TargetTable;
  /** What removes idle buckets and old records, where `sweep` does not. */
  readonly sweptBy?: string;
  /** The checks of `doctor` besides those of every store, in this order. */
  readonly checkNames?: readonly string[];
  /** Looks before anything is opened: what is wrong there would keep a limiter from being opened. */
  checkFirst?(timeoutMs: number, add: AddCheck): Promise<void>;
  /** Looks at an open store. */
  check(about: { readonly namespaceId: string; readonly timeoutMs: number }, add: AddCheck): Promise<void>;
  /** The remedy for a version that does not fit; undefined: there is none in particular. */
  versionRemedy?(code: string): string | undefined;
  /** The schema that it has; undefined: there is none. */
  schema(timeoutMs: number): Promise<string | undefined>;
  /** The error for a store that is missing, with a name that may have been meant. */
  missing(timeoutMs: number, cause: unknown): Promise<NotFoundError>;
}

/** The part of a command's context that names a store. */
export type StoreContext = Pick<CommandContext, "options" | "env">;

type FindTarget = (store: string, context: StoreContext) => StoreTarget | undefined;

/** Each kind of store as the command line has it. Undefined: the name lacks what has to follow. */
export const STORES: Readonly<Record<keyof typeof STORE_KINDS, FindTarget>> = {
  sqlite: (store) => {
    const file = nameAfter("sqlite:", store);
    return file === undefined ? undefined : fileAt(store, file);
  },
  postgres: (store, { env }) => schemaAt(postgresUrlOf(store === "postgres" ? undefined : store, env.DATABASE_URL)),
  redis: (store, { env }) => serverAt(redisUrlOf(store === "redis" ? undefined : store, env.REDIS_URL)),
  dynamodb: (store, context) => {
    const stack = store === "dynamodb" ? context.env.ZAEL_STACK || undefined : nameAfter("dynamodb:", store);
    return stack === undefined ? undefined : tableTarget(tableAt(stack, context));
  },
};

function fileAt(name: string, file: string): StoreTarget {
  const schema = async () => {
    if (!existsSync(file)) return undefined;
    const { DatabaseSync } = await import("node:sqlite");
    const database = new DatabaseSync(file);
    try {
      const row = database.prepare("PRAGMA user_version").get();
      return row === undefined ? undefined : String(Object.values(row)[0]);
    } finally {
      database.close();
    }
  };
  return {
    ...{ name, file, place: { store: name }, init: "zae-limiter init", schema },
    sweptBy: "a file is swept by the processes that acquire from it.",
    check: async (_about, add) => {
      add("version", true, `schema ${await schema()}`);
      add("clock", true, "all processes on the file share this machine's clock");
      const denied = [file, dirname(file)].filter((path) => !isWritable(path));
      if (denied.length === 0) add("permissions", true, "the file and its folder are writable");
      else add("permissions", false, `${denied.join(" and ")} not writable`, "Give this user write permission.");
    },
    missing: async () => {
      const near = nearestName(basename(file), filesBeside(file));
      const folder = dirname(file) === "." ? "" : `${dirname(file)}/`;
      const meant = near === undefined ? "" : ` Did you mean sqlite:${folder}${near}?`;
      return new NotFoundError(
        "store_not_found",
        `There is no store at sqlite:${file}.${meant} Create it with \`zae-limiter init\`, or name another with --store or ZAEL_STORE.`,
      );
    },
  };
}

function filesBeside(file: string): readonly string[] {
  try {
    return readdirSync(dirname(file)).filter((name) => !/-(wal|shm)$/.test(name) && name !== basename(file));
  } catch {
    return [];
  }
}

function isWritable(path: string): boolean {
  try {
    accessSync(path, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

function schemaAt(url: string): StoreTarget {
  const address = addressOf(url);
  const name = nameOf(address);
  const schema = async (timeoutMs: number) => {
    const { schemaVersionOf } = await import("../entry/postgres-admin.ts");
    const version = await schemaVersionOf({ url, timeoutMs });
    return version === undefined ? undefined : String(version);
  };
  return {
    ...{ name, schemaName: address.schema, place: { store: url }, init: "zae-limiter init", schema },
    // One connection takes, one asks. Each is made when it is needed.
    ofCommand: { poolMax: 2 },
    checkNames: ["server", "isolation", "durability", "tls", "connections", "transactions", "rows"],
    checkFirst: async (timeoutMs, add) => {
      const { inspectPostgres } = await import("../entry/postgres-admin.ts");
      const { clockCheck, permissionsCheck, serverChecks } = await import("./check.ts");
      const found = await inspectPostgres({ url, timeoutMs });
      serverChecks(found, add);
      clockCheck(found, add);
      if (found.hasTables) permissionsCheck(found, add);
    },
    check: async ({ timeoutMs }, add) => add("version", true, `schema ${await schema(timeoutMs)}`),
    missing: async (timeoutMs, cause) => {
      const { schemasBeside } = await import("../entry/postgres-admin.ts");
      const known = await schemasBeside({ url, timeoutMs }).catch(() => []);
      const near = nearestName(address.schema, known) ?? (known.length === 1 ? known[0] : undefined);
      const meant = near === undefined ? "" : ` Did you mean ?schema=${near}?`;
      return new NotFoundError(
        "store_not_found",
        `${name} has no tables of zae-limiter.${meant} Create them with \`zae-limiter init\`, or name another store with --store or ZAEL_STORE.`,
        { cause },
      );
    },
  };
}

function serverAt(url: string): StoreTarget {
  const name = redisNameOf(redisAddressOf(url));
  const schema = async (timeoutMs: number) => {
    const { redisVersionOf } = await import("../entry/redis-admin.ts");
    const version = await redisVersionOf({ url, timeoutMs });
    return version === undefined ? undefined : String(version);
  };
  return {
    ...{ name, place: { store: url }, init: "zae-limiter init", schema },
    checkNames: REDIS_CHECKS,
    checkFirst: async (timeoutMs, add) => {
      const { inspectRedis } = await import("../entry/redis-admin.ts");
      redisChecks(await inspectRedis({ url, timeoutMs }), add);
    },
    check: async ({ namespaceId, timeoutMs }, add) => {
      const { redisWritesOf } = await import("../entry/redis-admin.ts");
      add("version", true, `schema ${await schema(timeoutMs)}`);
      writesCheck(await redisWritesOf({ url, namespaceId, timeoutMs }), add);
    },
    missing: async (_timeoutMs, cause) =>
      new NotFoundError(
        "store_not_found",
        `${name} has no store of zae-limiter. Create it with \`zae-limiter init\`, or name another with --store or ZAEL_STORE.`,
        { cause },
      ),
  };
}

/** A machine whose clock is further off than this is likely to be refused by AWS before long. */
const AHEAD_MAX_MS = 60_000;

function tableTarget(table: TargetTable): StoreTarget {
  const { sharedTable: _, ...plain } = table;
  const { stack, ...way } = table;
  const init = `zae-limiter init --stack ${stack}`;
  const inspect = async (about: { readonly namespaceId: string; readonly timeoutMs: number }) => {
    const { inspectTable } = await import("../entry/dynamodb.ts");
    return inspectTable({ ...plain, ...about });
  };
  return {
    ...{ name: `dynamodb:${stack}`, table, place: { store: `dynamodb:${stack}`, ...way }, init },
    sweptBy: "DynamoDB removes what has expired, and `zae-limiter aggregate --once` sweeps the rest.",
    schema: async (timeoutMs) => (await inspect({ namespaceId: "default", timeoutMs })).schema,
    check: async (about, add) => {
      const { schema, denied, aheadMs } = await inspect(about);
      const version = schema === undefined ? "the table has no version record" : `schema ${schema}`;
      add("version", schema !== undefined, version);
      const off = `this machine is ${Math.abs(aheadMs)} ms ${aheadMs < 0 ? "behind" : "ahead of"} DynamoDB`;
      if (Math.abs(aheadMs) <= AHEAD_MAX_MS) add("clock", true, off);
      else add("clock", false, off, "Set the machine's clock, or use NTP.");
      if (denied.length === 0) add("permissions", true, "every operation that a limiter needs is allowed");
      else
        add(
          "permissions",
          false,
          `not allowed: ${denied.join(", ")}`,
          "Allow them in the policy of this user or role.",
        );
    },
    versionRemedy: (code) => {
      if (code === "table_migrating") return `zae-limiter migrate --name ${stack}`;
      if (code === "table_shared") return `--shared-table, or zae-limiter migrate --take-over --name ${stack}`;
      if (code === "table_taken_over") return "Leave --shared-table out.";
      if (code !== "schema_version") return undefined;
      // Older or newer: the message says which.
      return `If the table is older: zae-limiter migrate --name ${stack}. Otherwise upgrade zae-limiter.`;
    },
    missing: async (timeoutMs, cause) => {
      const near = nearestName(stack, await tablesNear(table, timeoutMs));
      return new NotFoundError(
        "store_not_found",
        `There is no table "${stack}" at this endpoint and in this region${near === undefined ? "" : `; did you mean ${near}?`}` +
          `${near === undefined ? ";" : " Or"} correct the name, the region or the endpoint, or create it with \`${init}\`.`,
        { cause },
      );
    },
  };
}

/** Tables where one was looked for; none where nobody may or can list them. */
export async function tablesNear(
  { region, endpoint }: Partial<TargetTable>,
  timeoutMs: number,
): Promise<readonly string[]> {
  const { listTables } = await import("../entry/dynamodb.ts");
  return listTables(given({ region, endpoint, timeoutMs })).catch(() => []);
}

export function tableAt(stack: string, context: StoreContext): TargetTable {
  const { region, endpointUrl: endpoint } = context.options;
  useProfile(context);
  return given({ stack, region, endpoint, sharedTable: isShared(context) || undefined });
}

/** Whether the original writes to the table too. `1` and `true` say the same, for every command. */
export function isShared({ options, env: { ZAEL_SHARED_TABLE: word } }: StoreContext): boolean {
  if (word && !["1", "true", "0", "false"].includes(word)) {
    throw new UsageError(`ZAEL_SHARED_TABLE is "${word}"; give 1 or 0, or true or false.`);
  }
  return options.sharedTable === true || word === "1" || word === "true";
}

/** The SDK reads the profile from the environment. */
export function useProfile({ options }: StoreContext): void {
  if (options.profile !== undefined) process.env.AWS_PROFILE = options.profile;
}
