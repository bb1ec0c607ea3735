import { type BucketKey, bucketKey } from "../../domain/bucket/bucket-key.ts";
import type { UsageWindow } from "../../domain/charge/usage.ts";
import { type ConfigScope, isTotal } from "../../domain/config/config.ts";
import type { ItemKey } from "../../ports/item-store.ts";
import {
  ENTITY_ID,
  GSI1PK,
  GSI1SK,
  GSI2PK,
  GSI2SK,
  GSI3PK,
  GSI3SK,
  GSI4PK,
  GSI4SK,
  REGISTRY,
  RESOURCE,
} from "./schema-names.ts";

// Keys, attribute names and units of the table shared with the original are defined only here.
export * from "./schema-names.ts";

export interface TableKey {
  readonly pk: string;
  readonly sk: string;
}

/** The keys of an item in the indexes it is in. */
export type IndexKeys = Readonly<Record<string, string>>;

/** Sort keys from one to another, both ends included. */
export interface KeySpan {
  readonly from: string;
  readonly to: string;
}

export const STATE_SK = "#STATE";
export const META_SK = "#META";
const OPERATION_SK = "#OP#";
const CONFIG_SK = "#CONFIG";
const USAGE_SK = "#USAGE#";
const AUDIT_SK = "#AUDIT#";
const MEMBER_SK = "#ENTITY#";
/** Totals, in the partition of their entity, their plan or the system. */
const TOTAL_SK = "#TOTAL";
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

/**
 * Entities that are being deleted have their own prefix in the index of the namespace, so that they are found without
 * reading all.
 */
export function deletingKeys(entityId: string): IndexKeys {
  return { [GSI4SK]: `${DELETING_PREFIX}${entityId}` };
}

export const DELETING_PREFIX = "DELETING#";

export function planPk(namespaceId: string, planId: string): string {
  return `${namespaceId}/PLAN#${planId}`;
}

export function planKey(namespaceId: string, planId: string): TableKey {
  return { pk: planPk(namespaceId, planId), sk: META_SK };
}

/** The record of an entity beside its plan, because an index would lag. */
export function planMemberKey(namespaceId: string, planId: string, entityId: string): TableKey {
  return { pk: planPk(namespaceId, planId), sk: `${MEMBER_SK}${entityId}` };
}

/** Members have their own prefix in the index of the namespace, so that a list of plans does not read all entities. */
export function planMemberIndexKeys(namespaceId: string, planId: string, entityId: string): IndexKeys {
  return { [GSI4PK]: namespaceId, [GSI4SK]: `PLAN_ENTITY#${planId}#${entityId}` };
}

/** The range of sort keys of the entities of a plan after this one. */
export function planMemberRange(after: string | undefined): KeySpan {
  // `!` sorts before every character of an id, `$` right after the `#` before it.
  return { from: after === undefined ? MEMBER_SK : `${MEMBER_SK}${after}!`, to: "#ENTITY$" };
}

/** Parses the entity's id from the sort key of `planMemberKey`. */
export function parseMemberSk(sk: string): string {
  return sk.slice(MEMBER_SK.length);
}

export function configKey(namespaceId: string, scope: ConfigScope): TableKey {
  if ("entityId" in scope) return { pk: entityPk(namespaceId, scope.entityId), sk: ownedConfigSk(scope) };
  if ("planId" in scope) return { pk: planPk(namespaceId, scope.planId), sk: ownedConfigSk(scope) };
  if (scope.level === "resource") return { pk: resourcePk(namespaceId, scope.resource), sk: CONFIG_SK };
  return { pk: systemPk(namespaceId), sk: scope.level === "systemTotal" ? TOTAL_SK : CONFIG_SK };
}

function ownedConfigSk(scope: ConfigScope): string {
  if (isTotal(scope)) return TOTAL_SK;
  return `${CONFIG_SK}#${"resource" in scope ? scope.resource : DEFAULT_RESOURCE}`;
}

/** The key of the entity or plan that a scope belongs to. */
export function configOwnerKeys(namespaceId: string, scope: ConfigScope): readonly TableKey[] {
  if ("planId" in scope) return [planKey(namespaceId, scope.planId)];
  return "entityId" in scope ? [entityKey(namespaceId, scope.entityId)] : [];
}

