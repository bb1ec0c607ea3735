import type { Returned } from "../../ports/bucket-store.ts";
import type { Store } from "../../ports/store.ts";

/** What came back, and where: a bucket of this name is another one in another namespace. */
interface ReturnedIn {
  readonly namespace: string;
  readonly returned: Returned;
}

/**
 * What comes back to the buckets of a store by any limiter of this process, told to those limiters that have requests waiting.
 * Of other limiters on the same store object, too: they share nothing else.
 */
export class Returns {
  readonly #listeners = new Set<(one: ReturnedIn) => void>();

  /** The answer ends it. A limiter listens only while requests wait, so that one that is dropped can be collected. */
  listen(listener: (one: ReturnedIn) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  tell(one: ReturnedIn): void {
    if (this.#listeners.size === 0) return;
    for (const listener of [...this.#listeners]) listener(one);
  }
}

const BY_STORE = new WeakMap<Store, Returns>();

/** The returns of a store, the same for all limiters on it. */
export function returnsOf(store: Store): Returns {
  let returns = BY_STORE.get(store);
  if (returns === undefined) {
    returns = new Returns();
    BY_STORE.set(store, returns);
  }
  return returns;
}
