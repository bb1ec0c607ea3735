import {
  type CallerCounts,
  callerCursor,
  compareUsage,
  type UsagePosition,
  usagePositionOf,
} from "../../domain/charge/caller-usage.ts";
import {
  BILLED_WRITE_EVERY_MS,
  compareRefusals,
  isAskedFor,
  positionOfCursor,
  type RefusalCount,
  refusalCursor,
  refusalKeyText,
} from "../../domain/charge/refusal-count.ts";
import { HOUR_MS, type Windows, windowEndMs, windowStartMs } from "../../domain/charge/usage.ts";
import { VersionError } from "../../domain/names/errors.ts";
import { shown } from "../../domain/names/names.ts";
import type { Page, PageRequest } from "../../domain/names/paging.ts";
import type {
  CallerRow,
  CallerStore,
  CallerSum,
  RefusalQuery,
  RefusalRow,
  RefusalStore,
  RowReply,
  UsageQuery,
} from "../../ports/usage-store.ts";
import type { Attributes } from "./codec.ts";
import type { NamespaceParts } from "./namespace-parts.ts";
import { chunksOf, compareTexts, merged, pageOf } from "./paging.ts";
import { tablePartition } from "./records.ts";
import { any, type Condition, keyIn, missing, putRecord, texts } from "./records-write.ts";
import { CALLER_COUNTS, type KeySpan, namespaceIdKey, REFUSALS, ROW_VERSION, type TableKey, TTL } from "./schema.ts";
import {
  BOOK_SLOTS,
  type BookName,
  type BookRowName,
  bookIndexKeys,
  bookKey,
  bookPk,
  bookRange,
  bookSlot,
  parseBookSk,
} from "./schema-leases.ts";

/** A row of one process: what it counted of one entity on one resource in an hour. */
interface Row extends BookRowName {
  readonly version: number;
  readonly mustExist: boolean;
}

/** A book: how what a row counts stands in its item, as JSON. */
interface BookForm<Counts> {
  readonly name: BookName;
  readonly attribute: string;
  readonly encode: (counts: Counts) => unknown;
  /** Undefined: the JSON says something else. */
  readonly decode: (json: unknown) => Counts | undefined;
  /** Words for the error about an item that cannot be read. */
  readonly words: { readonly counts: string; readonly form: string; readonly only: string };
}

/** The rows that are asked for. */
interface RowQuery {
  readonly window: Windows;
  readonly entityId?: string;
  readonly fromMs: number;
  readonly toMs: number;
}

/** The place in a list after which rows are wanted; those of its window are read from its bucket on, where they are in that order. */
interface RowPlace {
  readonly windowStartMs: number;
  readonly entityId: string;
  readonly resource: string;
}

const WRITES_AT_ONCE = 10;
/** The size of the first read of each partition; it doubles with every page. */
const READ_AT_FIRST = 100;
const READ_AT_ONCE = 1_000;

/** Rows of one book and namespace: one item per row. No two processes write the same row. */
abstract class BookRows<Counts> {
  readonly isKept = true;
  readonly writeEveryMs = BILLED_WRITE_EVERY_MS;
  readonly #namespaceId: string;
  readonly #parts: NamespaceParts;
  readonly #form: BookForm<Counts>;

  constructor(parts: NamespaceParts, form: BookForm<Counts>) {
    this.#namespaceId = parts.namespaceId;
    this.#parts = parts;
    this.#form = form;
  }

