import { callerCursor, usagePositionOf } from "../domain/charge/caller-usage.ts";
import { positionOfCursor, refusalCursor, refusalsNotKept, WRITE_EVERY_MS } from "../domain/charge/refusal-count.ts";
import { LOG_KEPT_MS, logText, type RefusalLogRow, refusalsIn } from "../domain/charge/refusal-log.ts";
import {
  lengthOf,
  shownWindow,
  type UsageSnapshot,
  type UsageWindow,
  type Windows,
  windowEndMs,
  windowStartMs,
} from "../domain/charge/usage.ts";
import { type Retention, usageNotKept } from "../domain/config/retention.ts";
import { given } from "../domain/names/given.ts";
import type { Page } from "../domain/names/paging.ts";
import type { MaybePromise } from "../ports/bucket-store.ts";
import type { CountStore, ListedRecord, RecordPut, Span, StoredRecord, Sum, SumQuery } from "../ports/record-store.ts";
import type {
  CallerRow,
  CallerStore,
  RefusalLogStore,
  RefusalRow,
  RefusalStore,
  RowReply,
  UsageStore,
} from "../ports/usage-store.ts";
import { lastHourOverMs, OPERATIONS_KEPT_MS } from "../stored/bucket-rules.ts";
import { keyAfter, keyCursor } from "../stored/cursor.ts";
import { REQUESTS_COUNTER, shownCounters } from "../stored/open-hour.ts";
import { rowUnreadable } from "../stored/row-damage.ts";
import { objectIn } from "./bodies.ts";
import { CommitUnavailable, type ScopedRecords } from "./scoped-records.ts";

/** Usage of one namespace: the hours that have left their buckets and those that buckets still carry, added up when asked for. */
export function usageOn({ scope }: ScopedRecords, counts: Pick<CountStore, "sums">, isKept: boolean): UsageStore {
  return {
    query: async ({ window, fromMs, toMs, entityId, resource }, { limit, cursor }) => {
      if (!isKept) throw usageNotKept();
      const [start, ...key] = keyAfter(cursor, 3) ?? [];
      const after = start === undefined ? undefined : { startMs: Number(start), key };
      const asked = { kind: "usage", entityId, resource, limit: undefined } as const;
      return pageOfSums(counts, scope, { ...asked, window, fromMs, toMs, after }, limit, {
        itemOf: (sum) => snapshotOf(window, sum),
        cursorOf: ({ startMs, key: [id = "", on = ""] }) => keyCursor(String(startMs), id, on),
      });
    },
  };
}

function snapshotOf(window: Windows, { startMs, key, counts }: Sum): UsageSnapshot {
  const { [REQUESTS_COUNTER]: requests = "0", ...counters } = counts;
  return {
    entityId: key[0] as string,
    resource: key[1] as string,
    ...shownWindow(window, startMs),
    ...shownCounters(new Map(Object.entries(counters).map(([name, milli]) => [name, BigInt(milli)]))),
    requests: Number(requests),
  };
}

/** Counts of one namespace: a record for each row of a process, added up when asked for. */
export function refusalsOn(records: ScopedRecords, counts: Pick<CountStore, "sums">, isKept: boolean): RefusalStore {
  return {
    isKept,
    writeEveryMs: WRITE_EVERY_MS,
    write: async (rows) => {
      if (!isKept) throw refusalsNotKept("usage");
      return writeRows(records, rows, (row) => bookPut("refusal", row));
    },
    query: async ({ window, fromMs, toMs, entityId, resource, limit: name }, { limit, cursor }) => {
      if (!isKept) throw refusalsNotKept("usage");
      const position = positionOfCursor(cursor);
      const after = position && {
        startMs: position.windowStartMs,
        key: [position.entityId, position.resource, position.limit, position.level, position.total ? "1" : "0"],
      };
      const asked = { kind: "refusal", entityId, resource, limit: name } as const;
      return pageOfSums(counts, records.scope, { ...asked, window, fromMs, toMs, after }, limit, {
        itemOf: (sum) => ({ ...positionOf(sum), window, count: Number(sum.counts.count) }),
        cursorOf: (place) => refusalCursor(positionOf(place)),
      });
    },
  };
}

