import { given } from "../domain/names/given.ts";
import type { BucketListing, BucketQuery } from "../engine/limiter/bucket-listing.ts";
import type { Limiter } from "../engine/limiter/limiter.ts";
import type { EventFilter } from "./event-stream.ts";

interface WatchOptions {
  readonly limiterOf: () => Limiter;
  /** The filters of streams that want events of buckets. */
  readonly filters: () => readonly EventFilter[];
  readonly tell: (bucket: BucketListing) => void;
}

/** The most buckets that one look reads. The next look continues there. */
const LOOK_MAX = 1_000;

/** The most single buckets read between two looks. */
const TOUCHED_MAX = 100;

/** Looks start over after this many buckets. Changes of later ones are published only when this process takes from them. */
export const WATCHED_MAX = 10_000;

/** More than a look covers: new buckets push others out of it, and those are forgotten first. */
export const REMEMBERED_MAX = WATCHED_MAX + 2 * LOOK_MAX;

/** Reads the buckets of a namespace from the store while streams want them, and publishes changes. */
export class BucketWatch {
  readonly #options: WatchOptions;
  /** The last state of each bucket, the least recently seen first. */
  readonly #last = new Map<string, string>();
  /** Buckets that this process took from since the last look. They are published even if they are new. */
  readonly #touched = new Map<string, BucketQuery>();
  /** The cursor of each query, and the number of buckets read since its first page. */
  readonly #places = new Map<string, { readonly cursor: string; readonly seen: number }>();
  #isLooking = false;

  constructor(options: WatchOptions) {
    this.#options = options;
  }

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
        // A bucket that was not read is gone.
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
    const page = await limiter.listBuckets({ ...query, limit: LOOK_MAX, ...given({ cursor }) });
    for (const bucket of page) this.#compare(bucket);
    return page;
  }

  #compare(bucket: BucketListing): void {
    const key = keyOf(bucket);
    const text = JSON.stringify(bucket.limits);
    const before = this.#last.get(key);
    const isTouched = this.#touched.delete(key);
    // A bucket that is published in any case need not be remembered.
    if (before !== undefined || !isTouched) this.#remember(key, text);
    // A bucket that is seen for the first time may be unchanged since the client read it.
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

/** The queries that serve every filter: a single one if a filter wants all buckets. */
function queriesOf(filters: readonly EventFilter[]): readonly BucketQuery[] {
  const queries = new Map<string, BucketQuery>();
  for (const { entityId, resource } of filters) {
    if (entityId === undefined && resource === undefined) return [{}];
    const query: BucketQuery = given({ entityId, resource });
    queries.set(keyOf(query), query);
  }
  return [...queries.values()];
}
