import {
  BILLED_WRITE_EVERY_MS,
  compareRefusals,
  isAskedFor,
  positionOfCursor,
  type RefusalCount,
  type RefusalPosition,
  refusalCursor,
  refusalKeyText,
  windowPosition,
} from "../../domain/charge/refusal-count.ts";
import { HOUR_MS, windowEndMs, windowStartMs } from "../../domain/charge/usage.ts";
import { VersionError } from "../../domain/names/errors.ts";
import { shown } from "../../domain/names/names.ts";
import type { Page, PageRequest } from "../../domain/names/paging.ts";
import type { RefusalQuery, RefusalRow, RefusalStore, RowReply } from "../../ports/refusal-store.ts";
import type { Attributes } from "./codec.ts";
import type { NamespaceWatch } from "./namespaces-record.ts";
import { chunksOf, merged, pageOf } from "./paging.ts";
import type { Records } from "./records.ts";
import { any, type Condition, keyIn, missing, putRecord, texts } from "./records-write.ts";
import { namespaceIdKey, PK, REFUSALS, REFUSALS_VERSION, SK, TTL } from "./schema.ts";
import {
  parseRefusalSk,
  REFUSAL_SLOTS,
  type RefusalRowName,
  refusalIndexKeys,
  refusalKey,
  refusalRange,
  refusalSlot,
  refusalsPk,
} from "./schema-refusals.ts";
import type { UsageKept } from "./usage-kept.ts";

interface Parts {
  readonly records: Records;
  /** For what must not hold up a limiter that closes. */
  readonly urgent: Records;
  readonly watch: NamespaceWatch;
  readonly kept: UsageKept;
}

/** A row as it was read. */
interface FoundRow extends RefusalRowName {
  readonly counts: RefusalRow["counts"];
}

/** Rows written at the same time. */
const WRITES_AT_ONCE = 10;
/** Read at first from each partition; then twice as many each time. */
const READ_AT_FIRST = 100;
const READ_AT_ONCE = 1_000;

/** Counts of one namespace, an item for each row: no two processes write the same one. */
export class DynamoRefusals implements RefusalStore {
  readonly isKept = true;
  readonly writeEveryMs = BILLED_WRITE_EVERY_MS;
  readonly #namespaceId: string;
  readonly #parts: Parts;

  constructor(namespaceId: string, parts: Parts) {
    this.#namespaceId = namespaceId;
    this.#parts = parts;
  }

