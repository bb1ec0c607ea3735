import type { Store } from "../../ports/store.ts";
import type { Random } from "../../ports/system.ts";
import { RefusalBook } from "./refusal-book.ts";

/** What this process has counted of the refusals on one store, a book for each namespace. */
export class RefusalBooks {
  readonly #store: Pick<Store, "scope">;
  readonly #books = new Map<string, RefusalBook>();

  constructor(store: Pick<Store, "scope">) {
    this.#store = store;
  }

  of(namespaceId: string, random: Random, nowMs: number): RefusalBook {
    const known = this.#books.get(namespaceId);
    if (known !== undefined) return known;
    for (const [id, book] of this.#books) if (book.isIdle(nowMs)) this.#books.delete(id);
    const made = new RefusalBook(this.#store.scope(namespaceId).refusals, random);
    this.#books.set(namespaceId, made);
    return made;
  }

  all(): readonly RefusalBook[] {
    return [...this.#books.values()];
  }
}

const BY_STORE = new WeakMap<Store, RefusalBooks>();

/** The books of a store, the same for all limiters on it. */
export function refusalBooksOf(store: Store): RefusalBooks {
  let books = BY_STORE.get(store);
  if (books === undefined) {
    books = new RefusalBooks(store);
    BY_STORE.set(store, books);
  }
  return books;
}
