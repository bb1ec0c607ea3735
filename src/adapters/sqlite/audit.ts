import type { AuditAction, AuditEvent } from "../../domain/config/audit.ts";
import type { ListedRecord } from "../../ports/record-store.ts";
import { readableJson } from "../../stored/row-damage.ts";
import type { Connection, Row, Statement } from "./connection.ts";

/** How many events are looked at for each that is added, and by each walk of the sweep. */
const LOOKED_AT = 16;

const COLUMNS = "id, event_id, at_ms, action, entity_id, resource, principal, details";

/** The audit logs of all namespaces, in the order in which events were written. */
export class AuditLog {
  readonly #insert: Statement;
  readonly #list: Statement;
  readonly #listOfEntity: Statement;
  readonly #next: Statement;
  readonly #delete: Statement;
  readonly #keepMs: number;
  #lookedAtId = 0;

  constructor(connection: Connection, keepMs: number) {
    this.#keepMs = keepMs;
    this.#next = connection.prepare(`SELECT id, at_ms FROM audit WHERE id > ? ORDER BY id LIMIT ${LOOKED_AT}`);
    this.#delete = connection.prepare("DELETE FROM audit WHERE id = ?");
    this.#insert = connection.prepare(
      `INSERT INTO audit (namespace, event_id, at_ms, action, entity_id, resource, principal, details)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
    );
    this.#list = connection.prepare(
      `SELECT ${COLUMNS} FROM audit WHERE namespace = ? AND id < ? ORDER BY id DESC LIMIT ?`,
    );
    this.#listOfEntity = connection.prepare(
      `SELECT ${COLUMNS} FROM audit WHERE namespace = ? AND entity_id = ? AND id < ? ORDER BY id DESC LIMIT ?`,
    );
  }

  /** Inside the transaction of the change that the event is about. */
  append(event: AuditEvent, namespaceId: string): void {
    const { eventId, atMs, action, entityId, resource, principal } = event;
    const details = JSON.stringify(event.details);
    this.#insert.run(namespaceId, eventId, atMs, action, entityId, resource ?? null, principal ?? null, details);
    this.dropOld(atMs);
  }

  /**
   * Deletes events that are too old, of a few that it looks at. Inside a write transaction. Ids are in the order of
   * writing, so the old ones come first; beyond them it walks on, because clocks differ, and begins again at the end.
   */
  dropOld(nowMs: number): void {
    const found = this.#next.all(this.#lookedAtId);
    for (const [id, atMs] of found) if ((atMs as number) < nowMs - this.#keepMs) this.#delete.run(id as number);
    this.#lookedAtId = found.length < LOOKED_AT ? 0 : ((found.at(-1) as Row)[0] as number);
  }

  /** Newest first. */
  list(
    namespaceId: string,
    entityId: string | undefined,
    after: readonly string[] | undefined,
    max: number,
  ): readonly ListedRecord[] {
    const before = after === undefined ? Number.MAX_SAFE_INTEGER : Number(after[0]);
    const found =
      entityId === undefined
        ? this.#list.all(namespaceId, before, max)
        : this.#listOfEntity.all(namespaceId, entityId, before, max);
    return found.map((row) => ({ key: [row[1] as string], body: eventOf(row), place: [String(row[0])] }));
  }
}

function eventOf([, eventId, atMs, action, entityId, resource, principal, details]: Row): AuditEvent {
  return {
    eventId: eventId as string,
    atMs: atMs as number,
    action: action as AuditAction,
    entityId: entityId as string,
    ...(resource === null ? {} : { resource: resource as string }),
    ...(principal === null ? {} : { principal: principal as string }),
    details: readableJson<AuditEvent["details"]>(details, { table: "audit", column: "details", of: eventId as string }),
  };
}
