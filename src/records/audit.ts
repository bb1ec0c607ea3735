import type { AuditEvent } from "../domain/config/audit.ts";
import { ValidationError } from "../domain/names/errors.ts";
import { shown } from "../domain/names/names.ts";
import type { Page, PageRequest } from "../domain/names/paging.ts";
import { andThen } from "../domain/steps.ts";
import type { AuditStore } from "../ports/audit-store.ts";
import type { MaybePromise } from "../ports/bucket-store.ts";
import { pageOf } from "../stored/cursor.ts";
import type { RecordParts } from "./parts.ts";

/** The audit log of one namespace, in the order in which events were written; cursors are numbers of that order. */
export class RecordAudit implements AuditStore {
  readonly #parts: RecordParts;
  readonly #namespaceId: string;

  constructor(parts: RecordParts, namespaceId: string) {
    this.#parts = parts;
    this.#namespaceId = namespaceId;
  }

  list(filter: { readonly entityId?: string }, { limit, cursor }: PageRequest): MaybePromise<Page<AuditEvent>> {
    const list = { kind: "audit", of: "all", ...filter } as const;
    const after = cursor === undefined ? undefined : [numberIn(cursor)];
    return andThen(this.#parts.lists.list(this.#namespaceId, list, after, limit + 1), (found) => {
      const page = pageOf(found, limit, ({ place }) => place[0] as string);
      return { ...page, items: page.items.map(({ body }) => body as AuditEvent) };
    });
  }
}

function numberIn(cursor: string): string {
  const id = Number(cursor);
  if (Number.isSafeInteger(id) && id > 0) return cursor;
  throw new ValidationError(
    "cursor_invalid",
    `Not a cursor of the audit log: ${shown(cursor)}; pass the cursor of the previous page.`,
  );
}
