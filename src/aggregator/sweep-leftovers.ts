import { keyIn } from "../adapters/dynamodb/records-write.ts";
import { deletingPrefix, entityPk, GSI4PK, GSI4SK, NAMESPACE_INDEX } from "../adapters/dynamodb/schema.ts";
import type { Namespace } from "../domain/config/namespace.ts";
import type { SweepParts } from "./sweep-parts.ts";

/** Brings deletions of entities to their end that somebody was cut off in; how many. */
export async function finishDeletions(namespaceId: string, { records, scope, log }: SweepParts): Promise<number> {
  const marked = records.query({
    index: NAMESPACE_INDEX,
    partition: [GSI4PK, namespaceId],
    range: { name: GSI4SK, prefix: deletingPrefix() },
    keysOnly: true,
  });
  let count = 0;
  for await (const item of marked) {
    const entityId = keyIn(item).pk.slice(entityPk(namespaceId, "").length);
    // By its mark: what is no longer marked stays.
    await scope(namespaceId).finishDeletion(entityId);
    log.debug("deletion finished", { namespace: namespaceId, entity: entityId });
    count += 1;
  }
  return count;
}

/** Brings the purge of a namespace to its end; 1. */
export async function finishPurge(namespace: Namespace, { finishPurge: finish, log }: SweepParts): Promise<number> {
  await finish(namespace);
  log.info("purge finished", { namespace: namespace.id });
  return 1;
}
