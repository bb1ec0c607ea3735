import type { Page, PageRequest } from "../../domain/names/paging.ts";
import { sortedByTurns } from "../../domain/names/sorting.ts";
import type { MaybePromise } from "../../ports/bucket-store.ts";
import type { Turns } from "../../ports/system.ts";
import { compareTexts, placeAfter } from "./sorted-texts.ts";

/** A list as it is asked for page by page. */
export interface KeyedList<Key, Item> {
  /** Tells it from other lists, by what was asked for. */
  readonly name: string;
  /** The keys there are, in any order. */
  readonly keys: () => Iterable<Key>;
  readonly compare: (a: Key, b: Key) => number;
  /** The item as it stands now; undefined where it is gone. */
  readonly itemOf: (key: Key) => Item | undefined;
  /** Cursors are keys as text. */
  readonly textOf: (key: Key) => string;
  readonly keyOf: (text: string) => Key;
}

/** A list whose keys stand in order already: a page of it costs what it shows, and what it passes over. */
export interface WalkedList<Item> {
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

const ORDERS_MAX = 4;

/** So many keys are passed over in one turn. */
const KEYS_PER_TURN = 2_048;

/**
 * Pages of lists. The order of a long list is kept between its pages, so that it is sorted once and a list costs what it
 * shows, however many pages it has. Whatever is there from the first page to the last is shown once; what comes in between may
 * be missed. A first page sorts anew, and so does a page whose order is no longer kept.
 */
export class ListOrders {
  readonly #kept = new Map<string, readonly unknown[]>();
  get size(): number {
    return this.#kept.size;
  }

  page<Key, Item>(list: KeyedList<Key, Item>, request: PageRequest): Page<Item> {
    const keys = this.kept<Key>(list.name, request.cursor) ?? Array.from(list.keys()).sort(list.compare);
    return this.pageOf(list, keys, request);
  }

  clear(): void {
    this.#kept.clear();
  }

  /** A page of a list whose keys are in order. */
  protected pageOf<Key, Item>(
    list: KeyedList<Key, Item>,
    keys: readonly Key[],
    { limit, cursor }: PageRequest,
  ): Page<Item> {
    const items: Item[] = [];
    let last: Key | undefined;
    for (let i = cursor === undefined ? 0 : placeAfter(keys, list.keyOf(cursor), list.compare); i < keys.length; i++) {
      const key = keys[i] as Key;
      const item = list.itemOf(key);
      if (item === undefined) continue;
      if (items.length === limit && last !== undefined) {
        this.#keep(list.name, keys);
        return { items, cursor: list.textOf(last) };
      }
      items.push(item);
      last = key;
    }
    this.#kept.delete(list.name);
    return { items };
  }

  /** The order of a list, if it is kept for the page after this cursor. */
  protected kept<Key>(name: string, cursor: string | undefined): readonly Key[] | undefined {
    return cursor === undefined ? undefined : (this.#kept.get(name) as readonly Key[] | undefined);
  }

  #keep(name: string, keys: readonly unknown[]): void {
    this.#kept.delete(name);
    this.#kept.set(name, keys);
    if (this.#kept.size <= ORDERS_MAX) return;
    for (const oldest of this.#kept.keys()) {
      this.#kept.delete(oldest);
      return;
    }
  }
}

/** Pages of lists that may be long: they are sorted a part in each turn. */
export class TurningOrders extends ListOrders {
  readonly #turns: Turns;

  constructor(turns: Turns) {
    super();
    this.#turns = turns;
  }

  pageByTurns<Key, Item>(list: KeyedList<Key, Item>, request: PageRequest): MaybePromise<Page<Item>> {
    const keys =
      this.kept<Key>(list.name, request.cursor) ?? sortedByTurns(list.keys(), list.compare, () => this.#turns.next());
    return keys instanceof Promise
      ? keys.then((sorted) => this.pageOf(list, sorted, request))
      : this.pageOf(list, keys, request);
  }

  /** A page of a list that is in order. Nothing is kept between its pages: each goes on by its cursor. */
  pageInOrder<Item>(list: WalkedList<Item>, request: PageRequest): MaybePromise<Page<Item>> {
    const walk = new PageWalk(list, request);
    return walk.walk() ?? this.#walked(walk);
  }

  async #walked<Item>(walk: PageWalk<Item>): Promise<Page<Item>> {
    for (;;) {
      await this.#turns.next();
      const page = walk.walk();
      if (page !== undefined) return page;
    }
  }
}

/** A page that is being put together: `walk` goes over some keys and answers the page once it is whole. */
class PageWalk<Item> {
  readonly #list: WalkedList<Item>;
  readonly #limit: number;
  readonly #items: Item[] = [];
  #last: string | undefined;
  #at: string;

  constructor(list: WalkedList<Item>, { limit, cursor }: PageRequest) {
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

/** A list whose keys are texts. */
export function textList<Item>(
  name: string,
  keys: () => Iterable<string>,
  itemOf: (key: string) => Item | undefined,
): KeyedList<string, Item> {
  return { name, keys, compare: compareTexts, itemOf, textOf: sameText, keyOf: sameText };
}

export function sameText(text: string): string {
  return text;
}
