import { type Mode, runAsync, runSync, type Steps, waitFor } from "../../domain/steps.ts";
import type { ChainLink, ConfigCache, HowRead } from "./config-cache.ts";
import type { PartChain } from "./plan.ts";
import { type AcquireRequest, alsoOf } from "./request.ts";

/** Of a request that takes from one resource. */
export const NO_OTHERS: readonly PartChain[] = Object.freeze([]);

/** How a chain is read. */
interface Reading {
  readonly nowMs: number;
  readonly mode: Mode;
  readonly how: HowRead;
}

/** The chains of the other resources that a request takes from (`also`). */
export function* otherChains(
  configCache: ConfigCache,
  request: AcquireRequest,
  { nowMs, mode, how }: Reading,
): Steps<readonly PartChain[]> {
  const chainOf = (resource: string) => configCache.chain(request.entityId, resource, nowMs, mode, how);
  const also = alsoOf(request);
  if (mode === "sync") return also.map(([resource, consume]) => ({ consume, chain: runSync(chainOf(resource)) }));
  // All at once: they may have to be read over a network.
  const all = also.map(async ([resource, consume]) => ({ consume, chain: await runAsync(chainOf(resource)) }));
  return yield* waitFor(Promise.all(all));
}

/** The chains of all resources of a request as they were last read, however long ago; undefined where one was not. */
export function lastChains(
  configCache: ConfigCache,
  request: AcquireRequest,
): { readonly chain: readonly ChainLink[]; readonly others: readonly PartChain[] } | undefined {
  const { entityId, resource } = request;
  const chain = configCache.lastKnown(entityId, resource);
  const others: PartChain[] = [];
  for (const [name, consume] of alsoOf(request)) {
    const other = configCache.lastKnown(entityId, name);
    if (other === undefined) return undefined;
    others.push({ consume, chain: other });
  }
  return chain && { chain, others };
}
