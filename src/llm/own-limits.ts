import type { Limit } from "../domain/limits/limit.ts";
import { BoundedMap } from "../domain/names/bounded-map.ts";
import { RateLimiterUnavailable } from "../domain/names/errors.ts";
import type { Acquiring } from "../engine/acquire/acquiring.ts";

/** How long they are remembered, in ms: estimates are cut to them, and a change need not be seen at once. */
const REMEMBERED_MS = 60_000;
const KEYS_MAX = 1_000;

/** The limits of entities on resources, for estimates. Remembered, so that a call costs no read. */
export class OwnLimits {
  #known = new BoundedMap<readonly Limit[]>(KEYS_MAX);
  #forgetting: ReturnType<typeof setTimeout> | undefined;

  /** Empty where they cannot be read: a token may lack the right, which is remembered, and an outage is for the take to tell. */
  async of(limiter: Acquiring, entityId: string, resource: string): Promise<readonly Limit[]> {
    const key = JSON.stringify([entityId, resource]);
    const known = this.#known.get(key);
    if (known !== undefined) return known;
    try {
      const { limits } = await limiter.resolveLimits(entityId, resource);
      this.#remember(key, limits);
      return limits;
    } catch (error) {
      if (!(error instanceof RateLimiterUnavailable)) this.#remember(key, []);
      return [];
    }
  }

  #remember(key: string, limits: readonly Limit[]): void {
    this.#known.set(key, limits);
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