/** Single refusals of one namespace: a record for each process, entity and hour. */
export function refusalLogOn(records: ScopedRecords, isKept: boolean): RefusalLogStore {
  return {
    write: async (rows) => {
      if (!isKept) throw refusalsNotKept("usage");
      return writeRows(records, rows, logPut);
    },
    list: (query, page) => {
      if (!isKept) throw refusalsNotKept("usage");
      return records.page({ kind: "refusalLog", of: "newest", ...query }, page, 3, logRowOf);
    },
  };
}

export function logPut({ id, hourMs, entityId, version, refusals }: RefusalLogRow): RecordPut {
  const body = { version, log: logText({ hourMs, refusals }) };
  return { kind: "refusalLog", key: [String(hourMs), entityId, id], by: {}, body };
}

function logRowOf({ key, body }: ListedRecord): RefusalLogRow {
  const [hour, entityId = "", id = ""] = key;
  const hourMs = Number(hour);
  const { version, log } = objectIn<{ readonly version: number; readonly log: string }>({
    ...{ kind: "refusalLog", key, body },
  });
  const refusals = refusalsIn(hourMs, log);
  if (refusals === undefined) throw rowUnreadable(log, { table: "refusal_log", column: "log", of: entityId });
  return { id, hourMs, entityId, version, refusals };
}

/** What the rows that a process writes again and again have in common. */
type WrittenRow = Pick<RefusalRow, "version" | "mustExist">;

/** Writes rows, each unless a newer one of it is there: it may have been on its way for long. */
async function writeRows<Row extends WrittenRow>(
  records: ScopedRecords,
  rows: readonly Row[],
  putOf: (row: Row) => RecordPut,
): Promise<readonly RowReply[]> {
  const puts = rows.map(putOf);
  try {
    return await records.write(puts, "active", (found) => {
      const reply = rows.map((row, i): RowReply => (row.mustExist && found[i] === undefined ? "gone" : "stored"));
      const written = puts.filter((_, i) => reply[i] === "stored" && isNewer(rows[i] as Row, found[i]));
      return { reply, ...given({ write: written.length === 0 ? undefined : { puts: written } }) };
    });
  } catch (error) {
    if (error instanceof CommitUnavailable && error.applied === "unknown") return rows.map(() => "unknown");
    throw error;
  }
}

function isNewer({ version }: WrittenRow, known: StoredRecord | undefined): boolean {
  return known === undefined || objectIn<WrittenRow>(known).version < version;
}

/** Usage of callers that no bucket counts: a record for each row of a process, added up when asked for. */
export function callersOn(records: ScopedRecords, counts: Pick<CountStore, "sums">, isKept: boolean): CallerStore {
  return {
    isKept,
    writeEveryMs: WRITE_EVERY_MS,
    write: async (rows) => {
      if (!isKept) throw usageNotKept();
      return writeRows(records, rows, (row) => bookPut("caller", row));
    },
    query: async ({ window, fromMs, toMs, entityId, resource }, { limit, cursor }) => {
      if (!isKept) throw usageNotKept();
      const position = usagePositionOf(cursor);
      const after = position && { startMs: position.windowStartMs, key: [position.entityId, position.resource] };
      const asked = { kind: "caller", entityId, resource, limit: undefined } as const;
      const placeOf = ({ startMs, key: [id = "", on = ""] }: SumPlace) => ({
        ...{ windowStartMs: startMs, entityId: id, resource: on },
      });
      return pageOfSums(counts, records.scope, { ...asked, window, fromMs, toMs, after }, limit, {
        itemOf: (sum) => ({
          ...placeOf(sum),
          counts: Object.fromEntries(Object.entries(sum.counts).map(([name, count]) => [name, Number(count)])),
        }),
        cursorOf: (place) => callerCursor(placeOf(place)),
      });
    },
  };
}

type BookKind = "refusal" | "caller";

/** The record of a row. */
export function bookPut(kind: BookKind, row: RefusalRow | CallerRow): RecordPut {
  const { id, hourMs, entityId, resource, version, counts } = row;
  return { kind, key: [String(hourMs), entityId, resource, id], by: {}, body: { version, counts } };
}