  async write(rows: readonly RefusalRow[]): Promise<readonly RowReply[]> {
    const { urgent, watch } = this.#parts;
    watch.requireActive(this.#namespaceId, await urgent.get(namespaceIdKey(this.#namespaceId)));
    const replies: RowReply[] = [];
    for (const chunk of chunksOf(rows, WRITES_AT_ONCE)) {
      const some = await Promise.all(chunk.map((row) => this.#put(row)));
      replies.push(...some);
      // It is down: the rest would only wait for the same.
      if (some.every((reply) => reply === "unknown")) break;
    }
    return rows.map((_, i) => replies[i] ?? "unknown");
  }

  async query(query: RefusalQuery, { limit, cursor }: PageRequest): Promise<Page<RefusalCount>> {
    const after = positionOfCursor(cursor);
    return pageOf(this.#counts(query, after), limit, refusalCursor);
  }

  async #put(row: RefusalRow): Promise<RowReply> {
    const { version, mustExist, counts } = row;
    const isOlder: Condition = (e) => `${e.name(REFUSALS_VERSION)} < ${e.value({ N: String(version) })}`;
    const item: Attributes = {
      ...texts(refusalIndexKeys(this.#namespaceId, row)),
      [REFUSALS]: { S: JSON.stringify(counts.map(({ limit, level, total, count }) => [limit, level, total, count])) },
      [REFUSALS_VERSION]: { N: String(version) },
      [TTL]: { N: String(Math.ceil((row.hourMs + HOUR_MS) / 1000) + this.#parts.kept.keptS) },
    };
    const condition = mustExist ? isOlder : any(missing, isOlder);
    const reply = await this.#parts.urgent.writeOne(putRecord(refusalKey(this.#namespaceId, row), item, condition));
    if (reply.kind === "unavailable") return "unknown";
    if (reply.kind === "applied") return "stored";
    // Where it is there, an earlier attempt whose answer was lost has written it.
    return reply.item === undefined ? "gone" : "stored";
  }

  /** All counts after a position. Those of a window are complete when a row of a later one comes. */
  async *#counts(query: RefusalQuery, after: RefusalPosition | undefined): AsyncGenerator<RefusalCount> {
    let unit: string | undefined;
    let sums = new Map<string, RefusalCount>();
    const inOrder = () =>
      [...sums.values()]
        .filter((count) => after === undefined || compareRefusals(count, after) > 0)
        .sort(compareRefusals);
    for await (const row of this.#rows(query, after)) {
      const startMs = windowStartMs(query.window, row.hourMs);
      if (startMs < query.fromMs || startMs >= query.toMs) continue;
      // Rows come by hour, then by bucket: an hour need not be held whole, longer windows must.
      const own = query.window === "hourly" ? `${startMs} ${row.entityId} ${row.resource}` : String(startMs);
      if (own !== unit) {
        yield* inOrder();
        [unit, sums] = [own, new Map()];
      }
      add(sums, row, query, startMs);
    }
    yield* inOrder();
  }

  #rows(query: RefusalQuery, after: RefusalPosition | undefined): AsyncGenerator<FoundRow> {
    const { entityId, window, fromMs, toMs } = query;
    const { windowStartMs: hourMs, ...position } = after ?? windowPosition(fromMs);
    const begin = window === "hourly" ? { ...position, hourMs } : { hourMs, entityId: "", resource: "" };
    const lastMs = Math.min(toMs, Number.MAX_SAFE_INTEGER) - 1;
    // Beyond the calendar there is nothing; a window reaches over the instant up to which it may begin.
    const endMs = lastMs > CALENDAR_END_MS ? CALENDAR_END_MS : windowEndMs(window, windowStartMs(window, lastMs));
    const range = { name: SK, ...refusalRange(begin, endMs) };
    const slots = entityId === undefined ? REFUSAL_SLOTS : [refusalSlot(entityId)];
    return merged(
      slots.map((slot) => this.#slot(slot, range, entityId)),
      byBucket,
    );
  }

  async *#slot(
    slot: number,
    range: { readonly name: string; readonly from: string; readonly to: string },
    entityId: string | undefined,
  ): AsyncGenerator<FoundRow> {
    if (range.from > range.to) return;
    const items = this.#parts.records.query({
      ...{ partition: [PK, refusalsPk(this.#namespaceId, slot)], range, consistent: true },
      ...{ pageSize: READ_AT_FIRST, pageSizeMax: READ_AT_ONCE },
    });
    for await (const item of items) {
      const row = rowOf(item);
      if (entityId === undefined || row.entityId === entityId) yield row;
    }
  }
}

/** The year 9999: the last that keys have room for. */
const CALENDAR_END_MS = Date.UTC(9999, 11, 31);

function add(sums: Map<string, RefusalCount>, row: FoundRow, query: RefusalQuery, startMs: number): void {
  const { entityId, resource } = row;
  for (const { count, ...about } of row.counts) {
    const key = { entityId, resource, ...about };
    if (!isAskedFor(key, query)) continue;
    const text = refusalKeyText(key);
    const sum = (sums.get(text)?.count ?? 0) + count;
    sums.set(text, { ...key, window: query.window, windowStartMs: startMs, count: sum });
  }
}

function byBucket(a: FoundRow, b: FoundRow): number {
  const [left, right] = [`${a.entityId}#${a.resource}`, `${b.entityId}#${b.resource}`];
  return a.hourMs - b.hourMs || (left < right ? -1 : left > right ? 1 : 0);
}

function rowOf(item: Attributes): FoundRow {
  const { sk } = keyIn(item);
  const name = parseRefusalSk(sk);
  const counts = countsOf(item[REFUSALS]?.S);
  if (name !== undefined && counts !== undefined) return { ...name, counts };
  throw new VersionError(
    "item_unreadable",
    `The refusals under ${shown(sk)} cannot be read: the attribute "${REFUSALS}" is ${shown(item[REFUSALS]?.S)}, ` +
      "not a list of limits and counts. Delete the item; it only counts refusals.",
  );
}

function countsOf(text: string | undefined): RefusalRow["counts"] | undefined {
  let list: unknown;
  try {
    list = JSON.parse(text ?? "");
  } catch {
    return undefined;
  }
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
