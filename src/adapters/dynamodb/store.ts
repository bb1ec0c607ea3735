import type { Calendar } from "../../domain/calendar.ts";
import { VersionError } from "../../domain/errors.ts";
import type { BucketStore } from "../../ports/bucket-store.ts";
import type { ScopedStore, Store } from "../../ports/store.ts";
import type { Clock, Random } from "../../ports/system.ts";
import { ProtocolBuckets } from "../../protocol/buckets.ts";
import { ConfigReadings } from "../../protocol/config-readings.ts";
import { ALL_RULES, type Rules } from "../../protocol/rules.ts";
import type { ServerTime } from "../../protocol/server-time.ts";
import { DynamoAudit } from "./audit.ts";
import { AuditIds } from "./audit-id.ts";
import type { DynamoClient } from "./client.ts";
import { DynamoConfig } from "./config.ts";
import { ConfigReach } from "./config-reach.ts";
import { DynamoEntities } from "./entities.ts";
import { EntityRemoval } from "./entities-removal.ts";
import { DynamoItems } from "./items.ts";
import { OwnerStamps } from "./items-owner.ts";
import { DynamoNamespaces } from "./namespaces.ts";
import { NamespaceWatch } from "./namespaces-record.ts";
import { Records } from "./records.ts";
import { namespaceIdKey, RESOURCE_INDEX } from "./schema.ts";
import { LiveBuckets } from "./store-buckets.ts";
import { projectionOf } from "./table-admin.ts";
import { DynamoUsage } from "./usage.ts";
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
  /** Never cut more than needed at the brim. */
  readonly exact: boolean;
  /** The original writes to this table too. */
  readonly shared: boolean;
  /** How long an image may refuse without asking, in ms; 0 = never. */
  readonly denyMemoryMs: number;
  /** Bound on a reading of configuration, in ms: somebody waits for it with a request. */
  readonly timeoutMs: number;
  /** Bound on reads and changes that nobody waits for with a request of his own, in ms. */
  readonly adminTimeoutMs: number;
  readonly serverTime: ServerTime;
  /** Absent: all of them. A test switches one off to show what it is for. */
  readonly rules?: Rules;
}

/** A store on a table that is there: makes nothing, and says which call to make where something is missing. */
export async function openDynamo(options: DynamoStoreOptions): Promise<Store> {
  const { table: name, shared } = options;
  const records = recordsOf(options, options.adminTimeoutMs);
  checkVersion(await readVersion(records), { name, shared });
  if (shared) await requireWholeIndex(options);
  return dynamoOver(options);
}

/** The same on a table that is known to be as it should. */
export function dynamoOver(options: DynamoStoreOptions): Store {
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
    namespaces: new DynamoNamespaces({ records, watch, auditOf: (namespaceId) => scope(namespaceId).audit }),
    scope,
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
  /** Resolves when nothing goes on any more that nobody waits for. */
  settled(): Promise<void>;
}

function scopeOf(namespaceId: string, parts: SharedParts): DynamoScope {
  const { options, records, urgent, watch, gate, auditIds } = parts;
  const { clock, ids, shared } = options;
  const audit = new DynamoAudit(namespaceId, { records, ids: auditIds, clock });
  // Of this namespace alone: in another the same names are other buckets.
  const readings = new ConfigReadings();
  const owners = new OwnerStamps(namespaceId, { records: urgent, resolve: (bucket) => config.resolveNow(bucket) });
  const buckets = bucketsOf(namespaceId, parts, { audit, owners, readings });
  const live = new LiveBuckets(records, namespaceId);
  const removal = new EntityRemoval(namespaceId, { records, live, forget: (bucket) => buckets.forget(bucket) });
  const config: DynamoConfig = new DynamoConfig(namespaceId, {
    ...{ records, urgent, watch, audit, removal, readings, gate, clock },
    // Beside the original, configuration counts only where it was read after the bucket.
    onFirstRead: (bucket) => (shared ? undefined : buckets.onFirstRead(bucket)),
    reach: () => reach,
  });
  const resolve = config.resolveNow.bind(config);
  const reach = new ConfigReach(namespaceId, { records, live, buckets, clock, shared, resolve });
  return {
    buckets: activeOnly(buckets, async () => {
      watch.requireActive(namespaceId, await records.get(namespaceIdKey(namespaceId)));
    }),
    config,
    entities: new DynamoEntities(namespaceId, { records, watch, audit, removal, reach, gate, ids }),
    usage: new DynamoUsage(records, namespaceId),
    audit,
    settled: () => buckets.settled(),
  };
}

interface BucketParts {
  readonly audit: DynamoAudit;
  readonly owners: OwnerStamps;
  readonly readings: ConfigReadings;
}

function bucketsOf(
  namespaceId: string,
  { options, auditIds }: SharedParts,
  { audit, owners, readings }: BucketParts,
): ProtocolBuckets {
  const { client, table, clock, random, calendar, coalesce, exact, shared, denyMemoryMs, adminTimeoutMs } = options;
  const items = new DynamoItems({
    ...{ client, tableName: table, namespaceId, clock, random },
    listTimeoutMs: adminTimeoutMs,
    auditIdOf: (event) => auditIds.of(event),
    // Read anew with every event: configuration may say otherwise by then.
    get auditKeptS() {
      return audit.keptS;
    },
    // Only the original goes by it.
    ...(shared ? { owners } : {}),
  });
  return new ProtocolBuckets({
    ...{ items, calendar, clock, random, readings, coalesce, exact, shared, denyMemoryMs },
    rules: options.rules ?? ALL_RULES,
    serverTime: options.serverTime,
  });
}

/** Money is not moved in a namespace that was deleted. Takes go by configuration, which says so soon enough. */
function activeOnly(buckets: ProtocolBuckets, requireActive: () => Promise<void>): BucketStore {
  return {
    take: (claims, context) => buckets.take(claims, context),
    debit: (held, amounts, context) => buckets.debit(held, amounts, context),
    credit: (held, amounts, context) => buckets.credit(held, amounts, context),
    topUp: async (operation, amounts) => {
      await requireActive();
      return buckets.topUp(operation, amounts);
    },
    reset: async (operation, limits) => {
      await requireActive();
      return buckets.reset(operation, limits);
    },
    read: (keys) => buckets.read(keys),
    listByResource: (resource, page) => buckets.listByResource(resource, page),
  };
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
      'share a table whose index has all (`createTable({ projection: "ALL" })`), or open it without `sharedTable`.',
  );
}
