import type { TestContext } from "node:test";
import type { Limiter } from "../../src/engine/limiter/limiter.ts";
import { applyManifest, type Change, type PlanOptions, parseManifest, planManifest } from "../../src/entry/manifest.ts";
import { RateLimiter } from "../../src/entry/rate-limiter.ts";
import type { Store } from "../../src/ports/store.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { EVERY_STORE } from "../limiter/every-store.ts";

export const T0 = Date.UTC(2026, 2, 15, 12);

/** Memory, SQLite and conditional writes, each with an empty store. */
export const STORES = EVERY_STORE.filter(([name]) => ["memory", "SQLite", "conditional writes"].includes(name));

export async function opened(t: TestContext, open: (typeof STORES)[number][1]) {
  const clock = new SimulatedClock(T0);
  const { store, options } = open(clock, t);
  const limiter = await limiterOn(store, clock, options);
  return { store, clock, limiter };
}

export function limiterOn(store: Store, clock: SimulatedClock, options: object = {}): Promise<RateLimiter> {
  return RateLimiter.open({ store, clock, ...options });
}

export async function plan(limiter: Limiter, text: string, options: PlanOptions = {}) {
  return planManifest(limiter, parseManifest(text), options);
}

export async function apply(limiter: Limiter, text: string, options: PlanOptions = {}, principal = "ci") {
  return applyManifest(limiter, await plan(limiter, text, options), { principal });
}

/** `create limits of resource a`, for comparing. */
export function lines(changes: readonly Change[]): string[] {
  return changes.map(({ action, what, level, entityId, resource, drift }) =>
    [action, what, level, entityId, resource, drift ? "(drift)" : ""].filter(Boolean).join(" "),
  );
}
