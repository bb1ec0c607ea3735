import type { OpenOptions } from "../entry/open.ts";
import type { CommandContext, GlobalOptions } from "./command.ts";
import { UsageError } from "./exit-code.ts";
import { chosenStore } from "./store-option.ts";

/** The store that a service works on: any, also `memory`, which lives as long as the service. */
export function servedStore(
  options: GlobalOptions & { readonly durability?: string },
  context: Pick<CommandContext, "env">,
): { readonly name: string; readonly open: OpenOptions } {
  const durability = durabilityOf(options.durability);
  const { store, stack } = options;
  if ((store ?? (stack === undefined ? context.env.ZAEL_STORE : undefined)) === "memory" && stack === undefined) {
    if (durability !== undefined)
      throw new UsageError("--durability is for SQLite, and the store is memory; leave it out.");
    return { name: "memory", open: { store: "memory" } };
  }
  const target = chosenStore(options, context);
  if (target.kind === "sqlite") {
    return { name: target.name, open: { store: target.name, ...(durability === undefined ? {} : { durability }) } };
  }
  if (durability !== undefined)
    throw new UsageError(`--durability is for SQLite, and the store is ${target.name}; leave it out.`);
  const { stack: name, ...way } = target.table;
  return { name: target.name, open: { store: `dynamodb:${name}`, ...way } };
}

function durabilityOf(text: string | undefined): "normal" | "full" | undefined {
  if (text === undefined || text === "normal" || text === "full") return text;
  throw new UsageError(`--durability is "${text}"; give normal or full.`);
}
