import { bucketKey } from "../../domain/bucket/bucket-key.ts";
import type { UsageSnapshot } from "../../domain/charge/usage.ts";
import type { UsageQuery } from "../../ports/usage-store.ts";
import { SHARDS_MAX } from "../../protocol/shards/split.ts";
import { type ShardItem, type UsageOf, windowsInOrder } from "../../protocol/usage/usage-windows.ts";
import { merged } from "./paging.ts";
import type { Records } from "./records.ts";
import { keyIn } from "./records-write.ts";
import {
  ENTITY_INDEX,
  entityPk,
  GSI3PK,
  GSI3SK,
  GSI4PK,
  GSI4SK,
  itemTableKey,
  NAMESPACE_INDEX,
  SDA,
  SHARD_COUNT,
  sheetPrefix,
} from "./schema.ts";
import { SheetStreams } from "./usage-bucket-sheets.ts";
import { ofGroup, type UsageItemRef, usageItemRef } from "./usage-index.ts";
import { daySpan, isSheetsOnly, itemsIn } from "./usage-items.ts";

interface Asked {
  readonly records: Records;
  readonly namespaceId: string;
  readonly query: UsageQuery & { readonly entityId: string };
  /** Before this everything is on sheets. */
  readonly closedUntilMs: number;
  /** About how many snapshots are wanted; a hint. */
  readonly rows: number;
}

/** The usage of one entity, on one resource or on all, by window and resource. Sheets are read as they are asked for. */
export async function* usageOfEntity(asked: Asked): AsyncGenerator<UsageSnapshot> {
  const { resource } = asked.query;
  const streams = resource === undefined ? await onAll(asked) : [await onOne(asked, resource)];
  yield* merged(streams, (a, b) => a.windowStartMs - b.windowStartMs || (a.resource < b.resource ? -1 : 1));
}

/** By key, and consistent: what was counted before the call is in it. */
async function onOne(asked: Asked, resource: string): Promise<AsyncGenerator<UsageSnapshot>> {
  const { records, namespaceId, query, closedUntilMs } = asked;
  const of = bucketKey(query.entityId, resource);
  const read = (shards: number[]) =>
    itemsIn(
      records,
      shards.flatMap((shard) => usageItemRef(itemTableKey(namespaceId, { bucket: of, shard })) ?? []),
    );
  const isClosed = isSheetsOnly(query, closedUntilMs);
  const [first] = isClosed ? [] : await read([0]);
  const count = Number(first?.item[SHARD_COUNT] ?? 1);
  const others = isClosed ? [] : await read(numbers(1, count));
  // Shards that are gone have left sheets, too. How many there were nobody remembers, only whether there were more than one.
  const most = first?.item[SDA] === undefined ? count : SHARDS_MAX;
  const sheets = streamsOf(asked, 1).ofShards(of, most);
  return windowsInOrder(of, { shards: [...(first === undefined ? [] : [first]), ...others], sheets }, query);
}

/** By the indexes, which follow the table after a moment. */
async function onAll(asked: Asked): Promise<AsyncGenerator<UsageSnapshot>[]> {
  const { records, namespaceId, query, closedUntilMs } = asked;
  const live: UsageItemRef[] = [];
  if (!isSheetsOnly(query, closedUntilMs)) {
    const partition = [GSI3PK, entityPk(namespaceId, query.entityId)] as const;
    const range = { name: GSI3SK, prefix: "BUCKET#" };
    for await (const item of records.query({ index: ENTITY_INDEX, partition, range, keysOnly: true })) {
      live.push(...[usageItemRef(keyIn(item)) ?? []].flat());
    }
  }
  const shards = new Map<string, ShardItem[]>();
  for (const { ref, shard, item } of await itemsIn(records, live)) {
    const { resource } = ofGroup(ref.group);
    shards.set(resource, [...(shards.get(resource) ?? []), { shard, item }]);
  }
  const resources = new Set([...shards.keys(), ...(await resourcesOnSheets(asked))]);
  const sheets = streamsOf(asked, resources.size);
  return Array.from(resources, (resource) => {
    const of: UsageOf = bucketKey(query.entityId, resource);
    return windowsInOrder(of, { shards: shards.get(resource) ?? [], sheets: sheets.byIndex(of) }, query);
  });
}

/** Of a resource that has more sheets than are read at once the rest is jumped over: days kept cost nothing. */
async function resourcesOnSheets({ records, namespaceId, query }: Asked): Promise<ReadonlySet<string>> {
  const { entityId } = query;
  const partition = [GSI4PK, namespaceId] as const;
  const end = `SHEET#${entityId}$`;
  const found = new Set<string>();
  for (let from: string | undefined = sheetPrefix(entityId, undefined); from !== undefined; ) {
    const range = { name: GSI4SK, from, to: end };
    const keys = records.query({ index: NAMESPACE_INDEX, partition, range, keysOnly: true, pageSize: KEYS_AT_ONCE });
    from = undefined;
    let count = 0;
    for await (const item of keys) {
      const resource = usageItemRef(keyIn(item))?.key.bucket.resource;
      if (resource !== undefined) found.add(resource);
      count += 1;
      if (count < KEYS_AT_ONCE || resource === undefined) continue;
      from = `SHEET#${entityId}#${resource}$`;
      break;
    }
  }
  return found;
}

const KEYS_AT_ONCE = 100;

/** At first each of some buckets is asked for as many sheets as a page has of it if all were used alike, and one to see where that ends. */
function streamsOf({ records, namespaceId, query, rows }: Asked, buckets: number): SheetStreams {
  const sheets = { hourly: rows / 24, daily: rows, monthly: rows * 31 }[query.window];
  const atOnce = Math.min(Math.ceil(sheets / buckets) + 2, SHEETS_AT_ONCE);
  return new SheetStreams({ records, namespaceId, ...daySpan(query), atOnce });
}

const SHEETS_AT_ONCE = 100;

function numbers(from: number, to: number): number[] {
  return Array.from({ length: Math.max(0, to - from) }, (_, i) => from + i);
}
