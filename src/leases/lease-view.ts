import { measureIn } from "../domain/charge/amounts.ts";
import { TOTAL_RESOURCE } from "../domain/config/totals.ts";
import type {
  LeaseLevel,
  LeaseRecord,
  LeaseResourceRecord,
  OnExpiry,
  StoredLeaseStatus,
} from "../domain/lease/lease-record.ts";
import type { Availability } from "../engine/limiter/question.ts";
import { consumedIn, partOf, shadowedOn } from "./ledger.ts";

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
  /** Whole tokens by measure for each further resource of the entity. */
  readonly also: Readonly<Record<string, Readonly<Record<string, number>>>>;
  /** Whole tokens by measure for every part, the lease's own first. Absent: all are of its entity. */
  readonly parts?: readonly LeasePartView[];
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

/** A part of a lease as its callers see it. */
export interface LeasePartView {
  readonly entityId: string;
  readonly resource: string;
  /** Whole tokens per measure that are charged. */
  readonly consumed: Readonly<Record<string, number>>;
}

/** What parts were charged, as a lease shows it: the first is its own. */
export function shownParts(all: readonly LeasePartView[]): Pick<LeaseView, "consumed" | "also" | "parts"> {
  const [own, ...others] = all as [LeasePartView, ...LeasePartView[]];
  const ofOwn = others.filter(({ entityId }) => entityId === own.entityId);
  const also = Object.fromEntries(ofOwn.map(({ resource, consumed }) => [resource, consumed]));
  const hasOthers = ofOwn.length < others.length;
  return { consumed: own.consumed, also, ...(hasOthers ? { parts: all } : {}) };
}

/** The view of a record. An expired lease shows as such once that is written: until then another process may end it. */
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
    ...shownParts(
      resources.map((part, i) => {
        const { entityId, resource } = partOf(record, part);
        return { entityId, resource, consumed: tokensOf(consumed[i]) };
      }),
    ),
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

/** Leaves out buckets that an earlier part lists. */
function limitsIn(
  { resource, levels }: LeaseResourceRecord,
  before: readonly LeaseResourceRecord[],
): readonly Availability[] {
  const isListed = ({ entityId, total }: LeaseLevel) =>
    before.some((one) =>
      one.levels.some(
        (level) =>
          level.entityId === entityId &&
          level.total === total &&
          (total || one.resource === resource) &&
          level.seen.length > 0,
      ),
    );
  return levels.flatMap((level) => {
    const { entityId, total, limits, seen } = level;
    if (isListed(level)) return [];
    const on = total === true ? TOTAL_RESOURCE : resource;
    return seen.map(({ limit, available, capacity }) => {
      return { entityId, resource: on, limit, counts: measureIn(limits, limit), available, capacity };
    });
  });
}
