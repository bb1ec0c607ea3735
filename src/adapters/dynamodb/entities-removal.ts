import { failAfterMaxConflicts } from "./changes.ts";
import { countConfigs, isCounted } from "./config-codec.ts";
import { DELETING } from "./entities-record.ts";
import type { NamespaceParts } from "./namespace-parts.ts";
import { chunksOf, collected } from "./paging.ts";
import { namespaceIndex, tablePartition } from "./records.ts";
import { checkRecord, deleteRecord, exists, isStill, keyIn, type RecordWrite } from "./records-write.ts";
import { RETRY } from "./retry-policy.ts";
import { entityKey, entityPk, META_SK, RESOURCE, sheetPrefix, type TableKey } from "./schema.ts";
import { bookPrefix } from "./schema-leases.ts";
import { bucketsIn, shardKeys } from "./store-buckets.ts";

/**
 * Finishes the deletion of an entity, if one is under way: removes its items in steps. Every step is conditional on the
 * mark, so that a late process does not remove items of a new entity with the same id. The mark is removed last: if a
 * process is interrupted, the next one that finds the mark continues.
 */
export async function finishRemoval(parts: NamespaceParts, entityId: string): Promise<void> {
  const { namespaceId, records } = parts;
  const key = entityKey(namespaceId, entityId);
  const mark = (await records.get(key))?.[DELETING];
  if (mark === undefined) return;
  const isMarked = isStill(DELETING, mark);
  const removal: Removal = { ...parts, entityId, marked: checkRecord(key, isMarked) };
  const isDone =
    (await removeConfigs(removal)) &&
    (await removeBuckets(removal)) &&
    (await removeIndexed(removal)) &&
    (await removePartition(removal));
  // If the last write fails, another process has done it.
  if (isDone) await records.transact([deleteRecord(key, isMarked)]);
}

interface Removal extends NamespaceParts {
  readonly entityId: string;
  /** The check of the mark. A step whose check fails returns false. */
  readonly marked: RecordWrite;
}

/** Deletes configuration and updates the registry's count. */
async function removeConfigs({ records, namespaceId, entityId, marked }: Removal): Promise<boolean> {
  for (let attempt = 0, isLeft = true; isLeft; attempt++) {
    failAfterMaxConflicts(attempt, `The configuration of ${entityId}`);
    isLeft = false;
    const items = await collected(
      records.query(tablePartition(entityPk(namespaceId, entityId), { prefix: "#CONFIG#" })),
    );
    for (const chunk of chunksOf(items, CONFIGS_AT_ONCE)) {
      const counts = chunk.flatMap((item) => {
        const resource = item[RESOURCE]?.S;
        return resource === undefined || !isCounted(item) ? [] : [[resource, -1] as const];
      });
      const reply = await records.transact([
        marked,
        ...chunk.map((item) => deleteRecord(keyIn(item), exists)),
        ...countConfigs(namespaceId, Object.fromEntries(counts)),
      ]);
      if (reply.kind === "applied") continue;
      if (reply.failed.has(0)) return false;
      // Another process is removing them too.
      isLeft = true;
    }
  }
  return true;
}

async function removeBuckets(removal: Removal): Promise<boolean> {
  // The second pass finds items that the index did not have yet.
  for (let pass = 0; pass < RETRY.indexPasses; pass++) {
    const keys = await shardKeys(removal, { entityId: removal.entityId });
    if (!(await remove(removal, keys))) return false;
    for (const bucket of bucketsIn(keys)) removal.buckets.forget(bucket);
  }
  return true;
}

/** Removes records of operations, sheets of usage, counts of refusals and of the caller, which are in other partitions. */
async function removeIndexed(removal: Removal): Promise<boolean> {
  const { records, namespaceId, entityId } = removal;
  const books = (["REFUSED", "CALLED"] as const).map((book) => bookPrefix(book, entityId));
  for (const prefix of [`OP#${entityId}#`, sheetPrefix(entityId, undefined), ...books]) {
    const found = await collected(records.query(namespaceIndex(namespaceId, { prefix })));
    if (!(await remove(removal, found.map(keyIn)))) return false;
  }
  return true;
}

async function removePartition(removal: Removal): Promise<boolean> {
  const partition = tablePartition(entityPk(removal.namespaceId, removal.entityId));
  const found = await collected(removal.records.query({ ...partition, keysOnly: true }));
  const keys = found.map(keyIn).filter(({ sk }) => sk !== META_SK);
  return remove(removal, keys);
}

async function remove({ records, marked }: Removal, keys: readonly TableKey[]): Promise<boolean> {
  for (const chunk of chunksOf(keys, ITEMS_AT_ONCE)) {
    const reply = await records.transact([marked, ...chunk.map((key) => deleteRecord(key, undefined))]);
    if (reply.kind === "failed") return false;
  }
  return true;
}

const CONFIGS_AT_ONCE = 40;
const ITEMS_AT_ONCE = 50;
