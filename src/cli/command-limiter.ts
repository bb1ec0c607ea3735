import type { Limiter } from "../engine/limiter/limiter.ts";
import type { Listing } from "../engine/limiter/listing.ts";
import type { LimiterClient } from "../entry/client.ts";
import type { RateLimiter } from "../entry/rate-limiter.ts";
import type { LeaseAccess, LevelAccess, ServiceClient } from "./service-client.ts";

/** What commands call of a limiter, whether it works on a store or asks a service. */
export type CommandLimiter = {
  readonly [Name in keyof RateLimiter & keyof LimiterClient]: Loosened<RateLimiter[Name]>;
};

/** A list is awaited for a page, or walked through; which class it is, does not matter. */
type Loosened<Method> = Method extends (...given: infer Given) => Listing<infer Item, infer Shown>
  ? (...given: Given) => PromiseLike<Shown> & AsyncIterable<Item>
  : Method;

/** The client of a service, where the limiter is one. */
export function clientOf(limiter: CommandLimiter): ServiceClient | undefined {
  return "levels" in limiter ? (limiter as ServiceClient) : undefined;
}

export async function levelsOf(limiter: CommandLimiter): Promise<LevelAccess> {
  const client = clientOf(limiter);
  if (client !== undefined) return client.levels;
  const { partsOf } = await import("../engine/limiter/limiter-parts.ts");
  const { admin } = partsOf(limiter);
  return {
    get: (scope) => admin.getConfig(scope, {}),
    set: (scope, limits, options) => admin.setConfig(scope, limits, options),
    delete: (scope, options) => admin.deleteConfig(scope, options),
    changeSystem: (change, options) => admin.changeSystem(change, options),
  };
}

export async function leasesOf(limiter: CommandLimiter): Promise<LeaseAccess> {
  const client = clientOf(limiter);
  if (client !== undefined) return client.leases;
  const { StoredLeases } = await import("../leases/stored-leases.ts");
  // Nothing is taken here, so that no hold has to be chosen.
  return new StoredLeases(limiter as unknown as Limiter, { ...UNUSED_HOLD, onChange: () => {} });
}

const UNUSED_HOLD = { holdMs: 60_000, holdMaxMs: 86_400_000, onExpiry: "charge" } as const;
