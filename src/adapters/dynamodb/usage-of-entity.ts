import { bucketKey } from "../../domain/bucket-key.ts";
import type { UsageSnapshot } from "../../domain/usage.ts";
import type { UsageQuery } from "../../ports/usage-store.ts";
import { SHARDS_MAX } from "../../protocol/split.ts";
import { windowsOf } from "../../protocol/usage-windows.ts";
import { collected } from "./paging.ts";
import type { RecordQuery, Records } from "./records.ts";
import { keyIn } from "./records-write.ts";
import {
  bucketPk,
  ENTITY_INDEX,
  entityPk,
  GSI3PK,
  GSI3SK,
  GSI4PK,
  GSI4SK,
  itemTableKey,
  NAMESPACE_INDEX,
  PK,
  SDA,
  SHARD_COUNT,
  SK,
  sheetPrefix,
  sheetSk,
} from "./schema.ts";
import { daySpan, isSheetsOnly, itemsIn } from "./usage-items.ts";
import { groupOf, ofGroup, placeIn, type UsagePlace } from "./usage-places.ts";

/** The usage of one entity, on one resource or on all: as much as `usageKeptDays` has sheets of it. */
export async function usageOfEntity(
  records: Records,
  namespaceId: string,
  query: UsageQuery & { readonly entityId: string },
  closedUntilMs: number,
): Promise<UsageSnapshot[]> {
  const { entityId, resource } = query;
  const isClosed = isSheetsOnly(query, closedUntilMs);
  const by = { records, namespaceId, query };
  const found = resource === undefined ? await onAll(by, isClosed) : await onOne({ ...by, resource }, isClosed);
  const places = new Map<string, UsagePlace[]>();
  for (const place of found.sheets) places.set(place.group, [...(places.get(place.group) ?? []), place]);
  const groups = [...new Set([...found.shards.keys(), ...places.keys()])];
  const snapshots: UsageSnapshot[] = [];
  for (const group of groups) {
    const of = resource === undefined ? ofGroup(group) : bucketKey(entityId, resource);
    const sheets = await itemsIn(records, places.get(group) ?? []);
    snapshots.push(...windowsOf(of, { shards: found.shards.get(group) ?? [], sheets }, query));
  }
  return snapshots;
}

interface By {
  readonly records: Records;
  readonly namespaceId: string;
  readonly query: UsageQuery & { readonly entityId: string };
}

interface Found {
  /** By group: the shards as they stood before the sheets were looked for. */
  readonly shards: ReadonlyMap<string, readonly { readonly shard: number; readonly item: ItemOf }[]>;
  readonly sheets: readonly UsagePlace[];
}

type ItemOf = Awaited<ReturnType<typeof itemsIn>>[number]["item"];

/** By key, and consistent: what was counted before the call is in it. */
async function onOne(by: By & { readonly resource: string }, isClosed: boolean): Promise<Found> {
  const { records, namespaceId, query, resource } = by;
  const bucket = bucketKey(query.entityId, resource);
  const group = groupOf(bucket);
  const placesOf = (shards: number[]) =>
    shards.flatMap((shard) => placeIn(itemTableKey(namespaceId, { bucket, shard })) ?? []);
  const [first] = isClosed ? [] : await itemsIn(records, placesOf([0]));
  const count = Number(first?.item[SHARD_COUNT] ?? 1);
  const others = await itemsIn(records, placesOf(numbers(1, count)));
  const { from, to } = daySpan(query);
  // Shards that are gone have left sheets, too. How many there were nobody remembers, only whether there were more than one.
  const most = isClosed ? 0 : first?.item[SDA] === undefined ? count : SHARDS_MAX;
  const sheets = new Map<string, UsagePlace>();
  const note = (place: UsagePlace) => sheets.set(`${place.tableKey.pk} ${place.tableKey.sk}`, place);
  const ofShard = (shard: number) => {
    const partition = [PK, bucketPk(namespaceId, bucket, shard)] as const;
    const range = { name: SK, from: sheetSk(from), to: sheetSk(to) };
    return placesBy(records, { partition, range, keysOnly: true, consistent: true });
  };
  for (const places of await Promise.all(numbers(0, most).map(ofShard))) places.forEach(note);
  // Those of an earlier life by the index: they have been there for long.
  const prefix = sheetPrefix(query.entityId, resource);
  const range = { name: GSI4SK, from: `${prefix}${from}`, to: `${prefix}${to}~` };
  const partition = [GSI4PK, namespaceId] as const;
  for (const place of await placesBy(records, { index: NAMESPACE_INDEX, partition, range, keysOnly: true }))
    note(place);
  const shards = [...(first === undefined ? [] : [first]), ...others];
  return { shards: new Map([[group, shards]]), sheets: [...sheets.values()] };
}

/** By the indexes, which follow the table after a moment. */
async function onAll({ records, namespaceId, query }: By, isClosed: boolean): Promise<Found> {
  const { entityId } = query;
  const live = isClosed
    ? []
    : await placesBy(records, {
        index: ENTITY_INDEX,
        partition: [GSI3PK, entityPk(namespaceId, entityId)],
        range: { name: GSI3SK, prefix: "BUCKET#" },
        keysOnly: true,
      });
  const shards = new Map<string, { shard: number; item: ItemOf }[]>();
  for (const { place, shard, item } of await itemsIn(records, live)) {
    shards.set(place.group, [...(shards.get(place.group) ?? []), { shard, item }]);
  }
  const { from, to } = daySpan(query);
  const sheets = await placesBy(records, {
    index: NAMESPACE_INDEX,
    partition: [GSI4PK, namespaceId],
    range: { name: GSI4SK, prefix: sheetPrefix(entityId, undefined) },
    keysOnly: true,
  });
  return { shards, sheets: sheets.filter(({ key: { sheet = "" } }) => sheet >= from && sheet <= to) };
}

async function placesBy(records: Records, query: RecordQuery): Promise<UsagePlace[]> {
  return (await collected(records.query(query))).flatMap((item) => placeIn(keyIn(item)) ?? []);
}

function numbers(from: number, to: number): number[] {
  return Array.from({ length: Math.max(0, to - from) }, (_, i) => from + i);
}
