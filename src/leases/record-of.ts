import { type BucketKey, bucketKey } from "../domain/bucket/bucket-key.ts";
import { withoutShadowed } from "../domain/bucket/bucket-questions.ts";
import type { BucketState } from "../domain/bucket/bucket-state.ts";
import { PLAIN_TICKET, ticketOf } from "../domain/bucket/give-back.ts";
import { type Amount, sumByLimit } from "../domain/charge/amounts.ts";
import type { CallerUse } from "../domain/charge/caller-usage.ts";
import type { LimitStanding } from "../domain/charge/rate-limit-headers.ts";
import { TOTAL_RESOURCE } from "../domain/config/totals.ts";
import type {
  LeaseHolding,
  LeaseLevel,
  LeaseRecord,
  LeaseResourceRecord,
  SeenLimit,
} from "../domain/lease/lease-record.ts";
import { NO_USE, usedMore } from "../domain/lease/level-use.ts";
import { draftFrom, type StoredDraft } from "../domain/lease/stored-lease.ts";
import type { Limit } from "../domain/limits/limit.ts";
import { limitSet, type SetOrigin } from "../domain/limits/limit-set.ts";
import type { Calendar } from "../domain/limits/schedule.ts";
import { given } from "../domain/names/given.ts";
import type { Demand } from "../engine/acquire/request.ts";
import {
  answersOf,
  type BucketPosition,
  type LeasePart,
  overdrawnAt,
  positionsOf,
} from "../engine/lease/lease-part.ts";
import { availabilityOf } from "../engine/limiter/question.ts";
import { standingsOfParts } from "../engine/refusal/standing.ts";
import type { LeaseWrite, TakenAnswer } from "../ports/bucket-store.ts";
import type { DraftedTake, LeaseForm } from "../ports/lease-store.ts";
import { type LeaseView, viewOf } from "./lease-view.ts";
import { endingWithSlots } from "./slots.ts";

/** The terms of a lease that do not follow from its take. */
export type LeaseTerms = Pick<LeaseRecord, "leaseId" | "writer" | "entityId" | "openedAtMs" | "expiresAtMs"> &
  Pick<LeaseRecord, "onExpiry" | "leavePercent" | "requestId" | "idempotencyKey">;

/** The part of a demand that a record keeps. */
type RecordedDemand = Pick<Demand, "bucket" | "set" | "limits" | "origin" | "take"> & {
  readonly link: Pick<Demand["link"], "access">;
};

/** The part of a take that a record keeps. */
interface RecordedPart extends Pick<LeasePart, "resource" | "taken" | "takenAtMs"> {
  readonly beside: Pick<CallerUse, "amounts"> | undefined;
  readonly demands: readonly RecordedDemand[];
}

/** The record of a new lease, made of its take. Without answers it is a draft: no bucket is seen, and every ticket is the plain one. */
export function recordOf(parts: readonly RecordedPart[], terms: LeaseTerms): LeaseRecord {
  const holdings: LeaseHolding[] = [];
  const resources = parts.map((part, i): LeaseResourceRecord => {
    const answers = answersOf(part);
    const positions = positionsOf(part.demands.map(({ bucket }) => bucket));
    const overdrawn: string[] = [];
    const levels = part.demands.map((demand, level): LeaseLevel => {
      const answer = answers[level];
      const place = { position: positions[level] as BucketPosition, nowMs: part.takenAtMs };
      const seen = answer && seenIn(demand, answer.state, place);
      overdrawn.push(...(seen?.overdrawn ?? []));
      const { held, passed } = usedMore(NO_USE, demand.take, answer?.ticket ?? PLAIN_TICKET);
      for (const holding of held) holdings.push({ at: [i, level], ...holding });
      return { ...levelOf(demand, seen?.limits ?? []), ...given({ passed }) };
    });
    const beside = part.beside?.amounts ?? [];
    return { resource: part.resource, levels, overdrawn, ...(beside.length === 0 ? {} : { beside }) };
  });
  return endingWithSlots({ ...terms, version: 1, status: "open", resources, holdings, closing: undefined });
}

/** The tokens left in a bucket of a lease. */
export function seenIn(
  of: Pick<Demand, "bucket" | "set" | "limits">,
  state: BucketState,
  { position, nowMs }: { readonly position: BucketPosition; readonly nowMs: number },
): { readonly limits: readonly SeenLimit[]; readonly overdrawn: readonly string[] } {
  const limits = availabilityOf(of, state, nowMs);
  return {
    limits: limits.map(({ limit, available, capacity }) => ({ limit, available, capacity })),
    overdrawn: overdrawnAt(state, position, nowMs),
  };
}

