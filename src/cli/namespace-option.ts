import type { Namespace } from "../domain/config/namespace.ts";
import { NotFoundError } from "../domain/names/errors.ts";
import { pagesOf } from "../domain/names/paging.ts";
import type { CommandContext, GlobalOptions } from "./command.ts";
import { namedTable } from "./store-option.ts";

/**
 * The id of the namespace whose archived events are wanted. The table knows the names; an archive outlives its table, so without
 * one the option is taken for an id, and without the option all are wanted.
 */
export async function namespaceIdFor(options: GlobalOptions, context: CommandContext): Promise<string | undefined> {
  const named = options.namespace ?? (context.env.ZAEL_NAMESPACE || undefined);
  const table = namedTable(options, context);
  if (table === undefined) return named;
  const { openDynamo } = await import("../entry/dynamodb.ts");
  const store = await openDynamo(table);
  try {
    const name = named ?? "default";
    const active = await store.namespaces.get(name);
    if (active !== undefined) return active.id;
    // The events of a namespace outlive it too.
    const others: string[] = [];
    for await (const { items } of pagesOf((from) => store.namespaces.listOrphans({ limit: 100, ...from }))) {
      const found = items.find((namespace) => namespace.id === name || namespace.name === name);
      if (found !== undefined) return found.id;
      others.push(...items.map(({ id }) => id));
    }
    const known = (await store.namespaces.list({ limit: 10 })).items.map((namespace: Namespace) => namespace.name);
    throw new NotFoundError(
      "namespace_not_found",
      `There is no namespace "${name}"; known: ${[...known, ...others.slice(0, 10)].join(", ") || "none"}.`,
    );
  } finally {
    await store.close();
  }
}
