import type { Attributes, AttributeValue } from "../adapters/dynamodb/codec.ts";
import { configIdentity, hasLimits, isKeyAttribute } from "../adapters/dynamodb/config-codec.ts";
import { childLinkItem, childLinkKey, entityOf } from "../adapters/dynamodb/entities-record.ts";
import { groupedBy } from "../adapters/dynamodb/paging.ts";
import { keyIn, texts } from "../adapters/dynamodb/records-write.ts";
import {
  auditIndexKeys,
  auditKey,
  CASCADE,
  CONFIG_VERSION,
  configKey,
  configNamesOf,
  ENTITY_ID,
  entityIndexKeys,
  entityKey,
  PARENT_ID,
  provisionerKey,
  systemIndexKeys,
  TTL,
} from "../adapters/dynamodb/schema.ts";
import type { ConfigScope } from "../domain/config/config.ts";
import type { Calendar } from "../domain/limits/schedule.ts";
import { given } from "../domain/names/given.ts";
import { flattened, isNested, type OldItem, oldItemOf, type Partition, unreadable, wholeIn } from "./old-items.ts";
import { limitOfItem, limitsOfItem, type OldBucket, planBucket } from "./plan-bucket.ts";
import { planUsage } from "./plan-usage.ts";
import {
  type ConfigOf,
  type ItemChange,
  type NewItem,
  newItemOf,
  type PartitionPlan,
  type StepCounts,
} from "./planned.ts";

/** The facts that planning needs besides the items. It reads no clock, so the same items always become the same. */
interface PlanContext {
  /** The id of the namespace for what has none. */
  readonly defaultNamespaceId: string;
  readonly calendar: Calendar;
  readonly startedMs: number;
}

interface Seen {
  readonly item: Attributes;
  readonly raw: Attributes;
  readonly is: OldItem;
}

