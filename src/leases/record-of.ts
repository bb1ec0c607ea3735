import type { BucketState } from "../domain/bucket/bucket-state.ts";
import { PLAIN_TICKET } from "../domain/bucket/give-back.ts";
import { TOTAL_RESOURCE } from "../domain/config/totals.ts";
import { withTaken } from "../domain/lease/holding.ts";
import type {
  LeaseHolding,
  LeaseLevel,
  LeaseRecord,
  LeaseResourceRecord,
  SeenLimit,
} from "../domain/lease/lease-record.ts";
import type { SetOrigin } from "../domain/limits/limit-set.ts";
import { onlyShadowed, withoutShadowed } from "../domain/limits/shadow.ts";
import type { Demand } from "../engine/acquire/request.ts";
import { type BucketPosition, type LeasePart, overdrawnAt, positionsOf } from "../engine/lease/lease-part.ts";
import { availabilityOf } from "../engine/limiter/availability.ts";
import type { TakenAnswer } from "../ports/bucket-store.ts";
import { endingWithSlots } from "./slots.ts";

/** What of a record does not follow from what was taken. */
export type LeaseTerms = Pick<LeaseRecord, "leaseId" | "writer" | "entityId" | "openedAtMs" | "expiresAtMs"> &
  Pick<LeaseRecord, "onExpiry" | "leavePercent" | "requestId" | "idempotencyKey">;

/** Of what was wanted of a bucket, what a record goes by. */
export type RecordedDemand = Pick<Demand, "bucket" | "set" | "limits" | "origin" | "take"> & {
  readonly link: Pick<Demand["link"], "access">;
};

/** Of what was taken on a resource, what a record goes by. */
export interface RecordedPart extends Pick<LeasePart, "resource" | "taken" | "takenAtMs"> {
  readonly demands: readonly RecordedDemand[];
}

/** The record of a lease that is about to be taken: nothing is seen yet, and every ticket is the plain one. */
export function draftedRecord(
  parts: readonly Pick<RecordedPart, "resource" | "demands">[],
  terms: LeaseTerms,
): LeaseRecord {
  const holdings = parts.flatMap(({ demands }, i) =>
    demands.flatMap(({ take }, level): readonly LeaseHolding[] =>
      take.length === 0 ? [] : [{ at: [i, level], ticket: PLAIN_TICKET, held: take }],
    ),
  );
  const resources = parts.map(({ resource, demands }) => {
    return { resource, levels: demands.map((demand) => levelOf(demand, [])), overdrawn: [] };
  });
  return { ...terms, version: 1, status: "open", resources, holdings, closing: undefined };
}

/** The record of a new lease, from what was taken for it. */
export function recordOf(parts: readonly RecordedPart[], terms: LeaseTerms): LeaseRecord {
  const resources: LeaseResourceRecord[] = [];
  const holdings: LeaseHolding[] = [];
  for (const [i, { resource, demands, taken: answers, takenAtMs }] of parts.entries()) {
    let next = 0;
    const levels: LeaseLevel[] = [];
    let overdrawn: readonly string[] = [];
    const positions = positionsOf(demands.map(({ bucket }) => bucket));
    for (const [level, demand] of demands.entries()) {
      const answer = demand.take.length === 0 ? undefined : (answers[next++] as TakenAnswer);
      const seen =
        answer === undefined
          ? undefined
          : seenIn(demand, answer.state, { position: positions[level] as BucketPosition, nowMs: takenAtMs });
      if (seen !== undefined) overdrawn = [...overdrawn, ...seen.overdrawn];
      const passed = onlyShadowed(demand.take, answer?.shadowed ?? []);
      const own = levelOf(demand, seen?.limits ?? []);
      levels.push(passed.length === 0 ? own : { ...own, passed });
      if (answer === undefined) continue;
      const taken = withoutShadowed(demand.take, answer.shadowed);
      for (const held of withTaken([], taken, answer.ticket)) holdings.push({ at: [i, level], ...held });
    }
    resources.push({ resource, levels, overdrawn });
  }
  return endingWithSlots({ ...terms, version: 1, status: "open", resources, holdings, closing: undefined });
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

function levelOf({ bucket, set, limits, origin, link }: RecordedDemand, seen: readonly SeenLimit[]): LeaseLevel {
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
