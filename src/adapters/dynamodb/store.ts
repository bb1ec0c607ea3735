import type { ServerTime } from "../../clock/clock-bounds.ts";
import type { Calendar } from "../../domain/limits/schedule.ts";
import { RateLimiterUnavailable, VersionError } from "../../domain/names/errors.ts";
import type { BucketStore, Claim, TakeContext, TakeReply } from "../../ports/bucket-store.ts";
import type { BackgroundFault, ScopedStore, Store } from "../../ports/store.ts";
import type { Clock, Random } from "../../ports/system.ts";
import { ProtocolBuckets } from "../../protocol/buckets.ts";
import { ConfigReadings } from "../../protocol/config/config-readings.ts";
import { OWN } from "../../protocol/item/dialect.ts";
import { SHARED } from "../../protocol/shared/dialect.ts";
import type { HourCloser } from "../../protocol/usage/close-hours.ts";
import { AuditIds, DynamoAudit } from "./audit.ts";
import { DynamoCallers, DynamoRefusals } from "./book-rows.ts";
import type { DynamoClient } from "./client.ts";
import { DynamoConfig } from "./config.ts";
import { ConfigPropagation } from "./config-propagation.ts";
import { ConfigReader, RecentChange } from "./config-reader.ts";
import { dynamoCopies } from "./copies.ts";
import { DynamoEntities } from "./entities.ts";
import { finishRemoval } from "./entities-removal.ts";
import { DynamoItems } from "./items.ts";
import { OwnerStamps } from "./items-owner.ts";
import { DynamoLeases } from "./leases.ts";
import { DynamoManifests } from "./manifests.ts";
import type { NamespaceParts } from "./namespace-parts.ts";
import { DynamoNamespaces } from "./namespaces.ts";
import { NamespaceWatch } from "./namespaces-record.ts";
import { DynamoPlans } from "./plans.ts";
import { Records } from "./records.ts";
import { DynamoRefusalLog } from "./refusal-log.ts";
import { Retention } from "./retention.ts";
import { failingFast } from "./retry-policy.ts";
import { configKey, namespaceIdKey, RESOURCE_INDEX, USAGE_KEPT_DAYS } from "./schema.ts";
import { projectionOf } from "./table-admin.ts";
import { DynamoUsage } from "./usage.ts";
import { SheetUsage } from "./usage-sheets.ts";
import { checkVersion, readVersion } from "./version.ts";
import { VersionGate } from "./version-gate.ts";

export interface DynamoStoreOptions {
  /** Closed with the store. */
  readonly client: DynamoClient;
  readonly table: string;
  readonly calendar: Calendar;
  readonly clock: Clock;
  /** A number in [0, 1). */
  readonly random: () => number;
  readonly ids: Random;
  /** Join claims on one bucket that are under way together. */
  readonly coalesce: boolean;
  /** No tolerance at a full bucket: see docs/protocol.md. */
  readonly exact: boolean;
  /** The original writes to this table too. */
  readonly shared: boolean;
  /** The time in ms for which a cached image may refuse requests; 0: never. */
  readonly denyMemoryMs: number;
  /** Bound on reading configuration for a request, in ms. */
  readonly timeoutMs: number;
  /** Bound on reads and changes outside of requests, in ms. */
  readonly adminTimeoutMs: number;
  /**
   * Waits, by true time, until no request that was under way when access was switched can make a bucket any more, and the indexes
   * have caught up: a switch that turns something off returns after that.
   */
  readonly settle: () => Promise<void>;
  readonly serverTime: ServerTime;
}

export interface DynamoStore extends Store {
  scope(namespaceId: string): DynamoScope;
}

/** A store on an existing table. It creates nothing; errors name the call that creates what is missing. */
export async function openDynamo(options: DynamoStoreOptions): Promise<Store> {
  const { table: name, shared } = options;
  const records = recordsOf({ ...options, client: failingFast(options.client) }, options.adminTimeoutMs);
  checkVersion(await readVersion(records), { name, shared });
  if (shared) await requireWholeIndex(options);
  return dynamoOver(options);
}

