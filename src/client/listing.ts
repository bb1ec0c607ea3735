import type { Listing, ListPage } from "../engine/limiter/listing.ts";
import { invalid } from "./check.ts";

interface PageOf<Item> {
  readonly items: readonly Item[];
  readonly cursor?: string;
}

/** The service answers at most so many items at a time, and the library ten times as many on a page. */
const PART_MAX = 1_000;

/** A list of the service: `await` it for one page, or `for await` over it for everything, page after page. */
export function listed<Item, Shown = ListPage<Item>>(
  fetch: (page: { readonly limit: number; readonly cursor: string | undefined }) => Promise<PageOf<Item>>,
  { limit = PART_MAX, cursor }: { readonly limit?: number | undefined; readonly cursor?: string | undefined },
  shape: (page: PageOf<Item>) => Shown,
): Listing<Item, Shown> {
  if (!Number.isSafeInteger(limit) || limit < 1 || limit > PART_MAX * 10) {
    throw invalid("page", "limit", limit, "a whole number from 1 to 10000");
  }
  async function* parts(most: number) {
    let part: PageOf<Item> = { items: [], ...(cursor === undefined ? {} : { cursor }) };
    do {
      part = await fetch({ limit: Math.min(most, limit, PART_MAX), cursor: part.cursor });
      yield part;
      most -= part.items.length;
    } while (part.cursor !== undefined && most > 0);
  }
  async function page() {
    const all: PageOf<Item>[] = [];
    for await (const part of parts(limit)) all.push(part);
    return shape({ ...(all.at(-1) as PageOf<Item>), items: all.flatMap(({ items }) => items) });
  }
  const list: Pick<Listing<Item, Shown>, "then" | typeof Symbol.asyncIterator> = {
    // biome-ignore lint/suspicious/noThenProperty: a list is awaited for its first page.
    then: (onFulfilled, onRejected) => page().then(onFulfilled, onRejected),
    async *[Symbol.asyncIterator]() {
      for await (const { items } of parts(Number.POSITIVE_INFINITY)) yield* items;
    },
  };
  return list as Listing<Item, Shown>;
}

/** A page as the library has it: an array that knows where the next one begins. */
export function pageWithCursor<Item>({ items, ...rest }: PageOf<Item>): ListPage<Item> {
  return Object.assign([...items], rest);
}
