import { type BucketKey, bucketKey } from "../domain/bucket/bucket-key.ts";
import { ItemUnreadable } from "../domain/bucket/item-unreadable.ts";
import type { Calendar } from "../domain/limits/calendar.ts";
import type { BatchStore, IdleBucket, StoredBucket } from "../ports/batch-store.ts";
import { endedOn } from "../stored/bucket-record.ts";
import { mayForget } from "../stored/keeping.ts";
import { recordOfRow } from "./row-codec.ts";

/** So many buckets are looked at in one step. */
export const STEP_BUCKETS = 50;

/** Drops buckets that have been full for an hour: the next one of the same name begins as they would go on. */
export class BucketSweep {
  readonly #store: BatchStore;
  readonly #calendar: Calendar;
  readonly #countsUsage: boolean;
  /** Where the next step begins, by namespace. */
  readonly #places = new Map<string, BucketKey>();

  constructor(store: BatchStore, calendar: Calendar, countsUsage: boolean) {
    this.#store = store;
    this.#calendar = calendar;
    this.#countsUsage = countsUsage;
  }

  /**
   * Looks at some, from where the last step ended; answers how many went. The first step begins at `first`: processes that live
   * shortly would otherwise all look at the same beginning.
   */
  async step(namespaceId: string, first: BucketKey, nowMs: number): Promise<number> {
    const found = await this.#store.some(namespaceId, this.#places.get(namespaceId) ?? first, STEP_BUCKETS);
    this.#places.set(namespaceId, after(found) ?? BEGINNING);
    return this.#forget(namespaceId, found, nowMs);
  }

  /** Looks at all of them. */
  async toEnd(namespaceId: string, nowMs: number): Promise<number> {
    let forgotten = 0;
    for (let from: BucketKey | undefined = BEGINNING; from !== undefined; ) {
      const found: readonly StoredBucket[] = await this.#store.some(namespaceId, from, STEP_BUCKETS);
      const went = await this.#forget(namespaceId, found, nowMs);
      forgotten += went;
      from = after(found);
    }
    return forgotten;
  }

  async #forget(namespaceId: string, found: readonly StoredBucket[], nowMs: number): Promise<number> {
    const idle = found.flatMap((bucket) => this.#ifIdle(bucket, nowMs) ?? []);
    return idle.length === 0 ? 0 : this.#store.forget(namespaceId, idle);
  }

  #ifIdle({ key, row }: StoredBucket, nowMs: number): IdleBucket | undefined {
    const calendar = this.#calendar;
    try {
      const { state } = recordOfRow(row, key, calendar);
      if (!mayForget(state, nowMs, calendar)) return undefined;
      return { key, version: row.version, left: this.#countsUsage ? endedOn(state, nowMs) : [] };
    } catch (error) {
      // Whoever takes from it hears of that.
      if (error instanceof ItemUnreadable) return undefined;
      throw error;
    }
  }
}

export const BEGINNING = bucketKey("", "");

/** The next possible key after these; undefined: they are the last. */
function after(found: readonly StoredBucket[]): BucketKey | undefined {
  const last = found.at(-1)?.key;
  if (last === undefined || found.length < STEP_BUCKETS) return undefined;
  return bucketKey(last.entityId, `${last.resource}\u0001`);
}
