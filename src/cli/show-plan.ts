import type { Plan } from "../entry/index.ts";
import { fieldsText } from "./print.ts";
import { timeText } from "./show-entity.ts";
import type { Column } from "./table.ts";

/** A plan for people. */
export function planText({ id, name, metadata, version, createdAtMs, updatedAtMs }: Plan): string {
  const metas = Object.entries(metadata).map(([key, value]) => `${key}=${value}`);
  return fieldsText({
    id,
    name: name === id ? undefined : name,
    metadata: metas.length === 0 ? undefined : metas.join(" "),
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
