import { ConflictError } from "../domain/names/errors.ts";
import type { Entity, Plan } from "../entry/index.ts";
import type { OptionRow, OptionsOf } from "./command.ts";
import { fieldsText } from "./print.ts";
import type { Column } from "./table.ts";
import { pairsOf } from "./values.ts";

// Entities and plans are records with an id, a name and metadata.

/** Options of `create`. Those of one kind of record come in between. */
export const CREATE_NAME = ["--name, --display-name <text>", "display name; default: the id"] as const;
export const CREATE_OPTIONS = [
  ["--meta <key=value>", "free text of yours; repeated", "list"],
  ["--if-absent", "if it exists, leave it unchanged and show it"],
] as const satisfies readonly OptionRow[];

/** Options of `update`. Those of one kind of record come in between. */
export const UPDATE_NAME = ["--name, --display-name <text>", "display name"] as const;
export const UPDATE_OPTIONS = [
  ["--meta <key=value>", "set this key, keep the others; repeated", "list"],
  ["--unset-meta <key>", "remove this key; repeated", "list"],
] as const satisfies readonly OptionRow[];

/** The metadata of a record after `--meta` and `--unset-meta`; undefined: neither is given. */
export function metadataAfter(
  { metadata }: Pick<Plan, "metadata">,
  { meta, unsetMeta }: OptionsOf<typeof UPDATE_OPTIONS>,
): Readonly<Record<string, string>> | undefined {
  if (meta === undefined && unsetMeta === undefined) return undefined;
  const kept = Object.entries(metadata).filter(([key]) => unsetMeta?.includes(key) !== true);
  return { ...Object.fromEntries(kept), ...pairsOf(meta ?? [], "--meta") };
}

/** Reads a record and writes it. If another process changed it in between (`code`), it is read again: metadata set there must stay. */
export async function readAndWrite<Item>(
  code: string | undefined,
  read: () => Promise<Item>,
  write: (before: Item) => Promise<Item>,
): Promise<Item> {
  for (;;) {
    const before = await read();
    try {
      return await write(before);
    } catch (error) {
      if (!(error instanceof ConflictError) || error.code !== code) throw error;
    }
  }
}

export function entityText(entity: Entity): string {
  const { parentId, planId, cascade } = entity;
  const parent = parentId === undefined ? undefined : `${parentId} (${cascade ? "charged too" : "not charged"})`;
  return recordText(entity, { parent, plan: planId });
}

/** A record for people; `others` come after its name. */
export function recordText(record: Plan, others: Readonly<Record<string, string | undefined>> = {}): string {
  const { id, name, metadata, version, createdAtMs, updatedAtMs } = record;
  const pairs = Object.entries(metadata).map(([key, value]) => `${key}=${value}`);
  return fieldsText({
    id,
    name: name === id ? undefined : name,
    ...others,
    metadata: pairs.length === 0 ? undefined : pairs.join(" "),
    version: String(version),
    created: timeText(createdAtMs),
    updated: updatedAtMs === createdAtMs ? undefined : timeText(updatedAtMs),
  });
}

export const PLAN_COLUMNS: readonly Column<Plan>[] = [
  { title: "ID", text: ({ id }) => id },
  { title: "NAME", text: ({ id, name }) => (name === id ? "" : name), flexible: true },
  { title: "CREATED", text: ({ createdAtMs }) => timeText(createdAtMs).slice(0, 10) },
];

export const ENTITY_COLUMNS: readonly Column<Entity>[] = [
  ...PLAN_COLUMNS.slice(0, 2),
  { title: "PARENT", text: ({ parentId }) => parentId ?? "" },
  { title: "CASCADE", text: ({ parentId, cascade }) => (parentId === undefined ? "" : cascade ? "yes" : "no") },
  { title: "PLAN", text: ({ planId }) => planId ?? "" },
  ...PLAN_COLUMNS.slice(2),
];

/** `2026-06-01 12:00:00Z`. */
export function timeText(atMs: number): string {
  return `${new Date(atMs).toISOString().slice(0, 19).replace("T", " ")}Z`;
}
