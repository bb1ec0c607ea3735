import type { Page, PageRequest } from "../../domain/names/paging.ts";
import type { MaybePromise } from "../../ports/bucket-store.ts";
import type { Turns } from "../../ports/system.ts";

/** A list whose keys stand in order already: a page of it costs what it shows, and what it passes over. */
export interface OrderedList<Item> {
  /** Up to so many keys after this one, in order. */
  readonly keysAfter: (key: string, max: number) => readonly string[];
  /** Every key comes after this text, or all that are wanted do. */
  readonly from: string;
  /** `end`: neither this one nor any after it is wanted; undefined: it is passed over. */
  readonly itemOf: (key: string) => Item | "end" | undefined;
  /** Cursors are texts. */
  readonly textOf: (key: string) => string;
  readonly keyOf: (text: string) => string;
}

/** A page passes over this many keys in one turn. */
const KEYS_PER_TURN = 2_048;

/** A page of a list. Nothing is kept between its pages: each goes on by its cursor. */
export function pageInOrder<Item>(
  turns: Turns,
  list: OrderedList<Item>,
  request: PageRequest,
): MaybePromise<Page<Item>> {
  const walk = new PageWalk(list, request);
  return walk.walk() ?? walkByTurns(walk, turns);
}

async function walkByTurns<Item>(walk: PageWalk<Item>, turns: Turns): Promise<Page<Item>> {
  for (;;) {
    await turns.next();
    const page = walk.walk();
    if (page !== undefined) return page;
  }
}

/** A page that is being put together: `walk` goes over some keys and answers the page once it is whole. */
class PageWalk<Item> {
  readonly #list: OrderedList<Item>;
  readonly #limit: number;
  readonly #items: Item[] = [];
  #last: string | undefined;
  #at: string;

  constructor(list: OrderedList<Item>, { limit, cursor }: PageRequest) {
    this.#list = list;
    this.#limit = limit;
    this.#at = cursor === undefined ? list.from : list.keyOf(cursor);
  }

  walk(): Page<Item> | undefined {
    for (let left = KEYS_PER_TURN; left > 0; ) {
      const wanted = Math.min(left, this.#limit + 1 - this.#items.length);
      const keys = this.#list.keysAfter(this.#at, wanted);
      for (const key of keys) {
        const item = this.#list.itemOf(key);
        if (item === "end") return { items: this.#items };
        if (item === undefined) continue;
        if (this.#items.length === this.#limit && this.#last !== undefined) {
          return { items: this.#items, cursor: this.#list.textOf(this.#last) };
        }
        this.#items.push(item);
        this.#last = key;
      }
      const last = keys.at(-1);
      if (last === undefined || keys.length < wanted) return { items: this.#items };
      this.#at = last;
      left -= keys.length;
    }
    return undefined;
  }
}

export function sameText(text: string): string {
  return text;
}
