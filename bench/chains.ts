import { RateLimiter } from "../src/entry/index.ts";
import { roomyLimit } from "./roomy.ts";

/** One call of a way; `i` counts them. */
export type Call = (i: number) => Promise<unknown>;

export const KEYS = 100;

/** A take of both limits on every level of the entity's chain. */
export function takingOf(limiter: RateLimiter, entityId: string): Call {
  return () => limiter.tryAcquire({ entityId, resource: "two", consume: { rpm: 1, tpm: 500 } });
}

/** The entities `of-4-1` to `of-4-4` are a chain of four levels; `key-0` to `key-99` are below three of them. Each process of a fleet has a chain of its own. */
export async function prepareChains(store: string): Promise<void> {
  const limiter = await RateLimiter.open({ store });
  await limiter.setResourceDefaults("two", [roomyLimit("rpm"), roomyLimit("tpm")]);
  for (const levels of [1, 4, 8]) {
    for (let level = 1; level <= levels; level++) {
      const parent = level === 1 ? {} : { parentId: `of-${levels}-${level - 1}` };
      await limiter.ensureEntity({ id: `of-${levels}-${level}`, ...parent });
    }
  }
  for (let process = 0; process < 20; process++) {
    for (let level = 1; level <= 4; level++) {
      const parent = level === 1 ? {} : { parentId: `own-${process}-${level - 1}` };
      await limiter.ensureEntity({ id: `own-${process}-${level}`, ...parent });
    }
  }
  for (let i = 0; i < KEYS; i++) await limiter.ensureEntity({ id: `key-${i}`, parentId: "of-4-3" });
  await limiter.close();
}
