import type { Amount } from "../../domain/amounts.ts";
import { HOUR_MS } from "../../domain/usage.ts";
import type { Operation, OperationReply } from "../../ports/bucket-store.ts";
import type { Changes } from "./changes.ts";
import type { Connection, Statement } from "./connection.ts";

/** How long a key is remembered. */
const KEPT_MS = 3 * 24 * HOUR_MS;

/** Purchases and resets: each once per key, in one transaction with its audit event. */
export class Operations {
  readonly #changes: Changes;
  readonly #get: Statement;
  readonly #put: Statement;
  readonly #expire: Statement;

  constructor(parts: { readonly connection: Connection; readonly changes: Changes }) {
    this.#changes = parts.changes;
    const { connection } = parts;
    this.#get = connection.prepare(
      "SELECT amounts FROM operation WHERE namespace = ? AND entity = ? AND resource = ? AND key = ?",
    );
    this.#put = connection.prepare(
      "INSERT INTO operation (namespace, entity, resource, key, at_ms, amounts) VALUES (?, ?, ?, ?, ?, ?)",
    );
    this.#expire = connection.prepare("DELETE FROM operation WHERE namespace = ? AND at_ms <= ?");
  }

  once(namespaceId: string, operation: Operation, work: () => readonly Amount[]): Promise<OperationReply> {
    const { bucket, nowMs, idempotencyKey, event } = operation;
    const key = [namespaceId, bucket.entityId, bucket.resource, idempotencyKey] as const;
    return this.#changes.operateIn(namespaceId, (record) => {
      this.#expire.run(namespaceId, nowMs - KEPT_MS);
      const done = this.#get.get(...key);
      if (done !== undefined) return { repeated: true, amounts: JSON.parse(done[0] as string) as readonly Amount[] };
      const amounts = work();
      this.#put.run(...key, nowMs, JSON.stringify(amounts));
      record(event);
      return { repeated: false, amounts };
    });
  }
}
