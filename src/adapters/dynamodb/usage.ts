import {
  countersOf,
  shownWindow,
  type UsageSnapshot,
  type Windows,
  windowEndMs,
  windowStartMs,
} from "../../domain/charge/usage.ts";
import { NotFoundError } from "../../domain/names/errors.ts";
import type { Page, PageRequest } from "../../domain/names/paging.ts";
import type { Item } from "../../ports/item-store.ts";
import type { UsageQuery, UsageStore } from "../../ports/usage-store.ts";
import { type Attributes, instantOf } from "./codec.ts";
import { chunksOf, collected, cursorOf, pageOf, placeAfter, where } from "./paging.ts";
import { namespaceIndex, type RecordQuery, type Records, resourceIndex, tablePartition } from "./records.ts";
import { keyIn } from "./records-write.ts";
import {
  ENTITY_ID,
  entityPk,
  inCalendar,
  isoSeconds,
  parseUsageSk,
  RESOURCE,
  resourcePk,
  type TableKey,
  TOTAL_EVENTS,
  TTL,
  usagePrefix,
  WINDOW,
} from "./schema.ts";
import { bucketIndex } from "./store-buckets.ts";
import { itemsIn, type UsageItemRef, type UsageParts, usageRefs } from "./usage-index.ts";

/**
 * Throws if an empty answer would be wrong on a table shared with the original: some of the queried buckets have
 * counted, and there is no stored usage of their resources at all.
 */
async function requireAggregated(records: Records, namespaceId: string, query: UsageQuery): Promise<void> {
  const refs: UsageItemRef[] = [];
  for await (const ref of usageRefs(records, { ...bucketIndex(namespaceId, query), pageSize: BUCKETS_ASKED })) {
    const { bucket, operation, sheet } = ref.key;
    if (operation !== undefined || sheet !== undefined) continue;
    if (query.resource === undefined || query.resource === bucket.resource) refs.push(ref);
    // A sample is enough.
    if (refs.length === BUCKETS_ASKED) break;
  }
  const counted = (await itemsIn(records, refs)).filter(({ item }) => hasCounted(item));
  const resources = new Set(counted.map(({ ref }) => ref.key.bucket.resource));
  for (const resource of resources) if (await hasUsage(records, namespaceId, resource)) return;
  if (resources.size > 0) throw notAggregated([...resources]);
}

const BUCKETS_ASKED = 25;

async function hasUsage(records: Records, namespaceId: string, resource: string): Promise<boolean> {
  const index = resourceIndex(resourcePk(namespaceId, resource), { prefix: "USAGE#" });
  const { done } = await records.query({ ...index, keysOnly: true, pageSize: 1 }).next();
  return done !== true;
}

/** The original's counters never go back to 0: they cover the bucket's whole life. */
function hasCounted(item: Item): boolean {
  return Object.entries(item).some(([name, value]) => /^b_.+_tc$/.test(name) && name !== "b_wcu_tc" && value !== 0);
}

function notAggregated(resources: readonly string[]): NotFoundError {
  return new NotFoundError(
    "usage_not_aggregated",
    `Usage of ${resources.join(", ")} was counted but not stored: this table is shared with the original, ` +
      "whose aggregator stores it, and that aggregator is missing, failing, or has just started. Deploy it (`enable_aggregator`) and check its " +
      "errors; if no client of the original uses this table any more, open it without `sharedTable`.",
  );
}

/** Usage of one namespace as the original's aggregator writes it. */
export class DynamoUsage implements UsageStore {
  readonly #records: Records;
  readonly #namespaceId: string;

  constructor({ records, namespaceId }: UsageParts) {
    this.#records = records;
    this.#namespaceId = namespaceId;
  }

