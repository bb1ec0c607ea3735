import type { AuditEvent } from "../../domain/config/audit.ts";
import type { ListedRecord } from "../../ports/record-store.ts";

/** The audit log of a namespace. What is older than `keepMs` leaves at the old end when something is added at the new one. */
export class MemoryAudit {
  readonly #keepMs: number;
  /** Oldest first. */
  readonly #events: AuditEvent[] = [];
  /** How many have left: the place of an event is its number in the whole log, so it stays right when old events go. */
  #left = 0;

  constructor(keepMs: number) {
    this.#keepMs = keepMs;
  }

  get length(): number {
    return this.#events.length;
  }

  push(event: AuditEvent): void {
    this.#events.push(event);
    this.drop(event.atMs - this.#keepMs, Number.POSITIVE_INFINITY);
  }

  has(eventId: string): boolean {
    return this.#events.some((event) => event.eventId === eventId);
  }

  /** Newest first. */
  list(entityId: string | undefined, after: readonly string[] | undefined, max: number): readonly ListedRecord[] {
    const found: ListedRecord[] = [];
    let at = after === undefined ? this.#events.length : Number(after[0]) - this.#left - 1;
    while (at > 0 && found.length < max) {
      const event = this.#events[--at];
      if (event === undefined || (entityId !== undefined && event.entityId !== entityId)) continue;
      found.push({ key: [event.eventId], body: event, place: [String(this.#left + at + 1)] });
    }
    return found;
  }

  /** Drops up to so many of the oldest that are from before then; answers how many. */
  drop(beforeMs: number, max: number): number {
    let old = 0;
    while (old < max && (this.#events[old]?.atMs ?? beforeMs) < beforeMs) old++;
    if (old > 0) this.#events.splice(0, old);
    this.#left += old;
    return old;
  }
}
