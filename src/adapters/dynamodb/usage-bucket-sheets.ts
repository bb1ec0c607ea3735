import { bucketKey } from "../../domain/bucket/bucket-key.ts";
import type { SheetItem, UsageOf } from "../../protocol/usage/usage-windows.ts";
import { decodeItem } from "./codec.ts";
import { inChunks, merged } from "./paging.ts";
import type { Records } from "./records.ts";
import { keyIn } from "./records-write.ts";
import { bucketPk, GSI4PK, GSI4SK, NAMESPACE_INDEX, PK, SK, sheetPrefix, sheetSk } from "./schema.ts";
import { type UsageItemRef, usageItemRef } from "./usage-index.ts";
import { itemsIn } from "./usage-items.ts";

interface SheetStreamsOptions {
  readonly records: Records;
  readonly namespaceId: string;
  /** The first and the last day. */
  readonly from: string;
  readonly to: string;
  /** How many are read first; then more. */
  readonly atOnce: number;
}

/** The sheets of one bucket and some days, by day, read as they are asked for. */
export class SheetStreams {
  readonly #options: SheetStreamsOptions;

  constructor(options: SheetStreamsOptions) {
    this.#options = options;
  }

  /** Those of the first shards consistently, by key; those of any others, of an earlier life maybe, by the index. */
  async *ofShards(of: UsageOf, shards: number): AsyncGenerator<SheetItem> {
    const streams: AsyncGenerator<Passed>[] = [this.#others(of, shards)];
    for (let shard = 0; shard < shards; shard++) streams.push(this.#ofShard(of, shard));
    for await (const { day, sheets } of merged(streams, byDay)) {
      for (const { shard, item } of sheets) yield { day, shard, item };
    }
  }

  /** By the index, which follows the table after a moment. */
  async *byIndex(of: UsageOf): AsyncGenerator<SheetItem> {
    for await (const { sheets } of this.#others(of, 0)) yield* sheets;
  }

  async *#ofShard(of: UsageOf, shard: number): AsyncGenerator<Passed> {
    const { records, namespaceId, from, to, atOnce } = this.#options;
    const found = records.query({
      partition: [PK, bucketPk(namespaceId, bucketKey(of.entityId, of.resource), shard)],
      range: { name: SK, from: sheetSk(from), to: sheetSk(to) },
      consistent: true,
      pageSize: atOnce,
      pageSizeMax: SHEETS_AT_ONCE,
    });
    for await (const attributes of found) {
      const day = usageItemRef(keyIn(attributes))?.key.sheet;
      if (day !== undefined) yield { day, sheets: [{ day, shard, item: decodeItem(attributes) }] };
    }
  }

  /** The days of all sheets, with the sheets of shards from a number on. */
  async *#others(of: UsageOf, fromShard: number): AsyncGenerator<Passed> {
    const { records, namespaceId, from, to, atOnce } = this.#options;
    const prefix = sheetPrefix(of.entityId, of.resource);
    const keys = records.query({
      index: NAMESPACE_INDEX,
      partition: [GSI4PK, namespaceId],
      range: { name: GSI4SK, from: `${prefix}${from}`, to: `${prefix}${to}~` },
      keysOnly: true,
      pageSize: atOnce,
      pageSizeMax: KEYS_AT_ONCE,
    });
    for await (const chunk of inChunks(keys, Math.min(atOnce, SHEETS_AT_ONCE))) {
      const refs = chunk.flatMap((item) => usageItemRef(keyIn(item)) ?? []);
      const wanted = refs.filter(({ key }) => key.shard >= fromShard);
      const found = new Map<UsageItemRef, SheetItem>();
      for (const { ref, day, shard, item } of await itemsIn(records, wanted)) found.set(ref, { day, shard, item });
      for (const ref of refs) {
        const sheet = found.get(ref);
        yield { day: ref.key.sheet ?? "", sheets: sheet === undefined ? [] : [sheet] };
      }
    }
  }
}

/** A day that was come to, and what there is of it: a stream that has nothing of a day says so, and the others need not wait. */
interface Passed {
  readonly day: string;
  readonly sheets: readonly SheetItem[];
}

function byDay(a: Passed, b: Passed): number {
  return a.day < b.day ? -1 : a.day > b.day ? 1 : 0;
}

const SHEETS_AT_ONCE = 100;
const KEYS_AT_ONCE = 800;
