import assert from "node:assert/strict";
import { type Limit, RateLimiter, type Refusal } from "../../src/entry/index.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";

export const SECOND_MS = 1_000;
export const MINUTE_MS = 60_000;
export const HOUR_MS = 3_600_000;
export const DAY_MS = 86_400_000;

export const at = (instant: string): number => Date.parse(instant);

/** A limiter in memory on a clock that stands at an instant until it is put elsewhere. */
export async function openAt(instant: string): Promise<{ limiter: RateLimiter; clock: SimulatedClock }> {
  const clock = new SimulatedClock(at(instant));
  return { limiter: await RateLimiter.open({ store: "memory", clock }), clock };
}

/** The same, with limits for everybody on `api`. */
export async function openWith(instant: string, ...limits: readonly Limit[]) {
  const opened = await openAt(instant);
  await opened.limiter.setResourceDefaults("api", limits);
  return opened;
}

/** Tokens of one limit on `api`, for one entity. */
export function request(name: string, tokens: number, entityId = "a") {
  return { entityId, resource: "api", consume: { [name]: tokens } };
}

/** How many of so many requests for one token are let in, all at this instant. */
export async function admitted(limiter: RateLimiter, name: string, tries: number, entityId = "a"): Promise<number> {
  let count = 0;
  for (let i = 0; i < tries; i++) if ((await limiter.tryAcquire(request(name, 1, entityId))).ok) count++;
  return count;
}

/** Takes all there is of one limit and says how much it was, in whole tokens. */
export async function drain(limiter: RateLimiter, name: string, entityId = "a"): Promise<number> {
  const all = await limiter.available({ entityId, resource: "api" });
  const available = all.find((one) => one.limit === name && one.entityId === entityId)?.available ?? 0;
  if (available > 0) await limiter.acquire(request(name, available, entityId));
  assert.equal((await limiter.tryAcquire(request(name, 1, entityId))).ok, false, "more was there than it said");
  return available;
}

export async function refusal(limiter: RateLimiter, name: string, tokens: number, entityId = "a"): Promise<Refusal> {
  const outcome = await limiter.tryAcquire(request(name, tokens, entityId));
  assert.ok(!outcome.ok, "it was granted");
  return outcome;
}

/** What an entity holds of its limits on `api`, by name. */
export async function held(limiter: RateLimiter, entityId = "a"): Promise<Record<string, number>> {
  const all = await limiter.available({ entityId, resource: "api" });
  return Object.fromEntries(all.filter((one) => one.entityId === entityId).map((one) => [one.limit, one.available]));
}
