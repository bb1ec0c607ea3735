import type { LeaseRecord, LeaseResourceRecord, OnExpiry, StoredLeaseStatus } from "../domain/lease-record.ts";
import type { Availability } from "../engine/availability.ts";

/** A lease as its callers see it. JSON-safe: whole tokens, milliseconds. */
export interface LeaseView {
  /** Null where there is no lease: charged at once (`holdMs: 0`), or let through during an outage. */
  readonly leaseId: string | null;
  readonly namespace: string;
  readonly entityId: string;
  readonly resource: string;
  readonly status: StoredLeaseStatus;
  /** Whole tokens per limit that the entity is charged; its parents are charged the same. */
  readonly consumed: Readonly<Record<string, number>>;
  /** The same for each further resource. */
  readonly also: Readonly<Record<string, Readonly<Record<string, number>>>>;
  /** False, or why the limiter could not count this work properly. */
  readonly degraded: string | false;
  /** Soft limits of all levels below zero, as they were last seen: `day` of the entity, `day^1` one level up. */
  readonly overdrawn: readonly string[];
  readonly bypassed: boolean;
  /** Null where there is no lease. */
  readonly expiresAtMs: number | null;
  readonly onExpiry: OnExpiry;
  /** What every limit of every level had left when the lease last took from it or gave back: no further read. */
  readonly limits: readonly Availability[];
}

/** A stored lease as it is shown. That its time is up shows once it is written: until then another may yet have ended it. */
export function viewOf(record: LeaseRecord, namespace: string): LeaseView {
  const { leaseId, entityId, resources, status, expiresAtMs, onExpiry } = record;
  const [own] = resources as readonly [LeaseResourceRecord, ...LeaseResourceRecord[]];
  return {
    leaseId,
    namespace,
    entityId,
    resource: own.resource,
    status,
    consumed: consumedAt(record, 0),
    also: Object.fromEntries(resources.slice(1).map(({ resource }, i) => [resource, consumedAt(record, i + 1)])),
    degraded: false,
    overdrawn: own.overdrawn,
    bypassed: own.levels[0]?.bypass ?? false,
    expiresAtMs,
    onExpiry,
    limits: resources.flatMap(limitsIn),
  };
}

/** Whole tokens per limit that the entity is charged on one resource of a lease. */
function consumedAt({ holdings }: LeaseRecord, resource: number): Readonly<Record<string, number>> {
  const consumed: Record<string, number> = {};
  for (const { at, held } of holdings) {
    if (at[0] !== resource || at[1] !== 0) continue;
    for (const { limit, milli } of held) consumed[limit] = (consumed[limit] ?? 0) + milli / 1000;
  }
  return consumed;
}

function limitsIn({ resource, levels }: LeaseResourceRecord): readonly Availability[] {
  return levels.flatMap(({ entityId, seen }) =>
    seen.map(({ limit, available, capacity }) => ({ entityId, resource, limit, available, capacity })),
  );
}
