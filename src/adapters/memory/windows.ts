import { type Windows, windowEndMs, windowStartMs } from "../../domain/charge/usage.ts";
import type { OrderedList } from "./ordered-pages.ts";

/** The ids of what was counted in each hour, in order. An id begins with that of an entity and a line break. */
type IdsByHour = ReadonlyMap<number, { keysAfter(text: string, max: number): readonly string[] }>;

interface WindowQuery {
  readonly window: Windows;
  readonly entityId?: string;
  /** Windows that start in [fromMs, toMs). */
  readonly fromMs: number;
  readonly toMs: number;
}

/** A window of what is counted under one id. */
export interface IdWindow {
  readonly startMs: number;
  readonly endMs: number;
  readonly id: string;
}

/** What was counted, from window to window and in each by id. A key is the text of a window's start and of an id. */
export function windowList<Item>(
  byHour: IdsByHour,
  { window, entityId, fromMs, toMs }: WindowQuery,
  itemOf: (of: IdWindow) => Item | undefined,
  { textOf, keyOf }: Pick<OrderedList<Item>, "textOf" | "keyOf">,
): OrderedList<Item> {
  const first = entityId === undefined ? "" : `${entityId}\n`;
  const keysAfter = (key: string, max: number) => {
    const after = startAndId(key);
    const keys: string[] = [];
    for (const [startMs, hours] of windowsOf(window, byHour)) {
      if (startMs < Math.max(fromMs, after.startMs) || startMs >= toMs) continue;
      const id = startMs === after.startMs && after.id > first ? after.id : first;
      for (const found of idsAfter(byHour, hours, id, max - keys.length)) {
        if (!found.startsWith(first)) break;
        keys.push(`${startMs}\n${found}`);
      }
      if (keys.length >= max) break;
    }
    return keys;
  };
  const item = (key: string) => {
    const { startMs, id } = startAndId(key);
    return itemOf({ startMs, endMs: windowEndMs(window, startMs), id });
  };
  return { keysAfter, from: `${fromMs - 1}\n`, itemOf: item, textOf, keyOf };
}

/** The hours of each window, the oldest first. */
function windowsOf(window: Windows, byHour: IdsByHour): ReadonlyMap<number, readonly number[]> {
  const windows = new Map<number, number[]>();
  for (const hourMs of [...byHour.keys()].sort((a, b) => a - b)) {
    const startMs = windowStartMs(window, hourMs);
    const known = windows.get(startMs);
    if (known === undefined) windows.set(startMs, [hourMs]);
    else known.push(hourMs);
  }
  return windows;
}

/** Up to so many ids after this one of all these hours together, in order, each once. */
function idsAfter(byHour: IdsByHour, hours: readonly number[], id: string, max: number): readonly string[] {
  const found = hours.map((hourMs) => byHour.get(hourMs)?.keysAfter(id, max) ?? []);
  return found.length === 1 ? (found[0] ?? []) : [...new Set(found.flat())].sort().slice(0, max);
}

function startAndId(key: string): { readonly startMs: number; readonly id: string } {
  const end = key.indexOf("\n");
  return { startMs: Number(key.slice(0, end)), id: key.slice(end + 1) };
}
