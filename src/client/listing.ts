import type { Listing, ListPage } from "../engine/listing.ts";
import { invalid } from "./check.ts";

interface PageOf<Item> {
  readonly items: readonly Item[];
  readonly cursor?: string;
}

type Page = { readonly limit: number; readonly cursor?: string | undefined };

/** The service answers at most so many items at a time, and the library so many on a page. */
const PART_MAX = 1_000;
const PAGE_MAX = 10_000;

/** A list of the service: `await` it for one page, or `for await` over it for everything, page after page. */
export function listed<Item, Shown = ListPage<Item>>(
  fetch: (page: Page) => Promise<PageOf<Item>>,
  { limit = PART_MAX, cursor }: { readonly limit?: number | undefined; readonly cursor?: string | undefined },
  shape: (page: PageOf<Item>) => Shown,
): Listing<Item, Shown> {
  if (!Number.isSafeInteger(limit) || limit < 1 || limit > PAGE_MAX) {
    throw invalid("page_invalid", "limit", limit, `a whole number from 1 to ${PAGE_MAX}`);
  }
  if (cursor !== undefined && typeof cursor !== "string") {
    throw invalid("cursor_invalid", "cursor", cursor, "that of the previous page");
  }
  async function page(): Promise<Shown> {
    const items: Item[] = [];
    let from = cursor;
    do {
      const part: PageOf<Item> = await fetch({ limit: Math.min(limit - items.length, PART_MAX), cursor: from });
      items.push(...part.items);
      from = part.cursor;
    } while (from !== undefined && items.length < limit);
    return shape({ items, ...(from === undefined ? {} : { cursor: from }) });
  }
  const list: Pick<Listing<Item, Shown>, "then" | typeof Symbol.asyncIterator> = {
    // biome-ignore lint/suspicious/noThenProperty: a list is awaited for its first page.
    then: (onFulfilled, onRejected) => page().then(onFulfilled, onRejected),
    async *[Symbol.asyncIterator]() {
      let from = cursor;
      do {
        const part: PageOf<Item> = await fetch({ limit: Math.min(limit, PART_MAX), cursor: from });
        yield* part.items;
        from = part.cursor;
      } while (from !== undefined);
    },
  };
  return list as Listing<Item, Shown>;
}

/** A page as the library has it: an array that knows where the next one begins. */
export function pageWithCursor<Item>({ items, cursor }: PageOf<Item>): ListPage<Item> {
  return Object.assign([...items], cursor === undefined ? {} : { cursor });
}
