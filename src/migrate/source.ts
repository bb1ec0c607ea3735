import type { Attributes } from "../adapters/dynamodb/codec.ts";
import { namespaceOf as namespaceIn } from "../adapters/dynamodb/namespaces-record.ts";
import {
  namespaceNameKey,
  namespaceOf,
  REGISTRY,
  SCHEMA_VERSION,
  SCHEMA_VERSION_ATTRIBUTE,
  systemPk,
  UPDATED_BY,
  versionKey,
} from "../adapters/dynamodb/schema.ts";
import { checkVersion, OURS, readVersion, schemaOf } from "../adapters/dynamodb/version.ts";
import { DEFAULT_NAMESPACE } from "../domain/config/namespace.ts";
import { flattened, partitionOf } from "./old-items.ts";
import type { MigratedTable } from "./table.ts";

/** What a table is before a migration. */
export interface Source {
  /** Its schema, by its own word, or by what is in it. */
  readonly from: string;
  /** Whether there is anything to do. `takeOver`: it is in our layout, and the original's. */
  readonly task: "none" | "migrate" | "takeOver";
  /** The version record where it belongs. */
  readonly record: Attributes | undefined;
  /** The id of the namespace `default`, where it is registered, or used without. */
  readonly defaultId: string | undefined;
  readonly isRegistered: boolean;
}

/** Reads only. Throws for a table that is not there, is nobody's, or is newer than this package. */
export async function sourceOf(table: MigratedTable, takeOver: boolean): Promise<Source> {
  const { records, name } = table;
  const record = await records.get(versionKey());
  const registered = await records.get(namespaceNameKey(DEFAULT_NAMESPACE));
  const named = registered === undefined ? undefined : namespaceIn(registered).id;
  const known = await readVersion(records);
  if (known !== undefined) {
    const schema = schemaOf(known);
    if (schema === "newer") checkVersion(known, { name, shared: true });
    const isOurs = record?.[UPDATED_BY]?.S?.startsWith(OURS) === true;
    const task = schema === "older" ? "migrate" : takeOver && !isOurs ? "takeOver" : "none";
    const defaultId = named ?? (await unregisteredId(table));
    return { from: known.schemaVersion, task, record, defaultId, isRegistered: named !== undefined };
  }
  const found = await schemaByContent(table, named);
  // It has no version and nothing that we know: the usual sentence.
  if (found === undefined) checkVersion(undefined, { name, shared: false });
  const defaultId = named ?? (await unregisteredId(table));
  return { from: found ?? "", task: "migrate", record, defaultId, isRegistered: named !== undefined };
}

/** How versions of the layouts compare: the earliest tables number theirs 1.0.0 and 1.1.0. */
export function layoutOf(from: string): string {
  return /^v?1\./.test(from) ? "0.4.0" : from;
}

/** Early tables have the namespace `default` under its own name, and in no registry. */
async function unregisteredId(table: MigratedTable): Promise<string | undefined> {
  const pks = await somePks(table);
  return pks.some((pk) => pk.startsWith(`${DEFAULT_NAMESPACE}/`)) ? DEFAULT_NAMESPACE : undefined;
}

async function schemaByContent(table: MigratedTable, defaultId: string | undefined): Promise<string | undefined> {
  for (const id of [defaultId, DEFAULT_NAMESPACE]) {
    if (id === undefined) continue;
    const record = await table.records.get({ pk: systemPk(id), sk: versionKey().sk });
    const version = record === undefined ? undefined : flattened(record)[SCHEMA_VERSION_ATTRIBUTE]?.S;
    if (version !== undefined) return version;
  }
  const pks = await somePks(table);
  const bare = pks.filter((pk) => partitionOf(pk)?.namespaceId === undefined && partitionOf(pk) !== undefined);
  for (const pk of bare) {
    const items = await table.partition(pk);
    if (items.some((item) => /^#(LIMIT#|BUCKET#.+#)/.test(item.SK?.S ?? ""))) return "0.4.0";
  }
  if (bare.length > 0) return "0.8.0";
  return pks.some((pk) => partitionOf(pk) !== undefined && namespaceOf(pk) !== REGISTRY) ? "0.9.0" : undefined;
}

async function somePks(table: MigratedTable): Promise<readonly string[]> {
  const { pks } = await table.scan({ segment: 0, segments: 1 }, null);
  return pks.slice(0, SAMPLE);
}

const SAMPLE = 200;

export const TARGET = SCHEMA_VERSION;
