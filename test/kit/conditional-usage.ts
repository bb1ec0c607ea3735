import type { UsageSnapshot } from "../../src/domain/charge/usage.ts";
import type { Page, PageRequest } from "../../src/domain/names/paging.ts";
import type { UsageQuery, UsageStore } from "../../src/ports/usage-store.ts";
import { type UsageItems, type UsageOf, windowsOf } from "../../src/protocol/usage/usage-windows.ts";
import type { ConditionalTable } from "./conditional-table.ts";
import { sortedPage } from "./sorted-page.ts";

/** Usage as the items of a simulated table tell it. It looks at the table itself: no call fails, and nothing is old. */
export class ConditionalUsage implements UsageStore {
  readonly #table: ConditionalTable;
  readonly #namespaceId: string;

  constructor(table: ConditionalTable, namespaceId: string) {
    this.#table = table;
    this.#namespaceId = namespaceId;
  }

  query(query: UsageQuery, page: PageRequest): Page<UsageSnapshot> {
    const found = new Map<string, { of: UsageOf; shards: Shards[]; sheets: Sheets[] }>();
    for (const [{ bucket, shard, operation, sheet }, item] of this.#table.entries(this.#namespaceId)) {
      const { entityId, resource } = bucket;
      if (query.entityId !== undefined && query.entityId !== entityId) continue;
      if (query.resource !== undefined && query.resource !== resource) continue;
      const items = found.get(bucket.id) ?? { of: { entityId, resource }, shards: [], sheets: [] };
      found.set(bucket.id, items);
      if (sheet !== undefined) items.sheets.push({ shard, day: sheet, item });
      else if (operation === undefined) items.shards.push({ shard, item });
    }
    const all = [...found.values()].flatMap(({ of, ...items }) => windowsOf(of, items, query));
    return sortedPage(new Map(all.map((one) => [orderOf(one), one])), page);
  }
}

type Shards = UsageItems["shards"][number];
type Sheets = UsageItems["sheets"][number];

function orderOf({ windowStartMs, entityId, resource }: UsageSnapshot): string {
  return `${String(windowStartMs).padStart(16, "0")}\n${entityId}\n${resource}`;
}
