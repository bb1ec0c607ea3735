import { ItemUnreadable } from "../../domain/bucket/item-unreadable.ts";
import { type Operated, operatedOfText, operatedText } from "../../domain/lease/stored-amounts.ts";
import type { Operation, OperationReply } from "../../ports/bucket-store.ts";
import type { OperatedRecord } from "../../stored/bucket-record.ts";
import { OPERATIONS_KEPT_MS } from "../../stored/keeping.ts";
import type { Changes } from "./changes.ts";
import type { Connection, Statement } from "./connection.ts";

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

  once(namespaceId: string, operation: Operation, work: () => OperatedRecord): Promise<OperationReply> {
    const { bucket, nowMs, idempotencyKey, event } = operation;
    const key = [namespaceId, bucket.entityId, bucket.resource, idempotencyKey] as const;
    return this.#changes.operateIn(namespaceId, (record): OperationReply => {
      this.#expire.run(namespaceId, nowMs - OPERATIONS_KEPT_MS);
      const done = this.#get.get(...key);
      if (done !== undefined) return { kind: "done", repeated: true, ...operatedIn(done[0], operation) };
      const operated = work();
      if (operated.kind === "tooLarge") return operated;
      const { amounts } = operated;
      this.#put.run(...key, nowMs, operatedText({ asks: operation.asks, amounts }));
      record(event);
      return { kind: "done", repeated: false, amounts };
    });
  }
}

function operatedIn(text: unknown, { bucket, idempotencyKey }: Operation): Operated {
  const operated = operatedOfText(text);
  if (operated !== undefined) return operated;
  const damage = { attribute: "amounts", value: text, wants: "a list of limits and millitokens" };
  throw new ItemUnreadable({ bucket, shard: 0, operation: idempotencyKey }, damage);
}
