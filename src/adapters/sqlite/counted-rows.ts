import { given } from "../../domain/names/given.ts";
import type { CountStore, Span, Sum, SumQuery, Sums } from "../../ports/record-store.ts";
import type { Connection, Row } from "./connection.ts";

/** How the rows of a table are added up. */
interface CountedTable {
  readonly table: string;
  /** The index by entity. */
  readonly byEntity: string;
  /** The columns by which sums are told apart, and the key before all others. */
  readonly key: readonly string[];
  readonly first: readonly (string | number)[];
  /** The columns that a question may name, with its field. */
  readonly filters: Readonly<Record<string, "resource" | "limit">>;
  /** The statement of the sums: key columns, then what `countsOf` reads. `from` is the table with its conditions. */
  readonly sumsOf: (from: string, key: string) => string;
  readonly countsOf: (columns: Row) => Sum["counts"];
}

/** Rows that processes write for each hour, added up over all of them when they are asked for. */
export class CountedRows implements Pick<CountStore, "sums"> {
  protected readonly connection: Connection;
  protected added = 0;
  readonly #of: CountedTable;

  constructor(connection: Connection, of: CountedTable) {
    this.connection = connection;
    this.#of = of;
  }

  /** How many rows were added since this was last asked. */
  takeAdded(): number {
    const { added } = this;
    this.added = 0;
    return added;
  }

  sums(namespaceId: string, query: SumQuery): Sums {
    return this.connection.readTogether(() => {
      const sums: Sum[] = [];
      for (const [i, span] of query.spans.entries()) {
        const after = i === 0 ? query.after : undefined;
        if (sums.length < query.limitMax)
          sums.push(...this.#inSpan(namespaceId, query, span, after, query.limitMax - sums.length));
      }
      const endMs = query.spans.at(-1)?.endMs ?? 0;
      return { sums, nextHourMs: this.#firstHour(namespaceId, query.entityId, endMs) };
    });
  }

  /** The first hour from an instant on that has any rows, of the entity that is asked for. */
  #firstHour(namespaceId: string, entityId: string | undefined, fromMs: number): number | undefined {
    const ofEntity = entityId === undefined ? "" : " AND entity = ?";
    const sql = `SELECT min(hour_ms) FROM ${this.#tableFor(entityId)} WHERE namespace = ? AND hour_ms >= ?${ofEntity}`;
    const values = entityId === undefined ? [] : [entityId];
    const found = this.connection.prepare(sql).get(namespaceId, fromMs, ...values)?.[0];
    return typeof found === "number" ? found : undefined;
  }

  #inSpan(
    namespaceId: string,
    query: SumQuery,
    { startMs, endMs }: Span,
    after: readonly string[] | undefined,
    max: number,
  ): readonly Sum[] {
    const { key, first, filters, sumsOf, countsOf } = this.#of;
    const { entityId } = query;
    const named = Object.entries(filters).map(([column, field]) => [column, query[field]] as const);
    const asked = Object.entries(given({ entity: entityId, ...Object.fromEntries(named) }));
    const columns = key.join(", ");
    const from = `${this.#tableFor(entityId)} WHERE namespace = ? AND hour_ms >= ? AND hour_ms < ?
         AND (${columns}) > (${key.map(() => "?").join(", ")})
         ${asked.map(([column]) => `AND ${column} = ?`).join(" ")}`;
    const statement = this.connection.prepare(`${sumsOf(from, columns)} ORDER BY ${columns} LIMIT ?`);
    // The last part of a key may be a number.
    const place = (after ?? first).map((part, i) => (typeof first[i] === "number" ? Number(part) : part));
    const rows = statement.all(
      namespaceId,
      startMs,
      endMs,
      ...place,
      ...asked.map(([, value]) => value as string),
      max,
    );
    return rows.map((row) => {
      return { startMs, key: row.slice(0, key.length).map(String), counts: countsOf(row.slice(key.length)) };
    });
  }

  #tableFor(entityId: string | undefined): string {
    const { table, byEntity } = this.#of;
    return entityId === undefined ? table : `${table} INDEXED BY ${byEntity}`;
  }
}
