import type { Item, ItemKey } from "../../src/ports/item-store.ts";
import type { SeededRandom } from "../../src/testing/random.ts";

/** The place of one item in a table: what is there, what was lately, and how much was written. */
export class ConditionalCell {
  readonly namespaceId: string;
  readonly key: ItemKey;
  /** How many transactions on the item are under way. */
  holds = 0;
  #item: Item | undefined;
  /** What was there before, oldest first. */
  #past: Past[] = [];
  /** Writes of the last second, oldest first. */
  #spent: Spent[] = [];
  #spentUnits = 0;

  constructor(namespaceId: string, key: ItemKey) {
    this.namespaceId = namespaceId;
    // The caller may do with its key what it likes.
    this.key = Object.freeze({ ...key });
  }

  get item(): Item | undefined {
    return this.#item;
  }

  replace(item: Item | undefined, nowMs: number, staleMs: number): void {
    if (staleMs > 0) {
      this.#forget(nowMs - staleMs);
      this.#past.push({ item: this.#item, untilMs: nowMs });
    }
    this.#item = item;
  }

  /** The item as it was at some instant of the last `staleMs`. */
  seen(nowMs: number, staleMs: number, random: SeededRandom): Item | undefined {
    this.#forget(nowMs - staleMs);
    if (this.#past.length === 0) return this.#item;
    const index = random.integer(0, this.#past.length);
    return index === this.#past.length ? this.#item : this.#past[index]?.item;
  }

  /** Whether so many write units may be spent without going over what the item takes in a second. */
  hasRoom(units: number, nowMs: number, unitsPerSecond: number): boolean {
    if (unitsPerSecond === Number.POSITIVE_INFINITY) return true;
    let gone = 0;
    for (const { atMs, units: old } of this.#spent) {
      if (atMs > nowMs - 1000) break;
      gone++;
      this.#spentUnits -= old;
    }
    if (gone > 0) this.#spent.splice(0, gone);
    return this.#spentUnits + units <= unitsPerSecond;
  }

  spend(units: number, nowMs: number, unitsPerSecond: number): void {
    if (unitsPerSecond === Number.POSITIVE_INFINITY) return;
    const last = this.#spent.at(-1);
    if (last?.atMs === nowMs) last.units += units;
    else this.#spent.push({ atMs: nowMs, units });
    this.#spentUnits += units;
  }

  /** Drops what had been replaced by then: no read can be that old. */
  #forget(sinceMs: number): void {
    const kept = this.#past.findIndex(({ untilMs }) => untilMs > sinceMs);
    if (kept !== 0) this.#past.splice(0, kept < 0 ? this.#past.length : kept);
  }
}

interface Past {
  readonly item: Item | undefined;
  readonly untilMs: number;
}

interface Spent {
  readonly atMs: number;
  units: number;
}
