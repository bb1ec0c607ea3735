import type { AuditEvent } from "../../domain/audit.ts";
import { DEFAULT_NAMESPACE, type Namespace, type NamespaceStatus } from "../../domain/namespace.ts";
import type { Page, PageRequest } from "../../domain/paging.ts";
import type { DueNamespace, NamespaceStore, PurgeReply, RecoverReply } from "../../ports/namespace-store.ts";
import { keyCursor, pageOf, textAfter } from "../../stored/cursor.ts";
import type { Changes } from "./changes.ts";
import type { Connection, Row, Statement } from "./connection.ts";
import { Purge } from "./purge.ts";

const COLUMNS = "id, name, status, created_at_ms, deleted_at_ms";

export class SqliteNamespaces implements NamespaceStore {
  readonly #connection: Connection;
  readonly #changes: Changes;
  readonly #purge: Purge;
  readonly #byName: Statement;
  readonly #byId: Statement;
  readonly #put: Statement;
  readonly #list: Statement;
  readonly #listOrphans: Statement;
  readonly #listDue: Statement;

  constructor(parts: { readonly connection: Connection; readonly changes: Changes }) {
    const { connection } = parts;
    this.#connection = connection;
    this.#changes = parts.changes;
    this.#purge = new Purge(parts);
    this.#byName = connection.prepare(`SELECT ${COLUMNS} FROM namespace WHERE name = ? AND status = 'active'`);
    this.#byId = connection.prepare(`SELECT ${COLUMNS} FROM namespace WHERE id = ?`);
    this.#put = connection.prepare(`INSERT OR REPLACE INTO namespace (${COLUMNS}) VALUES (?, ?, ?, ?, ?)`);
    this.#list = connection.prepare(
      `SELECT ${COLUMNS} FROM namespace WHERE status = 'active' AND name > ? ORDER BY name LIMIT ?`,
    );
    // The index of due leases begins with the namespace: a look into it for each.
    this.#listDue = connection.prepare(
      `SELECT ${COLUMNS} FROM namespace WHERE status = 'active' AND
        EXISTS (SELECT 1 FROM lease WHERE lease.namespace = namespace.id AND due_at_ms <= ?)`,
    );
    this.#listOrphans = connection.prepare(
      `SELECT ${COLUMNS} FROM namespace WHERE status <> 'active' AND id > ? ORDER BY id LIMIT ?`,
    );
  }

  register(namespace: Namespace, event: AuditEvent, auditIn: string): Promise<Namespace> {
    return this.#changes.make((record) => {
      const known = this.#active(namespace.name);
      if (known !== undefined) return known;
      this.#store(namespace);
      record(event, auditIn);
      return namespace;
    });
  }

  get(name: string): Namespace | undefined {
    return this.#connection.read(() => this.#active(name));
  }

  list({ limit, cursor }: PageRequest): Page<Namespace> {
    const rows = this.#connection.read(() => this.#list.all(textAfter(cursor), limit + 1));
    return pageOf(rows.map(namespaceOf), limit, ({ name }) => keyCursor(name));
  }

  delete(name: string, nowMs: number, event: AuditEvent, auditIn: string): Promise<Namespace | undefined> {
    return this.#changes.make((record) => {
      const namespace = this.#active(name);
      if (namespace === undefined) return undefined;
      const deleted: Namespace = { ...namespace, status: "deleted", deletedAtMs: nowMs };
      this.#store(deleted);
      record(event, auditIn);
      return deleted;
    });
  }

  recover(id: string, event: AuditEvent, auditIn: string): Promise<RecoverReply> {
    return this.#changes.make((record): RecoverReply => {
      const row = this.#byId.get(id);
      if (row === undefined) return { kind: "missing" };
      const { deletedAtMs: _, ...namespace } = namespaceOf(row);
      if (namespace.status !== "deleted") return { kind: "notDeleted", status: namespace.status };
      if (this.#active(namespace.name) !== undefined) return { kind: "nameTaken", name: namespace.name };
      const recovered: Namespace = { ...namespace, status: "active" };
      this.#store(recovered);
      record(event, auditIn);
      return { kind: "recovered", namespace: recovered };
    });
  }

  listOrphans({ limit, cursor }: PageRequest): Page<Namespace> {
    const rows = this.#connection.read(() => this.#listOrphans.all(textAfter(cursor), limit + 1));
    return pageOf(rows.map(namespaceOf), limit, ({ id }) => keyCursor(id));
  }

  withDueLeases(untilMs: number): readonly DueNamespace[] {
    const rows = this.#connection.read(() => this.#listDue.all(untilMs));
    return rows.map((row) => ({ namespace: namespaceOf(row), sinceMs: 0 }));
  }

  nothingDue(): void {
    // What is due is known exactly.
  }

  purge(
    id: string,
    event: AuditEvent,
    auditIn: string,
    onProgress: (recordsDeleted: number) => void,
  ): Promise<PurgeReply> {
    return this.#purge.run(id, event, auditIn, onProgress);
  }

  #active(name: string): Namespace | undefined {
    const row = this.#byName.get(name);
    return row === undefined ? undefined : namespaceOf(row);
  }

  #store({ id, name, status, createdAtMs, deletedAtMs }: Namespace): void {
    this.#put.run(id, name, status, createdAtMs, deletedAtMs ?? null);
  }
}

/** Makes the namespace `default` where there is none. Its id is fixed, so that two processes may do it at once. */
export function ensureDefault(connection: Connection): void {
  const known = connection.prepare("SELECT 1 FROM namespace WHERE name = ? AND status = 'active'");
  const make = connection.prepare(
    "INSERT OR IGNORE INTO namespace (id, name, status, created_at_ms) VALUES (?, ?, 'active', 0)",
  );
  if (known.get(DEFAULT_NAMESPACE) === undefined) make.run(DEFAULT_NAMESPACE, DEFAULT_NAMESPACE);
}

function namespaceOf([id, name, status, createdAtMs, deletedAtMs]: Row): Namespace {
  return {
    id: id as string,
    name: name as string,
    status: status as NamespaceStatus,
    createdAtMs: createdAtMs as number,
    ...(deletedAtMs === null ? {} : { deletedAtMs: deletedAtMs as number }),
  };
}
