import { divCeil } from "../../bucket/integers.ts";
import { bucketKey } from "../../domain/bucket/bucket-key.ts";
import { LOG_KEPT_MS } from "../../domain/charge/refusal-log.ts";
import type { Calendar } from "../../domain/limits/schedule.ts";
import { type BucketRecord, usageOfEndedHolds } from "../../stored/bucket-record.ts";
import { lastHourOverMs, mayForget, type RuleContext } from "../../stored/bucket-rules.ts";
import { leaving } from "../../stored/open-hour.ts";
import type { AuditLog } from "./audit.ts";
import { type BucketRows, COLUMNS, decodedRow, type UsageHours } from "./bucket-rows.ts";
import type { CallerRows } from "./caller-usage.ts";
import type { Connection, Statement } from "./connection.ts";
import type { RefusalRows } from "./refusals.ts";

const EXPIRED_AT_ONCE = 50;
/** Rows deleted for each that is added: more than one, so that what is too old grows less. */
const ROWS_PER_ADDED = 2;
/** Each transaction also deletes a few rows, so that old ones go where no new ones come. */
const EXPIRED_PER_TRANSACTION = EXPIRED_AT_ONCE / 256;
/** At most this many namespaces are looked into at a time; most have nothing old. */
const NAMESPACES_PER_CHUNK = 10;

interface ExpiryParts {
  readonly connection: Connection;
  readonly usage: UsageHours;
  readonly refusals: RefusalRows;
  readonly callers: CallerRows;
  readonly audit: AuditLog;
  /** Undefined: this process counts none, and what others count in the file is theirs to drop. */
  readonly usageKeepMs: number | undefined;
}

