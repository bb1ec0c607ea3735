import type { Attributes } from "../adapters/dynamodb/codec.ts";
import { hasLimits } from "../adapters/dynamodb/config-codec.ts";
import { childLinkItem, childLinkKey, entityOf } from "../adapters/dynamodb/entities-record.ts";
import { keyIn, texts } from "../adapters/dynamodb/records-write.ts";
import {
  auditIndexKeys,
  auditKey,
  CASCADE,
  CONFIG_VERSION,
  ENTITY_ID,
  entityIndexKeys,
  entityKey,
  PARENT_ID,
  provisionerKey,
  systemIndexKeys,
  TTL,
} from "../adapters/dynamodb/schema.ts";
import type { ConfigScope } from "../domain/config/config.ts";
import type { Calendar } from "../domain/limits/calendar.ts";
import { flattened, isNested, type OldItem, oldItemOf, type Partition } from "./old-items.ts";
import { limitOfItem, limitsOfItem, type OldBucket, planBucket } from "./plan-bucket.ts";
import { burstNames, identityOf, planConfig, withoutBurst } from "./plan-config.ts";
import { planUsage } from "./plan-usage.ts";
import {
  type ConfigOf,
  groupedBy,
  type ItemChange,
  type NewItem,
  newItemOf,
  type PartitionPlan,
  type StepCounts,
} from "./planned.ts";

/** What planning needs besides the items: it depends on no clock, so that the same items always become the same. */
interface PlanContext {
  /** The id of the namespace for what has none. */
  readonly defaultNamespaceId: string;
  readonly calendar: Calendar;
  /** When the migration began. */
  readonly startedMs: number;
}

interface Seen {
  readonly item: Attributes;
  readonly raw: Attributes;
  readonly is: OldItem;
}

/** What becomes of the items of one partition, all of them. */
export function planPartition(partition: Partition, items: readonly Attributes[], context: PlanContext): PartitionPlan {
  const seen = items.map((raw): Seen => {
    const item = flattened(raw);
    return { raw, item, is: oldItemOf(partition, item) };
  });
  const namespaceId = partition.namespaceId ?? context.defaultNamespaceId;
  const isBare = partition.namespaceId === undefined;
  const moves = [
    ...bucketsIn(partition, seen, namespaceId, context),
    ...usageIn(partition, seen, namespaceId, context),
  ];
  const levels = levelsIn(partition, seen);
  const links = linksIn(seen, namespaceId);
  if (isBare) {
    const makes = [
      ...moves,
      ...links,
      ...levels.map(({ scope, composite, limits }) => planConfig(namespaceId, scope, composite?.item, limits)),
      ...seen.flatMap((each) => movedRecord(partition, each, namespaceId)),
    ];
    const removes = seen.filter(({ is }) => is.kind !== "unknown").map(({ raw }) => keyIn(raw));
    // Configurations are counted where they are copied to.
    return { makes, removes, changes: [], configs: [], counts: countsOf(seen, isBare, 0) };
  }
  const lacking = levels.filter(({ composite }) => composite === undefined);
  const changes = [
    ...levels.flatMap((level) => changedLevel(level, namespaceId)),
    ...seen.flatMap((each) => changedRecord(partition, each, namespaceId)),
  ];
  const gone = seen.filter(({ is }) => ["limit", "limitBucket", "bucket", "usage", "version"].includes(is.kind));
  return {
    makes: [
      ...moves,
      ...links,
      ...lacking.map(({ scope, limits }) => planConfig(namespaceId, scope, undefined, limits)),
    ],
    removes: gone.map(({ raw }) => keyIn(raw)),
    changes,
    configs: levels.flatMap((level) => configOf(namespaceId, level)),
    counts: countsOf(seen, isBare, changes.length),
  };
}

/** Usage is kept for so long after its day, where nothing else is configured. */
const USAGE_KEPT_S = 90 * 86_400;
/** However old something is: the migration has so long to be ended, and somebody to look at what became of it. */
const KEPT_S = 7 * 86_400;

function bucketsIn(
  { kind, name: entityId }: Partition,
  seen: readonly Seen[],
  namespaceId: string,
  { calendar, startedMs }: PlanContext,
): readonly NewItem[] {
  if (kind !== "entity") return [];
  const byResource = groupedBy(
    seen.filter(({ is }) => is.kind === "bucket" || is.kind === "limitBucket"),
    ({ is }) => ("resource" in is ? (is.resource ?? "") : ""),
  );
  const keptUntilS = Math.ceil(startedMs / 1000) + KEPT_S;
  return [...byResource].flatMap(([resource, own]) => {
    // Items of single limits beside a newer one of all limits were left over.
    const whole = own.find(({ is }) => is.kind === "bucket");
    const limits =
      whole === undefined
        ? own.map(({ item, is }) => limitOfItem(item, "limit" in is ? is.limit : ""))
        : limitsOfItem(whole.item);
    if (limits.length === 0) return [];
    const ttls = own.flatMap(({ item }) => item[TTL]?.N ?? []).map(Number);
    const bucket: OldBucket = {
      ...{ entityId, resource, limits, owner: ownerIn(seen) },
      ttlS: ttls.length === own.length ? Math.max(...ttls) : undefined,
    };
    return [planBucket(bucket, { namespaceId, calendar, keptUntilS })];
  });
}

function usageIn(
  { kind, name: entityId }: Partition,
  seen: readonly Seen[],
  namespaceId: string,
  { startedMs }: PlanContext,
): readonly NewItem[] {
  if (kind !== "entity") return [];
  const usage = seen.flatMap(({ is, item }) =>
    is.kind === "usage" ? [{ resource: is.resource, start: is.start, item }] : [],
  );
  const keptUntilS = Math.ceil(startedMs / 1000) + KEPT_S;
  return planUsage(entityId, usage, { namespaceId, startedMs, keptS: USAGE_KEPT_S, keptUntilS });
}

