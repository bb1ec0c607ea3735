import { type BucketKey, bucketKey } from "../domain/bucket/bucket-key.ts";
import { PLAIN_TICKET, ticketOf } from "../domain/bucket/give-back.ts";
import type { Amount } from "../domain/charge/amounts.ts";
import type { LimitStanding } from "../domain/charge/limit-standing.ts";
import { TOTAL_RESOURCE } from "../domain/config/totals.ts";
import type { LeaseLevel, LeaseRecord } from "../domain/lease/lease-record.ts";
import { draftFrom, type StoredDraft } from "../domain/lease/stored-draft.ts";
import type { Calendar } from "../domain/limits/calendar.ts";
import type { Limit } from "../domain/limits/limit.ts";
import { limitSet } from "../domain/limits/limit-set.ts";
import { withoutShadowed } from "../domain/limits/shadow.ts";
import { standingsOfParts } from "../engine/refusal/standing.ts";
import type { TakenAnswer } from "../ports/bucket-store.ts";
import type { DraftedTake, LeaseForm } from "../ports/lease-form.ts";
import type { LeaseWrite } from "../ports/lease-write.ts";
import { type LeaseView, viewOf } from "./lease-view.ts";
import { type RecordedDemand, type RecordedPart, recordOf } from "./record-of.ts";

/** A take that was granted, as it is answered and remembered. JSON-safe. */
export interface LeaseAnswer {
  readonly lease: LeaseView;
  /** How every limit stands that was taken from: for header fields. */
  readonly standings: readonly LimitStanding[];
}

/** What a take is written down as, and answered with. */
export interface WrittenTake {
  readonly write: LeaseWrite;
  readonly answer: LeaseAnswer;
}

/** `record`: of what was taken. */
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

/** How stored drafts are read. */
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
  const parts = drafted.resources.map(({ resource, levels }, i) => ({
    resource,
    demands: levels.map((level, j) => demandOf(level, resource, takeAt(drafted, i, j))),
  }));
  const all = parts.flatMap(({ demands }) => demands);
  const answerOf = ({ bucket, link }: RecordedDemand): TakenAnswer => {
    const state = stateOf(bucket.id);
    const isBypassed = link.access === "bypass";
    // Resources that share a total have taken from it once, all of theirs together.
    const take = all.flatMap((one) => (one.bucket.id === bucket.id ? one.take : []));
    const shadowed = shadowedOf(bucket.id);
    const taken = withoutShadowed(named(take), shadowed);
    const ticket = isBypassed ? PLAIN_TICKET : ticketOf(state, taken, nowMs, calendar, holdMs);
    return { kind: "taken", state, ticket: shadowed.length === 0 ? ticket : { ...ticket, shadowed }, shadowed };
  };
  return parts.map(({ resource, demands }) => ({
    ...{ resource, demands, takenAtMs: nowMs },
    taken: demands.filter(({ take }) => take.length > 0).map(answerOf),
  }));
}

function demandOf(
  { entityId, total, limits, charged, origin, bypass }: LeaseLevel,
  resource: string,
  take: readonly Amount[],
) {
  const bucket: BucketKey = bucketKey(entityId, total === true ? TOTAL_RESOURCE : resource);
  const shown = charged?.map((name) => limits.find((limit) => limit.name === name) as Limit);
  return {
    ...{
      bucket,
      set: limitSet(limits),
      origin,
      take,
      link: { access: bypass ? ("bypass" as const) : ("enforce" as const) },
    },
    ...(shown === undefined ? {} : { limits: shown }),
  };
}

function takeAt({ holdings }: LeaseRecord, resource: number, level: number): readonly Amount[] {
  return holdings.find(({ at }) => at[0] === resource && at[1] === level)?.held ?? [];
}

/** Each limit once, with all that is taken of it. */
function named(amounts: readonly Amount[]): readonly Amount[] {
  const sums = new Map<string, number>();
  for (const { limit, milli } of amounts) sums.set(limit, (sums.get(limit) ?? 0) + milli);
  return Array.from(sums, ([limit, milli]) => ({ limit, milli }));
}
