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
    if (durability !== undefined) throw noDurability("memory");
    return { name: "memory", open: { store: "memory" } };
  }
  const target = chosenStore(options, context);
  if (target.kind !== "dynamodb") {
    const named = target.kind === "postgres" ? target.url : target.name;
    return { name: target.name, open: { store: named, ...(durability === undefined ? {} : { durability }) } };
  }
  if (durability !== undefined) throw noDurability(target.name);
  const { stack: name, ...way } = target.table;
  return { name: target.name, open: { store: `dynamodb:${name}`, ...way } };
}

function noDurability(store: string): UsageError {
  return new UsageError(`--durability is for SQLite and PostgreSQL, and the store is ${store}; leave it out.`);
}

function durabilityOf(text: string | undefined): "normal" | "full" | undefined {
  if (text === undefined || text === "normal" || text === "full") return text;
  throw new UsageError(`--durability is "${text}"; give normal or full.`);
}
