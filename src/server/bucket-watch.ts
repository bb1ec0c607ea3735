import type { BucketListing, BucketQuery } from "../engine/bucket-listing.ts";
import type { Limiter } from "../engine/limiter.ts";
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

/** Reads the buckets of a namespace from the store while somebody watches, and tells which have changed. */
export class BucketWatch {
  readonly #options: WatchOptions;
  /** As each was last told or first seen. */
  #last = new Map<string, string>();
  /** Buckets that this process took from since the last look: told in any case, also when they are first seen. */
  #touched = new Map<string, BucketQuery>();
  readonly #cursors = new Map<string, string>();
  #isLooking = false;

  constructor(options: WatchOptions) {
    this.#options = options;
  }

  touched(entityId: string, resource: string): void {
    if (this.#touched.size < LOOK_MAX) this.#touched.set(`${entityId}\n${resource}`, { entityId, resource });
  }

  /** Reads all buckets that somebody watches. */
  look(): void {
    void this.#alone(async () => {
      for (const query of queriesOf(this.#options.filters())) await this.#lookAt(query);
    });
  }

  /** Reads those that this process took from. */
  lookAtTouched(): void {
    if (this.#touched.size === 0) return;
    void this.#alone(async () => {
      for (const query of [...this.#touched.values()].slice(0, TOUCHED_MAX)) await this.#lookAt(query);
    });
  }

  /** One look at a time: a store that is slow is not asked again before it has answered. */
  async #alone(work: () => Promise<void>): Promise<void> {
    if (this.#isLooking) return;
    if (this.#options.filters().length === 0) {
      this.#last.clear();
      this.#touched.clear();
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

  async #lookAt(query: BucketQuery): Promise<void> {
    const limiter = this.#options.limiterOf();
    const key = `${query.entityId ?? ""}\n${query.resource ?? ""}`;
    const cursor = this.#cursors.get(key);
    const page = await limiter.listBuckets({ ...query, limit: LOOK_MAX, ...(cursor === undefined ? {} : { cursor }) });
    if (page.cursor === undefined) this.#cursors.delete(key);
    else this.#cursors.set(key, page.cursor);
    for (const bucket of page) this.#compare(bucket);
  }

  #compare(bucket: BucketListing): void {
    const key = `${bucket.entityId}\n${bucket.resource}`;
    const text = JSON.stringify(bucket.limits);
    const before = this.#last.get(key);
    const isTouched = this.#touched.delete(key);
    this.#last.set(key, text);
    // One that is seen for the first time may be as it was when the client read it.
    if (isTouched || (before !== undefined && text !== before)) this.#options.tell(bucket);
  }
}

/** What to read so that every filter is served: everything, as soon as one wants everything. */
function queriesOf(filters: readonly EventFilter[]): readonly BucketQuery[] {
  const queries = new Map<string, BucketQuery>();
  for (const { entityId, resource } of filters) {
    if (entityId === undefined && resource === undefined) return [{}];
    queries.set(`${entityId}\n${resource}`, {
      ...(entityId === undefined ? {} : { entityId }),
      ...(resource === undefined ? {} : { resource }),
    });
  }
  return [...queries.values()];
}
