import { setTimeout as sleep } from "node:timers/promises";
import type { AuditEvent } from "../../domain/config/audit.ts";
import { namespaceNotActive } from "../../domain/config/namespace.ts";
import { operatedText } from "../../domain/lease/idempotency.ts";
import type { Operation, OperationReply } from "../../ports/bucket-store.ts";
import { OPERATIONS_KEPT_MS } from "../../stored/bucket-rules.ts";
import type { OperatedRow } from "../../stored/row-buckets.ts";
import { operatedIn } from "../../stored/row-damage.ts";
import type { AuditLog } from "./audit.ts";
import type { BucketRows } from "./bucket-rows.ts";
import { BLOCKING_RETRIES_MAX, CHANGE_WAIT_MS, type Connection, retryDelayMs } from "./connection.ts";
import { thrownFor } from "./faults.ts";
import type { Watch } from "./watch.ts";

/** Called by work that changed something, with the event for the audit log of a namespace. */
type Record = (event: AuditEvent, auditIn: string) => void;

interface ChangeParts {
  readonly connection: Connection;
  readonly watch: Watch;
  readonly rows: BucketRows;
  readonly audit: AuditLog;
}

/**
 * Changes of configuration, entities and namespaces: each in one transaction with its audit event and the next generation.
 * Work that records nothing changed nothing.
 */
export class Changes {
  readonly #parts: ChangeParts;

  constructor(parts: ChangeParts) {
    this.#parts = parts;
  }

  /** Waits for other writers up to a second, then throws `RateLimiterUnavailable`. */
  make<Reply>(work: (record: Record) => Reply): Promise<Reply> {
    return this.#begun(() => this.#transact(work));
  }

  async #begun<Reply>(transact: () => Reply): Promise<Reply> {
    const { connection } = this.#parts;
    connection.requireOpen();
    const untilMs = connection.steadyMs() + CHANGE_WAIT_MS;
    for (;;) {
      const begun = connection.begin(BLOCKING_RETRIES_MAX);
      if (begun.kind === "begun") return transact();
      if (connection.steadyMs() > untilMs) throw thrownFor(begun.cause, connection.file);
      await sleep(retryDelayMs(connection.random));
      connection.requireOpen();
    }
  }

  /** A change of buckets in an active namespace: audited like the others, but configuration stays as it is. */
  operateIn<Reply>(namespaceId: string, work: (record: (event: AuditEvent) => void) => Reply): Promise<Reply> {
    const { connection, watch, rows, audit } = this.#parts;
    return this.#begun(() => {
      try {
        watch.refresh();
        const [status] = connection.prepare("SELECT status FROM namespace WHERE id = ?").get(namespaceId) ?? [];
        if (status !== "active") throw namespaceNotActive(namespaceId);
        const reply = work((event) => audit.append(event, namespaceId));
        rows.write();
        connection.commit();
        rows.committed();
        return reply;
      } catch (error) {
        connection.rollback();
        rows.rolledBack();
        throw thrownFor(error, connection.file);
      }
    });
  }

  /** Writes into a namespace that is hidden. Rows of buckets may be among what is written, and are read again. */
  fill(work: () => void): Promise<void> {
    return this.#begun(() => this.#transact(() => work()));
  }

  #transact<Reply>(work: (record: Record) => Reply): Reply {
    const { connection, watch, rows, audit } = this.#parts;
    let generation: number | undefined;
    try {
      const reply = work((event, auditIn) => {
        audit.append(event, auditIn);
        generation = watch.bump();
      });
      connection.commit();
      if (generation !== undefined) watch.adopt(generation);
      // Buckets may be among what was deleted.
      rows.reread();
      return reply;
    } catch (error) {
      connection.rollback();
      throw thrownFor(error, connection.file);
    }
  }
}

const GET_OPERATION = "SELECT amounts FROM operation WHERE namespace = ? AND entity = ? AND resource = ? AND key = ?";
const PUT_OPERATION =
  "INSERT INTO operation (namespace, entity, resource, key, at_ms, amounts) VALUES (?, ?, ?, ?, ?, ?)";

/** A purchase or a reset: once per key, in one transaction with its audit event. */
export function operateOnce(
  { connection, changes }: { readonly connection: Connection; readonly changes: Changes },
  namespaceId: string,
  operation: Operation,
  work: () => OperatedRow,
): Promise<OperationReply> {
  const { bucket, nowMs, idempotencyKey, event } = operation;
  const key = [namespaceId, bucket.entityId, bucket.resource, idempotencyKey] as const;
  return changes.operateIn(namespaceId, (record): OperationReply => {
    const expire = connection.prepare("DELETE FROM operation WHERE namespace = ? AND at_ms <= ?");
    expire.run(namespaceId, nowMs - OPERATIONS_KEPT_MS);
    const done = connection.prepare(GET_OPERATION).get(...key);
    if (done !== undefined) return { kind: "done", repeated: true, ...operatedIn(done[0], operation) };
    const operated = work();
    if (operated.kind === "tooLarge") return operated;
    const { amounts } = operated;
    connection.prepare(PUT_OPERATION).run(...key, nowMs, operatedText({ asks: operation.asks, amounts }));
    record(event);
    return { kind: "done", repeated: false, amounts };
  });
}
