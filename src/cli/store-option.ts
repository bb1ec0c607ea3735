import { hostname, userInfo } from "node:os";
import { resolve } from "node:path";
import { ValidationError } from "../domain/names/errors.ts";
import { given } from "../domain/names/given.ts";
import { checkPrincipal } from "../domain/names/names.ts";
import {
  type OpenOptions,
  STORE_KINDS,
  STORES_OF_OPTION,
  shownStore,
  storeOfEnvironment,
} from "../entry/store-kinds.ts";
import type { TargetTable } from "../loadtest/target.ts";
import type { CommandContext } from "./command.ts";
import { UsageError } from "./exit-code.ts";
import { readGiven } from "./output.ts";
import { STORES, type StoreContext, type StoreTarget, tableAt } from "./stores.ts";

/** The address of the service that a command is to ask; undefined: it works on a store. */
export function serviceUrl({ options, env }: StoreContext): string | undefined {
  const { url, store, stack } = options;
  if (url !== undefined) {
    if (store !== undefined || stack !== undefined) {
      throw new UsageError("--url names a service, --store and --stack name a store; give one of them.");
    }
    return url;
  }
  if (store !== undefined || stack !== undefined) return undefined;
  const named = env.ZAEL_URL || undefined;
  if (named !== undefined && (env.ZAEL_STORE || env.ZAEL_STACK)) {
    throw new UsageError(
      "ZAEL_URL names a service, and ZAEL_STORE or ZAEL_STACK a store; unset one, or give --url or --store.",
    );
  }
  return named;
}

/** A command that needs a store and is given a service must not work on the store of this machine instead. */
function refuseService(context: StoreContext): void {
  if (serviceUrl(context) === undefined) return;
  throw new UsageError(
    "This command needs a store and does not work over a service; give --store instead of --url (ZAEL_URL).",
  );
}

/** The token: of the file, or of the environment. Never on the line, where every user of the machine sees it. */
export async function serviceToken({ options, env }: CommandContext): Promise<string | undefined> {
  const { tokenFile } = options;
  if (tokenFile === undefined) return env.ZAEL_TOKEN || undefined;
  const token = (await readGiven(tokenFile, "The token file")).trim();
  if (/^[\x21-\x7e]+$/.test(token) && !token.startsWith("{")) return token;
  throw new ValidationError(
    "token_invalid",
    `${tokenFile} does not contain a token; write the line that \`zae-limiter token add\` printed into it (a service's own token file has only hashes).`,
  );
}

/** `--store` or `--stack`, else the environment by the same function as `RateLimiter.open`. */
export function chosenStore(context: StoreContext): StoreTarget {
  const { store, stack } = context.options;
  if (store !== undefined && stack !== undefined)
    throw new UsageError("--store and --stack both name the store; give one.");
  refuseService(context);
  const name = store ?? (stack === undefined ? storeOfEnvironment(context.env) : `dynamodb:${stack}`);
  if (name === "memory") {
    throw new UsageError(`The store memory would be empty and lost when the command ends; give ${typedNames()}.`);
  }
  const target = namedKind(name)?.(name, context);
  if (target === undefined) throw new UsageError(`The store is ${shownStore(name)}; give ${typedNames()}.`);
  if (target.table === undefined) refuseAwsOptions(context, target.name);
  return target;
}

function namedKind(name: string) {
  const kind = (Object.keys(STORES) as (keyof typeof STORES)[]).find((each) => STORE_KINDS[each].names(name));
  return kind === undefined ? undefined : STORES[kind];
}

function typedNames(): string {
  return listed(Object.values(STORE_KINDS).map(({ typed }) => typed));
}

/** How a store is named, for the help of `--store`. */
export function typedNamesWithNotes(): string {
  const names = Object.values(STORE_KINDS).map(({ typed, shorter }) =>
    shorter === undefined ? typed : `${typed} (${shorter})`,
  );
  return listed(names);
}

function listed(names: readonly string[]): string {
  return `${names.slice(0, -1).join(", ")} or ${names.at(-1)}`;
}