export function configIndexKeys(namespaceId: string, scope: ConfigScope): IndexKeys {
  const own = wholePartition(namespaceId, configKey(namespaceId, scope).pk);
  const resource = configResource(scope);
  if (resource === undefined || !("entityId" in scope)) return own;
  return { ...own, [GSI3PK]: entityConfigsPk(namespaceId, resource), [GSI3SK]: scope.entityId };
}

/** The resource attribute of a configuration item: the original has a name for an entity's default too. */
export function configResource(scope: ConfigScope): string | undefined {
  if (scope.level === "entityDefault") return DEFAULT_RESOURCE;
  return scope.level === "entity" || scope.level === "resource" ? scope.resource : undefined;
}

/** The partition of the entity index with the entities that have their own configuration for a resource. */
export function entityConfigsPk(namespaceId: string, resource: string): string {
  return `${namespaceId}/ENTITY_CONFIG#${resource}`;
}

/** The key of a shard's item, of an operation's record beside shard 0, or of a sheet of usage beside its shard. */
export function itemTableKey(namespaceId: string, { bucket, shard, operation, sheet }: ItemKey): TableKey {
  const pk = bucketPk(namespaceId, bucket, shard);
  if (sheet !== undefined) return { pk, sk: sheetSk(sheet) };
  return { pk, sk: operation === undefined ? STATE_SK : `${OPERATION_SK}${operation}` };
}

/** The attributes of an item of a bucket that follow from its key. */
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

/** The prefix of an entity's sheets in the index of the namespace, on one resource or on all. */
export function sheetPrefix(entityId: string, resource: string | undefined): string {
  return resource === undefined ? `SHEET#${entityId}#` : `SHEET#${entityId}#${resource}#`;
}

/**
 * The sort key in the resource index. `#` sorts before every character of an entity id, so these are in the order of
 * the ids.
 */
export function resourceBucketSk(entityId: string, shard: number): string {
  return `BUCKET#${entityId}#${shard}`;
}

/** The range of sort keys of the resource index after an entity; undefined: all. */
export function resourceBucketRange(after: string | undefined): KeySpan {
  // `$` follows `#`, and is in no id.
  return { from: after === undefined ? "BUCKET#" : `BUCKET#${after}$`, to: "BUCKET$" };
}

/**
 * Hours, days and months begin together at midnight. The original lets them overwrite each other; here days and months
 * have their name appended. The original finds usage by prefix, and takes the window from the attributes.
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

/** The prefix of sort keys of usage, of one resource or of all. */
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

/** `auditId` sorts by time, as the original's ULID does. */
export function auditKey(namespaceId: string, entityId: string, auditId: string): TableKey {
  return { pk: auditPk(namespaceId, entityId), sk: `${AUDIT_SK}${auditId}` };
}

export function auditIndexKeys(namespaceId: string, entityId: string): IndexKeys {
  return wholePartition(namespaceId, auditPk(namespaceId, entityId));
}

/** A record of a namespace's own partition. */
const systemKey =
  (sk: string) =>
  (namespaceId: string): TableKey => ({ pk: systemPk(namespaceId), sk });

export const resourceRegistryKey = systemKey("#RESOURCES");
/** The number of entities with their own configuration, by resource name. */
export const entityConfigRegistryKey = systemKey("#ENTITY_CONFIG_RESOURCES");
export const provisionerKey = systemKey("#PROVISIONER");
/** The sweeps' record of the usage of a namespace. */
export const usageStateKey = systemKey("#USAGE");

/** The record of a declared piece of configuration and its owner. */
export function ownedKey(namespaceId: string, piece: string): TableKey {
  return { pk: systemPk(namespaceId), sk: `${OWNED_PREFIX}${piece}` };
}

export const OWNED_PREFIX = "#OWNED#";

/** The record of an owner's last apply. */
export function ownerKey(namespaceId: string, owner: string): TableKey {
  return { pk: systemPk(namespaceId), sk: `#OWNER#${owner}` };
}

export function versionKey(): TableKey {
  return { pk: systemPk(REGISTRY), sk: "#VERSION" };
}