/** A store on a table that was checked already. */
export function dynamoOver(options: DynamoStoreOptions): DynamoStore {
  const { client, table, clock, ids } = options;
  const records = recordsOf(options, options.adminTimeoutMs);
  const urgent = recordsOf(options, options.timeoutMs);
  const watch = new NamespaceWatch(clock);
  const auditIds = new AuditIds(clock, ids);
  const gate = new VersionGate(records, options.shared);
  const parts: TableParts = { options, records, urgent, watch, gate, auditIds };
  const scopes = new Map<string, DynamoScope>();
  const scope = (namespaceId: string): DynamoScope => {
    const known = scopes.get(namespaceId) ?? scopeOf(namespaceId, parts);
    scopes.set(namespaceId, known);
    return known;
  };
  return {
    name: `dynamodb:${table}`,
    atomicBucketsMax: (options.shared ? SHARED : OWN).atomicItemsMax,
    tellsThresholds: true,
    namespaces: new DynamoNamespaces({ records, watch, auditOf: (namespaceId) => scope(namespaceId).audit }),
    scope,
    onBackgroundFault: (namespaceId, listener) => scope(namespaceId).onFault(listener),
    ping: async () => {
      await readVersion(records);
    },
    close: async () => {
      await Promise.all([...scopes.values()].map(({ settled }) => settled()));
      await client.close();
    },
  };
}

interface TableParts {
  readonly options: DynamoStoreOptions;
  readonly records: Records;
  readonly urgent: Records;
  readonly watch: NamespaceWatch;
  readonly gate: VersionGate;
  readonly auditIds: AuditIds;
}

interface DynamoScope extends ScopedStore {
  readonly audit: DynamoAudit;
  /** Finishes the deletion of an entity, if one is under way. */
  finishDeletion(entityId: string): Promise<void>;
  /** For the sweep; undefined on a table shared with the original, where nothing is closed. */
  readonly hours: HourCloser | undefined;
  /** Registers a listener for failures of background work; the returned function removes it. */
  onFault(listener: (fault: BackgroundFault) => void): () => void;
  /** Resolves when no background work is left: shards being made, late answers. */
  settled(): Promise<void>;
}

function scopeOf(namespaceId: string, tableParts: TableParts): DynamoScope {
  const { options, records, urgent, watch, gate, auditIds } = tableParts;
  const { clock, ids, shared, settle } = options;
  const audit = new DynamoAudit(namespaceId, { records, ids: auditIds, clock });
  // One per namespace, because the same names are other buckets in another.
  const readings = new ConfigReadings();
  const recent = new RecentChange(clock);
  const kept = new Retention(USAGE_KEPT_DAYS);
  const base = { namespaceId, records, urgent, clock, ids, shared, watch, gate, audit, kept, recent, settle };
  const reader = new ConfigReader({ ...base, readings });
  const owners = new OwnerStamps(namespaceId, { records: urgent, reader });
  const buckets = bucketsOf(namespaceId, tableParts, { audit, owners, readings, kept });
  const parts: NamespaceParts = { ...base, reader, buckets };
  const propagation = new ConfigPropagation(parts);
  return {
    buckets: activeOnly(buckets, gate, async () => {
      watch.requireActive(namespaceId, await records.get(namespaceIdKey(namespaceId)));
    }),
    config: new DynamoConfig({ ...parts, propagation }),
    entities: new DynamoEntities({ ...parts, propagation }),
    plans: new DynamoPlans(parts),
    // On a shared table, usage is what the original's aggregator writes.
    usage: shared ? new DynamoUsage(parts) : new SheetUsage(parts),
    refusals: new DynamoRefusals(parts),
    refusalLog: new DynamoRefusalLog(parts),
    callers: new DynamoCallers(parts),
    audit,
    manifests: new DynamoManifests(parts),
    leases: new DynamoLeases(urgent, namespaceId),
    ...(shared ? {} : { copy: dynamoCopies(parts, options.calendar) }),
    finishDeletion: (entityId) => finishRemoval(parts, entityId),
    hours: shared
      ? undefined
      : {
          // A process that only sweeps has read no configuration, and it may change between two sweeps.
          close: async (shards, closing) => {
            kept.learn(await records.get(configKey(namespaceId, { level: "system" })));
            return buckets.closeHours(shards, closing);
          },
          joinIdle: (bucket, nowMs) => buckets.resize(bucket, "fewer", nowMs),
        },
    settled: () => buckets.settled(),
    onFault: (listener) => buckets.onFault(listener),
  };
}

