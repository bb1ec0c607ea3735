import { resolve } from "node:path";
import { addressOf, nameOf } from "../adapters/postgres/address.ts";
import { postgresUrlOf } from "../entry/postgres-url.ts";
import { isAddress, isPostgresAddress, shownStore, storeOfEnvironment } from "../entry/store-choice.ts";
import type { CommandContext, GlobalOptions } from "./command.ts";
import { UsageError } from "./exit-code.ts";
import { refuseService } from "./service-option.ts";

/** The way to a DynamoDB table, as the options and the environment say it. */
export interface TableTarget {
  readonly stack: string;
  readonly region?: string;
  readonly endpoint?: string;
  readonly sharedTable?: boolean;
}

/** A schema on a PostgreSQL server. */
export interface PostgresTarget {
  readonly kind: "postgres";
  /** For messages and answers: without user and password. */
  readonly name: string;
  /** With whatever it has: for the connection alone. */
  readonly url: string;
  readonly schema: string;
}

/** The store that a command works on. */
export type StoreTarget =
  | { readonly kind: "sqlite"; readonly name: string; readonly file: string }
  | PostgresTarget
  | { readonly kind: "dynamodb"; readonly name: string; readonly table: TableTarget };

/** `--store` or `--stack`, else the environment by the same function as `RateLimiter.open`. */
export function chosenStore(options: GlobalOptions, { env }: Pick<CommandContext, "env">): StoreTarget {
  const { store, stack } = options;
  if (store !== undefined && stack !== undefined)
    throw new UsageError("--store and --stack both name the store; give one.");
  refuseService(options, { env });
  const given = store ?? (stack === undefined ? storeOfEnvironment(env) : `dynamodb:${stack}`);
  const name = given === "dynamodb" && env.ZAEL_STACK ? `dynamodb:${env.ZAEL_STACK}` : given;
  if (name === "postgres" || isPostgresAddress(name)) return postgresAt(name, options, env);
  if (isAddress(name.slice(name.indexOf(":") + 1))) throw storeUnknown(name);
  if (name.startsWith("sqlite:") && name.length > "sqlite:".length) {
    refuseAwsOptions(options, name);
    return { kind: "sqlite", name, file: name.slice("sqlite:".length) };
  }
  if (name.startsWith("dynamodb:") && name.length > "dynamodb:".length) {
    return { kind: "dynamodb", name, table: tableAt(name.slice("dynamodb:".length), options, env) };
  }
  if (name === "memory") {
    throw new UsageError(`The store memory would be empty and lost when the command ends; give ${STORES}.`);
  }
  throw storeUnknown(name);
}

function storeUnknown(name: string): UsageError {
  return new UsageError(`The store is ${shownStore(name)}; give ${STORES}.`);
}

/** How a store is named on the command line. */
const STORES = "sqlite:FILE, postgres://HOST/DATABASE or dynamodb:STACK";

function postgresAt(store: string, options: GlobalOptions, env: CommandContext["env"]): PostgresTarget {
  const url = postgresUrlOf(store === "postgres" ? undefined : store, env.DATABASE_URL);
  const address = addressOf(url);
  const name = nameOf(address);
  refuseAwsOptions(options, name);
  return { kind: "postgres", name, url, schema: address.schema };
}

/** The chosen store by a name that is the same wherever the command is called from. */
export function savedStoreName(context: CommandContext, options: GlobalOptions): string {
  const target = chosenStore(options, context);
  return target.kind === "sqlite" ? `sqlite:${resolve(target.file)}` : target.name;
}

/** The table that is named; undefined: the store is another, or none is named. */
export function namedTable(options: GlobalOptions, context: CommandContext): TableTarget | undefined {
  if (options.store === "memory") return undefined;
  const { store, stack } = options;
  const { url } = options;
  const named = {
    ...(store === undefined ? {} : { store }),
    ...(stack === undefined ? {} : { stack }),
    ...(url === undefined ? {} : { url }),
  };
  const target = chosenStore(named, context);
  return target.kind === "dynamodb" ? tableAt(target.table.stack, options, context.env) : undefined;
}

/** For commands that only a table can answer. */
export function requiredTable(options: GlobalOptions, context: CommandContext, command: string): TableTarget {
  const table = namedTable(options, context);
  if (table !== undefined) return table;
  throw new UsageError(`${command} works on a DynamoDB table; give --store dynamodb:STACK.`);
}

function tableAt(stack: string, options: GlobalOptions, env: CommandContext["env"]): TableTarget {
  const { region, endpointUrl: endpoint } = options;
  useProfile(options);
  return {
    stack,
    ...(region === undefined ? {} : { region }),
    ...(endpoint === undefined ? {} : { endpoint }),
    ...(isShared(options, env) ? { sharedTable: true } : {}),
  };
}

/** Whether the original writes to the table too. `1` and `true` say the same, for every command. */
export function isShared({ sharedTable }: GlobalOptions, { ZAEL_SHARED_TABLE: word }: CommandContext["env"]): boolean {
  if (word && !["1", "true", "0", "false"].includes(word)) {
    throw new UsageError(`ZAEL_SHARED_TABLE is "${word}"; give 1 or 0, or true or false.`);
  }
  return sharedTable === true || word === "1" || word === "true";
}

/** The SDK reads the profile from the environment. */
export function useProfile({ profile }: GlobalOptions): void {
  if (profile !== undefined) process.env.AWS_PROFILE = profile;
}

/** Whoever names a region means a table: nothing else must be changed in its place. */
function refuseAwsOptions({ region, profile, endpointUrl, sharedTable }: GlobalOptions, store: string): void {
  const given = Object.entries({ region, profile, endpoint: endpointUrl, "shared-table": sharedTable });
  const [name] = given.find(([, value]) => value !== undefined) ?? [];
  if (name !== undefined) {
    throw new UsageError(`--${name} is for DynamoDB, and the store is ${store}; give --store dynamodb:STACK too.`);
  }
}
