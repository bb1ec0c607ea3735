import { bucketKey } from "../../domain/bucket/bucket-key.ts";
import { lengthOf, type UsageSnapshot } from "../../domain/charge/usage.ts";
import type { UsageQuery } from "../../ports/usage-store.ts";
import { SHARDS_MAX } from "../../protocol/item/damage.ts";
import { type SheetItem, type UsageOf, windowsInOrder } from "../../protocol/usage/usage-windows.ts";
import { decodeItem } from "./codec.ts";
import { collected, compareTexts, groupedBy, inChunks, merged } from "./paging.ts";
import { namespaceIndex, type Records, tablePartition } from "./records.ts";
import { keyIn } from "./records-write.ts";
import { bucketPk, itemTableKey, SDA, SHARD_COUNT, sheetPrefix, sheetSk } from "./schema.ts";
import { bucketIndex } from "./store-buckets.ts";
import { daySpan, isSheetsOnly, itemsIn, skipping, type UsageItemRef, usageItemRef, usageRefs } from "./usage-index.ts";

/** The sheets of one bucket and a span of days to be read, ordered by day. */
interface SheetSpan {
  readonly records: Records;
  readonly namespaceId: string;
  readonly of: UsageOf;
  /** The first and the last day. */
  readonly from: string;
  readonly to: string;
  /** The size of the first read; later ones are larger. */
  readonly atOnce: number;
}

/**
 * The first shards by key, strongly consistent. Sheets of other shards, perhaps of an earlier life of the bucket, by
 * the index.
 */
async function* sheetsOfShards(span: SheetSpan, shards: number): AsyncGenerator<SheetItem> {
  const streams = [sheetsByIndex(span, shards)];
  for (let shard = 0; shard < shards; shard++) streams.push(sheetsOfShard(span, shard));
  for await (const { day, sheets } of merged(streams, (a, b) => compareTexts(a.day, b.day))) {
    for (const { shard, item } of sheets) yield { day, shard, item };
  }
}

async function* sheetsOfShard(span: SheetSpan, shard: number): AsyncGenerator<Passed> {
  const { records, namespaceId, of, from, to, atOnce } = span;
  const pk = bucketPk(namespaceId, bucketKey(of.entityId, of.resource), shard);
  const partition = tablePartition(pk, { from: sheetSk(from), to: sheetSk(to) });
  for await (const attributes of records.query({ ...partition, pageSize: atOnce, pageSizeMax: SHEETS_AT_ONCE })) {
    const day = usageItemRef(keyIn(attributes))?.key.sheet;
    if (day !== undefined) yield { day, sheets: [{ day, shard, item: decodeItem(attributes) }] };
  }
}

/** All days with sheets, and the sheets of shards from `fromShard` on. Reads the index, which lags behind the table. */
async function* sheetsByIndex(span: SheetSpan, fromShard: number): AsyncGenerator<Passed> {
  const { records, namespaceId, of, from, to, atOnce } = span;
  const prefix = sheetPrefix(of.entityId, of.resource);
  const index = namespaceIndex(namespaceId, { from: `${prefix}${from}`, to: `${prefix}${to}~` });
  const keys = usageRefs(records, { ...index, pageSize: atOnce, pageSizeMax: KEYS_AT_ONCE });
  for await (const refs of inChunks(keys, Math.min(atOnce, SHEETS_AT_ONCE))) {
    const wanted = refs.filter(({ key }) => key.shard >= fromShard);
    const found = new Map<UsageItemRef, SheetItem>();
    for (const { ref, day, shard, item } of await itemsIn(records, wanted)) found.set(ref, { day, shard, item });
    for (const ref of refs) {
      const sheet = found.get(ref);
      yield { day: ref.key.sheet ?? "", sheets: sheet === undefined ? [] : [sheet] };
    }
  }
}

/** A day of the merged streams with its sheets. A stream reports days without sheets too, so that the others need not wait. */
interface Passed {
  readonly day: string;
  readonly sheets: readonly SheetItem[];
}

