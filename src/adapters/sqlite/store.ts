import type { Retention } from "../../domain/config/retention.ts";
import type { Calendar } from "../../domain/limits/schedule.ts";
import type { Store } from "../../ports/store.ts";
import { namespacesOn } from "../../records/namespaces.ts";
import { namedOn } from "../../records/scope.ts";
import { recordParts, ScopedRecords } from "../../records/scoped-records.ts";
import { timeAfter } from "../../records/seen-changes.ts";
import { CurrentLimits } from "../../stored/bucket-rules.ts";
import { AuditLog } from "./audit.ts";
import { BucketRows, UsageHours } from "./bucket-rows.ts";
import { SqliteBuckets } from "./buckets.ts";
import { CallerRows, sqliteCallers } from "./caller-usage.ts";
import { Changes } from "./changes.ts";
import { levelsIn, sqliteConfigOn, storedLevelsIn } from "./config.ts";
import type { Connection } from "./connection.ts";
import { sqliteCopies } from "./copies.ts";
import { openingError } from "./faults.ts";
import { GroupCommit } from "./group-commit.ts";
import { LeaseRows, sqliteLeases } from "./leases.ts";
import { type Durability, openConnection } from "./open-connection.ts";
import { SqliteRecords } from "./records.ts";
import { RefusalRows, sqliteRefusalLog, sqliteRefusals } from "./refusals.ts";
import { Expiry, Sweep } from "./sweep.ts";
import { SqliteUsage } from "./usage.ts";
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
  const callers = new CallerRows(connection);
  const expiry = new Expiry({ connection, usage, refusals, callers, audit, usageKeepMs: retention.usageKeepMs });
  const countsUsage = retention.usageKeepMs !== undefined;
  const contextOf = (namespaceId: string, nowMs: number) => ({
    ...{ nowMs, calendar, generation: watch.generation, current: currentOf(namespaceId), countsUsage },
  });
  const sweep = new Sweep({ connection, usage, rows, expiry, calendar, countsUsage, contextOf });
  const commit = new GroupCommit({ connection, watch, rows, sweep, coalesce: options.coalesce });
  const changes = new Changes({ connection, watch, rows, audit });
  const records = new SqliteRecords({ connection, changes, audit });
  const recorded = recordParts(records, { of: () => watch.lookedUp(), note: () => {}, timeAfter });
  const parts = { connection, watch, rows, commit, changes, calendar, countsUsage };
  const ping = connection.prepare("SELECT count(*) FROM generation");
  const currents = new Map<string, CurrentLimits>();
  const currentOf = (namespaceId: string): CurrentLimits => {
    const known = currents.get(namespaceId);
    if (known !== undefined) return known;
    const made = new CurrentLimits(levelsIn(storedLevelsIn({ connection, records }, namespaceId)));
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
    namespaces: namespacesOn(recorded),
    scope: (namespaceId) => {
      const leaseRows = new LeaseRows(connection, namespaceId);
      const scoped = new ScopedRecords(recorded, namespaceId);
      const buckets = new SqliteBuckets(parts, leaseRows, currentOf(namespaceId), namespaceId);
      return {
        ...namedOn(scoped),
        buckets,
        leases: sqliteLeases({ connection, commit, rows: leaseRows, bucketsAt: (context) => buckets.rowsAt(context) }),
        config: sqliteConfigOn(scoped, storedLevelsIn({ connection, records }, namespaceId)),
        usage: new SqliteUsage({ connection, namespaceId, calendar, isKept: countsUsage }),
        refusals: sqliteRefusals({ changes, rows: refusals, countsUsage }, scoped),
        refusalLog: sqliteRefusalLog({ changes, rows: refusals, countsUsage }, scoped),
        callers: sqliteCallers({ changes, rows: callers, countsUsage }, scoped),
        copy: sqliteCopies({ connection, changes, audit, records, refusals, callers }, scoped),
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
