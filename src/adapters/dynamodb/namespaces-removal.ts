import type { Attributes } from "./codec.ts";
import { inChunks } from "./paging.ts";
import { managedIn } from "./provisioner.ts";
import type { Records } from "./records.ts";
import { keyIn } from "./records-write.ts";
import { uniqueKeys } from "./retried-calls.ts";
import { RETRY } from "./retry-policy.ts";
import {
  configKey,
  ENTITY_INDEX,
  entityPk,
  GSI3PK,
  GSI4PK,
  NAMESPACE_INDEX,
  PK,
  provisionerKey,
  RESOURCES,
  resourceRegistryKey,
  systemPk,
  type TableKey,
} from "./schema.ts";
import { hoursPk, LEASE_SLOTS, leasesPk } from "./schema-leases.ts";

/**
 * Removes everything of a namespace, in steps of a few dozen records; answers how many. Items that are not in the index of the
 * namespace (the original's provisioner writes only half of the keys) are found by the records of the system partition, which
 * is therefore removed last.
 */
export async function removeNamespace(
  records: Records,
  namespaceId: string,
  onProgress: (recordsDeleted: number) => void,
): Promise<number> {
  let count = 0;
  const remove = async (keys: readonly TableKey[]) => {
    if (keys.length === 0) return;
    await records.deleteAll(keys);
    count += keys.length;
    onProgress(count);
  };
  await remove(await unindexed(records, namespaceId));
  const system = systemPk(namespaceId);
  // An index follows its table after a moment: only a pass that finds nothing is the last, and what it still shows of the
  // passes before is not counted again.
  for (let found = 1, pass = 0; found > 0 && pass < RETRY.removalPassesMax; pass++) {
    found = 0;
    const items = records.query({ index: NAMESPACE_INDEX, partition: [GSI4PK, namespaceId], keysOnly: true });
    for await (const chunk of inChunks(items, CHUNK)) {
      const shown = chunk.map(keyIn).filter(({ pk }) => pk !== system);
      const keys = pass === 0 ? shown : await present(records, shown);
      found += keys.length;
      await remove(keys);
    }
  }
  // Open leases are in an index of their own; closed ones, and idempotency keys, are gone within a day by themselves.
  for (const slot of LEASE_SLOTS) {
    const open = records.query({
      index: ENTITY_INDEX,
      partition: [GSI3PK, leasesPk(namespaceId, slot)],
      keysOnly: true,
    });
    for await (const chunk of inChunks(open, CHUNK)) await remove(await present(records, chunk.map(keyIn)));
  }
  const hours = records.query({ partition: [PK, hoursPk(namespaceId)], keysOnly: true, consistent: true });
  for await (const chunk of inChunks(hours, CHUNK)) await remove(chunk.map(keyIn));
  const rest = records.query({ partition: [PK, system], keysOnly: true, consistent: true });
  for await (const chunk of inChunks(rest, CHUNK)) await remove(chunk.map(keyIn));
  return count;
}

const CHUNK = 100;

/** Configuration that may be in no index. */
async function unindexed(records: Records, namespaceId: string): Promise<readonly TableKey[]> {
  const [provisioner, registry] = await records.getAll(
    [provisionerKey(namespaceId), resourceRegistryKey(namespaceId)],
    { consistent: true },
  );
  const { resources, entities } = managedIn(provisioner);
  const named = [...new Set([...resources, ...namesIn(registry)])];
  const keys = [
    ...named.map((resource) => configKey(namespaceId, { level: "resource", resource })),
    ...Object.entries(entities).flatMap(([entityId, own]) =>
      own.map((resource) => ({ pk: entityPk(namespaceId, entityId), sk: `#CONFIG#${resource}` })),
    ),
  ];
  return present(records, keys);
}

async function present(records: Records, keys: readonly TableKey[]): Promise<readonly TableKey[]> {
  const found = await records.getAll(uniqueKeys(keys), { consistent: true });
  return found.flatMap((item) => (item === undefined ? [] : [keyIn(item)]));
}

function namesIn(registry: Attributes | undefined): readonly string[] {
  return registry?.[RESOURCES]?.SS ?? [];
}