function levelOf({ bucket, set, limits, origin, link }: RecordedDemand, seen: readonly SeenLimit[]): LeaseLevel {
  return {
    entityId: bucket.entityId,
    ...(bucket.resource === TOTAL_RESOURCE ? { total: true as const } : {}),
    limits: set.limits,
    ...given({ charged: limits?.map(({ name }) => name) }),
    origin: storedOrigin(origin),
    bypass: link.access === "bypass",
    seen,
  };
}

// The number of the reading means something only in the process that read.
function storedOrigin({ asOfMs, generation, given, own }: SetOrigin): SetOrigin {
  return { asOfMs, generation, ...(given ? { given } : {}), ...(own ? { own } : {}) };
}

/** The answer to a granted take, stored under its idempotency key. JSON-safe. */
export interface LeaseAnswer {
  readonly lease: LeaseView;
  /** The standing of every limit of the take, for header fields. */
  readonly standings: readonly LimitStanding[];
}

/** The record of a take, and its answer. */
export interface WrittenTake {
  readonly write: LeaseWrite;
  readonly answer: LeaseAnswer;
}

export function writtenOf(
  record: LeaseRecord,
  { holdMs, namespace, key }: Omit<StoredDraft, "record">,
  parts: readonly RecordedPart[],
  calendar: Calendar,
): WrittenTake {
  const view = viewOf(record, namespace);
  const lease: LeaseView = holdMs > 0 ? view : { ...view, leaseId: null, status: "settled", expiresAtMs: null };
  const answer = { lease, standings: standingsOfParts(parts, calendar) };
  const finish = key && { ...key, answer: JSON.stringify(answer), nowMs: record.openedAtMs };
  return { write: { record: holdMs > 0 ? record : undefined, finish }, answer };
}

/** Turns stored drafts into writes. */
export function leaseForm(calendar: Calendar): LeaseForm {
  return {
    writeOf: ({ leaseId, text }, taken) => {
      const { record: drafted, ...rest } = draftFrom(leaseId ?? "", text);
      const parts = partsOf(drafted, rest.holdMs, taken, calendar);
      const { openedAtMs, expiresAtMs, ...terms } = drafted;
      const endsAtMs = taken.nowMs + (expiresAtMs - openedAtMs);
      const record = recordOf(parts, { ...terms, openedAtMs: taken.nowMs, expiresAtMs: endsAtMs });
      return writtenOf(record, rest, parts, calendar).write;
    },
  };
}

function partsOf(
  drafted: LeaseRecord,
  holdMs: number,
  { nowMs, stateOf, shadowedOf }: DraftedTake,
  calendar: Calendar,
): readonly RecordedPart[] {
  const parts = drafted.resources.map(({ resource, levels, beside }, i) => ({
    resource,
    beside: beside && { amounts: beside },
    demands: levels.map((level, j) => demandOf(level, resource, takeAt(drafted, i, j))),
  }));
  const all = parts.flatMap(({ demands }) => demands);
  const answerOf = ({ bucket, link }: RecordedDemand): TakenAnswer => {
    const state = stateOf(bucket.id);
    const isBypassed = link.access === "bypass";
    // Resources that share a total made one take from it.
    const take = all.flatMap((one) => (one.bucket.id === bucket.id ? one.take : []));
    const shadowed = shadowedOf(bucket.id);
    const taken = withoutShadowed(sumByLimit(take), shadowed);
    const ticket = isBypassed ? PLAIN_TICKET : ticketOf(state, taken, nowMs, calendar, holdMs);
    return { kind: "taken", state, ticket: shadowed.length === 0 ? ticket : { ...ticket, shadowed }, shadowed };
  };
  return parts.map(({ resource, demands, beside }) => {
    return {
      resource,
      demands,
      beside,
      takenAtMs: nowMs,
      taken: demands.filter(({ take }) => take.length > 0).map(answerOf),
    };
  });
}

function demandOf(
  { entityId, total, limits, charged, origin, bypass }: LeaseLevel,
  resource: string,
  take: readonly Amount[],
) {
  const bucket: BucketKey = bucketKey(entityId, total === true ? TOTAL_RESOURCE : resource);
  const shown = charged?.map((name) => limits.find((limit) => limit.name === name) as Limit);
  const link = { access: bypass ? ("bypass" as const) : ("enforce" as const) };
  return { bucket, set: limitSet(limits), origin, take, link, ...given({ limits: shown }) };
}

function takeAt({ holdings }: LeaseRecord, resource: number, level: number): readonly Amount[] {
  return holdings.find(({ at }) => at[0] === resource && at[1] === level)?.held ?? [];
}
