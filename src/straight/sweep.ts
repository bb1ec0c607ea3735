import { bucketKey } from "../domain/bucket-key.ts";
import type { Calendar } from "../domain/calendar.ts";
import { ItemUnreadable } from "../domain/item-unreadable.ts";
import type { BatchStore, StoredBucket } from "../ports/batch-store.ts";
import { mayForget } from "../stored/keeping.ts";
import { recordOfRow } from "./row-codec.ts";

/** So many buckets are looked at in one step. */
const STEP_BUCKETS = 50;

/** Ids begin with letters and digits most of the time; a place that is off only makes a step shorter. */
const PLACES = "-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz";

/** Drops buckets that have been full for an hour: the next one of the same name begins as they would go on. */
export class BucketSweep {
  readonly #store: BatchStore;
  readonly #calendar: Calendar;
  readonly #random: () => number;

  /** `random`: a number in [0, 1). */
  constructor(store: BatchStore, calendar: Calendar, random: () => number) {
    this.#store = store;
    this.#calendar = calendar;
    this.#random = random;
  }

  /** Looks at some from a random place on; answers how many went. */
  async step(namespaceId: string, nowMs: number): Promise<number> {
    const letter = () => PLACES[Math.floor(this.#random() * PLACES.length)] as string;
    const from = this.#random() < 0.5 ? "" : letter() + letter();
    const found = await this.#store.some(namespaceId, bucketKey(from, ""), STEP_BUCKETS);
    return this.#forget(namespaceId, found, nowMs);
  }

  /** Looks at all of them. */
  async toEnd(namespaceId: string, nowMs: number): Promise<number> {
    let forgotten = 0;
    let from = bucketKey("", "");
    for (;;) {
      const found = await this.#store.some(namespaceId, from, STEP_BUCKETS);
      const dropped = await this.#forget(namespaceId, found, nowMs);
      forgotten += dropped;
      const last = found.at(-1)?.key;
      if (last === undefined || found.length < STEP_BUCKETS) return forgotten;
      // The next possible key after it.
      from = bucketKey(last.entityId, `${last.resource}\u0001`);
    }
  }

  async #forget(namespaceId: string, found: readonly StoredBucket[], nowMs: number): Promise<number> {
    const idle = found.filter((bucket) => this.#isIdle(bucket, nowMs));
    if (idle.length === 0) return 0;
    return this.#store.forget(
      namespaceId,
      idle.map(({ key, row }) => ({ key, version: row.version })),
    );
  }

  #isIdle({ key, row }: StoredBucket, nowMs: number): boolean {
    try {
      return mayForget(recordOfRow(row, key, this.#calendar).state, nowMs, this.#calendar);
    } catch (error) {
      // Whoever takes from it hears of that.
      if (error instanceof ItemUnreadable) return false;
      throw error;
    }
  }
}
