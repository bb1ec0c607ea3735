import { RateLimiterUnavailable } from "../domain/errors.ts";
import { reasonOf } from "./event-publisher.ts";
import type { LeasePart } from "./lease-part.ts";
import type { AcquireRequest, Demand } from "./request.ts";

/** The store could not be reached, and work is not let through meanwhile. */
export function notReached({ entityId, resource }: AcquireRequest, cause: unknown): RateLimiterUnavailable {
  return new RateLimiterUnavailable(
    `The store is unavailable for ${entityId} on ${resource}: ${reasonOf(cause)}. ` +
      'Try again, or let requests through during outages with onUnavailable: "allow".',
    { cause },
  );
}

/** What a lease holds on each resource that was let through uncounted: nothing. */
export function uncountedParts(
  { entityId, resource, also }: AcquireRequest,
  demands: readonly Demand[],
  nowMs: number,
): { readonly part: LeasePart; readonly others: readonly LeasePart[] } {
  const nothing = { entityId, taken: [], takenAtMs: nowMs };
  const own = demands.filter(({ bucket }) => bucket.resource === resource);
  const others = Object.keys(also ?? {}).map((name) => ({ resource: name, demands: [], ...nothing }));
  return { part: { resource, demands: own, ...nothing }, others };
}
