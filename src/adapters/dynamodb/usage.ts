import { type UsageSnapshot, type UsageWindow, windowEndMs } from "../../domain/charge/usage.ts";
import { countersOf } from "../../domain/charge/usage-counters.ts";
import type { Page, PageRequest } from "../../domain/names/paging.ts";
import type { UsageQuery, UsageStore } from "../../ports/usage-store.ts";
import { type Attributes, instantOf } from "./codec.ts";
import { chunksOf, collected, cursorOf, pageOf, placeAfter, where } from "./paging.ts";
import type { RecordQuery, Records } from "./records.ts";
import { keyIn } from "./records-write.ts";
import {
  ENTITY_ID,
  entityPk,
  GSI2PK,
  GSI2SK,
  GSI4PK,
  GSI4SK,
  isoSeconds,
  NAMESPACE_INDEX,
  PK,
  parseUsageSk,
  RESOURCE,
  RESOURCE_INDEX,
  resourcePk,
  SK,
  type TableKey,
  TOTAL_EVENTS,
  TTL,
  usagePrefix,
  WINDOW,
  WINDOW_START,
} from "./schema.ts";
import { requireAggregated } from "./usage-aggregated.ts";

/** Usage of one namespace as the aggregator writes it, ours or the original's. */
export class DynamoUsage implements UsageStore {
  readonly #records: Records;
  readonly #namespaceId: string;

  constructor(records: Records, namespaceId: string) {
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
    return pageOf(this.#snapshots(wanted, query.window, limit + 1), limit, ({ windowStartMs, entityId, resource }) =>
      cursorOf(isoSeconds(windowStartMs), entityId, resource),
    );
  }

  // Keys first, items only of the page: of the original's records only the item says which window it is of.
  async #keys(query: UsageQuery): Promise<readonly UsageKey[]> {
    const fromText = isoSeconds(clamped(query.fromMs));
    const toText = isoSeconds(clamped(query.toMs));
    const items = where(this.#records.query(this.#queryFor(query, fromText, toText)), (item) =>
      keyIn(item).sk.startsWith(usagePrefix(undefined)),
    );
    return (await collected(items)).flatMap((item): readonly UsageKey[] => {
      const key = keyIn(item);
      const usage = parseUsageSk(key.sk);
      if (usage === undefined) return [];
      const entityId = key.pk.slice(entityPk(this.#namespaceId, "").length);
      const startMs = instantOf(usage.windowStart);
      if (startMs < query.fromMs || startMs >= query.toMs) return [];
      if (query.resource !== undefined && usage.resource !== query.resource) return [];
      const named = /#(daily|monthly)$/.exec(key.sk)?.[1];
      if (named !== undefined && named !== query.window) return [];
      return [{ key, order: [isoSeconds(startMs), entityId, usage.resource] }];
    });
  }

  #queryFor({ entityId, resource }: UsageQuery, fromText: string, toText: string): RecordQuery {
    if (entityId !== undefined) {
      const prefix = usagePrefix(resource);
      const range =
        resource === undefined
          ? { name: SK, prefix }
          : { name: SK, from: `${prefix}${fromText}`, to: `${prefix}${toText}~` };
      return { partition: [PK, entityPk(this.#namespaceId, entityId)], range, keysOnly: true, consistent: true };
    }
    if (resource !== undefined) {
      const range = { name: GSI2SK, from: `USAGE#${fromText}`, to: `USAGE#${toText}~` };
      const partition = [GSI2PK, resourcePk(this.#namespaceId, resource)] as const;
      return { index: RESOURCE_INDEX, partition, range, keysOnly: true };
    }
    const range = { name: GSI4SK, prefix: entityPk(this.#namespaceId, "") };
    return { index: NAMESPACE_INDEX, partition: [GSI4PK, this.#namespaceId], range, keysOnly: true };
  }

  async *#snapshots(keys: readonly UsageKey[], window: UsageWindow, count: number): AsyncGenerator<UsageSnapshot> {
    for (const chunk of chunksOf(keys, count)) {
      const items = await this.#records.getAll(
        chunk.map(({ key }) => key),
        { consistent: false },
      );
      for (const item of items) if (item?.[WINDOW]?.S === window) yield snapshotOf(item, window);
    }
  }
}

interface UsageKey {
  readonly key: TableKey;
  readonly order: readonly string[];
}

/** Attributes with a number that is no counter. */
const NO_COUNTERS: ReadonlySet<string> = new Set([TOTAL_EVENTS, TTL]);
/** The end of the year 9999: the last that has four digits. */
const LAST_MS = 253_402_300_799_000;

function clamped(atMs: number): number {
  return Math.min(Math.max(atMs, 0), LAST_MS);
}

function snapshotOf(item: Attributes, window: UsageWindow): UsageSnapshot {
  const windowStartMs = instantOf(item[WINDOW_START]?.S);
  const counted = Object.entries(item).flatMap(([name, { N }]) =>
    N === undefined || NO_COUNTERS.has(name) ? [] : [[name, Number(N)] as const],
  );
  return {
    entityId: item[ENTITY_ID]?.S ?? "",
    resource: item[RESOURCE]?.S ?? "",
    window,
    windowStartMs,
    windowEndMs: windowEndMs(window, windowStartMs),
    requests: Number(item[TOTAL_EVENTS]?.N ?? 0),
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
