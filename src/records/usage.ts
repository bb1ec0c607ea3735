import { type UsageSnapshot, type UsageWindow, windowEndMs } from "../domain/charge/usage.ts";
import { usageNotKept } from "../domain/config/retention.ts";
import type { Page, PageRequest } from "../domain/names/paging.ts";
import type { CountStore, Sum } from "../ports/record-store.ts";
import type { UsageQuery, UsageStore } from "../ports/usage-store.ts";
import { keyAfter, keyCursor } from "../stored/cursor.ts";
import { REQUESTS_COUNTER, shownCounters } from "../stored/usage-counters.ts";
import { sumsOf } from "./windows.ts";

/** Usage of one namespace: the hours that have left their buckets and those that buckets still carry, added up when asked for. */
export class RecordUsage implements UsageStore {
  readonly #counts: CountStore;
  readonly #namespaceId: string;
  readonly #isKept: boolean;

  constructor(counts: CountStore, namespaceId: string, isKept: boolean) {
    this.#counts = counts;
    this.#namespaceId = namespaceId;
    this.#isKept = isKept;
  }

  async query(query: UsageQuery, { limit, cursor }: PageRequest): Promise<Page<UsageSnapshot>> {
    if (!this.#isKept) throw usageNotKept();
    const { window, entityId, resource, fromMs, toMs } = query;
    const { sums, nextMs } = await sumsOf(this.#counts, this.#namespaceId, {
      ...{ kind: "usage", window, fromMs, toMs, after: afterOf(cursor) },
      ...{ entityId, resource, limit: undefined, limitMax: limit + 1 },
    });
    const items = sums.slice(0, limit).map((sum) => snapshotOf(window, sum));
    const last = sums[items.length - 1];
    if (sums.length > limit && last !== undefined) {
      return { items, cursor: keyCursor(String(last.startMs), ...last.key) };
    }
    return nextMs === undefined ? { items } : { items, cursor: keyCursor(String(nextMs), "", "") };
  }
}

function afterOf(cursor: string | undefined) {
  const [start, ...key] = keyAfter(cursor, 3) ?? [];
  return start === undefined ? undefined : { startMs: Number(start), key };
}

function snapshotOf(window: UsageWindow, { startMs, key, counts }: Sum): UsageSnapshot {
  const { [REQUESTS_COUNTER]: requests = "0", ...counters } = counts;
  return {
    entityId: key[0] as string,
    resource: key[1] as string,
    window,
    windowStartMs: startMs,
    windowEndMs: windowEndMs(window, startMs),
    ...shownCounters(new Map(Object.entries(counters).map(([name, milli]) => [name, BigInt(milli)]))),
    requests: Number(requests),
  };
}
