import type { BucketKey } from "../../domain/bucket/bucket-key.ts";
import { given } from "../../domain/names/given.ts";
import type { Item, ItemWrite } from "../../ports/item-store.ts";
import type { ConfigReader } from "./config-reader.ts";
import { entityOf, isUnchanged } from "./entities-record.ts";
import type { NamespaceParts } from "./namespace-parts.ts";
import type { Records } from "./records.ts";
import {
  all,
  any,
  checkRecord,
  exists,
  isStill,
  missing,
  type RecordWrite,
  texts,
  updateRecord,
} from "./records-write.ts";
import { RETRY } from "./retry-policy.ts";
import { CASCADE, entityKey, INCARNATION, PARENT_GENERATION, PARENT_ID, parseItemKey } from "./schema.ts";
import { shardKeys } from "./store-buckets.ts";

/** Writes whose new items name their owner, and checks that the owner is still the same when they are applied. */
export interface Stamped {
  readonly writes: readonly ItemWrite[];
  readonly checks: readonly RecordWrite[];
}

interface OwnerParts {
  readonly records: Records;
  readonly reader: Pick<ConfigReader, "resolveNow">;
}

/**
 * Adds the owner to new items on a table shared with the original, which charges the parent that the item names, and none where
 * it names none. The owner is read before the item is created and checked in the same transaction: otherwise the item could
 * name a parent that was changed in between.
 */
export class OwnerStamps {
  readonly #namespaceId: string;
  readonly #parts: OwnerParts;

  constructor(namespaceId: string, parts: OwnerParts) {
    this.#namespaceId = namespaceId;
    this.#parts = parts;
  }

  /** Adds the owner to each new item. The result has the same objects where no item is new. */
  async on(writes: readonly ItemWrite[]): Promise<Stamped> {
    const checks = new Map<string, RecordWrite>();
    const stamped: ItemWrite[] = [];
    for (const write of writes) {
      if (!isMaking(write)) {
        stamped.push(write);
        continue;
      }
      const { stamp, check } = await this.#of(write.key.bucket);
      stamped.push({ ...write, set: { ...write.set, ...stamp } });
      // A transaction must not name an item twice.
      checks.set(write.key.bucket.entityId, check);
    }
    return { writes: stamped, checks: [...checks.values()] };
  }

  async #of(bucket: BucketKey): Promise<{ readonly stamp: Item; readonly check: RecordWrite }> {
    const key = entityKey(this.#namespaceId, bucket.entityId);
    const meta = await this.#parts.records.get(key);
    // Read after the entity, which the transaction checks: a change between the two reads fails the check.
    const { cascade, parentId } = await this.#parts.reader.resolveNow(bucket);
    const generation = meta?.[PARENT_GENERATION]?.N;
    const incarnation = meta?.[INCARNATION]?.S;
    const stamp: Item = {
      [CASCADE]: cascade,
      ...given({ [PARENT_ID]: parentId }),
      // Older releases do not count changes of the parent.
      ...(generation === undefined || incarnation === undefined
        ? {}
        : { [PARENT_GENERATION]: Number(generation), [INCARNATION]: incarnation }),
    };
    return { stamp, check: checkRecord(key, meta === undefined ? missing : isUnchanged(meta)) };
  }
}

/** True if a write creates an item of a bucket. Records of operations have no owner. */
export function isMaking({ kind, key }: ItemWrite): boolean {
  return kind === "put" && key.operation === undefined;
}

/**
 * Writes the parent to the buckets of an entity; only the original reads it there. The four attributes are written
 * together, and never over those of a later change.
 */
export async function stampOwner(parts: NamespaceParts, entityId: string): Promise<void> {
  const { namespaceId, records, reader } = parts;
  for (let pass = 0; pass < RETRY.indexPasses; pass++) {
    const meta = await records.get(entityKey(namespaceId, entityId));
    const generation = meta?.[PARENT_GENERATION];
    const incarnation = meta?.[INCARNATION];
    if (entityOf(meta) === undefined || generation === undefined || incarnation === undefined) return;
    for (const place of await shardKeys(parts, { entityId })) {
      const bucket = parseItemKey(place)?.key.bucket;
      if (bucket === undefined) continue;
      const { cascade, parentId } = await reader.resolveNow(bucket);
      const set = {
        [CASCADE]: { BOOL: cascade },
        [PARENT_GENERATION]: generation,
        [INCARNATION]: incarnation,
        ...texts(given({ [PARENT_ID]: parentId })),
      };
      const isOlder = any(isStill(INCARNATION, undefined), (e) => {
        const same = `${e.name(INCARNATION)} = ${e.value(incarnation)}`;
        return `${same} AND ${e.name(PARENT_GENERATION)} <= ${e.value(generation)}`;
      });
      const remove = parentId === undefined ? [PARENT_ID] : [];
      await records.transact([updateRecord(place, { set, remove }, all(exists, isOlder))]);
    }
  }
}
