import { type BucketKey, bucketKey } from "../../domain/bucket/bucket-key.ts";
import type { UsageWindow } from "../../domain/charge/usage.ts";
import type { ConfigScope } from "../../domain/config/config.ts";
import type { ItemKey } from "../../ports/item-store.ts";
import {
  CHILDREN_INDEX,
  ENTITY_ID,
  ENTITY_INDEX,
  GSI1PK,
  GSI1SK,
  GSI2PK,
  GSI2SK,
  GSI3PK,
  GSI3SK,
  GSI4PK,
  GSI4SK,
  NAMESPACE_INDEX,
  PK,
  REGISTRY,
  RESOURCE,
  RESOURCE_INDEX,
  SK,
} from "./schema-names.ts";
import { planPk, TOTAL_SK } from "./schema-plans.ts";

// Keys, attribute names and units of the table shared with the original: the only place that knows them.
export * from "./schema-names.ts";
export * from "./schema-plans.ts";

/** The primary key of an item. */
export interface TableKey {
  readonly pk: string;
  readonly sk: string;
}

/** The keys of an item in the indexes it is in. */
type IndexKeys = Readonly<Record<string, string>>;

export const STATE_SK = "#STATE";
export const META_SK = "#META";
const OPERATION_SK = "#OP#";
const CONFIG_SK = "#CONFIG";
const USAGE_SK = "#USAGE#";
const AUDIT_SK = "#AUDIT#";
export const DEFAULT_RESOURCE = "_default_";

export function entityPk(namespaceId: string, entityId: string): string {
  return `${namespaceId}/ENTITY#${entityId}`;
}

export function resourcePk(namespaceId: string, resource: string): string {
  return `${namespaceId}/RESOURCE#${resource}`;
}

export function systemPk(namespaceId: string): string {
  return `${namespaceId}/SYSTEM#`;
}

export function auditPk(namespaceId: string, entityId: string): string {
  return `${namespaceId}/AUDIT#${entityId}`;
}

export function bucketPk(namespaceId: string, { entityId, resource }: BucketKey, shard: number): string {
  return `${namespaceId}/BUCKET#${entityId}#${resource}#${shard}`;
}

export function entityKey(namespaceId: string, entityId: string): TableKey {
  return { pk: entityPk(namespaceId, entityId), sk: META_SK };
}

export function entityIndexKeys(namespaceId: string, entityId: string, parentId: string | undefined): IndexKeys {
  const own = wholePartition(namespaceId, entityPk(namespaceId, entityId));
  return parentId === undefined ? own : { ...own, ...childKeys(namespaceId, parentId, entityId) };
}

export function childKeys(namespaceId: string, parentId: string, entityId: string): IndexKeys {
  return { [GSI1PK]: `${namespaceId}/PARENT#${parentId}`, [GSI1SK]: `CHILD#${entityId}` };
}

/** In the index of the namespace: an entity that is being deleted stands apart, so that it is found without reading all. */
export function deletingKeys(entityId: string): IndexKeys {
  return { [GSI4SK]: `${deletingPrefix()}${entityId}` };
}

export function deletingPrefix(): string {
  return "DELETING#";
}

export function configKey(namespaceId: string, scope: ConfigScope): TableKey {
  switch (scope.level) {
    case "entity":
      return { pk: entityPk(namespaceId, scope.entityId), sk: `${CONFIG_SK}#${scope.resource}` };
    case "entityDefault":
      return { pk: entityPk(namespaceId, scope.entityId), sk: `${CONFIG_SK}#${DEFAULT_RESOURCE}` };
    case "plan":
      return { pk: planPk(namespaceId, scope.planId), sk: `${CONFIG_SK}#${scope.resource}` };
    case "planDefault":
      return { pk: planPk(namespaceId, scope.planId), sk: `${CONFIG_SK}#${DEFAULT_RESOURCE}` };
    case "resource":
      return { pk: resourcePk(namespaceId, scope.resource), sk: CONFIG_SK };
    case "system":
      return { pk: systemPk(namespaceId), sk: CONFIG_SK };
    case "entityTotal":
      return { pk: entityPk(namespaceId, scope.entityId), sk: TOTAL_SK };
    case "planTotal":
      return { pk: planPk(namespaceId, scope.planId), sk: TOTAL_SK };
    case "systemTotal":
      return { pk: systemPk(namespaceId), sk: TOTAL_SK };
  }
}

