/** A page of a list: an array that knows where the next one begins. */
export type RemotePage<Item> = readonly Item[] & { readonly cursor?: string };

export interface PageOf<Item> {
  readonly items: readonly Item[];
  readonly cursor?: string;
}

/** Which page of a list. */
export interface RemoteListOptions {
  readonly limit?: number;
  readonly cursor?: string;
}

/** The service answers at most so many items at a time. */
const PAGE_MAX = 1_000;

/** A list of the service: `await` it for one page, or `for await` over it for everything, page after page. */
export class RemoteListing<Item, Shown = RemotePage<Item>> implements PromiseLike<Shown>, AsyncIterable<Item> {
  readonly #fetch: (page: { readonly limit: number; readonly cursor?: string }) => Promise<PageOf<Item>>;
  readonly #options: RemoteListOptions;
  readonly #shape: (page: PageOf<Item>) => Shown;

  constructor(
    fetch: (page: { readonly limit: number; readonly cursor?: string }) => Promise<PageOf<Item>>,
    options: RemoteListOptions,
    shape: (page: PageOf<Item>) => Shown,
  ) {
    this.#fetch = fetch;
    this.#options = options;
    this.#shape = shape;
  }

  // biome-ignore lint/suspicious/noThenProperty: a list is awaited for its first page.
  then<Fulfilled = Shown, Rejected = never>(
    onFulfilled?: ((page: Shown) => Fulfilled | PromiseLike<Fulfilled>) | null,
    onRejected?: ((reason: unknown) => Rejected | PromiseLike<Rejected>) | null,
  ): Promise<Fulfilled | Rejected> {
    return this.#page(this.#options.cursor)
      .then((page) => this.#shape(page))
      .then(onFulfilled, onRejected);
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Item, void, undefined> {
    let { cursor } = this.#options;
    do {
      const page: PageOf<Item> = await this.#page(cursor);
      yield* page.items;
      cursor = page.cursor;
    } while (cursor !== undefined);
  }

  #page(cursor: string | undefined): Promise<PageOf<Item>> {
    const limit = Math.min(this.#options.limit ?? 100, PAGE_MAX);
    return this.#fetch({ limit, ...(cursor === undefined ? {} : { cursor }) });
  }
}

export function pageWithCursor<Item>({ items, cursor }: PageOf<Item>): RemotePage<Item> {
  return Object.assign([...items], cursor === undefined ? {} : { cursor });
}
