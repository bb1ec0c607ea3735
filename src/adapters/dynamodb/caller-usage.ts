import {
  type CallerCounts,
  callerCursor,
  compareUsage,
  type UsagePosition,
  usagePositionOf,
} from "../../domain/charge/caller-usage.ts";
import { BILLED_WRITE_EVERY_MS } from "../../domain/charge/refusal-count.ts";
import type { Page, PageRequest } from "../../domain/names/paging.ts";
import type { CallerRow, CallerStore, CallerSum, RowReply, UsageQuery } from "../../ports/usage-store.ts";
import { BookRows, bookItem, summed } from "./book-rows.ts";
import type { Attributes } from "./codec.ts";
import type { NamespaceParts } from "./namespace-parts.ts";
import { pageOf } from "./paging.ts";
import { CALLER_COUNTS } from "./schema.ts";

const FORM = {
  name: "CALLED",
  attribute: CALLER_COUNTS,
  encode: (counts: CallerCounts) => counts,
  decode: countsOf,
  words: { counts: "usage", form: "an object of counts", only: "usage of a caller" },
} as const;

/** Usage of callers of one namespace that no bucket counts. */
export class DynamoCallers implements CallerStore {
  readonly isKept = true;
  readonly writeEveryMs = BILLED_WRITE_EVERY_MS;
  readonly #rows: BookRows<CallerCounts>;

  constructor(parts: NamespaceParts) {
    this.#rows = new BookRows(parts, FORM);
  }

  write(rows: readonly CallerRow[]): Promise<readonly RowReply[]> {
    return this.#rows.write(rows);
  }

  async query(query: UsageQuery, { limit, cursor }: PageRequest): Promise<Page<CallerSum>> {
    const after = usagePositionOf(cursor);
    const found = summed(this.#rows.rows(query, after), query.window, (rows, windowStartMs) => {
      const sums = new Map<string, { readonly place: UsagePosition; readonly counts: Map<string, number> }>();
      for (const { entityId, resource, counts } of rows) {
        if (query.resource !== undefined && resource !== query.resource) continue;
        const place = { windowStartMs, entityId, resource };
        const sum = sums.get(callerCursor(place)) ?? { place, counts: new Map<string, number>() };
        sums.set(callerCursor(place), sum);
        for (const [name, count] of Object.entries(counts)) sum.counts.set(name, (sum.counts.get(name) ?? 0) + count);
      }
      return Array.from(sums.values(), ({ place, counts }) => ({ ...place, counts: Object.fromEntries(counts) }))
        .filter((sum) => after === undefined || compareUsage(sum, after) > 0)
        .sort(compareUsage);
    });
    return pageOf(found, limit, callerCursor);
  }
}

/** A row as an item, without its key. */
export function callerItem(namespaceId: string, row: CallerRow, keptS: number): Attributes {
  return bookItem(FORM, namespaceId, row, keptS);
}

function countsOf(counts: unknown): CallerCounts | undefined {
  if (typeof counts !== "object" || counts === null || Array.isArray(counts)) return undefined;
  return Object.values(counts).every(Number.isSafeInteger) ? (counts as CallerCounts) : undefined;
}
