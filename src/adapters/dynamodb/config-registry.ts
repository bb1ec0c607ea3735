import type { Attributes } from "./codec.ts";
import { type RecordWrite, texts, updateRecord } from "./records-write.ts";
import { entityConfigRegistryKey, GSI3PK, RESOURCES, resourceRegistryKey, systemIndexKeys } from "./schema.ts";

/** Counts items of entities' configuration, by how many more or fewer there are for each resource. */
export function countConfigs(namespaceId: string, changes: Readonly<Record<string, number>>): readonly RecordWrite[] {
  const add = Object.entries(changes).filter(([, change]) => change !== 0);
  if (add.length === 0) return [];
  const counts = Object.fromEntries(add.map(([resource, change]) => [resource, { N: String(change) }]));
  const set = texts(systemIndexKeys(namespaceId));
  return [updateRecord(entityConfigRegistryKey(namespaceId), { set, add: counts }, undefined)];
}

/** Names a resource as one with defaults, or no longer. */
export function listResource(namespaceId: string, resource: string, isListed: boolean): RecordWrite {
  const names: Attributes = { [RESOURCES]: { SS: [resource] } };
  const set = texts(systemIndexKeys(namespaceId));
  return updateRecord(
    resourceRegistryKey(namespaceId),
    isListed ? { set, add: names } : { set, without: names },
    undefined,
  );
}

/** Whether an item was counted when it was made: the original's provisioner makes some without. */
export function isCounted(item: Attributes | undefined): boolean {
  return item?.[GSI3PK] !== undefined;
}
