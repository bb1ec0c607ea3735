import {
  BILLED_WRITE_EVERY_MS,
  compareRefusals,
  isAskedFor,
  positionOfCursor,
  type RefusalCount,
  refusalCursor,
  refusalKeyText,
} from "../../domain/charge/refusal-count.ts";
import type { Page, PageRequest } from "../../domain/names/paging.ts";
import type { RefusalQuery, RefusalRow, RefusalStore, RowReply } from "../../ports/usage-store.ts";
import { BookRows, bookItem, summed } from "./book-rows.ts";
import type { Attributes } from "./codec.ts";
import type { NamespaceParts } from "./namespace-parts.ts";
import { pageOf } from "./paging.ts";
import { REFUSALS } from "./schema.ts";
import type { BookRowName } from "./schema-leases.ts";

type Counts = RefusalRow["counts"];

const FORM = {
  name: "REFUSED",
  attribute: REFUSALS,
  encode: (counts: Counts) => counts.map(({ limit, level, total, count }) => [limit, level, total, count]),
  decode: countsOf,
  words: { counts: "refusals", form: "a list of limits and counts", only: "refusals" },
} as const;

export class DynamoRefusals implements RefusalStore {
  readonly isKept = true;
  readonly writeEveryMs = BILLED_WRITE_EVERY_MS;
  readonly #rows: BookRows<Counts>;

  constructor(parts: NamespaceParts) {
    this.#rows = new BookRows(parts, FORM);
  }

  write(rows: readonly RefusalRow[]): Promise<readonly RowReply[]> {
    return this.#rows.write(rows);
  }

  async query(query: RefusalQuery, { limit, cursor }: PageRequest): Promise<Page<RefusalCount>> {
    const after = positionOfCursor(cursor);
    const counts = summed(this.#rows.rows(query, after), query.window, (rows, startMs) => {
      const sums = sumsOf(rows, query, startMs);
      return sums.filter((count) => after === undefined || compareRefusals(count, after) > 0).sort(compareRefusals);
    });
    return pageOf(counts, limit, refusalCursor);
  }
}

/** A row as an item, without its key. */
export function refusalItem(namespaceId: string, row: RefusalRow, keptS: number): Attributes {
  return bookItem(FORM, namespaceId, row, keptS);
}

function sumsOf(
  rows: readonly (BookRowName & { readonly counts: Counts })[],
  query: RefusalQuery,
  startMs: number,
): RefusalCount[] {
  const sums = new Map<string, RefusalCount>();
  for (const { entityId, resource, counts } of rows) {
    for (const { count, ...about } of counts) {
      const key = { entityId, resource, ...about };
      if (!isAskedFor(key, query)) continue;
      const text = refusalKeyText(key);
      const sum = (sums.get(text)?.count ?? 0) + count;
      sums.set(text, { ...key, window: query.window, windowStartMs: startMs, count: sum });
    }
  }
  return [...sums.values()];
}

function countsOf(list: unknown): Counts | undefined {
  if (!Array.isArray(list) || !list.every(isCount)) return undefined;
  return list.map(([limit, level, total, count]) => ({ limit, level, total, count }));
}

function isCount(entry: unknown): entry is [string, string, boolean, number] {
  if (!Array.isArray(entry) || entry.length !== 4) return false;
  const [limit, level, total, count] = entry as unknown[];
  return (
    typeof limit === "string" && typeof level === "string" && typeof total === "boolean" && Number.isSafeInteger(count)
  );
}
