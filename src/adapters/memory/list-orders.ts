import type { Page, PageRequest } from "../../domain/paging.ts";

/** A list as it is asked for page by page. */
export interface KeyedList<Key, Item> {
  /** Tells it from other lists, by what was asked for. */
  readonly name: string;
  /** The keys there are, in any order. */
  readonly keys: () => Key[];
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

  page<Key, Item>(list: KeyedList<Key, Item>, { limit, cursor }: PageRequest): Page<Item> {
    const keys = this.#order(list, cursor);
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

  clear(): void {
    this.#kept.clear();
  }

  #order<Key>(list: KeyedList<Key, unknown>, cursor: string | undefined): readonly Key[] {
    const kept = cursor === undefined ? undefined : this.#kept.get(list.name);
    return (kept as readonly Key[] | undefined) ?? list.keys().sort(list.compare);
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

/** A list whose keys are texts. */
export function textList<Item>(
  name: string,
  keys: () => string[],
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
