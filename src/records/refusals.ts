import {
  positionOfCursor,
  type RefusalCount,
  refusalCursor,
  refusalsNotKept,
  WRITE_EVERY_MS,
  windowPosition,
} from "../domain/charge/refusal-count.ts";
import type { UsageWindow } from "../domain/charge/usage.ts";
import type { Page, PageRequest } from "../domain/names/paging.ts";
import type { CountStore, RecordKey, RecordPut, StoredRecord, Sum } from "../ports/record-store.ts";
import type { RefusalQuery, RefusalRow, RefusalStore, RowReply } from "../ports/refusal-store.ts";
import { objectIn } from "./bodies.ts";
import { CommitUnavailable } from "./changes.ts";
import type { RecordParts } from "./parts.ts";
import { sumsOf } from "./windows.ts";

/** Counts of one namespace: a record for each row of a process, added up when asked for. */
export class RecordRefusals implements RefusalStore {
  readonly isKept: boolean;
  readonly writeEveryMs = WRITE_EVERY_MS;
  readonly #parts: RecordParts;
  readonly #counts: CountStore;
  readonly #namespaceId: string;

  constructor(parts: RecordParts, counts: CountStore, namespaceId: string, isKept: boolean) {
    this.#parts = parts;
    this.#counts = counts;
    this.#namespaceId = namespaceId;
    this.isKept = isKept;
  }

  async write(rows: readonly RefusalRow[]): Promise<readonly RowReply[]> {
    if (!this.isKept) throw refusalsNotKept("usage");
    try {
      return await this.#parts.changes.write(this.#namespaceId, rows.map(keyOf), "active", (found) => {
        const replies = rows.map((row, i): RowReply => (row.mustExist && found[i] === undefined ? "gone" : "stored"));
        const puts = rows.flatMap((row, i) => (replies[i] === "gone" ? [] : putsFor(row, found[i])));
        return { reply: replies, ...(puts.length === 0 ? {} : { write: { puts } }) };
      });
    } catch (error) {
      if (error instanceof CommitUnavailable && error.applied === "unknown") return rows.map(() => "unknown");
      throw error;
    }
  }

  async query(query: RefusalQuery, { limit, cursor }: PageRequest): Promise<Page<RefusalCount>> {
    if (!this.isKept) throw refusalsNotKept("usage");
    const { window, entityId, resource, limit: name, fromMs, toMs } = query;
    const position = positionOfCursor(cursor);
    const after = position && {
      startMs: position.windowStartMs,
      key: [position.entityId, position.resource, position.limit, position.level, position.total ? "1" : "0"],
    };
    const { sums, nextMs } = await sumsOf(this.#counts, this.#namespaceId, {
      ...{ kind: "refusal", window, fromMs, toMs, after },
      ...{ entityId, resource, limit: name, limitMax: limit + 1 },
    });
    const items = sums.slice(0, limit).map((sum) => countOf(window, sum));
    const last = items.at(-1);
    if (sums.length > limit && last !== undefined) return { items, cursor: refusalCursor(last) };
    return nextMs === undefined ? { items } : { items, cursor: refusalCursor(windowPosition(nextMs)) };
  }
}

function keyOf({ id, hourMs, entityId, resource }: RefusalRow): RecordKey {
  return { kind: "refusal", key: [String(hourMs), entityId, resource, id] };
}

/** Nothing where a newer one is there: this one has been on its way for long. */
function putsFor(row: RefusalRow, known: StoredRecord | undefined): readonly RecordPut[] {
  const { version, counts } = row;
  if (known !== undefined && objectIn<Pick<RefusalRow, "version">>(known).version >= version) return [];
  return [{ kind: "refusal", key: keyOf(row).key, by: {}, body: { version, counts } }];
}

function countOf(window: UsageWindow, { startMs, key, counts }: Sum): RefusalCount {
  const [entityId, resource, limit, level, total] = key as [string, string, string, string, string];
  const about = { entityId, resource, limit, level, total: total === "1" };
  return { ...about, window, windowStartMs: startMs, count: Number(counts.count) };
}
