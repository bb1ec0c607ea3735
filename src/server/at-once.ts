import { findLimit } from "../domain/bucket/bucket-state.ts";
import type { LimitStanding } from "../domain/charge/limit-standing.ts";
import { measureOf } from "../domain/charge/measures.ts";
import type { Calendar } from "../domain/limits/calendar.ts";
import type { Demand } from "../engine/acquire/request.ts";
import { type Lease, partsOfLease } from "../engine/lease/lease.ts";
import { type LeasePart, positionsOf } from "../engine/lease/lease-part.ts";
import type { Availability } from "../engine/limiter/availability.ts";
import { standingOf, standingsOfParts } from "../engine/refusal/standing.ts";
import type { Answered } from "../leases/stored-leases.ts";

// A take that is charged at once needs no record, and its answer says so by a lease without an id. It is what plain requests use,
// many of them, so that nothing is made for it that the answer does not show, and nothing is worked out twice.

/** What the answer to a take that is charged at once has of a lease, and how every limit stands that it was taken from. */
export function answerAtOnce(
  lease: Lease,
  about: { readonly namespace: string; readonly entityId: string; readonly onExpiry: "charge" | "refund" },
  calendar: Calendar,
): Answered {
  const { degraded } = lease;
  const parts = partsOfLease(lease);
  const own = parts[0] as LeasePart;
  // A list that may be made when it is looked at.
  const { demands } = own;
  const { limits, standings, isSoft } =
    parts.length === 1 ? walked(demands, own, calendar) : severalIn(lease, parts, calendar);
  return {
    lease: {
      leaseId: null,
      namespace: about.namespace,
      entityId: about.entityId,
      resource: own.resource,
      status: "settled",
      consumed: lease.consumed,
      also: parts.length === 1 ? {} : alsoConsumed(lease, parts),
      degraded,
      overdrawn: degraded === false && isSoft ? lease.overdrawn : [],
      shadowed: parts.some(({ isShadowed }) => isShadowed) ? lease.shadowed : [],
      bypassed: demands[0]?.bypass ?? false,
      expiresAtMs: null,
      onExpiry: about.onExpiry,
      limits,
    },
    standings,
    replayed: false,
  };
}

interface Walked {
  /** What is left, as the body has it. */
  readonly limits: readonly Availability[];
  /** The same limits, as header fields are made of. */
  readonly standings: readonly LimitStanding[];
  /** Some of the limits may be soft, so that it has to be asked whether one is overdrawn. */
  readonly isSoft: boolean;
}

/** The buckets of a take on one resource, gone through once for all that the answer says of them. */
function walked(demands: readonly Demand[], { taken, takenAtMs }: LeasePart, calendar: Calendar): Walked {
  const places = demands.length === 1 ? undefined : positionsOf(demands.map(({ bucket }) => bucket));
  const at = { nowMs: takenAtMs, calendar };
  const limits: Availability[] = [];
  const standings: LimitStanding[] = [];
  let isSoft = false;
  let next = 0;
  for (const [i, demand] of demands.entries()) {
    const state = demand.take.length === 0 ? undefined : taken[next++]?.state;
    if (state === undefined) continue;
    isSoft ||= state.limits.some(({ limit }) => limit.soft === true);
    const { bucket } = demand;
    const level = places?.[i]?.level ?? 0;
    for (const definition of demand.limits ?? demand.set.limits) {
      const held = findLimit(state, definition.name);
      if (held === undefined) continue;
      const standing = standingOf(held, bucket, level, state, at);
      const { entityId, resource, limit, available, capacity } = standing;
      standings.push(standing);
      limits.push({ entityId, resource, limit, counts: measureOf(definition), available, capacity });
    }
  }
  return { limits, standings, isSoft };
}

function alsoConsumed(lease: Lease, [, ...others]: readonly LeasePart[]): Answered["lease"]["also"] {
  return Object.fromEntries(others.map(({ resource }) => [resource, lease.resource(resource).consumed]));
}

/** Of several resources a total that they share is left once. */
function severalIn(lease: Lease, parts: readonly LeasePart[], calendar: Calendar): Walked {
  const all = parts.flatMap(({ resource }) => lease.resource(resource).remaining);
  const isSame = (one: Availability, other: Availability) =>
    one.entityId === other.entityId && one.resource === other.resource && one.limit === other.limit;
  const limits = all.filter((one, i) => all.findIndex((other) => isSame(one, other)) === i);
  return { limits, standings: standingsOfParts(parts, calendar), isSoft: true };
}
