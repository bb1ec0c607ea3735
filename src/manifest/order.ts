import type { EntityValue } from "../domain/config/piece.ts";
import type { Change } from "./change.ts";

/**
 * The order in which changes are made: plans, then their limits; entities, parents first; the system; resources; what entities
 * have of their own; then what goes, an entity after everything of it and after its children, plans after all.
 */
export function inOrder(changes: readonly Change[]): readonly Change[] {
  const depths = new Depths(changes);
  return changes.toSorted((a, b) => {
    const [one, other] = [placeOf(a, depths), placeOf(b, depths)];
    return one.rank - other.rank || one.depth - other.depth || compare(one.name, other.name);
  });
}

interface Rank {
  readonly rank: number;
  readonly depth: number;
  readonly name: string;
}

function placeOf(change: Change, depths: Depths): Rank {
  const { what, level, entityId = "", resource = "", planId = "" } = change;
  const name = `${planId}${entityId} ${resource} ${what}`;
  const goes = change.action === "delete" || change.action === "release";
  if (what === "plan") return { rank: goes ? 9 : -2, depth: 0, name };
  if (planId !== "") return { rank: goes ? 8 : -1, depth: 0, name };
  if (what === "entity") {
    const depth = depths.of(entityId);
    return goes ? { rank: 7, depth: -depth, name } : { rank: 0, depth, name };
  }
  const rank = level === "system" || level === "systemTotal" ? 1 : level === "resource" ? 2 : 3;
  return { rank: goes ? 7 - rank : rank, depth: 0, name };
}

/** How far below its root an entity stands, among those that are changed. */
class Depths {
  readonly #parents = new Map<string, string | undefined>();

  constructor(changes: readonly Change[]) {
    for (const { what, entityId, before, after } of changes) {
      if (what !== "entity" || entityId === undefined) continue;
      this.#parents.set(entityId, ((after ?? before) as EntityValue | null)?.parentId);
    }
  }

  of(entityId: string): number {
    let depth = 0;
    // Bounded: a circle is refused elsewhere, and must not hang here.
    for (let at = this.#parents.get(entityId); at !== undefined && depth < 100; at = this.#parents.get(at)) depth += 1;
    return depth;
  }
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