function positionOf({ startMs, key }: SumPlace) {
  const [entityId = "", resource = "", limit = "", level = "", total] = key;
  return { entityId, resource, limit, level, total: total === "1", windowStartMs: startMs };
}

/** This many windows are asked about at once: what a page does not show is added up in vain. */
const WINDOWS_AT_ONCE: Readonly<Record<UsageWindow, number>> = { hourly: 48, daily: 4, monthly: 1 };
/** One page takes at most this many questions: where there is little in many windows, the rest is left to the next page. */
const QUESTIONS_MAX = 50;

/** A window, and a key in it; without a key before all others. */
type SumPlace = Pick<Sum, "startMs" | "key">;

interface WindowQuery extends Omit<SumQuery, "spans" | "after" | "limitMax"> {
  readonly window: Windows;
  readonly fromMs: number;
  readonly toMs: number;
  readonly after: SumPlace | undefined;
}

/** A page of the counts in windows that start in [fromMs, toMs), in order. Windows that have nothing are stepped over. */
async function pageOfSums<Item>(
  counts: Pick<CountStore, "sums">,
  scope: string,
  { window, fromMs, toMs, after, ...asked }: WindowQuery,
  limit: number,
  { itemOf, cursorOf }: { readonly itemOf: (sum: Sum) => Item; readonly cursorOf: (place: SumPlace) => string },
): Promise<Page<Item>> {
  const sums: Sum[] = [];
  let startMs = after?.startMs ?? firstWindowMs(window, fromMs);
  let key = after?.key;
  let next: SumPlace | undefined;
  for (let questions = 0; startMs < toMs && sums.length <= limit; questions++) {
    if (questions === QUESTIONS_MAX) {
      next = { startMs, key: [] };
      break;
    }
    const spans = spansFrom(window, startMs, toMs);
    const found = await counts.sums(scope, { ...asked, spans, after: key, limitMax: limit + 1 - sums.length });
    sums.push(...found.sums);
    if (found.nextHourMs === undefined) break;
    startMs = windowStartMs(window, found.nextHourMs);
    key = undefined;
  }
  if (sums.length > limit) next = sums[limit - 1];
  return { items: sums.slice(0, limit).map(itemOf), ...given({ cursor: next && cursorOf(next) }) };
}

/** A window that began before is not asked for. */
function firstWindowMs(window: Windows, fromMs: number): number {
  const startMs = windowStartMs(window, fromMs);
  return startMs === fromMs ? startMs : windowEndMs(window, startMs);
}

function spansFrom(window: Windows, fromMs: number, toMs: number): readonly Span[] {
  const spans: Span[] = [];
  for (let startMs = fromMs; startMs < toMs && spans.length < WINDOWS_AT_ONCE[lengthOf(window)]; ) {
    const endMs = windowEndMs(window, startMs);
    spans.push({ startMs, endMs });
    startMs = endMs;
  }
  return spans;
}

/** One step deletes at most this many rows of each kind: a transaction of a few milliseconds. */
export const STEP_ROWS = 200;

/**
 * Deletes some of what is kept for a time and is too old: usage, refusals and their log, audit events, leases and keys that are forgotten, operations.
 * Answers how many rows went.
 */
export function expireSome(
  store: CountStore,
  { usageKeepMs, auditKeepMs }: Retention,
  nowMs: number,
): MaybePromise<number> {
  return store.expire({
    nowMs,
    // A process that counts none leaves what others count to them.
    usageUntilMs: usageKeepMs === undefined ? undefined : lastHourOverMs(nowMs, usageKeepMs),
    logUntilMs: usageKeepMs === undefined ? undefined : lastHourOverMs(nowMs, LOG_KEPT_MS),
    auditUntilMs: nowMs - auditKeepMs,
    operationsUntilMs: nowMs - OPERATIONS_KEPT_MS,
    limitMax: STEP_ROWS,
  });
}

/** Repeats `expireSome` until nothing is left. */
export async function expireAll(store: CountStore, retention: Retention, nowMs: number): Promise<number> {
  let rows = 0;
  for (;;) {
    const deleted = await expireSome(store, retention, nowMs);
    if (deleted === 0) return rows;
    rows += deleted;
  }
}
