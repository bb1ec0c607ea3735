import type { ServerTime } from "../../clock/server-time.ts";
import type { Calendar } from "../../domain/limits/calendar.ts";
import { RateLimiterUnavailable, VersionError } from "../../domain/names/errors.ts";
import type { BucketStore, Claim, TakeContext, TakeReply } from "../../ports/bucket-store.ts";
import type { BackgroundFault, ScopedStore, Store } from "../../ports/store.ts";
import type { Clock, Random } from "../../ports/system.ts";
import { ProtocolBuckets } from "../../protocol/buckets.ts";
import { ConfigReadings } from "../../protocol/config/config-readings.ts";
import { OWN } from "../../protocol/item/dialect.ts";
import { SHARED } from "../../protocol/shared/dialect.ts";
import type { HourCloser } from "../../protocol/usage/close-hours.ts";
import { DynamoAudit } from "./audit.ts";
import { AuditIds } from "./audit-id.ts";
import type { DynamoClient } from "./client.ts";
import { DynamoConfig } from "./config.ts";
import { ConfigPropagation } from "./config-propagation.ts";
import { ConfigReader, RecentChange } from "./config-reader.ts";
import { DynamoEntities } from "./entities.ts";
import { DynamoHierarchy } from "./entities-hierarchy.ts";
import { EntityRemoval } from "./entities-removal.ts";
import { DynamoItems } from "./items.ts";
import { OwnerStamps } from "./items-owner.ts";
import { DynamoLeases } from "./leases.ts";
import { DynamoManifests } from "./manifests.ts";
import { DynamoNamespaces } from "./namespaces.ts";
import { NamespaceWatch } from "./namespaces-record.ts";
import { DynamoPlans } from "./plans.ts";
import { Records } from "./records.ts";
import { DynamoRefusals } from "./refusals.ts";
import { configKey, namespaceIdKey, RESOURCE_INDEX } from "./schema.ts";
import { LiveBuckets } from "./store-buckets.ts";
import { projectionOf } from "./table-admin.ts";
import { failingFast } from "./unreachable.ts";
import { DynamoUsage } from "./usage.ts";
import { UsageKept } from "./usage-kept.ts";
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
  /** How long an image may refuse without asking, in ms; 0 = never. */
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

/** A store on an existing table. Makes nothing; where something is missing, the error says which call makes it. */
export async function openDynamo(options: DynamoStoreOptions): Promise<Store> {
  const { table: name, shared } = options;
  const records = recordsOf({ ...options, client: failingFast(options.client) }, options.adminTimeoutMs);
  checkVersion(await readVersion(records), { name, shared });
  if (shared) await requireWholeIndex(options);
  return dynamoOver(options);
}

