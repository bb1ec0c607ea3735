import { existsSync } from "node:fs";
import type { GlobalOptions } from "./command.ts";
import { timeoutOf } from "./on-store.ts";
import type { StoreTarget } from "./store-option.ts";

/** The schema that a store has, whatever it is; undefined: there is none. */
export async function schemaOf(target: StoreTarget, options: GlobalOptions): Promise<string | undefined> {
  if (target.kind === "dynamodb") {
    const { inspectTable } = await import("../entry/dynamodb.ts");
    const { sharedTable: _, ...table } = target.table;
    return (await inspectTable({ ...table, namespaceId: "default", timeoutMs: timeoutOf(options) })).schema;
  }
  if (target.kind === "postgres") {
    const { schemaVersionOf } = await import("../entry/postgres-admin.ts");
    const version = await schemaVersionOf({ url: target.url, timeoutMs: timeoutOf(options) });
    return version === undefined ? undefined : String(version);
  }
  if (!existsSync(target.file)) return undefined;
  const { DatabaseSync } = await import("node:sqlite");
  const database = new DatabaseSync(target.file);
  try {
    const row = database.prepare("PRAGMA user_version").get();
    return row === undefined ? undefined : String(Object.values(row)[0]);
  } finally {
    database.close();
  }
}