export function configIndexKeys(namespaceId: string, scope: ConfigScope): IndexKeys {
  const own = wholePartition(namespaceId, configKey(namespaceId, scope).pk);
  const resource = configResource(scope);
  if (resource === undefined || !("entityId" in scope)) return own;
  return { ...own, [GSI3PK]: entityConfigsPk(namespaceId, resource), [GSI3SK]: scope.entityId };
}

/** The resource as a configuration item of the original names it: an entity's default has a name for it too. */
export function configResource(scope: ConfigScope): string | undefined {
  if (scope.level === "entityDefault") return DEFAULT_RESOURCE;
  return scope.level === "entity" || scope.level === "resource" ? scope.resource : undefined;
}

/** In the entity index: which entities have a configuration of their own for a resource. */
export function entityConfigsPk(namespaceId: string, resource: string): string {
  return `${namespaceId}/ENTITY_CONFIG#${resource}`;
}

/** The item of one shard, or the record of an operation beside shard 0, or a sheet of usage beside its shard. */
export function itemTableKey(namespaceId: string, { bucket, shard, operation, sheet }: ItemKey): TableKey {
  const pk = bucketPk(namespaceId, bucket, shard);
  if (sheet !== undefined) return { pk, sk: sheetSk(sheet) };
  return { pk, sk: operation === undefined ? STATE_SK : `${OPERATION_SK}${operation}` };
}

/** All that an item of a bucket has besides its own attributes and the key of the table. */
export function itemPlace(namespaceId: string, { bucket, shard, operation, sheet }: ItemKey): IndexKeys {
  const { entityId, resource } = bucket;
  const owner = { [ENTITY_ID]: entityId, [RESOURCE]: resource, [GSI4PK]: namespaceId };
  if (sheet !== undefined) {
    return {
      ...owner,
      [GSI4SK]: `${sheetPrefix(entityId, resource)}${sheet}#${shard}`,
      [GSI2PK]: resourcePk(namespaceId, resource),
      [GSI2SK]: `SHEET#${sheet}#${entityId}#${shard}`,
    };
  }
  if (operation !== undefined) return { ...owner, [GSI4SK]: `OP#${entityId}#${resource}#${operation}` };
  return {
    ...owner,
    [GSI4SK]: `BUCKET#${entityId}#${resource}#${shard}`,
    [GSI2PK]: resourcePk(namespaceId, resource),
    [GSI2SK]: resourceBucketSk(entityId, shard),
    [GSI3PK]: entityPk(namespaceId, entityId),
    [GSI3SK]: `BUCKET#${resource}#${shard}`,
  };
}

/** The sort key of the sheet of a day, beside its shard. */
export function sheetSk(day: string): string {
  return `${USAGE_SK}${day}`;
}

/** What sheets of an entity begin with in the index of the namespace, on one resource or on all. */
export function sheetPrefix(entityId: string, resource: string | undefined): string {
  return resource === undefined ? `SHEET#${entityId}#` : `SHEET#${entityId}#${resource}#`;
}

/** In the resource index. `#` sorts before every character of an entity id, so these are in the order of the ids. */
export function resourceBucketSk(entityId: string, shard: number): string {
  return `BUCKET#${entityId}#${shard}`;
}

/** Sort keys of the resource index from the entity after this one (from the first) to the last: both ends included. */
export function resourceBucketRange(after: string | undefined): { readonly from: string; readonly to: string } {
  // `$` follows `#`, and is in no id.
  return { from: after === undefined ? "BUCKET#" : `BUCKET#${after}$`, to: "BUCKET$" };
}

/**
 * Hours, days and months begin together at midnight: where the original lets them overwrite each other, days and months have
 * their name behind. It looks for usage by what the key begins with, and takes the window from the attributes.
 */
export function usageKey(
  namespaceId: string,
  usage: {
    readonly entityId: string;
    readonly resource: string;
    readonly window: UsageWindow;
    readonly windowStartMs: number;
  },
): TableKey {
  const start = isoSeconds(usage.windowStartMs);
  const end = usage.window === "hourly" ? "" : `#${usage.window}`;
  return { pk: entityPk(namespaceId, usage.entityId), sk: `${usagePrefix(usage.resource)}${start}${end}` };
}

/** What sort keys of usage begin with, of one resource or of all. */
export function usagePrefix(resource: string | undefined): string {
  return resource === undefined ? USAGE_SK : `${USAGE_SK}${resource}#`;
}

