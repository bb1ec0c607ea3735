import type { Entity, UsageSnapshot } from "./shapes.ts";

// What is charged to a parent as well is counted at every level of the chain. These take the levels apart again.

/** Entities by id, as far as they are known; who was never created has no parent. */
export type Kin = ReadonlyMap<string, Pick<Entity, "id" | "parentId" | "cascade">>;

/** Which snapshots are shown: what each asked for itself, those of one level, or all of them. */
export type Counted = "once" | "all" | `level-${number}`;

export function countedUsage(items: readonly UsageSnapshot[], kin: Kin, counted: Counted): readonly UsageSnapshot[] {
  if (counted === "all") return items;
  if (counted === "once") return ownUsage(items, kin);
  const depth = Number(counted.slice("level-".length));
  return items.filter(({ entityId }) => depthOf(entityId, kin) === depth);
}

/** How many entities stand above one. */
export function depthOf(entityId: string, kin: Kin): number {
  return ancestorsOf(entityId, kin).length;
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

/**
 * What each entity used itself: without what came to it from below. An entity on the way that does not count a limit, or has no limits
 * at all, hands on what came to it. So every request stands there once, at the entity that asked.
 */
export function ownUsage(items: readonly UsageSnapshot[], kin: Kin): UsageSnapshot[] {
  const windows = new Map<string, UsageSnapshot[]>();
  for (const item of items) {
    // Neither can contain a space.
    const key = `${item.windowStartMs} ${item.resource}`;
    const together = windows.get(key) ?? [];
    windows.set(key, together);
    together.push(item);
  }
  const own = new Map([...windows.values()].flatMap((together) => [...ownOfWindow(together, kin)]));
  return items.flatMap((item) => own.get(item) ?? []);
}

/** Counts by name; `requests` under a name that no limit can have. */
type Counts = Map<string, number>;
const REQUESTS_KEY = "#requests";

/** Of one resource in one window: the deepest first, so that what comes from below is known. */
function ownOfWindow(together: readonly UsageSnapshot[], kin: Kin): Map<UsageSnapshot, UsageSnapshot[]> {
  const items = new Map(together.map((item) => [item.entityId, item]));
  const ids = new Set([...items.keys()].flatMap((id) => [id, ...ancestorsOf(id, kin)]));
  const deepestFirst = [...ids].sort((a, b) => depthOf(b, kin) - depthOf(a, kin));
  const fromBelow = new Map<string, Counts>();
  const own = new Map<UsageSnapshot, UsageSnapshot[]>();
  for (const id of deepestFirst) {
    const item = items.get(id);
    const below: Counts = fromBelow.get(id) ?? new Map();
    if (item !== undefined) own.set(item, withoutThose(item, below));
    const { parentId, cascade } = kin.get(id) ?? {};
    if (parentId === undefined || cascade !== true) continue;
    const sums: Counts = fromBelow.get(parentId) ?? new Map();
    fromBelow.set(parentId, sums);
    for (const [name, count] of handedOn(item, below)) sums.set(name, (sums.get(name) ?? 0) + count);
  }
  return own;
}

function countsOf({ requests, counters }: UsageSnapshot): Counts {
  return new Map([[REQUESTS_KEY, requests], ...Object.entries(counters)]);
}

/** What a parent was charged with: what this one counted, or, where it did not count all, what came from below. */
function handedOn(item: UsageSnapshot | undefined, below: Counts): Counts {
  const counts = item === undefined ? new Map<string, number>() : countsOf(item);
  for (const [name, count] of below) counts.set(name, Math.max(count, counts.get(name) ?? count));
  return counts;
}

function withoutThose(item: UsageSnapshot, below: Counts): UsageSnapshot[] {
  if (below.size === 0) return [item];
  const left = (name: string, count: number) => {
    const others = below.get(name);
    return others === undefined ? count : Math.max(0, count - others);
  };
  const requests = left(REQUESTS_KEY, item.requests);
  const counters = Object.fromEntries(Object.entries(item.counters).map(([name, count]) => [name, left(name, count)]));
  const isEmpty = requests === 0 && Object.values(counters).every((count) => count === 0);
  return isEmpty ? [] : [{ ...item, requests, counters }];
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

function ancestorsOf(entityId: string, kin: Kin): string[] {
  const above: string[] = [];
  let parentId = kin.get(entityId)?.parentId;
  while (parentId !== undefined && !above.includes(parentId)) {
    above.push(parentId);
    parentId = kin.get(parentId)?.parentId;
  }
  return above;
}