/** The same on a table that was checked already. */
export function dynamoOver(options: DynamoStoreOptions): DynamoStore {
  const { client, table, clock, ids } = options;
  const records = recordsOf(options, options.adminTimeoutMs);
  const urgent = recordsOf(options, options.timeoutMs);
  const watch = new NamespaceWatch(clock);
  const auditIds = new AuditIds(clock, ids);
  const gate = new VersionGate(records, options.shared);
  const shared: SharedParts = { options, records, urgent, watch, gate, auditIds };
  const scopes = new Map<string, DynamoScope>();
  const scope = (namespaceId: string): DynamoScope => {
    const known = scopes.get(namespaceId) ?? scopeOf(namespaceId, shared);
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

interface SharedParts {
  readonly options: DynamoStoreOptions;
  readonly records: Records;
  readonly urgent: Records;
  readonly watch: NamespaceWatch;
  readonly gate: VersionGate;
  readonly auditIds: AuditIds;
}

interface DynamoScope extends ScopedStore {
  readonly audit: DynamoAudit;
  /** Brings the deletion of an entity to its end, if there is one under way. */
  finishDeletion(entityId: string): Promise<void>;
  /** For the sweep; undefined on a table shared with the original, where nothing is closed. */
  readonly hours: HourCloser | undefined;
  /** Calls back with what failed of the work in the background; the answer takes that back. */
  onFault(listener: (fault: BackgroundFault) => void): () => void;
  /** Resolves when no work goes on in the background any more: shards being made, answers that come late. */
  settled(): Promise<void>;
}

function scopeOf(namespaceId: string, parts: SharedParts): DynamoScope {
  const { options, records, urgent, watch, gate, auditIds } = parts;
  const { clock, ids, shared, settle } = options;
  const audit = new DynamoAudit(namespaceId, { records, ids: auditIds, clock });
  // One for each namespace: in another the same names are other buckets.
  const readings = new ConfigReadings();
  const recent = new RecentChange(clock);
  const kept = new UsageKept();
  const reader = new ConfigReader(namespaceId, {
    ...{ records, urgent, watch, audit, kept, readings, recent, clock, shared },
  });
  const owners = new OwnerStamps(namespaceId, { records: urgent, reader });
  const buckets = bucketsOf(namespaceId, parts, { audit, owners, readings, kept });
  const live = new LiveBuckets(records, namespaceId);
  const removal = new EntityRemoval(namespaceId, { records, live, forget: (bucket) => buckets.forget(bucket) });
  const hierarchy = new DynamoHierarchy(records, namespaceId);
  const propagation = new ConfigPropagation(namespaceId, {
    ...{ records, live, hierarchy, buckets, clock, shared, reader, recent, settle },
  });
  const config = new DynamoConfig(namespaceId, {
    ...{ records, watch, audit, removal, recent, reader, gate, propagation, shared },
    // On a table shared with the original, configuration counts only if it was read after the bucket.
    onFirstRead: (bucket) => (shared ? undefined : buckets.onFirstRead(bucket)),
  });
  return {
    buckets: activeOnly(buckets, gate, async () => {
      watch.requireActive(namespaceId, await records.get(namespaceIdKey(namespaceId)));
    }),
    config,
    entities: new DynamoEntities(namespaceId, {
      ...{ records, watch, audit, removal, recent, propagation, gate, ids, shared },
    }),
    plans: new DynamoPlans(namespaceId, { records, watch, audit, recent, shared }),
    // What the original's aggregator writes counts where the original takes too.
    usage: shared ? new DynamoUsage(records, namespaceId) : new SheetUsage(records, namespaceId, clock),
    refusals: new DynamoRefusals(namespaceId, { records, urgent, watch, kept }),
    audit,
    manifests: new DynamoManifests(namespaceId, { records, watch, shared }),
    leases: new DynamoLeases(urgent, namespaceId),
    finishDeletion: (entityId) => removal.finish(entityId),
    hours: shared
      ? undefined
      : {
          // Whoever only sweeps has read no configuration yet, and it may change between two sweeps.
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
  readonly kept: UsageKept;
}

function bucketsOf(
  namespaceId: string,
  { options, auditIds }: SharedParts,
  { audit, owners, readings, kept }: BucketParts,
): ProtocolBuckets {
  const { client, table, clock, random, calendar, coalesce, exact, shared, denyMemoryMs, adminTimeoutMs } = options;
  const items = new DynamoItems({
    ...{ client, tableName: table, namespaceId, clock, random },
    listTimeoutMs: adminTimeoutMs,
    auditIdOf: (event) => auditIds.of(event),
    // A getter: configuration may change it at any time.
    get auditKeptS() {
      return audit.keptS;
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

/** Purchases and resets are refused in a deleted namespace. Takes need no check: they read configuration, which fails then. */
function activeOnly(buckets: ProtocolBuckets, gate: VersionGate, requireActive: () => Promise<void>): BucketStore {
  return {
    take: (claims, context) =>
      gate.isToPass(claims) ? takeOnceOpen(buckets, gate, claims, context) : buckets.take(claims, context),
    debit: (held, amounts, context) => buckets.debit(held, amounts, context),
    credit: (held, amounts, context) => buckets.credit(held, amounts, context),
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

/** The first take of this process with limits beyond rates: they may come with the request, and then no configuration had them. */
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
  if ((await projectionOf(table, RESOURCE_INDEX, wait)) === "ALL") return;
  throw new VersionError(
    "index_projection",
    `The index ${RESOURCE_INDEX} of the table "${table}" has keys only, and the original reads whole items there; ` +
      'share a table whose index projects all (`createTable({ projection: "ALL" })`), or open it without `sharedTable`.',
  );
}
