/** A page that is asked for; `cursor` is what the page before answered. */
export interface PageRequest {
  readonly limit: number;
  readonly cursor?: string;
  /** The page may be shorter than asked for: the caller goes on by the cursor. */
  readonly mayBeShort?: true;
}

export interface Page<Item> {
  readonly items: readonly Item[];
  /** Absent on the last page. */
  readonly cursor?: string;
}

/** Pages one after the other, each asked for with the cursor of the page before, until one has none or the reader stops. */
export async function* pagesOf<APage extends { readonly cursor?: string }>(
  fetch: (from: Pick<PageRequest, "cursor">) => PromiseLike<APage> | APage,
): AsyncGenerator<APage, void, undefined> {
  let cursor: string | undefined;
  do {
    const page = await fetch(cursor === undefined ? {} : { cursor });
    yield page;
    cursor = page.cursor;
  } while (cursor !== undefined);
}
