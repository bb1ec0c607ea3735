import { divCeil } from "../../bucket/integers.ts";
import { bucketKey } from "../../domain/bucket/bucket-key.ts";
import type { Calendar } from "../../domain/limits/calendar.ts";
import { type BucketRecord, endedOn } from "../../stored/bucket-record.ts";
import { met, type RuleContext } from "../../stored/bucket-rules.ts";
import { mayForget } from "../../stored/keeping.ts";
import { leaving } from "../../stored/open-hour.ts";
import { type BucketRows, COLUMNS, decodedRow } from "./bucket-rows.ts";
import type { Connection, Statement } from "./connection.ts";
import type { Expiry } from "./expiry.ts";
import type { UsageHours } from "./usage-hours.ts";

const CHUNK_ROWS = 50;
/** In one transaction, beside those for the buckets that are new in it. */
const CHUNKS_MAX = 4;
/** Rows looked at for each new bucket: more than one, so that the walk gains on those who make them. */
const ROWS_PER_INSERT = 2;
/** And for each transaction, so that buckets are found idle when no new ones come. */
const ROWS_PER_TRANSACTION = CHUNK_ROWS / 256;

/** Walks over the buckets, a chunk now and then inside ordinary write transactions, and deletes the idle ones. */
export class Sweep {
  readonly #select: Statement;
  readonly #delete: Statement;
  readonly #usage: UsageHours;
  readonly #rows: BucketRows;
  readonly #expiry: Expiry;
  readonly #calendar: Calendar;
  readonly #countsUsage: boolean;
  readonly #contextOf: (namespaceId: string, nowMs: number) => RuleContext;
  #due = 0;
  #lastId: number;

  constructor(parts: {
    readonly connection: Connection;
    readonly usage: UsageHours;
    readonly rows: BucketRows;
    readonly expiry: Expiry;
    readonly calendar: Calendar;
    readonly countsUsage: boolean;
    readonly contextOf: (namespaceId: string, nowMs: number) => RuleContext;
  }) {
    const { connection } = parts;
    this.#calendar = parts.calendar;
    this.#countsUsage = parts.countsUsage;
    this.#usage = parts.usage;
    this.#contextOf = parts.contextOf;
    this.#rows = parts.rows;
    this.#expiry = parts.expiry;
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
    this.#expiry.run(nowMs);
    this.#due += ROWS_PER_TRANSACTION + ROWS_PER_INSERT * inserted;
    if (this.#due < CHUNK_ROWS) return;
    let deleted = 0;
    // Many may be new in one transaction: were the walk bounded by a number alone, they would outrun it for good.
    const chunksMax = CHUNKS_MAX + divCeil(ROWS_PER_INSERT * inserted, CHUNK_ROWS);
    for (let chunks = 0; this.#due >= CHUNK_ROWS && chunks < chunksMax; chunks++) {
      this.#due -= CHUNK_ROWS;
      deleted += this.#chunk(nowMs);
    }
    if (deleted > 0) this.#rows.reread();
  }

  #chunk(nowMs: number): number {
    const rows = this.#select.all(this.#lastId);
    let deleted = 0;
    for (const columns of rows) {
      this.#lastId = columns[0] as number;
      const found = decodedRow(columns, this.#calendar);
      // It is told to whoever asks for this bucket; the takes that pay for the sweep are on others.
      if (found.kind === "damaged") continue;
      const { row } = found;
      const [namespaceId, entityId, resource] = columns.slice(4) as string[] as [string, string, string];
      if (!mayForget(row.state, nowMs, this.#calendar)) continue;
      // A bucket that has not met a change goes by it first: it may not be full by that.
      const state = met(row.state, bucketKey(entityId, resource), this.#contextOf(namespaceId, nowMs));
      if (state !== row.state && !mayForget(state, nowMs, this.#calendar)) continue;
      this.#moveUsage(namespaceId, entityId, resource, row, nowMs);
      this.#delete.run(this.#lastId);
      deleted++;
    }
    if (rows.length < CHUNK_ROWS) this.#lastId = 0;
    return deleted;
  }

  #moveUsage(namespaceId: string, entityId: string, resource: string, row: BucketRecord, nowMs: number): void {
    const ended = this.#countsUsage ? endedOn(row.state, nowMs) : [];
    for (const count of [...leaving(row.open, row.shape.counts), ...ended])
      this.#usage.add({ namespaceId, entityId, resource }, count);
  }
}
