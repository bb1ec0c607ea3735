import {
  positionOfCursor,
  type RefusalCount,
  type RefusalPosition,
  refusalCursor,
  refusalsNotKept,
  WRITE_EVERY_MS,
  windowPosition,
} from "../../domain/charge/refusal-count.ts";
import { windowEndMs, windowStartMs } from "../../domain/charge/usage.ts";
import type { Page, PageRequest } from "../../domain/names/paging.ts";
import type { RefusalQuery, RefusalRow, RefusalStore, RowReply } from "../../ports/refusal-store.ts";
import type { Changes } from "./changes.ts";
import type { Connection, Row, Statement } from "./connection.ts";

/** The table of refusals. Always inside a write transaction. */
export class RefusalRows {
  readonly #any: Statement;
  readonly #put: Statement;
  #added = 0;

  constructor(connection: Connection) {
    this.#any = connection.prepare(
      "SELECT 1 FROM refusal WHERE namespace = ? AND hour_ms = ? AND entity = ? AND resource = ? AND writer = ? LIMIT 1",
    );
    // A row only grows: a transaction that was thought to be lost must not set it back.
    this.#put = connection.prepare(
      `INSERT INTO refusal (namespace, hour_ms, entity, resource, limit_name, level, total, writer, count)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
       ON CONFLICT DO UPDATE SET count = max(count, excluded.count)`,
    );
  }

  put(namespaceId: string, { id, hourMs, entityId, resource, counts, mustExist }: RefusalRow): RowReply {
    const isThere = this.#any.get(namespaceId, hourMs, entityId, resource, id) !== undefined;
    if (mustExist && !isThere) return "gone";
    for (const { limit, level, total, count } of counts) {
      this.#put.run(namespaceId, hourMs, entityId, resource, limit, level, total ? 1 : 0, id, count);
    }
    if (!isThere) this.#added += counts.length;
    return "stored";
  }

  /** How many rows were added since this was last asked. */
  takeAdded(): number {
    const added = this.#added;
    this.#added = 0;
    return added;
  }
}

/** So many windows are looked into for one page: where few of many are asked for, the rest must not be walked in one go. */
const WINDOWS_MAX = 50;

/** Counts of one namespace, summed when asked for: a window at a time, so that a page costs what it shows. */
export class SqliteRefusals implements RefusalStore {
  readonly isKept: boolean;
  readonly writeEveryMs = WRITE_EVERY_MS;
  readonly #connection: Connection;
  readonly #changes: Changes;
  readonly #rows: RefusalRows;
  readonly #namespaceId: string;

  constructor(
    parts: {
      readonly connection: Connection;
      readonly changes: Changes;
      readonly refusals: RefusalRows;
      readonly countsUsage: boolean;
    },
    namespaceId: string,
  ) {
    this.#connection = parts.connection;
    this.#changes = parts.changes;
    this.#rows = parts.refusals;
    this.isKept = parts.countsUsage;
    this.#namespaceId = namespaceId;
  }

  async write(rows: readonly RefusalRow[]): Promise<readonly RowReply[]> {
    if (!this.isKept) throw refusalsNotKept("usage");
    return this.#changes.operateIn(this.#namespaceId, () => rows.map((row) => this.#rows.put(this.#namespaceId, row)));
  }

  query(query: RefusalQuery, { limit, cursor }: PageRequest): Page<RefusalCount> {
    if (!this.isKept) throw refusalsNotKept("usage");
    const after = positionOfCursor(cursor);
    return this.#connection.readTogether(() => this.#page(query, after, limit));
  }

  #page(query: RefusalQuery, after: RefusalPosition | undefined, limit: number): Page<RefusalCount> {
    const items: RefusalCount[] = [];
    let position = after ?? windowPosition(query.fromMs);
    for (let windows = 0; ; windows++) {
      const hourMs = this.#firstHour(query, position.windowStartMs);
      if (hourMs === undefined) return { items };
      const startMs = windowStartMs(query.window, hourMs);
      if (startMs >= query.toMs) return { items };
      if (windows === WINDOWS_MAX) return { items, cursor: refusalCursor(windowPosition(startMs)) };
      if (startMs > position.windowStartMs) position = windowPosition(startMs);
      // A window that began before `fromMs` is not asked for.
      if (startMs >= query.fromMs) items.push(...this.#inWindow(query, position, limit + 1 - items.length));
      if (items.length > limit) {
        items.pop();
        return { items, cursor: refusalCursor(items.at(-1) as RefusalCount) };
      }
      position = windowPosition(windowEndMs(query.window, startMs));
    }
  }

  /** The first hour from an instant on that has any refusals, of the entity that is asked for. */
  #firstHour({ entityId }: RefusalQuery, fromMs: number): number | undefined {
    const from = entityId === undefined ? "refusal" : "refusal INDEXED BY refusal_entity";
    const ofEntity = entityId === undefined ? "" : " AND entity = ?";
    const found = this.#connection
      .prepare(`SELECT min(hour_ms) FROM ${from} WHERE namespace = ? AND hour_ms >= ?${ofEntity}`)
      .get(this.#namespaceId, fromMs, ...(entityId === undefined ? [] : [entityId]))?.[0];
    return typeof found === "number" ? found : undefined;
  }

  #inWindow(query: RefusalQuery, after: RefusalPosition, most: number): readonly RefusalCount[] {
    const { window, entityId, resource, limit } = query;
    const { windowStartMs: startMs } = after;
    const filters = { entity: entityId, resource, limit_name: limit };
    const given = Object.entries(filters).filter((entry): entry is [string, string] => entry[1] !== undefined);
    const from = entityId === undefined ? "refusal" : "refusal INDEXED BY refusal_entity";
    const statement = this.#connection.prepare(
      `SELECT entity, resource, limit_name, level, total, sum(count) FROM ${from}
       WHERE namespace = ? AND hour_ms >= ? AND hour_ms < ?
         AND (entity, resource, limit_name, level, total) > (?, ?, ?, ?, ?)
         ${given.map(([column]) => `AND ${column} = ?`).join(" ")}
       GROUP BY entity, resource, limit_name, level, total
       ORDER BY entity, resource, limit_name, level, total LIMIT ?`,
    );
    const position = [after.entityId, after.resource, after.limit, after.level, after.total ? 1 : 0];
    const span = [this.#namespaceId, startMs, windowEndMs(window, startMs)];
    const rows = statement.all(...span, ...position, ...given.map(([, value]) => value), most);
    return rows.map((row) => ({ ...keyOf(row), window, windowStartMs: startMs, count: row[5] as number }));
  }
}

function keyOf([entityId, resource, limit, level, total]: Row) {
  return {
    entityId: entityId as string,
    resource: resource as string,
    limit: limit as string,
    level: level as string,
    total: total === 1,
  };
}
