import { type BucketKey, bucketKey } from "../../domain/bucket/bucket-key.ts";
import type { ConfigScope } from "../../domain/config/config.ts";
import type { NamespaceParts } from "./namespace-parts.ts";
import { collected } from "./paging.ts";
import { entityIndex, namespaceIndex, type RecordQuery, resourceIndex } from "./records.ts";
import { keyIn } from "./records-write.ts";
import { entityPk, parseItemKey, resourcePk, type TableKey } from "./schema.ts";

type TableParts = Pick<NamespaceParts, "records" | "namespaceId">;

/** Existing buckets that a scope may configure, by the indexes, which lag. A bucket that the scope names need not exist. */
export async function bucketsUnder(parts: TableParts, scope: ConfigScope): Promise<readonly BucketKey[]> {
  switch (scope.level) {
    case "entity":
      return [bucketKey(scope.entityId, scope.resource)];
    case "entityDefault":
    case "entityTotal":
      return bucketsIn(await shardKeys(parts, { entityId: scope.entityId }));
    case "resource":
      return bucketsIn(await shardKeys(parts, { resource: scope.resource }));
    case "system":
    case "systemTotal":
      return bucketsIn(await shardKeys(parts, {}));
    // A change of a plan is noticed when configuration is read.
    case "plan":
    case "planDefault":
    case "planTotal":
      return [];
  }
}

/** The keys of all shards of buckets, by an index, which lags: a new shard may be missing. */
export async function shardKeys({ records, namespaceId }: TableParts, of: BucketsOf): Promise<readonly TableKey[]> {
  return (await collected(records.query(bucketIndex(namespaceId, of)))).map(keyIn);
}

interface BucketsOf {
  readonly entityId?: string | undefined;
  readonly resource?: string | undefined;
}

/** The keys of the buckets of an entity, else of a resource, else of the namespace. */
export function bucketIndex(namespaceId: string, { entityId, resource }: BucketsOf): RecordQuery {
  const range = { prefix: "BUCKET#" };
  if (entityId !== undefined) return { ...entityIndex(entityPk(namespaceId, entityId), range), keysOnly: true };
  if (resource === undefined) return namespaceIndex(namespaceId, range);
  return { ...resourceIndex(resourcePk(namespaceId, resource), range), keysOnly: true };
}

/** Each bucket once, however many shards it has. */
export function bucketsIn(places: readonly TableKey[]): readonly BucketKey[] {
  const found = places.flatMap((place) => {
    const bucket = parseItemKey(place)?.key.bucket;
    return bucket === undefined ? [] : [bucket];
  });
  return [...new Map(found.map((bucket) => [bucket.id, bucket])).values()];
}
