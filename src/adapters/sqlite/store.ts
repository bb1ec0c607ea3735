import { type Retention, usageNotKept } from "../../domain/config/retention.ts";
import type { Calendar } from "../../domain/limits/calendar.ts";
import type { Store } from "../../ports/store.ts";
import type { UsageStore } from "../../ports/usage-store.ts";
import { RecordAudit } from "../../records/audit.ts";
import { RecordEntities } from "../../records/entities.ts";
import { timeAfter } from "../../records/generations.ts";
import { RecordManifests } from "../../records/manifests.ts";
import { RecordNamespaces } from "../../records/namespaces.ts";
import { recordParts } from "../../records/parts.ts";
import { RecordPlans } from "../../records/plans.ts";
import { CurrentLimits } from "../../stored/current-limits.ts";
import { AuditLog } from "./audit.ts";
import { BucketRows } from "./bucket-rows.ts";
import { SqliteBuckets } from "./buckets.ts";
import { Changes } from "./changes.ts";
import { SqliteConfig } from "./config.ts";
import type { Connection } from "./connection.ts";
import { Expiry } from "./expiry.ts";
import { openingError } from "./faults.ts";
import { GroupCommit } from "./group-commit.ts";
import { LeaseRows } from "./lease-rows.ts";
import { SqliteLeases } from "./leases.ts";
import { type Durability, openConnection } from "./open-connection.ts";
import { Operations } from "./operations.ts";
import { SqliteRecords } from "./records.ts";
import { RefusalRows, SqliteRefusals } from "./refusals.ts";
import { Sweep } from "./sweep.ts";
import { SqliteUsage } from "./usage.ts";
import { UsageHours } from "./usage-hours.ts";
import { Watch } from "./watch.ts";

interface SqliteOptions {
  /** Made if missing, with its folder. Two more files stand beside it while it is open: `-wal` and `-shm`. */
  readonly file: string;
  /** False: a file that is missing or older is an error. Absent: it is made, or brought to the newest version. */
  readonly create?: boolean;
  /**
   * What a loss of power may take. `normal`: the takes of the last moments, those since the log was last synced; `full`:
   * nothing that was answered, at the price of a sync for each transaction. A crash of the process loses nothing in either.
   */
  readonly durability: Durability;
  /** Join calls under way together into one transaction. */
  readonly coalesce: boolean;
  readonly retention: Retention;
  /** A number in [0, 1), for the length of waits. */
  readonly random: () => number;
  /** Whole ms since some instant, never going back; a clock that is put must not end or prolong anybody's waiting. */
  readonly steadyMs: () => number;
  readonly calendar: Calendar;
}

/** A store in one file, for any number of processes on one machine. */
export function openSqlite(options: SqliteOptions): Store {
  const connection = openConnection(options);
  try {
    return storeOn(connection, options);
  } catch (error) {
    connection.close();
    throw openingError(error, options.file);
  }
}

/** The store on an open connection. */
export function storeOn(connection: Connection, options: SqliteOptions): Store {
  const usage = new UsageHours(connection);
  const rows = new BucketRows(connection, usage, options.calendar);
  const watch = new Watch(connection, () => rows.reread());
  const { calendar, retention } = options;
  const audit = new AuditLog(connection, retention.auditKeepMs);
  const refusals = new RefusalRows(connection);
  const expiry = new Expiry({ connection, usage, refusals, audit, usageKeepMs: retention.usageKeepMs });
  const countsUsage = retention.usageKeepMs !== undefined;
  const contextOf = (namespaceId: string, nowMs: number) => ({
    ...{ nowMs, calendar, generation: watch.generation, current: currentOf(namespaceId) },
  });
  const sweep = new Sweep({ connection, usage, rows, expiry, calendar, countsUsage, contextOf });
  const commit = new GroupCommit({ connection, watch, rows, sweep, coalesce: options.coalesce });
  const changes = new Changes({ connection, watch, rows, audit });
  const operations = new Operations({ connection, changes });
  const records = new SqliteRecords({ connection, changes, audit });
  const recorded = recordParts(records, { of: () => watch.lookedUp(), note: () => {}, timeAfter });
  const parts = {
    connection,
    records,
    recorded,
    watch,
    rows,
    commit,
    changes,
    operations,
    calendar,
    countsUsage,
    refusals,
  };
  const ping = connection.prepare("SELECT count(*) FROM generation");
  const currents = new Map<string, CurrentLimits>();
  const currentOf = (namespaceId: string): CurrentLimits => {
    const known = currents.get(namespaceId);
    if (known !== undefined) return known;
    const config = new SqliteConfig(parts, namespaceId);
    const made = new CurrentLimits((entityId, resource) => config.levelOf(entityId, resource));
    currents.set(namespaceId, made);
    return made;
  };
  let closing: Promise<void> | undefined;
  const close = async (): Promise<void> => {
    connection.refuseCalls();
    await commit.drained();
    connection.close();
  };
  return {
    name: `sqlite:${options.file}`,
    atomicBucketsMax: Number.POSITIVE_INFINITY,
    tellsThresholds: true,
    namespaces: new RecordNamespaces(recorded),
    scope: (namespaceId) => {
      const leaseRows = new LeaseRows(connection, namespaceId);
      const config = new SqliteConfig(parts, namespaceId);
      const buckets = new SqliteBuckets(parts, leaseRows, currentOf(namespaceId), namespaceId);
      return {
        buckets,
        leases: new SqliteLeases(parts, leaseRows, (context) => buckets.rowsAt(context)),
        config,
        entities: new RecordEntities(recorded, namespaceId),
        plans: new RecordPlans(recorded, namespaceId),
        usage: countsUsage ? new SqliteUsage(connection, namespaceId, calendar) : NO_USAGE,
        refusals: new SqliteRefusals(parts, namespaceId),
        audit: new RecordAudit(recorded, namespaceId),
        manifests: new RecordManifests(recorded, namespaceId),
      };
    },
    ping: () => {
      connection.read(() => ping.get());
    },
    close: () => {
      closing ??= close();
      return closing;
    },
  };
}

const NO_USAGE: UsageStore = {
  query: () => {
    throw usageNotKept();
  },
};
