import { BoundedMap } from "../domain/bounded-map.ts";
import type { Limit } from "../domain/limit.ts";
import type { Acquiring } from "../engine/acquiring.ts";

/** How long they are remembered, in ms: estimates are cut to them, and a change need not be seen at once. */
const REMEMBERED_MS = 60_000;
const KEYS_MAX = 1_000;

/** The limits of entities on resources, for estimates. Remembered, so that a call costs no read. */
export class OwnLimits {
  #known = new BoundedMap<readonly Limit[]>(KEYS_MAX);
  #forgetting: ReturnType<typeof setTimeout> | undefined;

  /** Empty where they cannot be read: a token may lack the right, and an outage is for the take to tell. */
  async of(limiter: Acquiring, entityId: string, resource: string): Promise<readonly Limit[]> {
    const key = JSON.stringify([entityId, resource]);
    const known = this.#known.get(key);
    if (known !== undefined) return known;
    try {
      const { limits } = await limiter.resolveLimits(entityId, resource);
      this.#known.set(key, limits);
      this.#forgetLater();
      return limits;
    } catch {
      return [];
    }
  }

  #forgetLater(): void {
    if (this.#forgetting !== undefined) return;
    const timer = setTimeout(() => {
      this.#known = new BoundedMap(KEYS_MAX);
      this.#forgetting = undefined;
    }, REMEMBERED_MS);
    // It must not keep the process alive. Browsers and workers answer a number, which has no `unref`.
    (timer as { unref?(): void }).unref?.();
    this.#forgetting = timer;
  }
}