/** Deletes usage, counts of refusals, single ones and audit events that are old enough, a chunk now and then inside ordinary write transactions. */
export class Expiry {
  readonly #parts: ExpiryParts;
  readonly #nextNamespace: Statement;
  /** `keepMs` undefined: as long as usage. */
  readonly #tables: readonly {
    readonly keepMs: number | undefined;
    readonly isOld: Statement;
    readonly delete: Statement;
  }[];
  #due = 0;
  #namespaceId = "";

  constructor(parts: ExpiryParts) {
    const { connection } = parts;
    this.#parts = parts;
    this.#nextNamespace = connection.prepare("SELECT id FROM namespace WHERE id >= ? ORDER BY id LIMIT 1");
    this.#tables = [
      { table: "usage", key: "namespace, hour_ms, entity, resource" },
      { table: "refusal", key: "namespace, hour_ms, entity, resource, limit_name, level, total, writer" },
      { table: "refusal_log", key: "namespace, hour_ms, entity, writer", keepMs: LOG_KEPT_MS },
      { table: "caller_usage", key: "namespace, hour_ms, entity, resource, writer" },
    ].map(({ table, key, keepMs }) => ({
      keepMs,
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
    const { usage, refusals, callers, audit, usageKeepMs } = this.#parts;
    const added = usage.takeAdded() + refusals.takeAdded() + callers.takeAdded();
    this.#due += EXPIRED_PER_TRANSACTION + ROWS_PER_ADDED * added;
    if (this.#due < EXPIRED_AT_ONCE) return;
    // A transaction deletes little more than in proportion to what it added; what is due from before is left to the next ones.
    const rows = Math.min(Math.floor(this.#due), ROWS_PER_ADDED * added + EXPIRED_AT_ONCE);
    this.#due -= rows;
    if (usageKeepMs !== undefined) this.#dropUsage(rows, nowMs, usageKeepMs);
    audit.dropOld(nowMs);
  }

  // Namespace after namespace, by the key of the table. One that has more that is old is gone on with the next time.
  #dropUsage(rows: number, nowMs: number, usageKeepMs: number): void {
    let left = rows;
    for (let looked = 0; looked < NAMESPACES_PER_CHUNK; looked++) {
      const found = this.#nextNamespace.get(this.#namespaceId);
      if (found === undefined) {
        this.#namespaceId = "";
        return;
      }
      const namespaceId = found[0] as string;
      for (const table of this.#tables) {
        const untilMs = lastHourOverMs(nowMs, table.keepMs ?? usageKeepMs);
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

const CHUNK_ROWS = 50;
/** One transaction walks over at most this many chunks, beside those for the buckets that are new in it. */
const CHUNKS_MAX = 4;
/** Rows looked at for each new bucket: more than one, so that the walk gains on those who make them. */
const ROWS_PER_INSERT = 2;
/** Each transaction also looks at a few rows, so that buckets are found idle when no new ones come. */
const ROWS_PER_TRANSACTION = CHUNK_ROWS / 256;

interface SweepParts {
  readonly connection: Connection;
  readonly usage: UsageHours;
  readonly rows: BucketRows;
  readonly expiry: Expiry;
  readonly calendar: Calendar;
  readonly countsUsage: boolean;
  readonly contextOf: (namespaceId: string, nowMs: number) => RuleContext;
}

/** Walks over the buckets, a chunk now and then inside ordinary write transactions, and deletes the idle ones. */
export class Sweep {
  readonly #select: Statement;
  readonly #delete: Statement;
  readonly #parts: SweepParts;
  #due = 0;
  #lastId: number;

  constructor(parts: SweepParts) {
    const { connection } = parts;
    this.#parts = parts;
    this.#select = connection.prepare(
      `SELECT ${COLUMNS}, namespace, entity, resource FROM bucket WHERE id > ? ORDER BY id LIMIT ${CHUNK_ROWS}`,
    );
    this.#delete = connection.prepare("DELETE FROM bucket WHERE id = ?");
    // From anywhere: processes that live shortly would otherwise all sweep the same beginning.
    const newest = connection.read(() => connection.prepare("SELECT max(id) FROM bucket").get()?.[0] ?? 0);
    this.#lastId = Math.floor(connection.random() * Number(newest));
  }

  /** After the rows of a transaction were written. */
  run(inserted: number, nowMs: number): void {
    this.#parts.expiry.run(nowMs);
    this.#due += ROWS_PER_TRANSACTION + ROWS_PER_INSERT * inserted;
    if (this.#due < CHUNK_ROWS) return;
    let deleted = 0;
    // Many may be new in one transaction: were the walk bounded by a number alone, they would outrun it for good.
    const chunksMax = CHUNKS_MAX + divCeil(ROWS_PER_INSERT * inserted, CHUNK_ROWS);
    for (let chunks = 0; this.#due >= CHUNK_ROWS && chunks < chunksMax; chunks++) {
      this.#due -= CHUNK_ROWS;
      deleted += this.#chunk(nowMs);
    }
    if (deleted > 0) this.#parts.rows.reread();
  }

  #chunk(nowMs: number): number {
    const { calendar, contextOf } = this.#parts;
    const rows = this.#select.all(this.#lastId);
    let deleted = 0;
    for (const columns of rows) {
      this.#lastId = columns[0] as number;
      const found = decodedRow(columns, calendar);
      // It is told to whoever asks for this bucket; the takes that pay for the sweep are on others.
      if (found.kind === "damaged") continue;
      const { row } = found;
      const [namespaceId, entityId, resource] = columns.slice(4) as string[] as [string, string, string];
      if (!mayForget(row.state, bucketKey(entityId, resource), contextOf(namespaceId, nowMs))) continue;
      this.#moveUsage(namespaceId, entityId, resource, row, nowMs);
      this.#delete.run(this.#lastId);
      deleted++;
    }
    if (rows.length < CHUNK_ROWS) this.#lastId = 0;
    return deleted;
  }

  #moveUsage(namespaceId: string, entityId: string, resource: string, row: BucketRecord, nowMs: number): void {
    const { usage, countsUsage } = this.#parts;
    const ended = countsUsage ? usageOfEndedHolds(row.state, nowMs) : [];
    for (const count of [...leaving(row.open, row.shape.counts), ...ended]) {
      usage.add({ namespaceId, entityId, resource }, count);
    }
  }
}
