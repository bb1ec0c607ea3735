import { LOG_KEPT_MS, logText, type RefusalLogRow, refusalsIn } from "../../domain/charge/refusal-log.ts";
import { HOUR_MS } from "../../domain/charge/usage.ts";
import { VersionError } from "../../domain/names/errors.ts";
import { shown } from "../../domain/names/names.ts";
import type { Page, PageRequest } from "../../domain/names/paging.ts";
import type { LogRowQuery, RefusalLogStore, RowReply, WrittenLogRow } from "../../ports/usage-store.ts";
import { writeRows } from "./book-rows.ts";
import type { Attributes } from "./codec.ts";
import type { NamespaceParts } from "./namespace-parts.ts";
import { compareTexts, merged, pageAfter } from "./paging.ts";
import { namespaceIndex, tablePartition } from "./records.ts";
import { keyIn, texts } from "./records-write.ts";
import { type KeySpan, REFUSAL_LOG, ROW_VERSION, TTL } from "./schema.ts";
import {
  BOOK_SLOTS,
  parseRefusalLogSk,
  refusalLogIndexKeys,
  refusalLogKey,
  refusalLogPk,
  refusalLogRange,
} from "./schema-leases.ts";

/** The size of the first read of each partition; it doubles with every page. Rows have up to 6 kB. */
const READ_AT_FIRST = 25;
const READ_AT_ONCE = 200;

/** Single refusals of one namespace: an item for each process, entity and hour. No two processes write the same one. */
export class DynamoRefusalLog implements RefusalLogStore {
  readonly #parts: NamespaceParts;

  constructor(parts: NamespaceParts) {
    this.#parts = parts;
  }

  write(rows: readonly WrittenLogRow[]): Promise<readonly RowReply[]> {
    const { namespaceId } = this.#parts;
    return writeRows(this.#parts, rows, (row) => [refusalLogKey(namespaceId, row), refusalLogItem(namespaceId, row)]);
  }

  /** The rows of one entity come from the index of the namespace, which lags a moment; the items that it finds are read as they are now. */
  list(query: LogRowQuery, page: PageRequest): Promise<Page<RefusalLogRow>> {
    const { namespaceId } = this.#parts;
    const placeOf = (row: RefusalLogRow) => refusalLogKey(namespaceId, row).sk;
    return pageAfter(page, (after) => this.#rows(query, after), placeOf);
  }

  async *#rows(query: LogRowQuery, after: string | undefined): AsyncGenerator<RefusalLogRow> {
    const range = refusalLogRange(query, after === undefined ? undefined : parseRefusalLogSk(after));
    if (range.from > range.to) return;
    const items = query.entityId === undefined ? this.#ofAll(range) : this.#ofOne(range);
    for await (const item of items) if (after === undefined || keyIn(item).sk < after) yield rowOf(item);
  }

  #ofAll(range: KeySpan): AsyncGenerator<Attributes> {
    const { namespaceId, records } = this.#parts;
    const pages = { backwards: true, pageSize: READ_AT_FIRST, pageSizeMax: READ_AT_ONCE } as const;
    const slots = BOOK_SLOTS.map((slot) =>
      records.query({ ...tablePartition(refusalLogPk(namespaceId, slot), range), ...pages }),
    );
    return merged(slots, (a, b) => compareTexts(keyIn(b).sk, keyIn(a).sk));
  }

  async *#ofOne(range: KeySpan): AsyncGenerator<Attributes> {
    const { namespaceId, records } = this.#parts;
    const keys = records.query({ ...namespaceIndex(namespaceId, range), backwards: true });
    for await (const [, item] of records.lookUp(keys, READ_AT_FIRST, keyIn)) if (item !== undefined) yield item;
  }
}

/** A row as an item, without its key. */
export function refusalLogItem(namespaceId: string, row: RefusalLogRow): Attributes {
  return {
    ...texts(refusalLogIndexKeys(namespaceId, row)),
    [REFUSAL_LOG]: { S: logText(row) },
    [ROW_VERSION]: { N: String(row.version) },
    [TTL]: { N: String(Math.ceil((row.hourMs + HOUR_MS + LOG_KEPT_MS) / 1000)) },
  };
}

function rowOf(item: Attributes): RefusalLogRow {
  const { sk } = keyIn(item);
  const name = parseRefusalLogSk(sk);
  const text = item[REFUSAL_LOG]?.S;
  const refusals = name && refusalsIn(name.hourMs, text);
  if (name !== undefined && refusals !== undefined) {
    return { ...name, version: Number(item[ROW_VERSION]?.N), refusals };
  }
  throw new VersionError(
    "item_unreadable",
    `The refusals under ${shown(sk)} cannot be read: the attribute "${REFUSAL_LOG}" is ${shown(text?.slice(0, 200))}, ` +
      "not a list of refusals. Delete the item; it only tells of refusals.",
  );
}
