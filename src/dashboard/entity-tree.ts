import type { Entity } from "./shapes.ts";
import { FormError } from "./words.ts";

export interface EntityNode {
  readonly entity: Entity;
  readonly children: readonly EntityNode[];
}

/** The hierarchy of the entities. One whose parent is not among them is at the top. */
export function treeOf(entities: readonly Entity[]): EntityNode[] {
  const known = new Set(entities.map(({ id }) => id));
  const below = new Map<string, Entity[]>();
  const roots: Entity[] = [];
  for (const entity of entities) {
    const { parentId } = entity;
    if (parentId === undefined || !known.has(parentId)) roots.push(entity);
    else below.set(parentId, [...(below.get(parentId) ?? []), entity]);
  }
  const node = (entity: Entity): EntityNode => ({ entity, children: (below.get(entity.id) ?? []).map(node) });
  return roots.map(node);
}

/** Keeps the entities that match, with their parents and all of their children. */
export function filtered(nodes: readonly EntityNode[], filter: string): EntityNode[] {
  const text = filter.trim().toLowerCase();
  if (text === "") return [...nodes];
  return nodes.flatMap((node) => {
    const { id, name } = node.entity;
    if (id.toLowerCase().includes(text) || name.toLowerCase().includes(text)) return [node];
    const children = filtered(node.children, filter);
    return children.length === 0 ? [] : [{ entity: node.entity, children }];
  });
}

/** Metadata as lines `key=value`, for a text field. */
export function metadataText(metadata: Readonly<Record<string, string>>): string {
  return Object.entries(metadata)
    .map(([key, value]) => `${key}=${value}`)
    .join("\n");
}

/** Throws with the line that has no `=`. */
export function metadataOf(text: string): Record<string, string> {
  const lines = text.split("\n").filter((line) => line.trim() !== "");
  return Object.fromEntries(
    lines.map((line) => {
      const at = line.indexOf("=");
      if (at < 1) throw new FormError(`Metadata: the line "${line}" is not key=value.`);
      return [line.slice(0, at).trim(), line.slice(at + 1).trim()];
    }),
  );
}