export function planPartition(partition: Partition, items: readonly Attributes[], context: PlanContext): PartitionPlan {
  const seen = items.map((raw): Seen => {
    const item = flattened(raw);
    return { raw, item, is: oldItemOf(partition, item) };
  });
  const namespaceId = partition.namespaceId ?? context.defaultNamespaceId;
  const isBare = partition.namespaceId === undefined;
  const moves = partition.kind === "entity" ? movesIn(partition.name, seen, namespaceId, context) : [];
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
    // Configurations are counted at their new place.
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

/** Usage is kept for this long after its day by default. */
const USAGE_KEPT_S = 90 * 86_400;
/** Migrated items are kept at least this long, so that the migration can end and its result can be checked. */
const KEPT_S = 7 * 86_400;

/** Moves the buckets and the usage of an entity to their new places. */
function movesIn(
  entityId: string,
  seen: readonly Seen[],
  namespaceId: string,
  { calendar, startedMs }: PlanContext,
): readonly NewItem[] {
  const keptUntilS = Math.ceil(startedMs / 1000) + KEPT_S;
  const own = seen.filter(({ is }) => is.kind === "bucket" || is.kind === "limitBucket");
  const buckets = [...groupedBy(own, resourceIn)].flatMap(([resource, items]) => {
    const bucket = oldBucketOf(items);
    if (bucket.limits.length === 0) return [];
    const owner = ownerIn(seen);
    return [planBucket({ entityId, resource, owner, ...bucket }, { namespaceId, calendar, keptUntilS })];
  });
  const usage = seen.flatMap(({ is, item }) =>
    is.kind === "usage" ? [{ resource: is.resource, start: is.start, item }] : [],
  );
  const kept = { namespaceId, startedMs, keptS: USAGE_KEPT_S, keptUntilS };
  return [...buckets, ...planUsage(entityId, usage, kept)];
}

function oldBucketOf(items: readonly Seen[]): Pick<OldBucket, "limits" | "ttlS"> {
  // Items of single limits beside a newer one of all limits are left over from before it.
  const whole = items.find(({ is }) => is.kind === "bucket");
  const limits =
    whole === undefined
      ? items.map(({ item, is }) => limitOfItem(item, "limit" in is ? is.limit : ""))
      : limitsOfItem(whole.item);
  const ttls = items.flatMap(({ item }) => item[TTL]?.N ?? []).map(Number);
  return { limits, ttlS: ttls.length === items.length ? Math.max(...ttls) : undefined };
}

function resourceIn({ is }: Seen): string {
  return "resource" in is ? (is.resource ?? "") : "";
}

/** Makes the attributes of the entity that the original writes on a bucket. */
function ownerIn(seen: readonly Seen[]): Attributes {
  const meta = seen.find(({ is }) => is.kind === "meta")?.item;
  const parentId = meta?.[PARENT_ID]?.S;
  return { [CASCADE]: { BOOL: meta?.[CASCADE]?.BOOL ?? false }, ...texts(given({ [PARENT_ID]: parentId })) };
}

interface Level {
  readonly scope: ConfigScope;
  readonly composite: Seen | undefined;
  readonly limits: readonly OldConfigLimit[];
}

function levelsIn(partition: Partition, seen: readonly Seen[]): readonly Level[] {
  const own = seen.filter(({ is }) => is.kind === "config" || is.kind === "limit");
  return [...groupedBy(own, resourceIn)].map(([resource, items]) => ({
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

/** Entities are counted by their items; resources are listed if they have limits. */
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

/** Makes the links from a parent to its children. */
function linksIn(seen: readonly Seen[], namespaceId: string): readonly NewItem[] {
  const entity = entityOf(seen.find(({ is }) => is.kind === "meta")?.item);
  if (entity?.parentId === undefined) return [];
  const { id, parentId } = entity;
  return [newItemOf(childLinkKey(namespaceId, parentId, id), childLinkItem(namespaceId, parentId))];
}

/** Moves records that only get another key. */
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
  // The original's provisioner writes no version; without one the item would not count as registered.
  const version = { [CONFIG_VERSION]: item[CONFIG_VERSION] ?? { N: "1" } };
  const wanted = { ...withoutBurst(item), ...configIdentity({ namespaceId, scope }), ...version };
  return changed(item, wanted, burstNames(item));
}

function changedRecord({ name }: Partition, { item, is }: Seen, namespaceId: string): readonly ItemChange[] {
  switch (is.kind) {
    case "meta":
      // An entity that is being deleted has another place in the index, by which it is found.
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

/** One limit of a level in an item of its own. */
interface OldConfigLimit {
  readonly limit: string;
  readonly item: Attributes;
}

/** Plans one item for the limits of a level: from `composite` if it has limits, else from the items of single limits. */
function planConfig(
  namespaceId: string,
  scope: ConfigScope,
  composite: Attributes | undefined,
  limits: readonly OldConfigLimit[],
): NewItem {
  const own = composite === undefined ? {} : withoutBurst(withoutKeys(composite));
  const attributes = {
    ...own,
    ...(hasLimits(own) ? {} : Object.assign({}, ...limits.map(limitAttributes))),
    ...configIdentity({ namespaceId, scope }),
    [CONFIG_VERSION]: own[CONFIG_VERSION] ?? { N: "1" },
  };
  return newItemOf(configKey(namespaceId, scope), attributes);
}

/** Makes the burst the capacity: in old items the capacity was the rate, and the burst was what may be held. */
function withoutBurst(item: Attributes): Attributes {
  const entries = Object.entries(item).filter(([name]) => !BURST.test(name));
  const bursts = Object.entries(item).flatMap(([name, value]): [string, AttributeValue][] => {
    const [, limit] = BURST.exec(name) ?? [];
    return limit === undefined ? [] : [[`l_${limit}_cp`, value]];
  });
  return { ...Object.fromEntries(entries), ...Object.fromEntries(bursts) };
}

function burstNames(item: Attributes): readonly string[] {
  return Object.keys(item).filter((name) => BURST.test(name));
}

const BURST = /^l_(.+)_bx$/;

function withoutKeys(item: Attributes): Attributes {
  return Object.fromEntries(Object.entries(item).filter(([name]) => !isKeyAttribute(name)));
}

function limitAttributes({ limit, item }: OldConfigLimit): Attributes {
  const names = configNamesOf(limit, "l");
  const numbers = {
    [names.cp]: wholeIn(item, Number(item.burst?.N) > 0 ? "burst" : "capacity"),
    [names.ra]: wholeIn(item, "refill_amount"),
    [names.rp]: wholeIn(item, "refill_period_seconds"),
  };
  if (Object.values(numbers).some((value) => value <= 0)) {
    throw unreadable(item, `its limit "${limit}" has no capacity, refill or period`);
  }
  return Object.fromEntries(Object.entries(numbers).map(([name, value]) => [name, { N: String(value) }]));
}