export function usageIndexKeys(
  namespaceId: string,
  usage: { readonly entityId: string; readonly resource: string; readonly windowStartMs: number },
): IndexKeys {
  const { entityId, resource } = usage;
  return {
    ...wholePartition(namespaceId, entityPk(namespaceId, entityId)),
    [GSI2PK]: resourcePk(namespaceId, resource),
    [GSI2SK]: `USAGE#${isoSeconds(usage.windowStartMs)}#${entityId}`,
  };
}

/** `auditId` sorts by time; the original has a ULID there. */
export function auditKey(namespaceId: string, entityId: string, auditId: string): TableKey {
  return { pk: auditPk(namespaceId, entityId), sk: `${AUDIT_SK}${auditId}` };
}

export function auditIndexKeys(namespaceId: string, entityId: string): IndexKeys {
  return wholePartition(namespaceId, auditPk(namespaceId, entityId));
}

export function resourceRegistryKey(namespaceId: string): TableKey {
  return { pk: systemPk(namespaceId), sk: "#RESOURCES" };
}

/** One number per resource name: how many entities have a configuration of their own for it. */
export function entityConfigRegistryKey(namespaceId: string): TableKey {
  return { pk: systemPk(namespaceId), sk: "#ENTITY_CONFIG_RESOURCES" };
}

export function provisionerKey(namespaceId: string): TableKey {
  return { pk: systemPk(namespaceId), sk: "#PROVISIONER" };
}

/** What a sweep notes of the usage of a namespace. */
export function usageStateKey(namespaceId: string): TableKey {
  return { pk: systemPk(namespaceId), sk: "#USAGE" };
}

/** Which piece of configuration an owner has by declaring it. */
export function ownedKey(namespaceId: string, piece: string): TableKey {
  return { pk: systemPk(namespaceId), sk: `${ownedPrefix()}${piece}` };
}

export function ownedPrefix(): string {
  return "#OWNED#";
}

/** Of an owner of declared pieces: its last apply. */
export function ownerKey(namespaceId: string, owner: string): TableKey {
  return { pk: systemPk(namespaceId), sk: `#OWNER#${owner}` };
}

export function versionKey(): TableKey {
  return { pk: systemPk(REGISTRY), sk: "#VERSION" };
}

/** Of layouts without namespaces, before 0.9. */
export function oldVersionKey(): TableKey {
  return { pk: "SYSTEM#", sk: "#VERSION" };
}

export function namespaceNameKey(name: string): TableKey {
  return { pk: systemPk(REGISTRY), sk: `#NAMESPACE#${name}` };
}

export function namespaceIdKey(namespaceId: string): TableKey {
  return { pk: systemPk(REGISTRY), sk: `#NSID#${namespaceId}` };
}

/** Of registries, of the version record and (with `REGISTRY`) of namespaces. */
export function systemIndexKeys(namespaceId: string): IndexKeys {
  return wholePartition(namespaceId, systemPk(namespaceId));
}

// In the index of the namespace, items of one partition stand under its key.
function wholePartition(namespaceId: string, pk: string): IndexKeys {
  return { [GSI4PK]: namespaceId, [GSI4SK]: pk };
}

/** An instant as the table writes it: UTC, whole seconds. */
export function isoSeconds(atMs: number): string {
  return `${new Date(atMs).toISOString().slice(0, 19)}Z`;
}

/** The namespace of a partition key; resources may have a slash too. Undefined where it is no key of ours. */
export function namespaceOf(pk: string): string | undefined {
  const slash = pk.indexOf("/");
  return slash < 1 ? undefined : pk.slice(0, slash);
}

/** Which shard's item, which operation's record, or which sheet, a key is of. Undefined where it is something else's. */
export function parseItemKey({
  pk,
  sk,
}: TableKey): { readonly namespaceId: string; readonly key: ItemKey } | undefined {
  const namespaceId = namespaceOf(pk);
  if (namespaceId === undefined) return undefined;
  const match = /^BUCKET#([^#]+)#(.+)#(\d+)$/.exec(pk.slice(namespaceId.length + 1));
  if (match === null) return undefined;
  const [, entityId, resource, shard] = match as unknown as [string, string, string, string];
  const key = { bucket: bucketKey(entityId, resource), shard: Number(shard) };
  if (sk === STATE_SK) return { namespaceId, key };
  if (sk.startsWith(USAGE_SK)) return { namespaceId, key: { ...key, sheet: sk.slice(USAGE_SK.length) } };
  if (!sk.startsWith(OPERATION_SK)) return undefined;
  return { namespaceId, key: { ...key, operation: sk.slice(OPERATION_SK.length) } };
}

