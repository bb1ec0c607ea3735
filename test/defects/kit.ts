import { Limit, type OpenOptions, RateLimiter, ValidationError } from "../../src/entry/index.ts";
import { openMemory } from "../../src/entry/memory.ts";
import type { Store } from "../../src/ports/store.ts";
import { type FaultOptions, FaultStore } from "../../src/testing/fault-store.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";

export const MINUTE_MS = 60_000;
export const HOUR_MS = 3_600_000;

/** Noon, in the middle of a month. */
export const T0 = Date.UTC(2026, 2, 15, 12);

export const rpm = (rate: number): Limit[] => [Limit.perMinute("rpm", rate)];

export async function open(
  options: Omit<OpenOptions, "clock"> = {},
): Promise<{ readonly limiter: RateLimiter; readonly clock: SimulatedClock }> {
  const clock = new SimulatedClock(T0);
  return { limiter: await RateLimiter.open({ store: "memory", clock, ...options }), clock };
}

/** A limiter on a memory store behind a line that fails when told to. */
export async function openFaulty(
  options: Omit<OpenOptions, "clock" | "store"> = {},
  faultOptions: FaultOptions = {},
  store: Store = openMemory(),
): Promise<{ readonly limiter: RateLimiter; readonly clock: SimulatedClock; readonly faults: FaultStore }> {
  const faults = new FaultStore(store, faultOptions);
  return { ...(await open({ ...options, store: faults })), faults };
}

/** Processes on one store, each with a clock that is so many ms ahead. */
export async function processes(
  offsetsMs: readonly number[],
): Promise<{ readonly limiters: readonly RateLimiter[]; readonly clock: SimulatedClock }> {
  const store = openMemory();
  const clock = new SimulatedClock(T0);
  const limiters = offsetsMs.map((offsetMs) => RateLimiter.open({ store, clock: clock.skewed(offsetMs) }));
  return { limiters: await Promise.all(limiters), clock };
}

/** A child that cascades to its parent, both with requests a minute. */
export async function family(limiter: RateLimiter, rates: { child: number; parent: number }): Promise<void> {
  await limiter.createEntity({ id: "parent" });
  await limiter.createEntity({ id: "child", parentId: "parent", cascade: true });
  await limiter.setLimits("parent", rpm(rates.parent));
  await limiter.setLimits("child", rpm(rates.child));
}

export function take(limiter: RateLimiter, entityId: string, consume: Record<string, number>) {
  return limiter.acquire({ entityId, resource: "api", consume });
}

export async function grants(limiter: RateLimiter, entityId: string, consume: Record<string, number>) {
  return (await limiter.tryAcquire({ entityId, resource: "api", consume })).ok;
}

/** What is available to an entity itself, without its parents. */
export async function held(limiter: RateLimiter, entityId: string): Promise<Record<string, number>> {
  const all = await limiter.available({ entityId, resource: "api" });
  return Object.fromEntries(
    all.filter((one) => one.entityId === entityId).map(({ limit, available }) => [limit, available]),
  );
}

export function isInvalid(code: string): (error: unknown) => boolean {
  return (error) => error instanceof ValidationError && error.code === code;
}
