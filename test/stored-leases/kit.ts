import type { TestContext } from "node:test";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import type { LeaseRequest } from "../../src/leases/lease-request.ts";
import type { LeaseView } from "../../src/leases/lease-view.ts";
import { StoredLeases } from "../../src/leases/stored-leases.ts";
import type { Store } from "../../src/ports/store.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import type { OpenedStore } from "../limiter/every-store.ts";

export const T0 = Date.UTC(2026, 2, 15, 12);
export const DAY_MS = 86_400_000;
export const HOLDS = { holdMs: 300_000, holdMaxMs: DAY_MS, onExpiry: "charge" } as const;

/** What stays taken until it is given back: nothing drips in while a story is told. */
export const still = (name: string, capacity: number): Limit =>
  Limit.custom(name, { capacity, refillAmount: 1, refillPeriodMs: 1_000_000_000_000 });

export const key1 = { entityId: "key-1", resource: "gpt-4" } as const;

export function taking(consume: Record<string, number>, more: Partial<LeaseRequest> = {}): LeaseRequest {
  return { ...key1, consume, ...more };
}

/** Stored leases on a limiter of its own, as another process would have it. */
export async function openStoredLeases(store: Store, clock: SimulatedClock, options: object = {}) {
  const limiter = await RateLimiter.open({ store, clock, ...options });
  const changes: LeaseView[] = [];
  const storedLeases = new StoredLeases(limiter, { ...HOLDS, onChange: (lease) => changes.push(lease) });
  return { limiter, storedLeases, changes };
}

/** A key below a project: 60 requests and 6,000 tokens on gpt-4, the project 9,000 tokens; 4 slots on the gpu pool. */
export async function openWorld(t: TestContext, openStore: (clock: SimulatedClock, t: TestContext) => OpenedStore) {
  const clock = new SimulatedClock(T0);
  const { store, options } = openStore(clock, t);
  const opened = await openStoredLeases(store, clock, options);
  const { limiter } = opened;
  await limiter.setResourceDefaults("gpt-4", [still("rpm", 60), still("tpm", 6_000)]);
  await limiter.setResourceDefaults("gpu-pool", [still("slots", 4)]);
  await limiter.createEntity({ id: "proj-1" });
  await limiter.createEntity({ id: "key-1", parentId: "proj-1", cascade: true });
  await limiter.setLimits("proj-1", [still("tpm", 9_000)], { resource: "gpt-4" });
  /** What is left, as `entity.limit`, of gpt-4 and the pool. */
  const left = async (): Promise<Record<string, number>> => {
    const all = await Promise.all(
      ["gpt-4", "gpu-pool"].map((resource) => limiter.available({ entityId: "key-1", resource })),
    );
    const own = all.flat().map((one) => [`${one.entityId}.${one.limit}`, one.available] as const);
    return Object.fromEntries(own.filter(([name]) => name !== "proj-1.slots"));
  };
  return { ...opened, clock, store, options, left };
}

export const FULL = { "key-1.rpm": 60, "key-1.tpm": 6_000, "proj-1.tpm": 9_000, "key-1.slots": 4 };
