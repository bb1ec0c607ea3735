import { shownWindow, type UsageSnapshot, windowEndMs, windowStartMs } from "../../domain/charge/usage.ts";
import { usageNotKept } from "../../domain/config/retention.ts";
import type { CronCheck } from "../../domain/limits/schedule.ts";
import type { Page, PageRequest } from "../../domain/names/paging.ts";
import type { UsageQuery, UsageStore } from "../../ports/usage-store.ts";
import { keyAfter, keyCursor } from "../../stored/cursor.ts";
import { addAmounts, addText, type Counters, leaving, shownCounters } from "../../stored/open-hour.ts";
import { bucketRow, COLUMNS } from "./bucket-rows.ts";
import type { Connection, Row, Statement } from "./connection.ts";

interface Pair {
  readonly entityId: string;
  readonly resource: string;
}

/** A bucket in a window, and what it counted there, if anything and if it is asked for. */
interface Looked extends Pair {
  readonly startMs: number;
  readonly snapshot: UsageSnapshot | undefined;
}

/** One page looks at this many buckets at most: where few of many are asked for, the rest must not be walked in one go. */
const LOOKED_AT_MAX = 1_000;

/** Before all others. */
const FIRST: Pair = { entityId: "", resource: "" };

/** The place in one table within one hour. */
interface Head {
  readonly next: Statement;
  readonly hourMs: number;
  readonly pair: Pair;
}

interface Span {
  readonly startMs: number;
  readonly endMs: number;
}

interface UsageParts {
  readonly connection: Connection;
  readonly namespaceId: string;
  readonly calendar: CronCheck;
  readonly isKept: boolean;
}

/**
 * Usage of one namespace: the hours in the table and those that buckets still carry, summed when asked for. Both are walked
 * by key, a window at a time and within it a bucket at a time, so that a page costs what it shows.
 */
export class SqliteUsage implements UsageStore {
  readonly #parts: UsageParts;
  readonly #firstHours: readonly Statement[];
  readonly #firstHoursOfEntity: readonly Statement[];
  readonly #nextPairs: readonly Statement[];
  readonly #nextPairsOfHour: readonly Statement[];
  readonly #hours: Statement;
  readonly #openHour: Statement;

