import { NotFoundError } from "../../domain/names/errors.ts";
import type { Item } from "../../ports/item-store.ts";
import type { UsageQuery } from "../../ports/usage-store.ts";
import type { RecordQuery, Records } from "./records.ts";
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
  RESOURCE_INDEX,
  resourcePk,
} from "./schema.ts";
import { type UsageItemRef, usageItemRef } from "./usage-index.ts";
import { itemsIn } from "./usage-items.ts";

/**
 * Throws where a query that found nothing would look as if nothing had been used, on a table shared with the original: some of
 * the buckets that it asks for have counted, and nobody has written usage of their resources, of whomever and whenever.
 */
export async function requireAggregated(records: Records, namespaceId: string, query: UsageQuery): Promise<void> {
  const refs: UsageItemRef[] = [];
  for await (const item of records.query(bucketsOf(namespaceId, query))) {
    const ref = usageItemRef(keyIn(item));
    if (ref?.key.operation !== undefined || ref?.key.sheet !== undefined) continue;
    if (ref !== undefined && (query.resource ?? ref.key.bucket.resource) === ref.key.bucket.resource) {
      refs.push(ref);
    }
    // A few of them tell as much as all.
    if (refs.length === BUCKETS_ASKED) break;
  }
  const counted = (await itemsIn(records, refs)).filter(({ item }) => hasCounted(item));
  const resources = new Set(counted.map(({ ref }) => ref.key.bucket.resource));
  for (const resource of resources) if (await hasUsage(records, namespaceId, resource)) return;
  if (resources.size > 0) throw notAggregated([...resources]);
}

const BUCKETS_ASKED = 25;

function bucketsOf(namespaceId: string, { entityId, resource }: UsageQuery): RecordQuery {
  const by = { keysOnly: true, pageSize: BUCKETS_ASKED } as const;
  if (entityId !== undefined) {
    const partition = [GSI3PK, entityPk(namespaceId, entityId)] as const;
    return { ...by, index: ENTITY_INDEX, partition, range: { name: GSI3SK, prefix: "BUCKET#" } };
  }
  if (resource !== undefined) {
    const partition = [GSI2PK, resourcePk(namespaceId, resource)] as const;
    return { ...by, index: RESOURCE_INDEX, partition, range: { name: GSI2SK, prefix: "BUCKET#" } };
  }
  return {
    ...by,
    index: NAMESPACE_INDEX,
    partition: [GSI4PK, namespaceId],
    range: { name: GSI4SK, prefix: "BUCKET#" },
  };
}

async function hasUsage(records: Records, namespaceId: string, resource: string): Promise<boolean> {
  const partition = [GSI2PK, resourcePk(namespaceId, resource)] as const;
  const range = { name: GSI2SK, prefix: "USAGE#" };
  const { done } = await records.query({ index: RESOURCE_INDEX, partition, range, keysOnly: true, pageSize: 1 }).next();
  return done !== true;
}

/** The original's counters never go back to 0: they are of the bucket's whole life. */
function hasCounted(item: Item): boolean {
  return Object.entries(item).some(([name, value]) => /^b_.+_tc$/.test(name) && name !== "b_wcu_tc" && value !== 0);
}

function notAggregated(resources: readonly string[]): NotFoundError {
  return new NotFoundError(
    "usage_not_aggregated",
    `Usage of ${resources.join(", ")} was counted but not stored: this table is shared with the original, ` +
      "whose aggregator stores it, and that aggregator is missing, failing, or has just started. Deploy it (`enable_aggregator`) and check its " +
      "errors; if no client of the original uses this table any more, open it without `sharedTable`.",
  );
}
