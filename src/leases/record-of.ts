import type { BucketState } from "../domain/bucket-state.ts";
import { withTaken } from "../domain/holding.ts";
import type { LeaseHolding, LeaseLevel, LeaseRecord, LeaseResourceRecord, SeenLimit } from "../domain/lease-record.ts";
import type { SetOrigin } from "../domain/limit-set.ts";
import { TOTAL_RESOURCE } from "../domain/totals.ts";
import { availabilityOf } from "../engine/availability.ts";
import { type BucketPosition, type LeasePart, overdrawnAt, positionsOf } from "../engine/lease-part.ts";
import type { Demand } from "../engine/request.ts";
import type { TakenAnswer } from "../ports/bucket-store.ts";

/** What of a record does not follow from what was taken. */
export type LeaseTerms = Pick<
  LeaseRecord,
  "leaseId" | "writer" | "entityId" | "openedAtMs" | "expiresAtMs" | "onExpiry" | "requestId" | "idempotencyKey"
>;

/** The record of a new lease, from what was taken for it. */
export function recordOf(parts: readonly LeasePart[], terms: LeaseTerms): LeaseRecord {
  const resources: LeaseResourceRecord[] = [];
  const holdings: LeaseHolding[] = [];
  for (const [i, { resource, demands, taken, takenAtMs }] of parts.entries()) {
    let next = 0;
    const levels: LeaseLevel[] = [];
    let overdrawn: readonly string[] = [];
    const positions = positionsOf(demands.map(({ bucket }) => bucket));
    for (const [level, demand] of demands.entries()) {
      const answer = demand.take.length === 0 ? undefined : (taken[next++] as TakenAnswer);
      const seen =
        answer === undefined
          ? undefined
          : seenIn(demand, answer.state, { position: positions[level] as BucketPosition, nowMs: takenAtMs });
      if (seen !== undefined) overdrawn = [...overdrawn, ...seen.overdrawn];
      levels.push(levelOf(demand, seen?.limits ?? []));
      if (answer === undefined) continue;
      for (const held of withTaken([], demand.take, answer.ticket)) holdings.push({ at: [i, level], ...held });
    }
    resources.push({ resource, levels, overdrawn });
  }
  return { ...terms, version: 1, status: "open", resources, holdings, closing: undefined };
}

/** What the limits of a bucket of a lease have left in a state. */
export function seenIn(
  of: Pick<Demand, "bucket" | "set" | "limits">,
  state: BucketState,
  { position, nowMs }: { readonly position: BucketPosition; readonly nowMs: number },
): { readonly limits: readonly SeenLimit[]; readonly overdrawn: readonly string[] } {
  return {
    limits: availabilityOf(of, state, nowMs).map(({ limit, available, capacity }) => ({
      limit,
      available,
      capacity,
    })),
    overdrawn: overdrawnAt(state, position, nowMs),
  };
}

function levelOf({ bucket, set, limits, origin, link }: Demand, seen: readonly SeenLimit[]): LeaseLevel {
  return {
    entityId: bucket.entityId,
    ...(bucket.resource === TOTAL_RESOURCE ? { total: true as const } : {}),
    limits: set.limits,
    ...(limits === undefined ? {} : { charged: limits.map(({ name }) => name) }),
    origin: storedOrigin(origin),
    bypass: link.access === "bypass",
    seen,
  };
}

// Which reading of configuration it was counts only in the process that read it.
function storedOrigin({ asOfMs, generation, given, own }: SetOrigin): SetOrigin {
  return { asOfMs, generation, ...(given ? { given } : {}), ...(own ? { own } : {}) };
}
