import type { AuditEvent } from "../../domain/audit.ts";
import { ValidationError } from "../../domain/errors.ts";
import type { Page, PageRequest } from "../../domain/paging.ts";

/** The audit log of a namespace. What is older than `keepMs` leaves at the old end when something is added at the new one. */
export class MemoryAudit {
  readonly #keepMs: number;
  /** Oldest first. */
  readonly #events: AuditEvent[] = [];
  /** How many have left: a cursor is a place in the whole log, so it stays right when old events go. */
  #left = 0;

  constructor(keepMs: number) {
    this.#keepMs = keepMs;
  }

  get length(): number {
    return this.#events.length;
  }

  push(event: AuditEvent): void {
    this.#events.push(event);
    const beforeMs = event.atMs - this.#keepMs;
    let old = 0;
    while ((this.#events[old]?.atMs ?? beforeMs) < beforeMs) old++;
    if (old === 0) return;
    this.#events.splice(0, old);
    this.#left += old;
  }

  /** Newest first. */
  list(entityId: string | undefined, { limit, cursor }: PageRequest): Page<AuditEvent> {
    const items: AuditEvent[] = [];
    let at = (cursor === undefined ? this.#left + this.#events.length : placeOf(cursor)) - this.#left;
    while (at > 0 && items.length < limit) {
      const event = this.#events[--at];
      if (event !== undefined && (entityId === undefined || event.entityId === entityId)) items.push(event);
    }
    const more = this.#hasBefore(at, entityId);
    return { items, ...(more ? { cursor: String(at + this.#left) } : {}) };
  }

  clear(): void {
    this.#left += this.#events.length;
    this.#events.length = 0;
  }

  #hasBefore(at: number, entityId: string | undefined): boolean {
    for (let i = at - 1; i >= 0; i--) {
      if (entityId === undefined || this.#events[i]?.entityId === entityId) return true;
    }
    return false;
  }
}

function placeOf(cursor: string): number {
  if (/^\d+$/.test(cursor)) return Number(cursor);
  throw new ValidationError(
    "cursor_invalid",
    `${JSON.stringify(cursor)} is not a cursor of this list; pass the cursor of the previous page.`,
  );
}
