import { type Attributes, decodeItem } from "../adapters/dynamodb/codec.ts";
import { all, type Condition, isStill, keyIn, texts } from "../adapters/dynamodb/records-write.ts";
import {
  itemPlace,
  itemTableKey,
  namesOf,
  RF,
  SHARD_COUNT,
  type TableKey,
  TTL,
  UH,
} from "../adapters/dynamodb/schema.ts";
import type { BucketKey } from "../domain/bucket/bucket-key.ts";
import { wholeOf } from "../domain/bucket/bucket-state.ts";
import type { Calendar } from "../domain/limits/calendar.ts";
import type { Item, ItemValue } from "../ports/item-store.ts";
import { limitNamesIn } from "../protocol/item/attributes.ts";
import { readableImage } from "../protocol/item/codec.ts";
import { newItem } from "../protocol/item/encode-item.ts";
import { keptUntilFromS } from "../protocol/item/ttl.ts";
import { SHARED } from "../protocol/shared/dialect.ts";
import { encoded, envWith } from "./plan-bucket.ts";
import { type ItemChange, type NewItem, newItemOf } from "./planned.ts";

/** A shard of a bucket that the original wrote. */
interface OldShard {
  readonly shard: number;
  readonly item: Attributes;
}

/** What becomes of a bucket of the original's. */
export type ShardsPlan =
  | { readonly kind: "stays" }
  | { readonly kind: "changes"; readonly change: ItemChange }
  /** All its shards become one, in one transaction, each as it was read. */
  | {
      readonly kind: "joins";
      readonly made: NewItem;
      readonly gone: readonly TableKey[];
      readonly asRead: ReadonlyMap<string, Condition>;
    };

/**
 * The original leaves shards unmade until somebody comes to them, deals out whole shares, and lets items expire while they owe:
 * a bucket in shards is joined at the instant at which the last of them was refilled. `shards`: those that there are.
 */
export function planShards(
  namespaceId: string,
  bucket: BucketKey,
  shards: readonly OldShard[],
  calendar: Calendar,
): ShardsPlan {
  const [first] = shards;
  if (first === undefined) return { kind: "stays" };
  const items = shards.map(({ shard, item }) => ({ shard, item: withWindow(decodeItem(item)) }));
  const states = items.map(
    ({ shard, item }) =>
      readableImage({ bucket, shard }, item, { calendar, dialect: SHARED, like: undefined, set: undefined }).state,
  );
  const { shards: _, ...whole } = wholeOf(states, calendar);
  const owed = whole.limits.map((limit) => ({ limit, lowMilli: limit.tokensMilli }));
  const fullS = keptUntilFromS(owed, whole.epochMs, calendar);
  const ttlS = Number(first.item[TTL]?.N ?? Number.POSITIVE_INFINITY);
  const isWhole = shards.length === 1 && first.shard === 0 && Number(first.item[SHARD_COUNT]?.N ?? 1) === 1;
  const isPlain = items.every(({ item }, i) => JSON.stringify(item) === JSON.stringify(decodeItem(shards[i]!.item)));
  const key = { bucket, shard: 0 };
  const place = texts(itemPlace(namespaceId, key));
  if (isWhole && isPlain && ttlS >= (fullS ?? Number.POSITIVE_INFINITY)) {
    const set = Object.fromEntries(Object.entries(place).filter(([name, value]) => first.item[name]?.S !== value.S));
    return Object.keys(set).length === 0
      ? { kind: "stays" }
      : { kind: "changes", change: { key: keyIn(first.item), set, remove: [] } };
  }
  const item: Record<string, ItemValue> = newItem(whole, undefined, envWith(calendar));
  delete item[UH];
  if (fullS !== undefined) item[TTL] = Math.max(fullS, Number.isFinite(ttlS) ? ttlS : 0);
  const kept = Object.fromEntries(Object.entries(first.item).filter(([name]) => OWNERS.has(name)));
  const made = newItemOf(itemTableKey(namespaceId, key), { ...kept, ...encoded(item), ...place });
  const asRead = new Map(shards.map(({ item: read }) => [keyIn(read).pk, stillAs(read)]));
  const gone = shards.filter(({ shard }) => shard !== 0).map(({ item: read }) => keyIn(read));
  return { kind: "joins", made, gone, asRead };
}

/** What only the original goes by, and what switches a bucket off until configuration is read. */
const OWNERS: ReadonlySet<string> = new Set(["cascade", "parent_id", "pgen", "pinc", "disabled", "bypass"]);

/** The balance of a session that was opened on another shard, and not yet here, is still that of the one before. */
function withWindow(item: Item): Item {
  const changed: Record<string, ItemValue> = {};
  for (const limit of limitNamesIn(item)) {
    const { tk, tc, cp, rsa, ws, wa } = namesOf(limit);
    const [opened, applied, refilled] = [item[ws], item[wa] ?? item[RF] ?? 0, item[`b_${limit}_wtc`]];
    if (item[rsa] === undefined || typeof opened !== "number" || opened <= Number(applied)) continue;
    const share = Math.floor(Number(item[cp]) / Number(item[SHARD_COUNT] ?? 1));
    const spent = refilled === undefined ? 0 : Math.max(0, Number(item[tc] ?? 0) - Number(refilled));
    Object.assign(changed, { [tk]: share - spent, [wa]: opened });
  }
  return Object.keys(changed).length === 0 ? item : { ...item, ...changed };
}

function stillAs(item: Attributes): Condition {
  const names = Object.keys(item).filter((name) => name === RF || name === SHARD_COUNT || /^b_.+_tk$/.test(name));
  return all(...names.map((name) => isStill(name, item[name])));
}
