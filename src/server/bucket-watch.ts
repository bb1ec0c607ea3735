import { given } from "../domain/names/given.ts";
import type { BucketListing, BucketQuery } from "../engine/limiter/bucket-listing.ts";
import type { Limiter } from "../engine/limiter/limiter.ts";
import type { EventFilter } from "./event-stream.ts";

interface WatchOptions {
  readonly limiterOf: () => Limiter;
  /** What those who want to hear of buckets want to hear of. */
  readonly filters: () => readonly EventFilter[];
  readonly tell: (bucket: BucketListing) => void;
}

/** How many buckets one look reads; the next one goes on where it ended. */
const LOOK_MAX = 1_000;

/** How many single buckets are read between two looks at all of them. */
const TOUCHED_MAX = 100;

/**
 * Looks begin anew after so many buckets: what is further down is told when this process takes from it, and shown by whoever reads the
 * list.
 */
export const WATCHED_MAX = 10_000;

/** More than are looked at: buckets that come to be push others out of what is looked at, and those are forgotten first. */
export const REMEMBERED_MAX = WATCHED_MAX + 2 * LOOK_MAX;

/** Reads the buckets of a namespace from the store while somebody watches, and tells which have changed. */
export class BucketWatch {
  readonly #options: WatchOptions;
  /** As each was last told or first seen; the one not seen for longest stands first. */
  readonly #last = new Map<string, string>();
  /** Buckets that this process took from since the last look: told in any case, also when they are first seen. */
  readonly #touched = new Map<string, BucketQuery>();
  /** Where the next look of a query goes on, and how many buckets it has seen since it began. */
  readonly #places = new Map<string, { readonly cursor: string; readonly seen: number }>();
  #isLooking = false;

  constructor(options: WatchOptions) {
    this.#options = options;
  }

  /** Buckets that are remembered. */
  get remembered(): number {
    return this.#last.size;
  }

  touched(entityId: string, resource: string): void {
    if (this.#touched.size < LOOK_MAX) this.#touched.set(keyOf({ entityId, resource }), { entityId, resource });
  }

  /** Reads the next buckets that somebody watches. */
  look(): Promise<void> {
    return this.#alone(async () => {
      const queries = new Map(queriesOf(this.#options.filters()).map((query) => [keyOf(query), query]));
      // Nobody asks for the others any more.
      for (const key of this.#places.keys()) if (!queries.has(key)) this.#places.delete(key);
      for (const [key, query] of queries) {
        const { cursor, seen = 0 } = this.#places.get(key) ?? {};
        const page = await this.#read(query, cursor);
        const now = seen + page.length;
        if (page.cursor === undefined || now >= WATCHED_MAX) this.#places.delete(key);
        else this.#places.set(key, { cursor: page.cursor, seen: now });
      }
    });
  }

  /** Reads those that this process took from. */
  async lookAtTouched(): Promise<void> {
    if (this.#touched.size === 0) return;
    await this.#alone(async () => {
      for (const [key, query] of [...this.#touched].slice(0, TOUCHED_MAX)) {
        await this.#read(query, undefined);
        // It is gone where it was not read.
        this.#touched.delete(key);
      }
    });
  }

  /** One look at a time: a store that is slow is not asked again before it has answered. */
  async #alone(work: () => Promise<void>): Promise<void> {
    if (this.#isLooking) return;
    if (this.#options.filters().length === 0) {
      this.#last.clear();
      this.#touched.clear();
      this.#places.clear();
      return;
    }
    this.#isLooking = true;
    try {
      await work();
    } catch {
      // The store does not answer, or the namespace is gone: the next look may see more. The library tells of outages itself.
    } finally {
      this.#isLooking = false;
    }
  }

  async #read(query: BucketQuery, cursor: string | undefined) {
    const limiter = this.#options.limiterOf();
    const page = await limiter.listBuckets({ ...query, limit: LOOK_MAX, ...(cursor === undefined ? {} : { cursor }) });
    for (const bucket of page) this.#compare(bucket);
    return page;
  }

  #compare(bucket: BucketListing): void {
    const key = keyOf(bucket);
    const text = JSON.stringify(bucket.limits);
    const before = this.#last.get(key);
    const isTouched = this.#touched.delete(key);
    // What is told in any case need not be remembered.
    if (before !== undefined || !isTouched) this.#remember(key, text);
    // One that is seen for the first time may be as it was when the client read it.
    if (isTouched || (before !== undefined && text !== before)) this.#options.tell(bucket);
  }

  #remember(key: string, text: string): void {
    this.#last.delete(key);
    this.#last.set(key, text);
    const [oldest] = this.#last.size > REMEMBERED_MAX ? this.#last.keys() : [];
    if (oldest !== undefined) this.#last.delete(oldest);
  }
}

function keyOf({ entityId = "", resource = "" }: BucketQuery): string {
  return `${entityId}\n${resource}`;
}

/** What to read so that every filter is served: everything, as soon as one wants everything. */
function queriesOf(filters: readonly EventFilter[]): readonly BucketQuery[] {
  const queries = new Map<string, BucketQuery>();
  for (const { entityId, resource } of filters) {
    if (entityId === undefined && resource === undefined) return [{}];
    const query: BucketQuery = given({ entityId, resource });
    queries.set(keyOf(query), query);
  }
  return [...queries.values()];
}