/** As the original writes it on a bucket. */
function ownerIn(seen: readonly Seen[]): Attributes {
  const meta = seen.find(({ is }) => is.kind === "meta")?.item;
  const parentId = meta?.[PARENT_ID]?.S;
  return {
    [CASCADE]: { BOOL: meta?.[CASCADE]?.BOOL ?? false },
    ...(parentId === undefined ? {} : { [PARENT_ID]: { S: parentId } }),
  };
}

interface Level {
  readonly scope: ConfigScope;
  readonly composite: Seen | undefined;
  readonly limits: readonly { readonly limit: string; readonly item: Attributes }[];
}

function levelsIn(partition: Partition, seen: readonly Seen[]): readonly Level[] {
  const own = seen.filter(({ is }) => is.kind === "config" || is.kind === "limit");
  const byResource = groupedBy(own, ({ is }) => ("resource" in is ? (is.resource ?? "") : ""));
  return [...byResource].map(([resource, items]) => ({
    scope: scopeOf(partition, resource),
    composite: items.find(({ is }) => is.kind === "config"),
    limits: items.flatMap(({ is, item }) => (is.kind === "limit" ? [{ limit: is.limit, item }] : [])),
  }));
}

function scopeOf({ kind, name }: Partition, resource: string): ConfigScope {
  if (kind === "system") return { level: "system" };
  if (kind === "resource") return { level: "resource", resource: name };
  return resource === "_default_"
    ? { level: "entityDefault", entityId: name }
    : { level: "entity", entityId: name, resource };
}

/** Entities are counted by their items, resources are listed where they have limits. */
function configOf(namespaceId: string, { scope, composite, limits }: Level): readonly ConfigOf[] {
  switch (scope.level) {
    case "resource":
      return limits.length > 0 || hasLimits(composite?.item)
        ? [{ namespaceId, resource: scope.resource, of: "resource" }]
        : [];
    case "entity":
      return [{ namespaceId, resource: scope.resource, of: "entity" }];
    case "entityDefault":
      return [{ namespaceId, resource: "_default_", of: "entity" }];
    default:
      return [];
  }
}

/** Beside each parent: who its children are. */
function linksIn(seen: readonly Seen[], namespaceId: string): readonly NewItem[] {
  const entity = entityOf(seen.find(({ is }) => is.kind === "meta")?.item);
  if (entity?.parentId === undefined) return [];
  const { id, parentId } = entity;
  return [newItemOf(childLinkKey(namespaceId, parentId, id), childLinkItem(namespaceId, parentId))];
}

/** The records that only get another key. */
function movedRecord({ name }: Partition, { item, is }: Seen, namespaceId: string): readonly NewItem[] {
  switch (is.kind) {
    case "meta":
      return [newItemOf(entityKey(namespaceId, name), { ...item, ...metaKeys(item, name, namespaceId) })];
    case "audit": {
      const { sk } = keyIn(item);
      const key = auditKey(namespaceId, name, sk.slice("#AUDIT#".length));
      return [newItemOf(key, { ...item, ...texts(auditIndexKeys(namespaceId, name)) })];
    }
    case "provisioner":
      return [newItemOf(provisionerKey(namespaceId), { ...item, ...texts(systemIndexKeys(namespaceId)) })];
    default:
      return [];
  }
}

function metaKeys(item: Attributes, entityId: string, namespaceId: string): Attributes {
  return texts({ [ENTITY_ID]: entityId, ...entityIndexKeys(namespaceId, entityId, item[PARENT_ID]?.S) });
}

function changedLevel({ scope, composite }: Level, namespaceId: string): readonly ItemChange[] {
  if (composite === undefined) return [];
  const { item } = composite;
  // Without a version the item would not count as registered: the original's provisioner leaves it out.
  const version = { [CONFIG_VERSION]: item[CONFIG_VERSION] ?? { N: "1" } };
  const wanted = { ...withoutBurst(item), ...identityOf(namespaceId, scope), ...version };
  return changed(item, wanted, burstNames(item));
}

function changedRecord({ name }: Partition, { item, is }: Seen, namespaceId: string): readonly ItemChange[] {
  switch (is.kind) {
    case "meta":
      // An entity that is being deleted stands elsewhere in the index, so that it is found.
      return entityOf(item) === undefined ? [] : changed(item, metaKeys(item, name, namespaceId), []);
    case "audit":
      return changed(item, texts(auditIndexKeys(namespaceId, name)), []);
    case "provisioner":
    case "registry":
      return changed(item, texts(systemIndexKeys(namespaceId)), []);
    default:
      return [];
  }
}

function changed(item: Attributes, wanted: Attributes, remove: readonly string[]): readonly ItemChange[] {
  const set = Object.fromEntries(
    Object.entries(wanted).filter(([name, value]) => JSON.stringify(item[name]) !== JSON.stringify(value)),
  );
  return Object.keys(set).length === 0 && remove.length === 0 ? [] : [{ key: keyIn(item), set, remove }];
}

function countsOf(seen: readonly Seen[], isBare: boolean, changes: number): StepCounts {
  const count = (holds: (each: Seen) => boolean) => seen.filter(holds).length;
  return {
    limits: count(({ raw, is }) => is.kind === "limit" || is.kind === "limitBucket" || isNested(raw)),
    namespaces: isBare ? count(({ is }) => is.kind !== "unknown") : 0,
    buckets: count(({ is }) => is.kind === "limitBucket" || is.kind === "bucket" || is.kind === "usage"),
    changes,
  };
}
