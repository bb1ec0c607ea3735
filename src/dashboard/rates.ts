import { useEffect, useState } from "preact/hooks";
import type { Api } from "./api.ts";
import type { BucketRow } from "./bucket-rows.ts";
import { type HeldLimit, levelAt, rateOf } from "./level.ts";
import type { BucketName, EffectiveLimits, Limit } from "./shapes.ts";
import { addedUp, levelsOf, storedIn, TOTAL_LEVELS } from "./stored-limits.ts";
import { TOTALS } from "./words.ts";

/** At most this many requests at once, so that a page of buckets does not delay the requests of the user. */
const AT_ONCE = 4;

/** The limits in force by bucket, read once: a list of buckets has levels, but no rates. */
export class Rates {
  readonly #api: Api;
  readonly #path: string;
  readonly #asked = new Map<string, Promise<readonly Limit[]>>();
  readonly #known = new Map<string, readonly Limit[]>();
  readonly #queue: (() => void)[] = [];
  #running = 0;

  constructor(api: Api, path: string) {
    this.#api = api;
    this.#path = path;
  }

  /** Empty if none are stored or they cannot be read; the bars then stand still until the next reading. */
  limits(entityId: string, resource: string): Promise<readonly Limit[]> {
    const key = `${entityId} ${resource}`;
    const before = this.#asked.get(key);
    if (before !== undefined) return before;
    const asked = this.#ask(entityId, resource).then(
      (limits) => {
        if (this.#asked.get(key) === asked) this.#known.set(key, limits);
        return limits;
      },
      () => {
        // Only an answer is remembered: the next reading asks again.
        if (this.#asked.get(key) === asked) this.#asked.delete(key);
        return [];
      },
    );
    this.#asked.set(key, asked);
    return asked;
  }

  /** The whole tokens of a limit at a time of the page's clock, as far as its rate is known. */
  levelOf({ key, readAtMs }: BucketRow, held: HeldLimit, nowMs: number): number {
    const limit = this.#known.get(key)?.find(({ name }) => name === held.limit);
    return levelAt(held, rateOf(limit, held.capacity), nowMs - readAtMs);
  }

  /** Forgets all limits, since a change at one level may concern every bucket. */
  forget(): void {
    this.#asked.clear();
    this.#known.clear();
  }

  async #ask(entityId: string, resource: string): Promise<readonly Limit[]> {
    if (this.#running >= AT_ONCE) await new Promise<void>((resolve) => this.#queue.push(resolve));
    this.#running += 1;
    try {
      if (resource === TOTALS) {
        const named = { entityId, resource: "", planId: "" };
        const { items } = await levelsOf(this.#api, this.#path, named, undefined);
        return addedUp(TOTAL_LEVELS, storedIn(items)).limits;
      }
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
  { entityId, resource }: BucketName,
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