/** The version record of layouts without namespaces, before 0.9. */
export function oldVersionKey(): TableKey {
  return { pk: "SYSTEM#", sk: "#VERSION" };
}

export function namespaceNameKey(name: string): TableKey {
  return { pk: systemPk(REGISTRY), sk: `#NAMESPACE#${name}` };
}

export function namespaceIdKey(namespaceId: string): TableKey {
  return { pk: systemPk(REGISTRY), sk: `#NSID#${namespaceId}` };
}

/** The index keys of registries, of the version record and (with `REGISTRY`) of namespaces. */
export function systemIndexKeys(namespaceId: string): IndexKeys {
  return wholePartition(namespaceId, systemPk(namespaceId));
}

// All items of a partition have its key as sort key in the index of the namespace.
function wholePartition(namespaceId: string, pk: string): IndexKeys {
  return { [GSI4PK]: namespaceId, [GSI4SK]: pk };
}

/** The end of the year 9999, the last with four digits. */
const LAST_MS = 253_402_300_799_000;

/** The nearest instant that keys have room for: from 1970 to the end of 9999. */
export function inCalendar(atMs: number): number {
  return Math.min(Math.max(atMs, 0), LAST_MS);
}

/** An instant as the table writes it: UTC, whole seconds. */
export function isoSeconds(atMs: number): string {
  return `${new Date(atMs).toISOString().slice(0, 19)}Z`;
}

/** The namespace of a partition key; undefined for a key that is not ours. Resources may have a slash too. */
export function namespaceOf(pk: string): string | undefined {
  const slash = pk.indexOf("/");
  return slash < 1 ? undefined : pk.slice(0, slash);
}

/** Parses the key of a shard's item, an operation's record or a sheet; undefined for another kind of item. */
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

export function parseResourceBucketSk(sk: string): { readonly entityId: string; readonly shard: number } | undefined {
  const match = /^BUCKET#([^#]+)#(\d+)$/.exec(sk);
  return match === null ? undefined : { entityId: match[1] as string, shard: Number(match[2]) };
}

/** Parses the child's id from a sort key of the children index. */
export function parseChildSk(sk: string): string | undefined {
  return sk.startsWith("CHILD#") ? sk.slice("CHILD#".length) : undefined;
}

/** Parses a sort key of usage. The window is in the item's attributes. */
export function parseUsageSk(sk: string): { readonly resource: string; readonly windowStart: string } | undefined {
  const match = /^#USAGE#([^#]+)#([^#]+)(?:#[a-z]+)?$/.exec(sk);
  return match === null ? undefined : { resource: match[1] as string, windowStart: match[2] as string };
}

/** Parses the scope from the key of a configuration item. */
export function parseConfigKey({ pk, sk }: TableKey): ConfigScope | undefined {
  const namespaceId = namespaceOf(pk);
  if (namespaceId === undefined || !(sk.startsWith(CONFIG_SK) || sk === TOTAL_SK)) return undefined;
  const owner = pk.slice(namespaceId.length + 1);
  const isOfAll = sk === TOTAL_SK;
  const resource = isOfAll ? "" : sk.slice(CONFIG_SK.length + 1);
  const isDefault = resource === DEFAULT_RESOURCE;
  if (owner.startsWith("ENTITY#")) {
    const entityId = owner.slice("ENTITY#".length);
    if (isOfAll) return { level: "entityTotal", entityId };
    if (resource === "") return undefined;
    return isDefault ? { level: "entityDefault", entityId } : { level: "entity", entityId, resource };
  }
  if (owner.startsWith("PLAN#")) {
    const planId = owner.slice("PLAN#".length);
    if (isOfAll) return { level: "planTotal", planId };
    if (resource === "") return undefined;
    return isDefault ? { level: "planDefault", planId } : { level: "plan", planId, resource };
  }
  if (owner === "SYSTEM#" && isOfAll) return { level: "systemTotal" };
  if (sk !== CONFIG_SK) return undefined;
  if (owner.startsWith("RESOURCE#")) return { level: "resource", resource: owner.slice("RESOURCE#".length) };
  return owner === "SYSTEM#" ? { level: "system" } : undefined;
}