const SHEETS_AT_ONCE = 100;
const KEYS_AT_ONCE = 800;

interface Asked {
  readonly records: Records;
  readonly namespaceId: string;
  readonly query: UsageQuery & { readonly entityId: string };
  /** All usage before this instant is on sheets. */
  readonly closedUntilMs: number;
  /** The approximate number of snapshots wanted, as a hint. */
  readonly rows: number;
}

/** The usage of one entity on one resource or on all, ordered by window and resource. Sheets are read on demand. */
export async function* usageOfEntity(asked: Asked): AsyncGenerator<UsageSnapshot> {
  const { resource } = asked.query;
  const streams = resource === undefined ? await onAll(asked) : [await onOne(asked, resource)];
  yield* merged(streams, (a, b) => a.windowStartMs - b.windowStartMs || (a.resource < b.resource ? -1 : 1));
}

/** Strongly consistent reads by key: usage counted before the call is included. */
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
  // Former shards have left sheets too. The bucket only records whether there was ever more than one.
  const most = first?.item[SDA] === undefined ? count : SHARDS_MAX;
  const sheets = sheetsOfShards(spanOf(asked, of, 1), most);
  return windowsInOrder(of, { shards: [...(first === undefined ? [] : [first]), ...others], sheets }, query);
}

/** Reads the indexes, which lag behind the table. */
async function onAll(asked: Asked): Promise<AsyncGenerator<UsageSnapshot>[]> {
  const { records, namespaceId, query, closedUntilMs } = asked;
  const buckets = usageRefs(records, bucketIndex(namespaceId, { entityId: query.entityId }));
  const live = isSheetsOnly(query, closedUntilMs) ? [] : await collected(buckets);
  const shards = groupedBy(await itemsIn(records, live), ({ ref }) => ref.key.bucket.resource);
  const resources = new Set([...shards.keys(), ...(await resourcesOnSheets(asked))]);
  return Array.from(resources, (resource) => {
    const of: UsageOf = bucketKey(query.entityId, resource);
    const sheets = allSheets(sheetsByIndex(spanOf(asked, of, resources.size), 0));
    return windowsInOrder(of, { shards: shards.get(resource) ?? [], sheets }, query);
  });
}

async function* allSheets(days: AsyncIterable<Passed>): AsyncGenerator<SheetItem> {
  for await (const { sheets } of days) yield* sheets;
}

/**
 * The resources of an entity's sheets. After one page of a resource the query jumps to the next, so that the number of
 * days kept costs nothing.
 */
async function resourcesOnSheets({ records, namespaceId, query }: Asked): Promise<ReadonlySet<string>> {
  const { entityId } = query;
  const to = `SHEET#${entityId}$`;
  const listed = (from: string) =>
    usageRefs(records, { ...namespaceIndex(namespaceId, { from, to }), pageSize: RESOURCE_KEYS_AT_ONCE });
  const next = ({ key }: UsageItemRef) => `SHEET#${entityId}#${key.bucket.resource}$`;
  const found = new Set<string>();
  for await (const { key } of skipping(sheetPrefix(entityId, undefined), listed, RESOURCE_KEYS_AT_ONCE, next)) {
    found.add(key.bucket.resource);
  }
  return found;
}

const RESOURCE_KEYS_AT_ONCE = 100;

/** The first read of each bucket has as many sheets as its share of a page, and one more to see the end. */
function spanOf({ records, namespaceId, query, rows }: Asked, of: UsageOf, buckets: number): SheetSpan {
  const sheets = { hourly: rows / 24, daily: rows, monthly: rows * 31 }[lengthOf(query.window)];
  const atOnce = Math.min(Math.ceil(sheets / buckets) + 2, SHEETS_AT_FIRST_MAX);
  return { records, namespaceId, of, ...daySpan(query), atOnce };
}

const SHEETS_AT_FIRST_MAX = 100;

function numbers(from: number, to: number): number[] {
  return Array.from({ length: Math.max(0, to - from) }, (_, i) => from + i);
}
