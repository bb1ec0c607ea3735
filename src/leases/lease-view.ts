import { measureIn } from "../domain/charge/measures.ts";
import { TOTAL_RESOURCE } from "../domain/config/totals.ts";
import type { LeaseRecord, LeaseResourceRecord, OnExpiry, StoredLeaseStatus } from "../domain/lease/lease-record.ts";
import type { Availability } from "../engine/limiter/availability.ts";
import { consumedIn } from "./ledger.ts";
import { shadowedOn } from "./passed.ts";

/** A lease as its callers see it. JSON-safe: whole tokens, milliseconds. */
export interface LeaseView {
  /** Null where there is no lease: charged at once (`holdMs: 0`), or let through during an outage. */
  readonly leaseId: string | null;
  readonly namespace: string;
  readonly entityId: string;
  readonly resource: string;
  readonly status: StoredLeaseStatus;
  /** Whole tokens per measure that are charged, to the entity and to its parents; `requests` where something counts it. */
  readonly consumed: Readonly<Record<string, number>>;
  /** The same for each further resource. */
  readonly also: Readonly<Record<string, Readonly<Record<string, number>>>>;
  /** False, or why the limiter could not count this work properly. */
  readonly degraded: string | false;
  /** Soft limits of all levels below zero, as they were last seen: `day` of the entity, `day^1` one level up. */
  readonly overdrawn: readonly string[];
  /** Shadow limits of all levels that would have refused it: `tpm` of the entity, `tpm^1` one level up. Nothing was taken of them. */
  readonly shadowed: readonly string[];
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
  const consumed = consumedIn(record);
  const [own] = resources as readonly [LeaseResourceRecord, ...LeaseResourceRecord[]];
  return {
    leaseId,
    namespace,
    entityId,
    resource: own.resource,
    status,
    consumed: tokensOf(consumed[0]),
    also: Object.fromEntries(resources.slice(1).map(({ resource }, i) => [resource, tokensOf(consumed[i + 1])])),
    degraded: false,
    overdrawn: own.overdrawn,
    shadowed: shadowedOn(own),
    bypassed: own.levels[0]?.bypass ?? false,
    expiresAtMs,
    onExpiry,
    limits: resources.flatMap((one, i) => limitsIn(one, resources.slice(0, i))),
  };
}

function tokensOf(held: ReadonlyMap<string, number> | undefined): Readonly<Record<string, number>> {
  return Object.fromEntries(Array.from(held ?? [], ([measure, milli]) => [measure, milli / 1000]));
}

/** Without the totals that stand with resources before it. */
function limitsIn(
  { resource, levels }: LeaseResourceRecord,
  before: readonly LeaseResourceRecord[],
): readonly Availability[] {
  const isListed = (entityId: string) =>
    before.some((one) =>
      one.levels.some(({ total, seen, ...level }) => total && level.entityId === entityId && seen.length > 0),
    );
  return levels.flatMap(({ entityId, total, limits, seen }) => {
    if (total === true && isListed(entityId)) return [];
    const on = total === true ? TOTAL_RESOURCE : resource;
    return seen.map(({ limit, available, capacity }) => {
      return { entityId, resource: on, limit, counts: measureIn(limits, limit), available, capacity };
    });
  });
}