  write(rows: readonly (Row & { readonly counts: Counts })[]): Promise<readonly RowReply[]> {
    const { name } = this.#form;
    return writeRows(this.#parts, rows, (row) => {
      const item = bookItem(this.#form, this.#namespaceId, row, this.#parts.kept.keptS);
      return [bookKey(name, this.#namespaceId, row), item];
    });
  }

  /** Rows by hour and bucket, in the windows that are asked for. */
  protected async *rows(
    query: RowQuery,
    after: RowPlace | undefined,
  ): AsyncGenerator<BookRowName & { readonly counts: Counts }> {
    const { entityId, window, fromMs, toMs } = query;
    const { windowStartMs: hourMs, ...place } = after ?? { windowStartMs: fromMs, entityId: "", resource: "" };
    const begin = window === "hourly" ? { ...place, hourMs } : { hourMs, entityId: "", resource: "" };
    const lastMs = Math.min(toMs, Number.MAX_SAFE_INTEGER) - 1;
    // There is nothing beyond the calendar. The last window may end after `toMs`.
    const endMs = lastMs > CALENDAR_END_MS ? CALENDAR_END_MS : windowEndMs(window, windowStartMs(window, lastMs));
    const range = bookRange(begin, endMs);
    const slots = entityId === undefined ? BOOK_SLOTS : [bookSlot(entityId)];
    const found = merged(
      slots.map((slot) => this.#slot(slot, range, entityId)),
      byBucket,
    );
    for await (const row of found) {
      const startMs = windowStartMs(window, row.hourMs);
      if (startMs >= fromMs && startMs < toMs) yield row;
    }
  }

  async *#slot(
    slot: number,
    range: KeySpan,
    entityId: string | undefined,
  ): AsyncGenerator<BookRowName & { readonly counts: Counts }> {
    if (range.from > range.to) return;
    const partition = tablePartition(bookPk(this.#form.name, this.#namespaceId, slot), range);
    const pages = { pageSize: READ_AT_FIRST, pageSizeMax: READ_AT_ONCE };
    for await (const item of this.#parts.records.query({ ...partition, ...pages })) {
      const { sk } = keyIn(item);
      const name = parseBookSk(sk);
      if (name === undefined || (entityId !== undefined && name.entityId !== entityId)) continue;
      yield { ...name, counts: countsIn(this.#form, item, sk) };
    }
  }
}

/** Writes rows that this process writes again and again, each unless a newer one of it is there. */
export async function writeRows<One extends Pick<Row, "version" | "mustExist">>(
  { namespaceId, urgent, watch }: NamespaceParts,
  rows: readonly One[],
  putOf: (row: One) => readonly [TableKey, Attributes],
): Promise<readonly RowReply[]> {
  // Bounded by the time of a request, so that closing a limiter is not delayed.
  watch.requireActive(namespaceId, await urgent.get(namespaceIdKey(namespaceId)));
  const put = async (row: One): Promise<RowReply> => {
    const isOlder: Condition = (e) => `${e.name(ROW_VERSION)} < ${e.value({ N: String(row.version) })}`;
    const [key, item] = putOf(row);
    const reply = await urgent.writeOne(putRecord(key, item, row.mustExist ? isOlder : any(missing, isOlder)));
    if (reply.kind === "unavailable") return "unknown";
    if (reply.kind === "applied") return "stored";
    // If the item exists, an earlier attempt whose answer was lost has written it.
    return reply.item === undefined ? "gone" : "stored";
  };
  const replies: RowReply[] = [];
  for (const chunk of chunksOf(rows, WRITES_AT_ONCE)) {
    const some = await Promise.all(chunk.map(put));
    replies.push(...some);
    // The table is down; the remaining writes would only wait.
    if (some.every((reply) => reply === "unknown")) break;
  }
  return rows.map((_, i) => replies[i] ?? "unknown");
}

/**
 * Sums of rows after a place, in order. A window is complete once a row of a later one is read: hourly ones per bucket, longer ones are
 * held whole.
 */
async function* summed<Row extends BookRowName, Sum>(
  rows: AsyncIterable<Row>,
  window: Windows,
  sumsOf: (rows: readonly Row[], startMs: number) => readonly Sum[],
): AsyncGenerator<Sum> {
  let unit: { readonly name: string; readonly startMs: number; readonly rows: Row[] } | undefined;
  for await (const row of rows) {
    const startMs = windowStartMs(window, row.hourMs);
    const name = window === "hourly" ? `${startMs} ${row.entityId} ${row.resource}` : String(startMs);
    if (unit?.name === name) {
      unit.rows.push(row);
      continue;
    }
    if (unit !== undefined) yield* sumsOf(unit.rows, unit.startMs);
    unit = { name, startMs, rows: [row] };
  }
  if (unit !== undefined) yield* sumsOf(unit.rows, unit.startMs);
}

/** A row as an item, without its key. */
function bookItem<Counts>(
  { name, attribute, encode }: BookForm<Counts>,
  namespaceId: string,
  row: Row & { readonly counts: Counts },
  keptS: number,
): Attributes {
  return {
    ...texts(bookIndexKeys(name, namespaceId, row)),
    [attribute]: { S: JSON.stringify(encode(row.counts)) },
    [ROW_VERSION]: { N: String(row.version) },
    [TTL]: { N: String(Math.ceil((row.hourMs + HOUR_MS) / 1000) + keptS) },
  };
}

function countsIn<Counts>({ attribute, decode, words }: BookForm<Counts>, item: Attributes, sk: string): Counts {
  const text = item[attribute]?.S;
  const counts = decode(jsonIn(text ?? ""));
  if (counts !== undefined) return counts;
  throw new VersionError(
    "item_unreadable",
    `The ${words.counts} under ${shown(sk)} cannot be read: the attribute "${attribute}" is ${shown(text)}, ` +
      `not ${words.form}. Delete the item; it only counts ${words.only}.`,
  );
}

function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The last year that keys have room for. */
const CALENDAR_END_MS = Date.UTC(9999, 11, 31);

function byBucket(a: BookRowName, b: BookRowName): number {
  return a.hourMs - b.hourMs || compareTexts(`${a.entityId}#${a.resource}`, `${b.entityId}#${b.resource}`);
}

const CALLED = {
  name: "CALLED",
  attribute: CALLER_COUNTS,
  encode: (counts: CallerCounts) => counts,
  decode: callerCountsOf,
  words: { counts: "usage", form: "an object of counts", only: "usage of a caller" },
} as const;

/** Usage of callers of one namespace that no bucket counts. */
export class DynamoCallers extends BookRows<CallerCounts> implements CallerStore {
  constructor(parts: NamespaceParts) {
    super(parts, CALLED);
  }

  async query(query: UsageQuery, { limit, cursor }: PageRequest): Promise<Page<CallerSum>> {
    const after = usagePositionOf(cursor);
    const found = summed(this.rows(query, after), query.window, (rows, windowStartMs) => {
      const sums = new Map<string, { readonly place: UsagePosition; readonly counts: Map<string, number> }>();
      for (const { entityId, resource, counts } of rows) {
        if (query.resource !== undefined && resource !== query.resource) continue;
        const place = { windowStartMs, entityId, resource };
        const sum = sums.get(callerCursor(place)) ?? { place, counts: new Map<string, number>() };
        sums.set(callerCursor(place), sum);
        for (const [name, count] of Object.entries(counts)) sum.counts.set(name, (sum.counts.get(name) ?? 0) + count);
      }
      return Array.from(sums.values(), ({ place, counts }) => ({ ...place, counts: Object.fromEntries(counts) }))
        .filter((sum) => after === undefined || compareUsage(sum, after) > 0)
        .sort(compareUsage);
    });
    return pageOf(found, limit, callerCursor);
  }
}

/** A row as an item, without its key. */
export function callerItem(namespaceId: string, row: CallerRow, keptS: number): Attributes {
  return bookItem(CALLED, namespaceId, row, keptS);
}

function callerCountsOf(counts: unknown): CallerCounts | undefined {
  if (typeof counts !== "object" || counts === null || Array.isArray(counts)) return undefined;
  return Object.values(counts).every(Number.isSafeInteger) ? (counts as CallerCounts) : undefined;
}

type RefusalCounts = RefusalRow["counts"];

const REFUSED = {
  name: "REFUSED",
  attribute: REFUSALS,
  encode: (counts: RefusalCounts) => counts.map(({ limit, level, total, count }) => [limit, level, total, count]),
  decode: refusalCountsOf,
  words: { counts: "refusals", form: "a list of limits and counts", only: "refusals" },
} as const;

export class DynamoRefusals extends BookRows<RefusalCounts> implements RefusalStore {
  constructor(parts: NamespaceParts) {
    super(parts, REFUSED);
  }

  async query(query: RefusalQuery, { limit, cursor }: PageRequest): Promise<Page<RefusalCount>> {
    const after = positionOfCursor(cursor);
    const counts = summed(this.rows(query, after), query.window, (rows, startMs) => {
      const sums = sumsOf(rows, query, startMs);
      return sums.filter((count) => after === undefined || compareRefusals(count, after) > 0).sort(compareRefusals);
    });
    return pageOf(counts, limit, refusalCursor);
  }
}

/** A row as an item, without its key. */
export function refusalItem(namespaceId: string, row: RefusalRow, keptS: number): Attributes {
  return bookItem(REFUSED, namespaceId, row, keptS);
}

function sumsOf(
  rows: readonly (BookRowName & { readonly counts: RefusalCounts })[],
  query: RefusalQuery,
  startMs: number,
): RefusalCount[] {
  const sums = new Map<string, RefusalCount>();
  for (const { entityId, resource, counts } of rows) {
    for (const { count, ...about } of counts) {
      const key = { entityId, resource, ...about };
      if (!isAskedFor(key, query)) continue;
      const text = refusalKeyText(key);
      const sum = (sums.get(text)?.count ?? 0) + count;
      sums.set(text, { ...key, window: query.window, windowStartMs: startMs, count: sum });
    }
  }
  return [...sums.values()];
}

function refusalCountsOf(list: unknown): RefusalCounts | undefined {
  if (!Array.isArray(list) || !list.every(isCount)) return undefined;
  return list.map(([limit, level, total, count]) => ({ limit, level, total, count }));
}

function isCount(entry: unknown): entry is [string, string, boolean, number] {
  if (!Array.isArray(entry) || entry.length !== 4) return false;
  const [limit, level, total, count] = entry as unknown[];
  return (
    typeof limit === "string" && typeof level === "string" && typeof total === "boolean" && Number.isSafeInteger(count)
  );
}