/** The other half of `resourceBucketSk`. */
export function parseResourceBucketSk(sk: string): { readonly entityId: string; readonly shard: number } | undefined {
  const match = /^BUCKET#([^#]+)#(\d+)$/.exec(sk);
  return match === null ? undefined : { entityId: match[1] as string, shard: Number(match[2]) };
}

/** Which child a sort key of the children index is of. */
export function parseChildSk(sk: string): string | undefined {
  return sk.startsWith("CHILD#") ? sk.slice("CHILD#".length) : undefined;
}

/** What a sort key of usage says. Which window it is stands in the item's attributes. */
export function parseUsageSk(sk: string): { readonly resource: string; readonly windowStart: string } | undefined {
  const match = /^#USAGE#([^#]+)#([^#]+)(?:#[a-z]+)?$/.exec(sk);
  return match === null ? undefined : { resource: match[1] as string, windowStart: match[2] as string };
}

/** Which scope a configuration item is of. */
export function parseConfigKey({ pk, sk }: TableKey): ConfigScope | undefined {
  const namespaceId = namespaceOf(pk);
  if (namespaceId === undefined || !(sk.startsWith(CONFIG_SK) || sk === TOTAL_SK)) return undefined;
  const owner = pk.slice(namespaceId.length + 1);
  const isTotal = sk === TOTAL_SK;
  const resource = isTotal ? "" : sk.slice(CONFIG_SK.length + 1);
  const isDefault = resource === DEFAULT_RESOURCE;
  if (owner.startsWith("ENTITY#")) {
    const entityId = owner.slice("ENTITY#".length);
    if (isTotal) return { level: "entityTotal", entityId };
    if (resource === "") return undefined;
    return isDefault ? { level: "entityDefault", entityId } : { level: "entity", entityId, resource };
  }
  if (owner.startsWith("PLAN#")) {
    const planId = owner.slice("PLAN#".length);
    if (isTotal) return { level: "planTotal", planId };
    if (resource === "") return undefined;
    return isDefault ? { level: "planDefault", planId } : { level: "plan", planId, resource };
  }
  if (owner === "SYSTEM#" && isTotal) return { level: "systemTotal" };
  if (sk !== CONFIG_SK) return undefined;
  if (owner.startsWith("RESOURCE#")) return { level: "resource", resource: owner.slice("RESOURCE#".length) };
  return owner === "SYSTEM#" ? { level: "system" } : undefined;
}

export interface TableOptions {
  readonly name: string;
  /**
   * What the resource index has of an item. `KEYS_ONLY`: a write that changes no key costs nothing there. `ALL`: one unit more
   * with every write; what the original's readers expect.
   */
  readonly gsi2Projection: "KEYS_ONLY" | "ALL";
  readonly tags: Readonly<Record<string, string>>;
  readonly deletionProtection: boolean;
}

/** The input of CreateTable. The attribute `ttl` is announced by a call of its own, once the table is there. */
export function tableDefinition({ name, gsi2Projection, tags, deletionProtection }: TableOptions) {
  const indexes = [
    { index: CHILDREN_INDEX, hash: GSI1PK, range: GSI1SK, projection: "ALL" },
    { index: RESOURCE_INDEX, hash: GSI2PK, range: GSI2SK, projection: gsi2Projection },
    { index: ENTITY_INDEX, hash: GSI3PK, range: GSI3SK, projection: "KEYS_ONLY" },
    { index: NAMESPACE_INDEX, hash: GSI4PK, range: GSI4SK, projection: "KEYS_ONLY" },
  ] as const;
  const keys = [PK, SK, ...indexes.flatMap(({ hash, range }) => [hash, range])];
  return {
    TableName: name,
    BillingMode: "PAY_PER_REQUEST",
    AttributeDefinitions: keys.map((key) => ({ AttributeName: key, AttributeType: "S" })),
    KeySchema: keySchema(PK, SK),
    // No local ones: the original reserves five and uses none, and they would cap a partition at 10 GB.
    GlobalSecondaryIndexes: indexes.map(({ index, hash, range, projection }) => ({
      IndexName: index,
      KeySchema: keySchema(hash, range),
      Projection: { ProjectionType: projection },
    })),
    StreamSpecification: { StreamEnabled: true, StreamViewType: "NEW_AND_OLD_IMAGES" },
    DeletionProtectionEnabled: deletionProtection,
    Tags: Object.entries(tags).map(([Key, Value]) => ({ Key, Value })),
  };
}

function keySchema(hash: string, range: string) {
  return [
    { AttributeName: hash, KeyType: "HASH" },
    { AttributeName: range, KeyType: "RANGE" },
  ];
}
