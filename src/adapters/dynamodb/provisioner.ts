import { type Attributes, decodeJson } from "./codec.ts";
import type { Records } from "./records.ts";
import { instantOf, instantText } from "./records-instants.ts";
import { putRecord, texts } from "./records-write.ts";
import { provisionerKey, systemIndexKeys } from "./schema.ts";

/** What a manifest has set in a namespace, so that the next one knows what to take away. */
export interface ProvisionerState {
  readonly managedSystem: boolean;
  readonly managedResources: readonly string[];
  /** Resources by entity; `_default_` stands for the entity's default. */
  readonly managedEntities: Readonly<Record<string, readonly string[]>>;
  /** Undefined: nothing was applied yet. */
  readonly appliedAtMs: number | undefined;
  readonly appliedHash: string;
}

export async function readProvisioner(records: Records, namespaceId: string): Promise<ProvisionerState> {
  const item = await records.get(provisionerKey(namespaceId));
  const { resources, entities } = managedIn(item);
  const appliedAtMs = instantOf(item?.[LAST_APPLIED]?.S);
  return {
    managedSystem: item?.[MANAGED_SYSTEM]?.BOOL ?? false,
    managedResources: resources,
    managedEntities: entities,
    appliedAtMs: appliedAtMs === 0 ? undefined : appliedAtMs,
    appliedHash: item?.[APPLIED_HASH]?.S ?? "",
  };
}

/** The original leaves half of the index keys out, and then does not find it when the namespace is purged. */
export async function writeProvisioner(records: Records, namespaceId: string, state: ProvisionerState): Promise<void> {
  const list = (names: readonly string[]) => ({ L: names.map((S) => ({ S })) });
  const entities = Object.entries(state.managedEntities).map(([entityId, own]) => [entityId, list(own)] as const);
  const item: Attributes = {
    ...texts(systemIndexKeys(namespaceId)),
    [MANAGED_SYSTEM]: { BOOL: state.managedSystem },
    [MANAGED_RESOURCES]: list(state.managedResources),
    [MANAGED_ENTITIES]: { M: Object.fromEntries(entities) },
    [LAST_APPLIED]: { S: state.appliedAtMs === undefined ? "" : instantText(state.appliedAtMs) },
    [APPLIED_HASH]: { S: state.appliedHash },
  };
  await records.transact([putRecord(provisionerKey(namespaceId), item, undefined)]);
}

/** What it says it manages, whoever wrote it. */
export function managedIn(item: Attributes | undefined): {
  readonly resources: readonly string[];
  readonly entities: Readonly<Record<string, readonly string[]>>;
} {
  const entities = Object.entries(item?.[MANAGED_ENTITIES]?.M ?? {});
  return {
    resources: namesIn(decodeJson(item?.[MANAGED_RESOURCES] ?? { L: [] })),
    entities: Object.fromEntries(entities.map(([entityId, own]) => [entityId, namesIn(decodeJson(own))])),
  };
}

const MANAGED_SYSTEM = "managed_system";
const MANAGED_RESOURCES = "managed_resources";
const MANAGED_ENTITIES = "managed_entities";
const LAST_APPLIED = "last_applied";
const APPLIED_HASH = "applied_hash";

function namesIn(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((name): name is string => typeof name === "string") : [];
}
