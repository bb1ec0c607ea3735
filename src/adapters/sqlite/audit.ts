import type { AuditAction, AuditEvent } from "../../domain/config/audit.ts";
import type { ListedRecord } from "../../ports/record-store.ts";
import { readableJson } from "../../stored/row-damage.ts";
import type { Connection, Row } from "./connection.ts";

/** This many events are looked at for each that is added, and by each walk of the sweep. */
const LOOKED_AT = 16;

const COLUMNS = "id, event_id, at_ms, action, entity_id, resource, principal, details";

const INSERT = `INSERT INTO audit (namespace, event_id, at_ms, action, entity_id, resource, principal, details)
   VALUES (?, ?, ?, ?, ?, ?, ?, ?)`;

/** The audit logs of all namespaces, in the order in which events were written. */
export class AuditLog {
  readonly #connection: Connection;
  readonly #keepMs: number;
  #lookedAtId = 0;

  constructor(connection: Connection, keepMs: number) {
    this.#connection = connection;
    this.#keepMs = keepMs;
  }

  /** Inside the transaction of the change that the event is about. */
  append(event: AuditEvent, namespaceId: string): void {
    const { eventId, atMs, action, entityId, resource = null, principal = null } = event;
    const details = JSON.stringify(event.details);
    this.#connection.prepare(INSERT).run(namespaceId, eventId, atMs, action, entityId, resource, principal, details);
    this.dropOld(atMs);
  }

  /**
   * Deletes events that are too old, of a few that it looks at. Inside a write transaction. Ids are in the order of
   * writing, so the old ones come first; beyond them it walks on, because clocks differ, and begins again at the end.
   */
  dropOld(nowMs: number): void {
    const next = this.#connection.prepare(`SELECT id, at_ms FROM audit WHERE id > ? ORDER BY id LIMIT ${LOOKED_AT}`);
    const remove = this.#connection.prepare("DELETE FROM audit WHERE id = ?");
    const found = next.all(this.#lookedAtId);
    for (const [id, atMs] of found) if ((atMs as number) < nowMs - this.#keepMs) remove.run(id as number);
    this.#lookedAtId = found.length < LOOKED_AT ? 0 : ((found.at(-1) as Row)[0] as number);
  }

  /** Newest first. */
  list(
    namespaceId: string,
    entityId: string | undefined,
    after: readonly string[] | undefined,
    max: number,
  ): readonly ListedRecord[] {
    const ofEntity = entityId === undefined ? "" : " AND entity_id = ?";
    const sql = `SELECT ${COLUMNS} FROM audit WHERE namespace = ?${ofEntity} AND id < ? ORDER BY id DESC LIMIT ?`;
    const before = after === undefined ? Number.MAX_SAFE_INTEGER : Number(after[0]);
    const values = entityId === undefined ? [before, max] : [entityId, before, max];
    return this.#connection
      .prepare(sql)
      .all(namespaceId, ...values)
      .map(recordOf);
  }

  listOldest(namespaceId: string, after: readonly string[] | undefined, max: number): readonly ListedRecord[] {
    const sql = `SELECT ${COLUMNS} FROM audit WHERE namespace = ? AND id > ? ORDER BY id LIMIT ?`;
    const from = after === undefined ? 0 : Number(after[0]);
    return this.#connection.prepare(sql).all(namespaceId, from, max).map(recordOf);
  }
}

function recordOf(row: Row): ListedRecord {
  return { key: [row[1] as string], body: eventOf(row), place: [String(row[0])] };
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