interface BucketParts {
  readonly audit: DynamoAudit;
  readonly owners: OwnerStamps;
  readonly readings: ConfigReadings;
  readonly kept: Retention;
}

function bucketsOf(
  namespaceId: string,
  { options, auditIds }: TableParts,
  { audit, owners, readings, kept }: BucketParts,
): ProtocolBuckets {
  const { client, table, clock, random, calendar, coalesce, exact, shared, denyMemoryMs, adminTimeoutMs } = options;
  const items = new DynamoItems({
    ...{ client, tableName: table, namespaceId, clock, random },
    listTimeoutMs: adminTimeoutMs,
    auditIdOf: (event) => auditIds.of(event),
    // A getter, because configuration may change it.
    get auditKeptS() {
      return audit.retention.keptS;
    },
    // Only the original reads owners from the items.
    ...(shared ? { owners } : {}),
  });
  return new ProtocolBuckets({
    ...{ items, calendar, clock, random, readings, coalesce, exact, denyMemoryMs },
    dialect: shared ? SHARED : OWN,
    serverTime: options.serverTime,
    usageKeptS: () => kept.keptS,
    bucketsMax: 20_000,
  });
}

/** Refuses purchases and resets in a deleted namespace. Takes need no check: they read configuration, which fails then. */
function activeOnly(buckets: ProtocolBuckets, gate: VersionGate, requireActive: () => Promise<void>): BucketStore {
  return {
    take: (claims, context) =>
      gate.isToPass(claims) ? takeOnceOpen(buckets, gate, claims, context) : buckets.take(claims, context),
    debit: (held, amounts, context) => buckets.debit(held, amounts, context),
    credit: (held, amounts, context) => buckets.credit(held, amounts, context),
    refund: (of, amounts, context) => buckets.refund(of, amounts, context),
    renew: (held, amounts, context) => buckets.renew(held, amounts, context),
    topUp: async (operation, amounts) => {
      await requireActive();
      return buckets.topUp(operation, amounts);
    },
    reset: async (operation, limits) => {
      await requireActive();
      return buckets.reset(operation, limits);
    },
    watchReturns: (listener) => buckets.watchReturns(listener),
    watchThresholds: (listener) => buckets.watchThresholds(listener),
    thresholdsTold: () => buckets.thresholdsTold(),
    read: (keys) => buckets.read(keys),
    listKeys: (owner, page) => buckets.listKeys(owner, page),
    listByResource: (resource, page) => buckets.listByResource(resource, page),
  };
}

/** The first take of this process with limits beyond rates, which may come with the request instead of configuration. */
async function takeOnceOpen(
  buckets: ProtocolBuckets,
  gate: VersionGate,
  claims: readonly Claim[],
  context: TakeContext,
): Promise<TakeReply> {
  try {
    await gate.demandBeyondRates();
  } catch (cause) {
    if (!(cause instanceof RateLimiterUnavailable)) throw cause;
    return claims.map(() => ({ kind: "unavailable", cause }));
  }
  return buckets.take(claims, context);
}

function recordsOf(options: DynamoStoreOptions, timeoutMs: number): Records {
  const { client, table, clock, random, ids } = options;
  return new Records({ client, tableName: table, clock, random, ids, timeoutMs });
}

async function requireWholeIndex({ client, table, clock, adminTimeoutMs }: DynamoStoreOptions): Promise<void> {
  const wait = { client, clock, timeoutMs: adminTimeoutMs };
  if ((await projectionOf(table, RESOURCE_INDEX.name, wait)) === "ALL") return;
  throw new VersionError(
    "index_projection",
    `The index ${RESOURCE_INDEX.name} of the table "${table}" has keys only, and the original reads whole items there; ` +
      'share a table whose index projects all (`createTable({ projection: "ALL" })`), or open it without `sharedTable`.',
  );
}
