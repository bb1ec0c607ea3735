import { depthOf, type Kin, ownUsage } from "../domain/charge/own-usage.ts";
import type { UsageSnapshot } from "./shapes.ts";

/** Which snapshots are shown: what each asked for itself, those of one level, or all of them. */
export type Counted = "once" | "all" | `level-${number}`;

export function countedUsage(items: readonly UsageSnapshot[], kin: Kin, counted: Counted): readonly UsageSnapshot[] {
  if (counted === "all") return items;
  if (counted === "once") return countedOnce(items, kin);
  const depth = Number(counted.slice("level-".length));
  return items.filter(({ entityId }) => depthOf(entityId, kin) === depth);
}

/** What each entity used itself, in the order in which they stand. */
function countedOnce(items: readonly UsageSnapshot[], kin: Kin): UsageSnapshot[] {
  const windows = new Map<number, UsageSnapshot[]>();
  for (const item of items) {
    const together = windows.get(item.windowStartMs) ?? [];
    windows.set(item.windowStartMs, together);
    together.push(item);
  }
  const own = new Map([...windows.values()].flatMap((together) => [...ownUsage(together, kin)]));
  return items.flatMap((item) => own.get(item) ?? []);
}

/** Everybody below an entity whose usage is charged to it, too. */
export function chargedTo(entityId: string, kin: Kin): string[] {
  return [...kin.keys()].filter((id) => {
    let each = kin.get(id);
    for (let steps = 0; each?.parentId !== undefined && each.cascade && steps < kin.size; steps++) {
      if (each.parentId === entityId) return true;
      each = kin.get(each.parentId);
    }
    return false;
  });
}

/** All snapshots together. */
export function totalsOf(items: readonly UsageSnapshot[]): {
  readonly requests: number;
  readonly tokens: Map<string, number>;
} {
  const tokens = new Map<string, number>();
  let requests = 0;
  for (const item of items) {
    requests += item.requests;
    for (const [limit, amount] of Object.entries(item.counters)) tokens.set(limit, (tokens.get(limit) ?? 0) + amount);
  }
  return { requests, tokens };
}