  async query(query: UsageQuery, { limit, cursor }: PageRequest): Promise<Page<UsageSnapshot>> {
    const after = placeAfter(cursor, 3);
    const found = await this.#keys(query);
    if (found.length === 0) await requireAggregated(this.#records, this.#namespaceId, query);
    const wanted = found
      .filter(({ order }) => after === undefined || compared(order, after) > 0)
      .sort((a, b) => compared(a.order, b.order));
    return pageOf(this.#snapshots(wanted, query.window, limit + 1), limit, (last) =>
      cursorOf(isoSeconds(last.windowStartMs), last.entityId, last.resource),
    );
  }

  // Keys are read first, and items only for the page. The window of the original's records is in the item, not in the
  // key.
  async #keys(query: UsageQuery): Promise<readonly UsageKey[]> {
    const fromText = isoSeconds(inCalendar(query.fromMs));
    const lastMs = inCalendar(query.toMs - 1);
    // Windows of a zone are made of hours; the last one may go on after `toMs`.
    const isZoned = typeof query.window === "object";
    const endMs = isZoned ? windowEndMs(query.window, windowStartMs(query.window, lastMs)) : query.toMs;
    const toText = isoSeconds(inCalendar(endMs));
    const items = where(this.#records.query(this.#queryFor(query, fromText, toText)), (item) =>
      keyIn(item).sk.startsWith(usagePrefix(undefined)),
    );
    return (await collected(items)).flatMap((item): readonly UsageKey[] => {
      const key = keyIn(item);
      const usage = parseUsageSk(key.sk);
      if (usage === undefined) return [];
      const entityId = key.pk.slice(entityPk(this.#namespaceId, "").length);
      const startMs = isZoned
        ? windowStartMs(query.window, instantOf(usage.windowStart))
        : instantOf(usage.windowStart);
      if (startMs < query.fromMs || startMs >= query.toMs) return [];
      if (query.resource !== undefined && usage.resource !== query.resource) return [];
      const named = /#(daily|monthly)$/.exec(key.sk)?.[1];
      if (named !== undefined && (isZoned || named !== query.window)) return [];
      return [{ key, order: [isoSeconds(startMs), entityId, usage.resource] }];
    });
  }

  #queryFor({ entityId, resource }: UsageQuery, fromText: string, toText: string): RecordQuery {
    if (entityId !== undefined) {
      const prefix = usagePrefix(resource);
      const range = resource === undefined ? { prefix } : { from: `${prefix}${fromText}`, to: `${prefix}${toText}~` };
      return { ...tablePartition(entityPk(this.#namespaceId, entityId), range), keysOnly: true };
    }
    if (resource === undefined) return namespaceIndex(this.#namespaceId, { prefix: entityPk(this.#namespaceId, "") });
    const range = { from: `USAGE#${fromText}`, to: `USAGE#${toText}~` };
    return { ...resourceIndex(resourcePk(this.#namespaceId, resource), range), keysOnly: true };
  }

  async *#snapshots(keys: readonly UsageKey[], window: Windows, count: number): AsyncGenerator<UsageSnapshot> {
    const stored = typeof window === "object" ? "hourly" : window;
    let open: { readonly of: UsageKey; readonly items: Attributes[] } | undefined;
    for (const chunk of chunksOf(keys, count)) {
      const items = await this.#records.readAll(
        chunk.map(({ key }) => key),
        { consistent: false },
      );
      for (const [i, item] of items.entries()) {
        if (item?.[WINDOW]?.S !== stored) continue;
        const of = chunk[i] as UsageKey;
        if (open !== undefined && compared(open.of.order, of.order) === 0) {
          open.items.push(item);
          continue;
        }
        if (open !== undefined) yield snapshotOf(open, window);
        open = { of, items: [item] };
      }
    }
    if (open !== undefined) yield snapshotOf(open, window);
  }
}

interface UsageKey {
  readonly key: TableKey;
  /** The start of the window, the entity and the resource. */
  readonly order: readonly string[];
}

/** Numeric attributes that are not counters. */
const NO_COUNTERS: ReadonlySet<string> = new Set([TOTAL_EVENTS, TTL]);

/** `items`: one, or in a zone one for each hour. */
function snapshotOf(
  { of, items }: { readonly of: UsageKey; readonly items: readonly Attributes[] },
  window: Windows,
): UsageSnapshot {
  const counted = items.flatMap((item) =>
    Object.entries(item).flatMap(([name, { N }]) =>
      N === undefined || NO_COUNTERS.has(name) ? [] : [[name, Number(N)] as const],
    ),
  );
  return {
    entityId: items[0]?.[ENTITY_ID]?.S ?? "",
    resource: items[0]?.[RESOURCE]?.S ?? "",
    ...shownWindow(window, instantOf(of.order[0])),
    requests: items.reduce((sum, item) => sum + Number(item[TOTAL_EVENTS]?.N ?? 0), 0),
    ...countersOf(counted),
  };
}

function compared(a: readonly string[], b: readonly string[]): number {
  for (const [i, part] of a.entries()) {
    const other = b[i] ?? "";
    if (part !== other) return part < other ? -1 : 1;
  }
  return 0;
}
