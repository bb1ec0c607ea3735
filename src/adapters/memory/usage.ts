import { countersOf, shownWindow, type UsageSnapshot } from "../../domain/charge/usage.ts";
import { usageNotKept } from "../../domain/config/retention.ts";
import { ValidationError } from "../../domain/names/errors.ts";
import type { UsageQuery, UsageStore } from "../../ports/usage-store.ts";
import { dataOf, type MemoryData, type NamespaceData } from "./data.ts";
import type { HourUsage } from "./hour-usage.ts";
import { pageInOrder, sameText } from "./ordered-pages.ts";
import { type IdWindow, windowList } from "./windows.ts";

/** Days and months are sums of hours, made when asked for. */
export function memoryUsage(all: MemoryData, namespaceId: string): UsageStore {
  const data = dataOf(all, namespaceId);
  return {
    query: (query, page) => {
      if (all.retention.usageKeepMs === undefined) throw usageNotKept();
      const itemOf = (of: IdWindow) => snapshotOf(data, query, of);
      const list = windowList(data.countedHours, query, itemOf, { textOf: sameText, keyOf: checkedCursor });
      return pageInOrder(all.turns, list, page);
    },
  };
}

function snapshotOf(
  { buckets }: NamespaceData,
  { window, resource: wanted }: UsageQuery,
  { startMs, endMs, id }: IdWindow,
): UsageSnapshot | undefined {
  const cell = buckets.get(id);
  if (cell?.hours === undefined || (wanted !== undefined && cell.key.resource !== wanted)) return undefined;
  const hours = cell.hours.filter(({ hourMs }) => hourMs >= startMs && hourMs < endMs);
  if (hours.length === 0) return undefined;
  const { entityId, resource } = cell.key;
  return { entityId, resource, ...shownWindow(window, startMs), ...sum(hours) };
}

function sum(hours: readonly HourUsage[]) {
  const counted = new Map<string, number>();
  let requests = 0;
  for (const hour of hours) {
    for (const [i, name] of hour.names.entries()) counted.set(name, (counted.get(name) ?? 0) + (hour.tokens[i] ?? 0));
    requests += hour.requests;
  }
  return { ...countersOf(counted), requests };
}

function checkedCursor(text: string): string {
  const [start, entityId, resource] = text.split("\n");
  if (resource === undefined || entityId === undefined || !Number.isSafeInteger(Number(start))) {
    throw new ValidationError(
      "cursor_invalid",
      `${JSON.stringify(text)} is not a cursor of this list; pass the cursor of the previous page.`,
    );
  }
  return text;
}
