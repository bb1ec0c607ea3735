import { findLimit } from "../domain/bucket/bucket-state.ts";
import { measureOf } from "../domain/charge/amounts.ts";
import type { LimitStanding } from "../domain/charge/rate-limit-headers.ts";
import type { Calendar } from "../domain/limits/schedule.ts";
import type { Demand } from "../engine/acquire/request.ts";
import { type Lease, partsOfLease } from "../engine/lease/lease.ts";
import { type LeasePart, positionsOf } from "../engine/lease/lease-part.ts";
import type { Availability } from "../engine/limiter/question.ts";
import { standingOf, standingsOfParts } from "../engine/refusal/standing.ts";
import type { Answered } from "../leases/stored-leases.ts";
import { consumedOf } from "../leases/taking.ts";

// A take that is charged at once needs no record; its answer has a lease without an id. This is the most frequent request: nothing is
// made that the answer does not show, and nothing is computed twice.

/** The answer to a take that is charged at once, with the state of every limit that it was taken from. */
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
      ...(parts.length === 1 ? { consumed: lease.consumed, also: {} } : consumedOf(lease)),
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
  /** The limits for the body. */
  readonly limits: readonly Availability[];
  /** The limits for the header fields. */
  readonly standings: readonly LimitStanding[];
  /** Whether a limit may be soft, and so overdrawn. */
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

/** Lists a bucket that several parts share once. */
function severalIn(lease: Lease, parts: readonly LeasePart[], calendar: Calendar): Walked {
  const all = parts.flatMap(({ entityId, resource }) => lease.part({ entityId, resource }).remaining);
  const isSame = (one: Availability, other: Availability) =>
    one.entityId === other.entityId && one.resource === other.resource && one.limit === other.limit;
  const limits = all.filter((one, i) => all.findIndex((other) => isSame(one, other)) === i);
  return { limits, standings: standingsOfParts(parts, calendar), isSoft: true };
}
