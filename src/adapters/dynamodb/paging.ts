import { ValidationError } from "../../domain/names/errors.ts";
import { shown } from "../../domain/names/names.ts";
import type { Page } from "../../domain/names/paging.ts";

/**
 * A cursor is the place of the last item shown, so that a list goes on there whatever was added or removed meanwhile. To
 * callers it is opaque.
 */
export function cursorOf(...place: readonly string[]): string {
  return Buffer.from(JSON.stringify(place)).toString("base64url");
}

/** The place behind a cursor, of so many texts; undefined for the first page. */
export function placeAfter(cursor: string | undefined, parts: number): readonly string[] | undefined {
  if (cursor === undefined) return undefined;
  const place = decoded(cursor);
  if (Array.isArray(place) && place.length === parts && place.every((part) => typeof part === "string")) return place;
  throw new ValidationError(
    "cursor_invalid",
    `Not a cursor of this list: ${shown(cursor)}; pass the cursor of the previous page.`,
  );
}

/** The next items, and a cursor where there are more: one more than asked for is looked at. */
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

export async function* where<Item>(items: AsyncIterable<Item>, is: (item: Item) => boolean): AsyncGenerator<Item> {
  for await (const item of items) if (is(item)) yield item;
}

/** The items some at a time: for what is looked up by key, many at once. */
export async function* inChunks<Item>(items: AsyncIterable<Item>, size: number): AsyncGenerator<readonly Item[]> {
  let chunk: Item[] = [];
  for await (const item of items) {
    chunk.push(item);
    if (chunk.length < size) continue;
    yield chunk;
    chunk = [];
  }
  if (chunk.length > 0) yield chunk;
}

/** Streams that are each in order, as one in that order. */
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

/** How many streams are asked for their first item at the same time. */
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

export function chunksOf<Item>(items: readonly Item[], size: number): readonly (readonly Item[])[] {
  return Array.from({ length: Math.ceil(items.length / size) }, (_, i) => items.slice(i * size, (i + 1) * size));
}
