import type { Entity } from "../config/entity.ts";
import type { UsageSnapshot } from "./usage.ts";

// A charge that goes to parents as well is counted at every level of the chain. These functions take the levels apart again. The page
// loads this file: it must need nothing else.

/** Entities by id, as far as they are known; who was never created has no parent. */
export type Kin = ReadonlyMap<string, Pick<Entity, "parentId" | "cascade">>;

/** The ids above an entity, the nearest first. */
export function ancestorsOf(entityId: string, kin: Kin): string[] {
  const above: string[] = [];
  let parentId = kin.get(entityId)?.parentId;
  while (parentId !== undefined && !above.includes(parentId)) {
    above.push(parentId);
    parentId = kin.get(parentId)?.parentId;
  }
  return above;
}

/** The number of entities above one. */
export function depthOf(entityId: string, kin: Kin): number {
  return ancestorsOf(entityId, kin).length;
}

/**
 * Takes the snapshots of one window apart: what each entity used itself, without what came to it from below; undefined where that is nothing.
 * An entity on the way that does not count a limit, or has no limits at all, hands on what came to it. So every request stands there
 * once, at the entity that asked. One after the other, so that whoever has many can let others go first in between.
 */
export function* ownUsage(
  window: readonly UsageSnapshot[],
  kin: Kin,
): Generator<readonly [snapshot: UsageSnapshot, own: UsageSnapshot | undefined]> {
  for (const together of byResource(window).values()) {
    const fromBelow = new Map<string, Counts>();
    for (const id of deepestFirst(together, kin)) {
      const snapshot = together.get(id);
      const below: Counts = fromBelow.get(id) ?? new Map();
      fromBelow.delete(id);
      if (snapshot !== undefined) yield [snapshot, withoutThose(snapshot, below)];
      const { parentId, cascade } = kin.get(id) ?? {};
      if (parentId === undefined || cascade !== true) continue;
      const sums: Counts = fromBelow.get(parentId) ?? new Map();
      fromBelow.set(parentId, sums);
      for (const [name, count] of handedOn(snapshot, below)) sums.set(name, (sums.get(name) ?? 0) + count);
    }
  }
}

function byResource(window: readonly UsageSnapshot[]): Map<string, Map<string, UsageSnapshot>> {
  const resources = new Map<string, Map<string, UsageSnapshot>>();
  for (const snapshot of window) {
    const together = resources.get(snapshot.resource) ?? new Map<string, UsageSnapshot>();
    resources.set(snapshot.resource, together);
    together.set(snapshot.entityId, snapshot);
  }
  return resources;
}

/** The entities with snapshots and all above them, so that what comes from below is known before it is needed. */
function* deepestFirst(together: ReadonlyMap<string, UsageSnapshot>, kin: Kin): Generator<string> {
  const byDepth: Set<string>[] = [];
  for (const id of together.keys()) {
    const above = ancestorsOf(id, kin);
    for (const [i, each] of [id, ...above].entries()) {
      const depth = above.length - i;
      byDepth[depth] ??= new Set();
      byDepth[depth].add(each);
    }
  }
  for (let depth = byDepth.length - 1; depth >= 0; depth--) yield* byDepth[depth] ?? [];
}

/** Counts by name; `requests` under a name that no limit can have. */
type Counts = Map<string, number>;
const REQUESTS_KEY = "#requests";

/** The counts that a parent was charged with: those of this one, or, where it did not count all, what came from below. */
function handedOn(snapshot: UsageSnapshot | undefined, below: Counts): Counts {
  const counts: Counts =
    snapshot === undefined
      ? new Map()
      : new Map([[REQUESTS_KEY, snapshot.requests], ...Object.entries(snapshot.counters)]);
  for (const [name, count] of below) counts.set(name, Math.max(count, counts.get(name) ?? count));
  return counts;
}

function withoutThose(snapshot: UsageSnapshot, below: Counts): UsageSnapshot | undefined {
  if (below.size === 0) return snapshot;
  const left = (name: string, count: number) => {
    const others = below.get(name);
    return others === undefined ? count : Math.max(0, count - others);
  };
  const requests = left(REQUESTS_KEY, snapshot.requests);
  const counters = Object.fromEntries(
    Object.entries(snapshot.counters).map(([name, count]) => [name, left(name, count)]),
  );
  // Its own shadows have counted for it alone.
  const counts = [requests, ...Object.values(counters), ...Object.values(snapshot.wouldRefuse)];
  const isEmpty = counts.every((count) => count === 0);
  return isEmpty ? undefined : { ...snapshot, requests, counters };
}
