import { LEVELS_MAX } from "../domain/config/entity.ts";

/** The entity and those above it, upwards. One more than there may be: that there are too many is seen. */
export function lineAbove<Found>(
  id: string,
  find: (id: string) => Found | undefined,
  parentOf: (found: Found) => string | undefined,
): readonly Found[] {
  const line: Found[] = [];
  for (let next: string | undefined = id; next !== undefined && line.length <= LEVELS_MAX; ) {
    const found = find(next);
    if (found === undefined) break;
    line.push(found);
    next = parentOf(found);
  }
  return line;
}

/** Below an entity the longest line of descendants, downwards. */
export function longestBelow<Found>(
  id: string,
  childrenOf: (id: string) => readonly Found[],
  idOf: (found: Found) => string,
  levels = LEVELS_MAX + 1,
): readonly Found[] {
  let longest: readonly Found[] = [];
  if (levels === 0) return longest;
  for (const child of childrenOf(id)) {
    const line = [child, ...longestBelow(idOf(child), childrenOf, idOf, levels - 1)];
    if (line.length > longest.length) longest = line;
  }
  return longest;
}