  constructor(parts: UsageParts) {
    const { connection } = parts;
    this.#parts = parts;
    // The indexes are named: without statistics SQLite would rather go over all buckets of the hours.
    const inBoth = (sql: (table: string, keys: string) => string) =>
      [sql("usage", "usage_entity"), sql("bucket", "bucket_key")].map((text) => connection.prepare(text));
    this.#firstHours = inBoth((table) => `SELECT min(hour_ms) FROM ${table} WHERE namespace = ? AND hour_ms >= ?`);
    this.#firstHoursOfEntity = inBoth(
      (table, keys) =>
        `SELECT min(hour_ms) FROM ${table} INDEXED BY ${keys} WHERE namespace = ? AND hour_ms >= ? AND entity = ?`,
    );
    this.#nextPairs = inBoth(
      (table, keys) => `SELECT entity, resource FROM ${table} INDEXED BY ${keys}
        WHERE namespace = ? AND (entity, resource) > (?, ?) ORDER BY entity, resource LIMIT 1`,
    );
    this.#nextPairsOfHour = inBoth(
      (table) => `SELECT entity, resource FROM ${table}
        WHERE namespace = ? AND (entity, resource) > (?, ?) AND hour_ms = ? ORDER BY entity, resource LIMIT 1`,
    );
    this.#hours = connection.prepare(
      `SELECT requests, counters FROM usage INDEXED BY usage_entity
       WHERE namespace = ? AND entity = ? AND resource = ? AND hour_ms >= ? AND hour_ms < ?`,
    );
    this.#openHour = connection.prepare(
      `SELECT ${COLUMNS} FROM bucket
       WHERE namespace = ? AND entity = ? AND resource = ? AND hour_ms >= ? AND hour_ms < ?`,
    );
  }

  /** A page may be shorter than asked for, and have a next one: so many are looked at for it at most. */
  query(query: UsageQuery, { limit, cursor }: PageRequest): Page<UsageSnapshot> {
    if (!this.#parts.isKept) throw usageNotKept();
    const after = keyAfter(cursor, 3);
    return this.#parts.connection.readTogether(() => {
      const items: UsageSnapshot[] = [];
      let looked = 0;
      let last: Looked | undefined;
      for (const next of this.#from(query, after)) {
        const isFull = items.length === limit && next.snapshot !== undefined;
        if (last !== undefined && (isFull || looked === LOOKED_AT_MAX)) {
          return { items, cursor: keyCursor(String(last.startMs), last.entityId, last.resource) };
        }
        looked++;
        if (next.snapshot !== undefined) items.push(next.snapshot);
        last = next;
      }
      return { items };
    });
  }

  *#from(query: UsageQuery, after: readonly string[] | undefined): Generator<Looked> {
    let fromMs = query.fromMs;
    let pair = FIRST;
    if (after !== undefined) {
      fromMs = Number(after[0]);
      pair = { entityId: after[1] as string, resource: after[2] as string };
    }
    for (;;) {
      const hourMs = this.#firstHour(query, fromMs);
      if (hourMs === undefined) return;
      const startMs = windowStartMs(query.window, hourMs);
      if (startMs >= query.toMs) return;
      const endMs = windowEndMs(query.window, startMs);
      // The cursor's pair counts in the cursor's window alone; a window that began before `fromMs` is not asked for.
      if (startMs !== fromMs) pair = FIRST;
      if (startMs >= query.fromMs) yield* this.#inWindow(query, { startMs, endMs }, pair);
      fromMs = endMs;
      pair = FIRST;
    }
  }

  *#inWindow(query: UsageQuery, span: Span, after: Pair): Generator<Looked> {
    const { entityId, resource } = query;
    const pairs = entityId === undefined ? this.#pairsIn(span, after) : this.#pairsOf(entityId, after);
    for (const pair of pairs) {
      const isWanted = resource === undefined || pair.resource === resource;
      yield { ...pair, startMs: span.startMs, snapshot: isWanted ? this.#sum(query, span, pair) : undefined };
    }
  }

  /** All buckets of an entity that ever counted, in order. */
  *#pairsOf(entityId: string, after: Pair): Generator<Pair> {
    let pair = after.entityId < entityId ? { entityId, resource: "" } : after;
    for (;;) {
      const rows = this.#nextPairs.map((next) => next.get(this.#parts.namespaceId, pair.entityId, pair.resource));
      const found = rows.flatMap((row) => (row === undefined ? [] : [pairOf(row)]));
      if (found.length === 0) return;
      pair = found.reduce(earlier);
      if (pair.entityId !== entityId) return;
      yield pair;
    }
  }

  /** The buckets that counted in a span, in order. Each hour has its own in order, so the hours are merged. */
  *#pairsIn({ startMs, endMs }: Span, after: Pair): Generator<Pair> {
    let heads: Head[] = [];
    for (const [table, first] of this.#firstHours.entries()) {
      for (let hourMs = this.#hourIn(first, startMs); hourMs < endMs; hourMs = this.#hourIn(first, hourMs + 1)) {
        heads.push(...this.#headAfter({ next: this.#nextPairsOfHour[table] as Statement, hourMs, pair: after }));
      }
    }
    while (heads.length > 0) {
      const pair = heads.map((head) => head.pair).reduce(earlier);
      yield pair;
      heads = heads.flatMap((head) => (isSame(head.pair, pair) ? this.#headAfter(head) : [head]));
    }
  }

  #hourIn(first: Statement, fromMs: number): number {
    const hourMs = first.get(this.#parts.namespaceId, fromMs)?.[0];
    return typeof hourMs === "number" ? hourMs : Number.POSITIVE_INFINITY;
  }

  #headAfter({ next, hourMs, pair }: Head): readonly Head[] {
    const row = next.get(this.#parts.namespaceId, pair.entityId, pair.resource, hourMs);
    return row === undefined ? [] : [{ next, hourMs, pair: pairOf(row) }];
  }

  #firstHour({ entityId }: UsageQuery, fromMs: number): number | undefined {
    const { namespaceId } = this.#parts;
    const rows =
      entityId === undefined
        ? this.#firstHours.map((first) => first.get(namespaceId, fromMs))
        : this.#firstHoursOfEntity.map((first) => first.get(namespaceId, fromMs, entityId));
    const found = rows.flatMap((row) => (typeof row?.[0] === "number" ? [row[0]] : []));
    return found.length === 0 ? undefined : Math.min(...found);
  }

  #sum(query: UsageQuery, { startMs, endMs }: Span, pair: Pair): UsageSnapshot | undefined {
    const { entityId, resource } = pair;
    const hours = this.#hours.all(this.#parts.namespaceId, entityId, resource, startMs, endMs);
    const bucket = this.#openHour.get(this.#parts.namespaceId, entityId, resource, startMs, endMs);
    const open = bucket === undefined ? [] : openCounts(bucket, pair, this.#parts.calendar);
    if (hours.length === 0 && open.length === 0) return undefined;
    const counters: Counters = new Map();
    let requests = 0;
    for (const [count, text] of hours) {
      requests += count as number;
      addText(counters, text as string);
    }
    for (const count of open) {
      requests += count.requests;
      addAmounts(counters, count);
    }
    return { entityId, resource, ...shownWindow(query.window, startMs), ...shownCounters(counters), requests };
  }
}

function openCounts(columns: Row, pair: Pair, calendar: CronCheck) {
  const { open, shape } = bucketRow(columns, pair, calendar);
  return leaving(open, shape.counts);
}

function pairOf([entityId, resource]: Row): Pair {
  return { entityId: entityId as string, resource: resource as string };
}

function isSame(a: Pair, b: Pair): boolean {
  return a.entityId === b.entityId && a.resource === b.resource;
}

function earlier(a: Pair, b: Pair): Pair {
  if (a.entityId !== b.entityId) return a.entityId < b.entityId ? a : b;
  return a.resource <= b.resource ? a : b;
}
