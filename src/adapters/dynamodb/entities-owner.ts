import type { ConfigReader } from "./config-reader.ts";
import { entityOf } from "./entities-record.ts";
import type { Records } from "./records.ts";
import { all, any, exists, isStill, updateRecord } from "./records-write.ts";
import { RETRY } from "./retry-policy.ts";
import { CASCADE, entityKey, INCARNATION, PARENT_GENERATION, PARENT_ID, parseItemKey } from "./schema.ts";
import type { LiveBuckets } from "./store-buckets.ts";

/**
 * Writes to the buckets of an entity who its parent is. Only the original reads that. The four attributes are written together,
 * and never over those of a later change.
 */
export async function stampOwner(
  namespaceId: string,
  entityId: string,
  parts: {
    readonly records: Records;
    readonly live: LiveBuckets;
    readonly reader: ConfigReader;
  },
): Promise<void> {
  const { records, live, reader } = parts;
  for (let pass = 0; pass < RETRY.indexPasses; pass++) {
    const meta = await records.get(entityKey(namespaceId, entityId));
    const generation = meta?.[PARENT_GENERATION];
    const incarnation = meta?.[INCARNATION];
    if (entityOf(meta) === undefined || generation === undefined || incarnation === undefined) return;
    for (const place of await live.itemsOf(entityId)) {
      const bucket = parseItemKey(place)?.key.bucket;
      if (bucket === undefined) continue;
      const { cascade, parentId } = await reader.resolveNow(bucket);
      const set = {
        [CASCADE]: { BOOL: cascade },
        [PARENT_GENERATION]: generation,
        [INCARNATION]: incarnation,
        ...(parentId === undefined ? {} : { [PARENT_ID]: { S: parentId } }),
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
