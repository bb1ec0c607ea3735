import { ValidationError } from "../../domain/names/errors.ts";
import { shown } from "../../domain/names/names.ts";
import type { Page, PageRequest } from "../../domain/names/paging.ts";

/**
 * A cursor has the position of the last item shown, so that a list continues there whatever was added or removed
 * meanwhile. It is opaque to callers.
 */
export function cursorOf(...place: readonly string[]): string {
  return Buffer.from(JSON.stringify(place)).toString("base64url");
}

/** The position in a cursor, which has this many parts; undefined for the first page. */
export function placeAfter(cursor: string | undefined, parts: number): readonly string[] | undefined {
  if (cursor === undefined) return undefined;
  const place = decoded(cursor);
  if (Array.isArray(place) && place.length === parts && place.every((part) => typeof part === "string")) return place;
  throw new ValidationError(
    "cursor_invalid",
    `Not a cursor of this list: ${shown(cursor)}; pass the cursor of the previous page.`,
  );
}

/** The next items, and a cursor if there are more: one more than `limit` is read. */
export async function pageOf<Item>(
  items: AsyncIterable<Item> | Iterable<Item>,
  limit: number,
  cursorAt: (item: Item) => string,
): Promise<Page<Item>> {
  const found: Item[] = [];
  for await (const item of items) {
    if (found.length === limit) {
      const last = found.at(-1);
      return last === undefined ? { items: found } : { items: found, cursor: cursorAt(last) };
    }
    found.push(item);
  }
  return { items: found };
}

/** The page after a cursor of one part. `items` has those after a place, and gets the number that the page needs. */
export async function pageAfter<Item>(
  { limit, cursor }: PageRequest,
  items: (after: string | undefined, count: number) => AsyncIterable<Item> | Iterable<Item>,
  placeOf: (item: Item) => string,
): Promise<Page<Item>> {
  const [after] = placeAfter(cursor, 1) ?? [];
  return pageOf(items(after, limit + 1), limit, (item) => cursorOf(placeOf(item)));
}

export function idOf({ id }: { readonly id: string }): string {
  return id;
}

export async function* where<Item>(items: AsyncIterable<Item>, is: (item: Item) => boolean): AsyncGenerator<Item> {
  for await (const item of items) if (is(item)) yield item;
}

/** Chunks of items, for lookups of many keys at once. */
export async function* inChunks<Item>(
  items: AsyncIterable<Item> | Iterable<Item>,
  size: number,
): AsyncGenerator<readonly Item[]> {
  let chunk: Item[] = [];
  for await (const item of items) {
    chunk.push(item);
    if (chunk.length < size) continue;
    yield chunk;
    chunk = [];
  }
  if (chunk.length > 0) yield chunk;
}

/** Merges sorted streams into one. */
export async function* merged<Item>(
  streams: readonly AsyncGenerator<Item>[],
  compare: (a: Item, b: Item) => number,
): AsyncGenerator<Item> {
  const heads: IteratorResult<Item, unknown>[] = [];
  for (const some of chunksOf(streams, STREAMS_AT_ONCE)) {
    heads.push(...(await Promise.all(some.map((stream) => stream.next()))));
  }
  for (;;) {
    let first: { readonly at: number; readonly item: Item } | undefined;
    for (const [at, { value, done }] of heads.entries()) {
      if (done !== true && (first === undefined || compare(value as Item, first.item) < 0)) {
        first = { at, item: value as Item };
      }
    }
    if (first === undefined) return;
    yield first.item;
    heads[first.at] = (await streams[first.at]?.next()) as IteratorResult<Item, unknown>;
  }
}

/** The number of streams whose first items are read in parallel. */
const STREAMS_AT_ONCE = 32;

export async function collected<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const found: Item[] = [];
  for await (const item of items) found.push(item);
  return found;
}

function decoded(cursor: string): unknown {
  try {
    return JSON.parse(Buffer.from(cursor, "base64url").toString());
  } catch {
    return undefined;
  }
}

export function compareTexts(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** Groups in order of first appearance. */
export function groupedBy<Each, Key>(all: Iterable<Each>, by: (each: Each) => Key): Map<Key, Each[]> {
  const groups = new Map<Key, Each[]>();
  for (const each of all) {
    const group = groups.get(by(each));
    if (group === undefined) groups.set(by(each), [each]);
    else group.push(each);
  }
  return groups;
}

export function chunksOf<Item>(items: readonly Item[], size: number): readonly (readonly Item[])[] {
  return Array.from({ length: Math.ceil(items.length / size) }, (_, i) => items.slice(i * size, (i + 1) * size));
}
