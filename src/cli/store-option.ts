import { resolve } from "node:path";
import {
  type OpenOptions,
  STORE_KINDS,
  STORES_OF_OPTION,
  shownStore,
  storeOfEnvironment,
} from "../entry/store-kinds.ts";
import type { CommandContext, GlobalOptions } from "./command.ts";
import { UsageError } from "./exit-code.ts";
import { refuseService } from "./service-option.ts";
import { STORES, type StoreTarget, type TableTarget, tableAt } from "./stores.ts";

/** `--store` or `--stack`, else the environment by the same function as `RateLimiter.open`. */
export function chosenStore(options: GlobalOptions, { env }: Pick<CommandContext, "env">): StoreTarget {
  const { store, stack } = options;
  if (store !== undefined && stack !== undefined)
    throw new UsageError("--store and --stack both name the store; give one.");
  refuseService(options, { env });
  const name = store ?? (stack === undefined ? storeOfEnvironment(env) : `dynamodb:${stack}`);
  if (name === "memory") {
    throw new UsageError(`The store memory would be empty and lost when the command ends; give ${typedNames()}.`);
  }
  const target = namedKind(name)?.(name, options, env);
  if (target === undefined) throw new UsageError(`The store is ${shownStore(name)}; give ${typedNames()}.`);
  if (target.table === undefined) refuseAwsOptions(options, target.name);
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

/** The chosen store by a name that is the same wherever the command is called from. */
export function savedStoreName(context: CommandContext, options: GlobalOptions): string {
  const { name, file } = chosenStore(options, context);
  return file === undefined ? name : `sqlite:${resolve(file)}`;
}

/** Whether a command is told to use the store in memory, which lives as long as the command. */
export function isMemory({ store, stack }: GlobalOptions, { env }: Pick<CommandContext, "env">): boolean {
  return stack === undefined && (store ?? env.ZAEL_STORE) === "memory";
}

/** The store that a service works on: any, also `memory`. */
export function servedStore(
  options: GlobalOptions & { readonly durability?: string },
  context: Pick<CommandContext, "env">,
): { readonly name: string; readonly open: OpenOptions } {
  const { durability } = options;
  if (durability !== undefined && durability !== "normal" && durability !== "full") {
    throw new UsageError(`--durability is "${durability}"; give normal or full.`);
  }
  const { name, place } = isMemory(options, context)
    ? { name: "memory", place: { store: "memory" } }
    : chosenStore(options, context);
  if (durability === undefined) return { name, open: place };
  const kind = Object.values(STORE_KINDS).find(({ names }) => names(place.store));
  if (kind?.options.includes("durability") !== true) {
    throw new UsageError(`--durability is for ${STORES_OF_OPTION.durability}, and the store is ${name}; leave it out.`);
  }
  return { name, open: { ...place, durability } };
}

/** The table that is named; undefined: the store is another, or none is named. */
export function namedTable(options: GlobalOptions, context: CommandContext): TableTarget | undefined {
  if (options.store === "memory") return undefined;
  const { store, stack, url } = options;
  const named = {
    ...(store === undefined ? {} : { store }),
    ...(stack === undefined ? {} : { stack }),
    ...(url === undefined ? {} : { url }),
  };
  const { table } = chosenStore(named, context);
  return table === undefined ? undefined : tableAt(table.stack, options, context.env);
}

/** For commands that only a table can answer. */
export function requiredTable(options: GlobalOptions, context: CommandContext, command: string): TableTarget {
  const table = namedTable(options, context);
  if (table !== undefined) return table;
  throw new UsageError(`${command} works on a DynamoDB table; give --store dynamodb:STACK.`);
}

/** Whoever names a region means a table: nothing else must be changed in its place. */
function refuseAwsOptions({ region, profile, endpointUrl, sharedTable }: GlobalOptions, store: string): void {
  const given = Object.entries({ region, profile, endpoint: endpointUrl, "shared-table": sharedTable });
  const [name] = given.find(([, value]) => value !== undefined) ?? [];
  if (name !== undefined) {
    throw new UsageError(`--${name} is for DynamoDB, and the store is ${store}; give --store dynamodb:STACK too.`);
  }
}
