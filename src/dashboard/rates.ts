import { useEffect, useState } from "preact/hooks";
import type { Api } from "./api.ts";
import type { EffectiveLimits, Limit } from "./shapes.ts";

/** At most this many questions at once: a page full of buckets must not crowd out what somebody asked for. */
const AT_ONCE = 4;

/** The limits in force by bucket, asked for once: a list of buckets says what they hold, not how fast they fill up. */
export class Rates {
  readonly #api: Api;
  readonly #path: string;
  readonly #known = new Map<string, Promise<readonly Limit[]>>();
  readonly #queue: (() => void)[] = [];
  #running = 0;

  constructor(api: Api, path: string) {
    this.#api = api;
    this.#path = path;
  }

  /** Empty where none are stored, or they cannot be read: then the bars stand still until the next reading. */
  limits(entityId: string, resource: string): Promise<readonly Limit[]> {
    const key = `${entityId} ${resource}`;
    const known = this.#known.get(key);
    if (known !== undefined) return known;
    const asked = this.#ask(entityId, resource).catch(() => {
      // Only an answer is remembered: the next reading asks again.
      if (this.#known.get(key) === asked) this.#known.delete(key);
      return [];
    });
    this.#known.set(key, asked);
    return asked;
  }

  /** Limits changed: a change at one level may concern every bucket. */
  forget(): void {
    this.#known.clear();
  }

  async #ask(entityId: string, resource: string): Promise<readonly Limit[]> {
    if (this.#running >= AT_ONCE) await new Promise<void>((resolve) => this.#queue.push(resolve));
    this.#running += 1;
    try {
      const { limits } = await this.#api.get<EffectiveLimits>(`${this.#path}/limits/effective`, { entityId, resource });
      return limits;
    } finally {
      this.#running -= 1;
      this.#queue.shift()?.();
    }
  }
}

/** The limits of a bucket, once they are wanted and known. */
export function useLimits(
  rates: Rates,
  { entityId, resource }: { readonly entityId: string; readonly resource: string },
  isWanted: boolean,
  version: number,
): readonly Limit[] {
  const [limits, setLimits] = useState<readonly Limit[]>([]);
  useEffect(() => {
    if (!isWanted) return;
    let isCurrent = true;
    void rates.limits(entityId, resource).then((known) => isCurrent && setLimits(known));
    return () => {
      isCurrent = false;
    };
  }, [rates, entityId, resource, isWanted, version]);
  return limits;
}
