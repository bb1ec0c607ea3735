import { lastHourOverMs } from "../../stored/keeping.ts";
import type { AuditLog } from "./audit.ts";
import type { Connection, Statement } from "./connection.ts";
import type { RefusalRows } from "./refusals.ts";
import type { UsageHours } from "./usage-hours.ts";

const CHUNK_ROWS = 50;
/** Rows deleted for each that is added: more than one, so that what is too old grows less. */
const ROWS_PER_ADDED = 2;
/** And for each transaction, so that old rows go where no new ones come. */
const ROWS_PER_TRANSACTION = CHUNK_ROWS / 256;
/** Namespaces looked into at a time; most have nothing old. */
const NAMESPACES_PER_CHUNK = 10;

/** Deletes usage, counts of refusals and audit events that are old enough, a chunk now and then inside ordinary write transactions. */
export class Expiry {
  readonly #usage: UsageHours;
  readonly #refusals: RefusalRows;
  readonly #audit: AuditLog;
  readonly #usageKeepMs: number | undefined;
  readonly #nextNamespace: Statement;
  readonly #tables: readonly { readonly isOld: Statement; readonly delete: Statement }[];
  #due = 0;
  #namespaceId = "";

  constructor(parts: {
    readonly connection: Connection;
    readonly usage: UsageHours;
    readonly refusals: RefusalRows;
    readonly audit: AuditLog;
    /** Undefined: this process counts none, and what others count in the file is theirs to drop. */
    readonly usageKeepMs: number | undefined;
  }) {
    const { connection } = parts;
    this.#usage = parts.usage;
    this.#refusals = parts.refusals;
    this.#audit = parts.audit;
    this.#usageKeepMs = parts.usageKeepMs;
    this.#nextNamespace = connection.prepare("SELECT id FROM namespace WHERE id >= ? ORDER BY id LIMIT 1");
    this.#tables = [
      { table: "usage", key: "namespace, hour_ms, entity, resource" },
      { table: "refusal", key: "namespace, hour_ms, entity, resource, limit_name, level, total, writer" },
    ].map(({ table, key }) => ({
      // Most times there is nothing, and the deletion would make its list all the same, at twenty times the cost of a look.
      isOld: connection.prepare(`SELECT 1 FROM ${table} WHERE namespace = ? AND hour_ms <= ? LIMIT 1`),
      delete: connection.prepare(
        `DELETE FROM ${table} WHERE (${key}) IN
         (SELECT ${key} FROM ${table} WHERE namespace = ? AND hour_ms <= ? LIMIT ?)`,
      ),
    }));
  }

  /** After the rows of a transaction were written. */
  run(nowMs: number): void {
    const added = this.#usage.takeAdded() + this.#refusals.takeAdded();
    this.#due += ROWS_PER_TRANSACTION + ROWS_PER_ADDED * added;
    if (this.#due < CHUNK_ROWS) return;
    // A transaction deletes little more than in proportion to what it added; what is due from before is left to the next ones.
    const rows = Math.min(Math.floor(this.#due), ROWS_PER_ADDED * added + CHUNK_ROWS);
    this.#due -= rows;
    if (this.#usageKeepMs !== undefined) this.#dropUsage(rows, lastHourOverMs(nowMs, this.#usageKeepMs));
    this.#audit.dropOld(nowMs);
  }

  // Namespace after namespace, by the key of the table. One that has more that is old is gone on with the next time.
  #dropUsage(rows: number, untilMs: number): void {
    let left = rows;
    for (let looked = 0; looked < NAMESPACES_PER_CHUNK; looked++) {
      const found = this.#nextNamespace.get(this.#namespaceId);
      if (found === undefined) {
        this.#namespaceId = "";
        return;
      }
      const namespaceId = found[0] as string;
      for (const table of this.#tables) {
        if (table.isOld.get(namespaceId, untilMs) === undefined) continue;
        left -= Number(table.delete.run(namespaceId, untilMs, left).changes);
      }
      if (left === 0) {
        this.#namespaceId = namespaceId;
        return;
      }
      this.#namespaceId = `${namespaceId}\u0000`;
    }
  }
}
