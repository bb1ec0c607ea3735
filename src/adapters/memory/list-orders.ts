import type { Page, PageRequest } from "../../domain/paging.ts";
import { sortedByTurns } from "../../domain/sorting.ts";
import type { MaybePromise } from "../../ports/bucket-store.ts";
import type { Turns } from "../../ports/system.ts";

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

const ORDERS_MAX = 4;

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
}

/** A list whose keys are texts. */
export function textList<Item>(
  name: string,
  keys: () => Iterable<string>,
  itemOf: (key: string) => Item | undefined,
): KeyedList<string, Item> {
  return { name, keys, compare: compareTexts, itemOf, textOf: sameText, keyOf: sameText };
}

/** By code units, as the other stores do. */
export function compareTexts(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

function sameText(text: string): string {
  return text;
}

/** The index of the first key after this one. */
function placeAfter<Key>(keys: readonly Key[], key: Key, compare: (a: Key, b: Key) => number): number {
  let from = 0;
  let to = keys.length;
  while (from < to) {
    const middle = (from + to) >> 1;
    if (compare(keys[middle] as Key, key) <= 0) from = middle + 1;
    else to = middle;
  }
  return from;
}
