interface Timed {
  readonly atMs: number;
}

interface Place<Item> {
  readonly item: Item;
  readonly number: number;
}

/** Items by their instant; those of one instant in the order in which they were added. A binary heap. */
export class InOrder<Item extends Timed> {
  readonly #heap: Place<Item>[] = [];
  #added = 0;

  /** The instant of the first; `Infinity`: there are none. */
  get firstMs(): number {
    return this.#heap[0]?.item.atMs ?? Number.POSITIVE_INFINITY;
  }

  add(item: Item): void {
    let at = this.#heap.push({ item, number: this.#added++ }) - 1;
    while (at > 0) {
      const above = (at - 1) >> 1;
      if (!this.#isBefore(at, above)) return;
      this.#swap(at, above);
      at = above;
    }
  }

  takeFirst(): Item {
    const heap = this.#heap;
    this.#swap(0, heap.length - 1);
    const { item } = heap.pop() as Place<Item>;
    for (let at = 0; ; ) {
      let first = at;
      for (const below of [2 * at + 1, 2 * at + 2]) {
        if (below < heap.length && this.#isBefore(below, first)) first = below;
      }
      if (first === at) return item;
      this.#swap(at, first);
      at = first;
    }
  }

  #isBefore(one: number, other: number): boolean {
    const a = this.#at(one);
    const b = this.#at(other);
    return a.item.atMs === b.item.atMs ? a.number < b.number : a.item.atMs < b.item.atMs;
  }

  #swap(one: number, other: number): void {
    const [a, b] = [this.#at(one), this.#at(other)];
    this.#heap[one] = b;
    this.#heap[other] = a;
  }

  #at(index: number): Place<Item> {
    return this.#heap[index] as Place<Item>;
  }
}
