import type { BucketKey } from "../../domain/bucket/bucket-key.ts";
import type { Item, ItemWrite } from "../../ports/item-store.ts";
import type { ConfigReader } from "./config-reader.ts";
import { isUnchanged } from "./entities-record.ts";
import type { Records } from "./records.ts";
import { checkRecord, missing, type RecordWrite } from "./records-write.ts";
import { CASCADE, entityKey, INCARNATION, PARENT_GENERATION, PARENT_ID } from "./schema.ts";

/** Writes whose new items name their owner, and checks that the owner is still the same when they are applied. */
export interface Stamped {
  readonly writes: readonly ItemWrite[];
  readonly checks: readonly RecordWrite[];
}

/**
 * Adds the owner to new items on a table shared with the original, which charges the parent that the item names, and none where
 * it names none. The owner is read before the item is created and checked in the same transaction: otherwise the item could
 * name a parent that was changed in between.
 */
export class OwnerStamps {
  readonly #namespaceId: string;
  readonly #records: Records;
  readonly #reader: Pick<ConfigReader, "resolveNow">;

  constructor(
    namespaceId: string,
    parts: { readonly records: Records; readonly reader: Pick<ConfigReader, "resolveNow"> },
  ) {
    this.#namespaceId = namespaceId;
    this.#records = parts.records;
    this.#reader = parts.reader;
  }

  /** The writes, with the owner added to each new item; the same objects where no item is new. */
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
    const meta = await this.#records.get(key);
    // Read after the entity, which the transaction checks: a change between the two reads fails the check.
    const { cascade, parentId } = await this.#reader.resolveNow(bucket);
    const generation = meta?.[PARENT_GENERATION]?.N;
    const incarnation = meta?.[INCARNATION]?.S;
    const stamp: Item = {
      [CASCADE]: cascade,
      ...(parentId === undefined ? {} : { [PARENT_ID]: parentId }),
      // Older releases count no changes of the parent.
      ...(generation === undefined || incarnation === undefined
        ? {}
        : { [PARENT_GENERATION]: Number(generation), [INCARNATION]: incarnation }),
    };
    return { stamp, check: checkRecord(key, meta === undefined ? missing : isUnchanged(meta)) };
  }
}

/** Whether a write makes an item of a bucket. Records of operations have no owner. */
export function isMaking({ kind, key }: ItemWrite): boolean {
  return kind === "put" && key.operation === undefined;
}
