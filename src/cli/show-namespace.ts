import type { Namespace } from "../entry/index.ts";
import { fieldsText } from "./print.ts";
import { timeText } from "./show-entity.ts";
import type { Column } from "./table.ts";

export function namespaceText({ id, name, status, createdAtMs, deletedAtMs }: Namespace): string {
  return fieldsText({
    name,
    id,
    status,
    // The namespace that a store is born with has no date.
    created: createdAtMs === 0 ? undefined : timeText(createdAtMs),
    deleted: deletedAtMs === undefined ? undefined : timeText(deletedAtMs),
  });
}

export const NAMESPACE_COLUMNS: readonly Column<Namespace>[] = [
  { title: "NAME", text: ({ name }) => name },
  { title: "ID", text: ({ id }) => id },
  { title: "STATUS", text: ({ status }) => status },
  { title: "CREATED", text: ({ createdAtMs }) => (createdAtMs === 0 ? "" : timeText(createdAtMs)) },
];
