import { setImmediate as nextTurn } from "node:timers/promises";
import type { AuditEvent } from "../../domain/audit.ts";
import type { PurgeReply } from "../../ports/namespace-store.ts";
import type { Changes } from "./changes.ts";
import type { Connection, Statement } from "./connection.ts";

/** Rows of one step: a transaction of a few milliseconds, so that takes of other namespaces are not kept waiting. */
const CHUNK_ROWS = 500;

const TABLES = [
  { table: "bucket", key: "id" },
  { table: "operation", key: "namespace, entity, resource, key" },
  { table: "usage", key: "namespace, hour_ms, entity, resource" },
  { table: "refusal", key: "namespace, hour_ms, entity, resource, limit_name, level, total, writer" },
  { table: "config", key: "namespace, entity, resource" },
  { table: "limit_history", key: "namespace, of, owner, resource" },
  { table: "entity", key: "namespace, id" },
  { table: "plan_config", key: "namespace, plan, resource" },
  { table: "plan", key: "namespace, id" },
  { table: "owned", key: "namespace, piece" },
  { table: "owner", key: "namespace, owner" },
  { table: "lease", key: "namespace, id" },
  { table: "lease_key", key: "namespace, key" },
  { table: "audit", key: "id" },
];

/**
 * Removes a deleted namespace in steps. It is marked first, so that it cannot be recovered half; its own row goes last, so
 * that a purge that was cut off is found and run again.
 */
export class Purge {
  readonly #changes: Changes;
  readonly #status: Statement;
  readonly #mark: Statement;
  readonly #chunks: readonly Statement[];
  readonly #remove: Statement;

  constructor(parts: { readonly connection: Connection; readonly changes: Changes }) {
    const { connection } = parts;
    this.#changes = parts.changes;
    this.#status = connection.prepare("SELECT status, name FROM namespace WHERE id = ?");
    this.#mark = connection.prepare("UPDATE namespace SET status = 'purging' WHERE id = ?");
    this.#chunks = TABLES.map(({ table, key }) =>
      connection.prepare(
        `DELETE FROM ${table} WHERE (${key}) IN (SELECT ${key} FROM ${table} WHERE namespace = ? LIMIT ${CHUNK_ROWS})`,
      ),
    );
    this.#remove = connection.prepare("DELETE FROM namespace WHERE id = ?");
  }

  async run(
    id: string,
    event: AuditEvent,
    auditIn: string,
    onProgress: (recordsDeleted: number) => void,
  ): Promise<PurgeReply> {
    const refusal = await this.#changes.make(() => this.#begin(id));
    if (refusal !== undefined) return refusal;
    let records = 0;
    for (const chunk of this.#chunks) {
      for (let deleted = CHUNK_ROWS; deleted === CHUNK_ROWS; ) {
        deleted = await this.#changes.make(() => Number(chunk.run(id).changes));
        if (deleted === 0) break;
        records += deleted;
        onProgress(records);
        await nextTurn();
      }
    }
    await this.#changes.make((record) => {
      this.#remove.run(id);
      record(event, auditIn);
    });
    return { kind: "purged", records };
  }

  #begin(id: string): PurgeReply | undefined {
    const row = this.#status.get(id);
    if (row === undefined) return { kind: "missing" };
    if (row[0] === "active") return { kind: "active", name: row[1] as string };
    this.#mark.run(id);
    return undefined;
  }
}
