import type { BucketKey } from "../../src/domain/bucket/bucket-key.ts";
import type { Retention } from "../../src/domain/config/retention.ts";
import type { Calendar } from "../../src/domain/limits/calendar.ts";
import type { BatchStore, DraftedLease, VersionedRow } from "../../src/ports/batch-store.ts";
import type { BucketStore } from "../../src/ports/bucket-store.ts";
import type { LeaseForm } from "../../src/ports/lease-form.ts";
import type { CountStore, RecordStore } from "../../src/ports/record-store.ts";
import type { Store } from "../../src/ports/store.ts";
import type { Digest, Random, Turns } from "../../src/ports/system.ts";
import { namespacePut } from "../../src/records/bodies.ts";
import { RecordConfig } from "../../src/records/config.ts";
import { REGISTRY } from "../../src/records/keys.ts";
import type { LeasesByTakes } from "../../src/records/leases.ts";
import { DEFAULT, RecordNamespaces } from "../../src/records/namespaces.ts";
import { recordParts } from "../../src/records/parts.ts";
import { recordScope } from "../../src/records/scope.ts";
import { draftedWrite } from "../../src/straight/drafted.ts";
import type { Waiting } from "../../src/straight/lane.ts";
import { recordOfRow } from "../../src/straight/row-codec.ts";
import { StraightTakes } from "../../src/straight/takes.ts";
import { overriding } from "../../src/testing/overriding.ts";
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
  const parts = recordParts(records);
  const takes = new StraightTakes({
    ...{ ...rest, store: line, calendar, requireOpen: () => {}, clock: undefined },
    countsUsage: retention.usageKeepMs !== undefined,
    onAnswer: ({ namespaceId, generation }) => parts.generations.note(namespaceId, generation),
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
    namespaces: new RecordNamespaces(parts),
    scope: (namespaceId) => ({
      ...recordScope(parts, namespaceId, { retention, counts: records, takes: leases }),
      buckets: overriding<BucketStore>(
        takes.bucketsOf(
          namespaceId,
          () => parts.generations.of(namespaceId),
          async (id, on) => new RecordConfig(parts, namespaceId).resolve(id, on),
        ),
        // At once, for whoever looks at the store between two of its steps.
        {
          read: (keys: readonly BucketKey[]) =>
            keys.map((key) => {
              const row = batches.rows.get(`${namespaceId}\n${key.id}`);
              return row === undefined ? undefined : recordOfRow(row, key, calendar).state;
            }),
        },
      ),
    }),
    ping: () => {},
    close: () => takes.drained(),
  };
}
