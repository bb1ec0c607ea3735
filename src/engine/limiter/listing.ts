import { ValidationError } from "../../domain/names/errors.ts";
import { KnownNames } from "../../domain/names/known-names.ts";
import { shown } from "../../domain/names/names.ts";
import type { Page, PageRequest } from "../../domain/names/paging.ts";
import type { MaybePromise } from "../../ports/bucket-store.ts";

/** Which page of a list. */
export interface ListOptions {
  /** Items on a page, at most 10,000. Default: 1,000; 100 for audit events. */
  readonly limit?: number;
  /** The `cursor` of the page before. Default: the first page. */
  readonly cursor?: string;
}

/** A page of a list: an array with a `cursor`. The last page has none. */
export type ListPage<Item> = readonly Item[] & {
  /** Where the next page begins. */
  readonly cursor?: string;
};

const PAGE_MAX = 10_000;

const LIST_OPTIONS = new KnownNames<ListOptions>({ limit: true, cursor: true });

/**
 * A list that may have many pages. `await` it for one page, or use `for await` for all items, page after page.
 *
 * ```ts
 * for await (const entity of limiter.listEntities()) console.log(entity.id);
 * const page = await limiter.listEntities({ limit: 50 });
 * const next = await limiter.listEntities({ limit: 50, cursor: page.cursor });
 * ```
 */
export class Listing<Item, Shown = ListPage<Item>> implements PromiseLike<Shown>, AsyncIterable<Item> {
  readonly #fetch: (page: PageRequest) => MaybePromise<Page<Item>>;
  readonly #from: PageRequest;
  readonly #shape: (page: Page<Item>) => Shown;

  /** @internal */
  constructor(
    fetch: (page: PageRequest) => MaybePromise<Page<Item>>,
    from: PageRequest,
    shape: (page: Page<Item>) => Shown,
  ) {
    this.#fetch = fetch;
    this.#from = from;
    this.#shape = shape;
  }

  /** One page, for `await`. */
  // biome-ignore lint/suspicious/noThenProperty: a list is awaited for its first page.
  then<Fulfilled = Shown, Rejected = never>(
    onFulfilled?: ((page: Shown) => Fulfilled | PromiseLike<Fulfilled>) | null,
    onRejected?: ((reason: unknown) => Rejected | PromiseLike<Rejected>) | null,
  ): Promise<Fulfilled | Rejected> {
    return this.#first().then(onFulfilled, onRejected);
  }

  /** Everything, page after page, for `for await`. */
  async *[Symbol.asyncIterator](): AsyncGenerator<Item, void, undefined> {
    const { limit } = this.#from;
    for (let at: PageRequest | undefined = this.#from; at !== undefined; ) {
      const { items, cursor }: Page<Item> = await this.#fetch({ ...at, mayBeShort: true });
      yield* items;
      at = cursor === undefined ? undefined : { limit, cursor };
    }
  }

  async #first(): Promise<Shown> {
    return this.#shape(await this.#fetch(this.#from));
  }
}

/** A list of items as they come. */
export function listing<Item>(
  fetch: (page: PageRequest) => MaybePromise<Page<Item>>,
  options: ListOptions | undefined,
): Listing<Item> {
  if (options !== undefined) LIST_OPTIONS.check(options, "The options of a list");
  return new Listing(fetch, pageRequest(options, 1000), ({ items, cursor }) =>
    Object.assign([...items], cursor === undefined ? {} : { cursor }),
  );
}

export function pageRequest(options: ListOptions | undefined, limitDefault: number): PageRequest {
  const { limit = limitDefault, cursor } = options ?? {};
  if (!Number.isSafeInteger(limit) || limit < 1 || limit > PAGE_MAX) {
    throw new ValidationError("page_invalid", `limit is ${shown(limit)}; give a whole number from 1 to ${PAGE_MAX}.`);
  }
  if (cursor !== undefined && typeof cursor !== "string") {
    throw new ValidationError("cursor_invalid", `cursor is ${shown(cursor)}; give the cursor of the previous page.`);
  }
  return { limit, ...(cursor === undefined ? {} : { cursor }) };
}
