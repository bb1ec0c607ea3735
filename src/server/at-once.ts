import type { Calendar } from "../domain/calendar.ts";
import { type Lease, partsOfLease } from "../engine/lease.ts";
import type { LeaseView } from "../leases/lease-view.ts";
import { type LimitStanding, standingsOfParts } from "../leases/standing.ts";

// A take that is charged at once needs no record, and its answer says so by a lease without an id. It is what plain requests use,
// many of them, so that nothing is made for it that the answer does not show.

/** What the answer to a take that is charged at once has of a lease. */
export function chargedLease(
  lease: Lease,
  about: { readonly namespace: string; readonly entityId: string; readonly onExpiry: "charge" | "refund" },
): LeaseView {
  const [resource = "", ...others] = lease.resources;
  return {
    leaseId: null,
    namespace: about.namespace,
    entityId: about.entityId,
    resource,
    status: "settled",
    consumed: lease.consumed,
    also: others.length === 0 ? {} : Object.fromEntries(others.map((name) => [name, lease.resource(name).consumed])),
    degraded: lease.degraded,
    overdrawn: lease.degraded === false ? lease.overdrawn : [],
    bypassed: lease.bypassed,
    expiresAtMs: null,
    onExpiry: about.onExpiry,
    limits: others.length === 0 ? lease.remaining : lease.resources.flatMap((name) => lease.resource(name).remaining),
  };
}

/** How every limit stands that it was taken from. */
export function standingsOfLease(lease: Lease, calendar: Calendar): readonly LimitStanding[] {
  return standingsOfParts(partsOfLease(lease), calendar);
}
