import type { Page, PageRequest } from "../../src/domain/names/paging.ts";

/** A page of what a map has, in the order of its keys. Cursors are keys. */
export function sortedPage<Item>(items: ReadonlyMap<string, Item>, { limit, cursor }: PageRequest): Page<Item> {
  const keys = [...items.keys()].filter((key) => cursor === undefined || key > cursor).sort();
  const shown = keys.slice(0, limit);
  const found = shown.map((key) => items.get(key) as Item);
  const last = shown.at(-1);
  return keys.length > limit && last !== undefined ? { items: found, cursor: last } : { items: found };
}
