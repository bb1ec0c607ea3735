import type { Entity } from "../entry/index.ts";
import { fieldsText } from "./print.ts";
import type { Column } from "./table.ts";

/** An entity for people. */
export function entityText({
  id,
  name,
  parentId,
  planId,
  cascade,
  metadata,
  version,
  createdAtMs,
  updatedAtMs,
}: Entity): string {
  const metas = Object.entries(metadata).map(([key, value]) => `${key}=${value}`);
  return fieldsText({
    id,
    name: name === id ? undefined : name,
    parent: parentId === undefined ? undefined : `${parentId} (${cascade ? "charged too" : "not charged"})`,
    plan: planId,
    metadata: metas.length === 0 ? undefined : metas.join(" "),
    version: String(version),
    created: timeText(createdAtMs),
    updated: updatedAtMs === createdAtMs ? undefined : timeText(updatedAtMs),
  });
}

export const ENTITY_COLUMNS: readonly Column<Entity>[] = [
  { title: "ID", text: ({ id }) => id },
  { title: "NAME", text: ({ id, name }) => (name === id ? "" : name), flexible: true },
  { title: "PARENT", text: ({ parentId }) => parentId ?? "" },
  { title: "CASCADE", text: ({ parentId, cascade }) => (parentId === undefined ? "" : cascade ? "yes" : "no") },
  { title: "PLAN", text: ({ planId }) => planId ?? "" },
  { title: "CREATED", text: ({ createdAtMs }) => timeText(createdAtMs).slice(0, 10) },
];

/** `2026-06-01 12:00:00Z`. */
export function timeText(atMs: number): string {
  return `${new Date(atMs).toISOString().slice(0, 19).replace("T", " ")}Z`;
}
