import type { BucketKey } from "../../src/domain/bucket/bucket-key.ts";
import type { Retention } from "../../src/domain/config/retention.ts";
import type { Calendar } from "../../src/domain/limits/schedule.ts";
import type { BatchStore, DraftedLease, VersionedRow } from "../../src/ports/batch-store.ts";
import type { BucketStore } from "../../src/ports/bucket-store.ts";
import type { LeaseForm } from "../../src/ports/lease-store.ts";
import type { CountStore, RecordStore } from "../../src/ports/record-store.ts";
import type { Store } from "../../src/ports/store.ts";
import type { Digest, Random, Turns } from "../../src/ports/system.ts";
import { namespacePut, REGISTRY } from "../../src/records/bodies.ts";
import type { LeasesByTakes } from "../../src/records/leases.ts";
import { DEFAULT, namespacesOn } from "../../src/records/namespaces.ts";
import { recordScope } from "../../src/records/scope.ts";
import { recordParts } from "../../src/records/scoped-records.ts";
import { SeenGenerations } from "../../src/records/seen-changes.ts";
import type { Waiting } from "../../src/straight/lane.ts";
import { draftedWrite, recordOfRow } from "../../src/straight/row-codec.ts";
import { StraightTakes } from "../../src/straight/takes.ts";
import { overriding } from "../../src/testing/fault-store.ts";
import { RecordTable } from "./record-table.ts";
import { StraightStore } from "./straight-store.ts";

/** What all processes on one store share: takes in batches, and records. */
interface StraightWorld {
  readonly batches: StraightStore;
  readonly records: RecordTable;
}

/** A new, empty store. */
export function straightWorld(serverMs: () => number): StraightWorld {
  const records = new RecordTable();
  records.putAtOnce(REGISTRY, namespacePut(DEFAULT));
  return { batches: new StraightStore(serverMs, records), records };
}

/** The same, wherever it is kept: rows of buckets by namespace and id, for whoever looks at them between two steps. */
export interface StraightSite {
  readonly batches: { readonly rows: ReadonlyMap<string, VersionedRow> };
  readonly records: RecordStore & CountStore;
}

/** One process on it. */
interface StraightProcess {
  /** The way of its batches to the store. */
  readonly line: BatchStore;
  readonly turns: Turns;
  readonly waiting: Waiting;
  readonly digest: Digest;
  readonly random: Random;
  readonly calendar: Calendar;
  readonly leaseForm: LeaseForm;
  readonly retention: Retention;
  readonly coalesce: boolean;
  readonly laneCount: number;
}

/** A whole store on takes in batches, as one on a database is, in memory. */
export function openStraight({ batches, records }: StraightSite, process: StraightProcess): Store {
  const { line, calendar, retention, leaseForm, ...rest } = process;
  const parts = recordParts(records, new SeenGenerations());
  const takes = new StraightTakes({
    ...{ ...rest, store: line, calendar, requireOpen: () => {}, clock: undefined },
    countsUsage: retention.usageKeepMs !== undefined,
    onAnswer: ({ namespaceId, generation, changes }) => {
      if (changes !== undefined) parts.generations.note(namespaceId, generation, changes);
    },
  });
  const leases: LeasesByTakes = {
    isWrittenByTake: true,
    writeOf: (body) => {
      if (typeof body !== "object" || body === null || !("draft" in body)) return undefined;
      return draftedWrite(body.draft as DraftedLease, leaseForm, calendar);
    },
  };
  return {
    name: "straight",
    atomicBucketsMax: Number.POSITIVE_INFINITY,
    tellsThresholds: true,
    namespaces: namespacesOn(parts),
    scope: (namespaceId) => {
      const scope = recordScope(parts, namespaceId, { retention, counts: records, takes: leases });
      const buckets = takes.bucketsOf(namespaceId, scope.config);
      // At once, for whoever looks at the store between two of its steps.
      const read = (keys: readonly BucketKey[]) =>
        keys.map((key) => {
          const row = batches.rows.get(`${namespaceId}\n${key.id}`);
          return row === undefined ? undefined : recordOfRow(row, key, calendar).state;
        });
      return { ...scope, buckets: overriding<BucketStore>(buckets, { read }) };
    },
    ping: () => {},
    close: () => takes.drained(),
  };
}
