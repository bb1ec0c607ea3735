import { type BucketKey, bucketKey } from "../../domain/bucket/bucket-key.ts";
import type { ConfigScope } from "../../domain/config/config.ts";
import { collected } from "./paging.ts";
import type { Records } from "./records.ts";
import { keyIn } from "./records-write.ts";
import {
  ENTITY_INDEX,
  entityPk,
  GSI2PK,
  GSI2SK,
  GSI3PK,
  GSI3SK,
  GSI4PK,
  GSI4SK,
  NAMESPACE_INDEX,
  parseItemKey,
  RESOURCE_INDEX,
  resourcePk,
  type TableKey,
} from "./schema.ts";

/** The buckets there are, found by the indexes: what was made a moment ago may not be found yet. */
export class LiveBuckets {
  readonly #records: Records;
  readonly #namespaceId: string;

  constructor(records: Records, namespaceId: string) {
    this.#records = records;
    this.#namespaceId = namespaceId;
  }

  /** Buckets whose configuration a scope may be. One is known by its name, whether it is there or not. */
  async under(scope: ConfigScope): Promise<readonly BucketKey[]> {
    switch (scope.level) {
      case "entity":
        return [bucketKey(scope.entityId, scope.resource)];
      case "entityDefault":
      case "entityTotal":
        return bucketsIn(await this.itemsOf(scope.entityId));
      case "resource":
        return bucketsIn(
          await this.#places(RESOURCE_INDEX, [GSI2PK, resourcePk(this.#namespaceId, scope.resource)], GSI2SK),
        );
      case "system":
      case "systemTotal":
        return bucketsIn(await this.#places(NAMESPACE_INDEX, [GSI4PK, this.#namespaceId], GSI4SK));
      // Whose they are is not asked: a change of a plan is noticed when configuration is read.
      case "plan":
      case "planDefault":
      case "planTotal":
        return [];
    }
  }

  /** The items of all shards of all buckets of an entity. */
  itemsOf(entityId: string): Promise<readonly TableKey[]> {
    return this.#places(ENTITY_INDEX, [GSI3PK, entityPk(this.#namespaceId, entityId)], GSI3SK);
  }

  async #places(
    index: string,
    partition: readonly [name: string, value: string],
    range: string,
  ): Promise<readonly TableKey[]> {
    const found = this.#records.query({ index, partition, range: { name: range, prefix: "BUCKET#" }, keysOnly: true });
    return (await collected(found)).map(keyIn);
  }
}

/** Each once, however many shards it has. */
export function bucketsIn(places: readonly TableKey[]): readonly BucketKey[] {
  const found = places.flatMap((place) => {
    const bucket = parseItemKey(place)?.key.bucket;
    return bucket === undefined ? [] : [bucket];
  });
  return [...new Map(found.map((bucket) => [bucket.id, bucket])).values()];
}
