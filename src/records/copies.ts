import type { BucketState } from "../domain/bucket/bucket-state.ts";
import type { AuditEvent } from "../domain/config/audit.ts";
import { textByInstants } from "../domain/config/config-versions.ts";
import { pieceKey } from "../domain/config/piece.ts";
import { given } from "../domain/names/given.ts";
import type { Page, PageRequest } from "../domain/names/paging.ts";
import { andThen } from "../domain/steps.ts";
import type { MaybePromise } from "../ports/bucket-store.ts";
import type { OwnerRecord } from "../ports/config-store.ts";
import type {
  CopiedBucket,
  CopiedHistory,
  CopiedKind,
  CopiedRows,
  CopyStore,
  ListedRows,
} from "../ports/copy-store.ts";
import type { ListedRecord, RecordCommit, RecordList, RecordPut, RecordStore } from "../ports/record-store.ts";
import type { BucketRecord } from "../stored/bucket-record.ts";
import { emptyHour, NONE } from "../stored/open-hour.ts";
import { shapeOf } from "../stored/shape.ts";
import { configPut, entityPut, objectIn, planPut, textOf } from "./bodies.ts";
import { CommitUnavailable, type ScopedRecords } from "./scoped-records.ts";
import { logPut } from "./usage.ts";

/** Whatever of a namespace is not in records, or not in all stores. Each call is whole, and changes nothing the second time. */
export interface BesideRecords {
  buckets(rows: readonly (CopiedBucket & { readonly record: BucketRecord })[]): MaybePromise<void>;
  usage(rows: readonly CopiedRows["usage"][]): MaybePromise<void>;
  counts(
    kind: "refusal" | "caller",
    rows: readonly (CopiedRows["refusal"] | CopiedRows["caller"])[],
  ): MaybePromise<void>;
  /** In this order; none of them is there. */
  events(events: readonly AuditEvent[]): MaybePromise<void>;
}

/** `roomForHeld`: rows of buckets have room for how long slots were held in the hour. */
export function copyOn(
  { records, store }: { readonly records: ScopedRecords; readonly store: Pick<RecordStore, "commit"> },
  beside: BesideRecords,
  { roomForHeld }: { readonly roomForHeld: boolean },
): CopyStore {
  const commit = (change: Pick<RecordCommit, "puts" | "deletes">) =>
    andThen(store.commit({ ...BARE, scope: records.scope, ...change }), (reply) => {
      if (reply.kind === "unavailable") throw new CommitUnavailable(reply.applied, reply.cause);
    });
  const put = <Kind extends keyof typeof PUTS>(kind: Kind, rows: readonly CopiedRows[Kind][]) => {
    const putOf = PUTS[kind] as (row: CopiedRows[Kind]) => RecordPut;
    return commit({ puts: rows.map(putOf), deletes: [] });
  };
  const writes: {
    readonly [Kind in CopiedKind]: (rows: readonly CopiedRows[Kind][], nowMs: number) => MaybePromise<void>;
  } = {
    plan: (rows) => put("plan", rows),
    entity: (rows) => put("entity", rows),
    config: (rows) => put("config", rows),
    history: (rows) => put("history", rows),
    owner: (rows) => put("owner", rows),
    owned: (rows) => put("owned", rows),
    bucket: (rows, nowMs) =>
      beside.buckets(rows.map((row) => ({ ...row, record: recordOf(row.state, roomForHeld, nowMs) }))),
    usage: (rows) => beside.usage(rows),
    refusalLog: (rows) => commit({ puts: rows.map(logPut), deletes: [] }),
    refusal: (rows) => beside.counts("refusal", rows),
    caller: (rows) => beside.counts("caller", rows),
    audit: (rows) =>
      andThen(records.list({ kind: "audit", of: "all" }, undefined, rows.length), (last) => {
        const known = new Set(last.map(({ key }) => key[0]));
        return beside.events(rows.map(({ event }) => event).filter(({ eventId }) => !known.has(eventId)));
      }),
  };
  return {
    keepsUsageDays: false,
    list: <Kind extends keyof ListedRows>(kind: Kind, page: PageRequest): MaybePromise<Page<ListedRows[Kind]>> => {
      const { list, parts, rowOf } = LISTS[kind];
      return records.page(list, page, parts, rowOf as (record: ListedRecord) => ListedRows[Kind]);
    },
    write: (kind, rows, nowMs) => {
      if (rows.length === 0) return;
      return (writes[kind] as (rows: unknown, nowMs: number) => MaybePromise<void>)(rows, nowMs);
    },
    remove: (kind, rows) => {
      if (rows.length === 0) return;
      const putOf = PUTS[kind] as (row: (typeof rows)[number]) => RecordPut;
      return commit({ puts: [], deletes: rows.map((row) => ({ kind, key: putOf(row).key })) });
    },
    finish: () => {},
  };
}

const BARE: Omit<RecordCommit, "scope" | "puts" | "deletes"> = {
  guard: { kind: "versions", versions: [] },
  event: undefined,
  bumps: [],
  touched: [],
  sent: "first",
};

type PutKind = "plan" | "entity" | "config" | "history" | "owner" | "owned";

const PUTS: { readonly [Kind in PutKind]: (row: CopiedRows[Kind]) => RecordPut } = {
  plan: planPut,
  entity: entityPut,
  config: ({ scope, config }) => configPut(scope, config),
  history: ({ key, versions }) => ({ kind: "history", key, by: {}, body: versions }),
  owner: (record) => ({ kind: "owner", key: [record.owner], by: {}, body: record }),
  owned: ({ piece, ...entry }) => ({ kind: "owned", key: [pieceKey(piece)], by: {}, body: entry }),
};

const LISTS: {
  readonly [Kind in keyof ListedRows]: {
    readonly list: RecordList;
    readonly parts: number;
    readonly rowOf: (record: ListedRecord) => ListedRows[Kind];
  };
} = {
  history: {
    list: { kind: "history", of: "all" },
    parts: 3,
    rowOf: ({ key, body }) => ({
      key: key as unknown as CopiedHistory["key"],
      versions: textByInstants(textOf({ kind: "history", key, body }) as string),
    }),
  },
  owner: {
    list: { kind: "owner", of: "all" },
    parts: 1,
    rowOf: ({ key, body }) => objectIn<OwnerRecord>({ kind: "owner", key, body }),
  },
  audit: { list: { kind: "audit", of: "oldest" }, parts: 1, rowOf: ({ body }) => body as AuditEvent },
};

/** The record of a bucket that counts nothing yet: what it counted elsewhere is in the table of usage. */
function recordOf(state: BucketState, roomForHeld: boolean, nowMs: number): BucketRecord {
  const { asOfMs, given: isGiven, changeNumber } = state.origin;
  // Of stored limits that are older than any change that is counted here.
  const own = { ...state, origin: { asOfMs, generation: isGiven ? null : 0, ...given({ changeNumber }) } };
  const shape = shapeOf(own);
  const room = roomForHeld ? shape.counts.length : shape.limits.length;
  return { state: own, shape, open: emptyHour(room, nowMs), left: NONE };
}
