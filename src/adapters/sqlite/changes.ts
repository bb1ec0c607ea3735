import { setTimeout as sleep } from "node:timers/promises";
import type { AuditEvent } from "../../domain/config/audit.ts";
import { namespaceNotActive } from "../../domain/config/namespace.ts";
import type { AuditLog } from "./audit.ts";
import type { BucketRows } from "./bucket-rows.ts";
import type { Connection, Statement } from "./connection.ts";
import { thrownFor } from "./faults.ts";
import { BLOCKING_RETRIES_MAX, CHANGE_WAIT_MS, retryDelayMs } from "./lock-backoff.ts";
import type { Watch } from "./watch.ts";

/** Called by work that changed something, with the event for the audit log of a namespace. */
type Record = (event: AuditEvent, auditIn: string) => void;

/**
 * Changes of configuration, entities and namespaces: each in one transaction with its audit event and the next generation.
 * Work that records nothing changed nothing.
 */
export class Changes {
  readonly #connection: Connection;
  readonly #watch: Watch;
  readonly #rows: BucketRows;
  readonly #audit: AuditLog;
  readonly #status: Statement;

  constructor(parts: {
    readonly connection: Connection;
    readonly watch: Watch;
    readonly rows: BucketRows;
    readonly audit: AuditLog;
  }) {
    this.#connection = parts.connection;
    this.#watch = parts.watch;
    this.#rows = parts.rows;
    this.#audit = parts.audit;
    this.#status = parts.connection.prepare("SELECT status FROM namespace WHERE id = ?");
  }

  /** Waits for other writers up to a second, then throws `RateLimiterUnavailable`. */
  make<Reply>(work: (record: Record) => Reply): Promise<Reply> {
    return this.#begun(() => this.#transact(work));
  }

  async #begun<Reply>(transact: () => Reply): Promise<Reply> {
    this.#connection.requireOpen();
    const untilMs = this.#connection.steadyMs() + CHANGE_WAIT_MS;
    for (;;) {
      const begun = this.#connection.begin(BLOCKING_RETRIES_MAX);
      if (begun.kind === "begun") return transact();
      if (this.#connection.steadyMs() > untilMs) throw thrownFor(begun.cause, this.#connection.file);
      await sleep(retryDelayMs(this.#connection.random));
      this.#connection.requireOpen();
    }
  }

  /** A change of buckets in an active namespace: audited like the others, but configuration stays as it is. */
  operateIn<Reply>(namespaceId: string, work: (record: (event: AuditEvent) => void) => Reply): Promise<Reply> {
    return this.#begun(() => {
      try {
        this.#watch.refresh();
        if (this.#status.get(namespaceId)?.[0] !== "active") throw namespaceNotActive(namespaceId);
        const reply = work((event) => this.#audit.append(event, namespaceId));
        this.#rows.write();
        this.#connection.commit();
        this.#rows.committed();
        return reply;
      } catch (error) {
        this.#connection.rollback();
        this.#rows.rolledBack();
        throw thrownFor(error, this.#connection.file);
      }
    });
  }

  #transact<Reply>(work: (record: Record) => Reply): Reply {
    let generation: number | undefined;
    try {
      const reply = work((event, auditIn) => {
        this.#audit.append(event, auditIn);
        generation = this.#watch.bump();
      });
      this.#connection.commit();
      if (generation !== undefined) this.#watch.adopt(generation);
      // Buckets may be among what was deleted.
      this.#rows.reread();
      return reply;
    } catch (error) {
      this.#connection.rollback();
      throw thrownFor(error, this.#connection.file);
    }
  }
}
