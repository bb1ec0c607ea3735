import type { CommandContext, GlobalOptions } from "./command.ts";
import { UsageError } from "./exit-code.ts";

/** The way to a DynamoDB table, as the options and the environment say it. */
export interface TablePlace {
  readonly stack: string;
  readonly region?: string;
  readonly endpoint?: string;
  readonly sharedTable?: boolean;
}

/** The table that is named; undefined: the store is another, or none is named. */
export function namedTable(options: GlobalOptions, { env }: CommandContext): TablePlace | undefined {
  const { store, stack, region, endpointUrl: endpoint, profile } = options;
  if (store !== undefined && stack !== undefined) throw new UsageError("--store and --stack name the store; give one.");
  // The SDK reads it from there.
  if (profile !== undefined) process.env.AWS_PROFILE = profile;
  const named = stackOf(store ?? (stack === undefined ? env.ZAEL_STORE : undefined), stack ?? env.ZAEL_STACK);
  if (named === undefined) return undefined;
  const shared = options.sharedTable === true || env.ZAEL_SHARED_TABLE === "1";
  return {
    stack: named,
    ...(region === undefined ? {} : { region }),
    ...(endpoint === undefined ? {} : { endpoint }),
    ...(shared ? { sharedTable: true } : {}),
  };
}

/** For commands that only a table can answer. */
export function requiredTable(options: GlobalOptions, context: CommandContext, command: string): TablePlace {
  const table = namedTable(options, context);
  if (table !== undefined) return table;
  throw new UsageError(`${command} works on a DynamoDB table; give --store dynamodb:STACK.`);
}

function stackOf(store: string | undefined, stack: string | undefined): string | undefined {
  if (store === undefined || store === "") return stack === "" ? undefined : stack;
  if (store === "dynamodb") return stack === "" ? undefined : stack;
  return store.startsWith("dynamodb:") ? store.slice("dynamodb:".length) || undefined : undefined;
}