/** The chosen store, or the service, by a name that is the same wherever the command is called from. */
export function savedStoreName(context: CommandContext): string {
  const url = serviceUrl(context);
  if (url !== undefined) return url.replace(/\/+$/, "");
  const { name, file } = chosenStore(context);
  return file === undefined ? name : `sqlite:${resolve(file)}`;
}

/** Whether a command is told to use the store in memory, which lives as long as the command. */
export function isMemory({ options, env }: StoreContext): boolean {
  return options.stack === undefined && (options.store ?? env.ZAEL_STORE) === "memory";
}

/** The store that a service works on: any, also `memory`. */
export function servedStore(
  context: CommandContext,
  { durability }: { readonly durability?: string },
): { readonly name: string; readonly open: OpenOptions } {
  if (durability !== undefined && durability !== "normal" && durability !== "full") {
    throw new UsageError(`--durability is "${durability}"; give normal or full.`);
  }
  const { name, place } = isMemory(context) ? { name: "memory", place: { store: "memory" } } : chosenStore(context);
  if (durability === undefined) return { name, open: place };
  const kind = Object.values(STORE_KINDS).find(({ names }) => names(place.store));
  if (kind?.options.includes("durability") !== true) {
    throw new UsageError(`--durability is for ${STORES_OF_OPTION.durability}, and the store is ${name}; leave it out.`);
  }
  return { name, open: { ...place, durability } };
}

/** The table that is named; undefined: the store is another, or none is named. */
export function namedTable(context: CommandContext): TargetTable | undefined {
  const { store, stack, url } = context.options;
  if (store === "memory") return undefined;
  const { table } = chosenStore({ ...context, options: given({ store, stack, url }) });
  return table === undefined ? undefined : tableAt(table.stack, context);
}

/** For commands that only a table can answer. */
export function requiredTable(context: CommandContext, command: string): TargetTable {
  const table = namedTable(context);
  if (table !== undefined) return table;
  throw new UsageError(`${command} works on a DynamoDB table; give --store dynamodb:STACK.`);
}

/** A region means a table: nothing else must be changed in its place. */
function refuseAwsOptions({ options }: StoreContext, store: string): void {
  const { region, profile, endpointUrl: endpoint, sharedTable } = options;
  const [name] = Object.keys(given({ region, profile, endpoint, "shared-table": sharedTable }));
  if (name !== undefined) {
    throw new UsageError(`--${name} is for DynamoDB, and the store is ${store}; give --store dynamodb:STACK too.`);
  }
}

/** Reads `-e` and `-r`. Without both, all buckets are meant, but not on a table, where reading all of them costs. */
export function bucketQuery(
  context: CommandContext,
  { entity: entityId, resource }: { readonly entity?: string; readonly resource?: string },
): { readonly entityId?: string; readonly resource?: string } {
  const isTable = () => serviceUrl(context) === undefined && chosenStore(context).table !== undefined;
  if (entityId === undefined && resource === undefined && isTable()) {
    throw new UsageError("Listing every bucket would read the whole table; give -e ID or -r RESOURCE.");
  }
  return given({ entityId, resource });
}

/** Names the author of a change for the audit log: by the option, by the environment, or as user and machine. */
export function principalOf(context: CommandContext): { readonly principal?: string } {
  // A service uses the id of the token.
  if (serviceUrl(context) !== undefined) return {};
  const named = context.options.principal ?? (context.env.ZAEL_PRINCIPAL || undefined);
  // A given name is checked as it is; a found one is made valid.
  const found = () => `${userName()}@${hostname()}`.replace(/[^a-zA-Z0-9_.\-:@]/g, "-").replace(/^[^a-zA-Z0-9]/, "u");
  return { principal: named ?? found() };
}

/** A dry run checks what the real one does, and a given option must count. */
export function checkPrincipalOf(context: CommandContext): void {
  const { env, options } = context;
  const { principal, dryRun } = options;
  if (principal !== undefined && serviceUrl(context) !== undefined) {
    throw new UsageError("With --url, the audit log names the token; leave --principal out.");
  }
  const named = principal ?? (dryRun === true ? env.ZAEL_PRINCIPAL || undefined : undefined);
  if (named !== undefined) checkPrincipal(named);
}

function userName(): string {
  try {
    return userInfo().username;
  } catch {
    // A container may have a user without a name.
    return "unknown";
  }
}
