import { resetLimits, toppedUp } from "../domain/bucket/bucket-operations.ts";
import type { BucketState, LimitState } from "../domain/bucket/bucket-state.ts";
import type { Ticket } from "../domain/bucket/give-back.ts";
import type { Slice } from "../domain/bucket/holds.ts";
import type { LimitedBucket, SourcedLimits } from "../domain/bucket/limited-bucket.ts";
import type { Amount, CountedAmount } from "../domain/charge/amounts.ts";
import { HOUR_MS } from "../domain/charge/usage.ts";
import type { Claim, Held, OperationReply } from "../ports/bucket-store.ts";
import {
  atGiveBack,
  atWrite,
  countedOf,
  countedOfCredit,
  countedOfTake,
  countedOfTime,
  credited,
  type Decided,
  debited,
  decided,
  heldCounts,
  met,
  type Planner,
  type RuleContext,
  renewedSlots,
  type SlotsBack,
  standing,
  taken,
} from "./bucket-rules.ts";
import { asCount, countedIn, emptyHour, type HourCount, leaving, NONE, type OpenHour } from "./open-hour.ts";
import { type Shape, shapeOf } from "./shape.ts";

/** A bucket with its usage. A value; each change makes a new one, so that a call that fails half-way changed nothing. */
export interface BucketRecord {
  readonly state: BucketState;
  readonly shape: Shape;
  readonly open: OpenHour;
  /** Usage that goes to its table when the record is written. */
  readonly left: readonly HourCount[];
}

export interface RecordContext extends RuleContext {
  readonly countsUsage: boolean;
  /** Rows have room for how long slots were held in the hour; absent: that goes to its table with every give-back. */
  readonly hasRoomForHeld?: true;
}

/** The record as it stands for these limits; the same object when nothing was due. A bucket that is not there begins full. */
export function brought(record: BucketRecord | undefined, of: SourcedLimits, context: RecordContext): BucketRecord {
  const state = standing(record?.state, of, context);
  return record === undefined ? newRecord(state, context) : withState(record, state, context);
}

/** The same for limits that may be older than the stored ones. */
export function broughtByLease(
  record: BucketRecord | undefined,
  of: LimitedBucket,
  context: RecordContext,
): BucketRecord {
  return brought(record && withState(record, met(record.state, of.bucket, context), context), of, context);
}

/** What a claim makes of a record: as it stands before, as it is written to, and after unless it does not fit. */
export interface TakenRecord {
  readonly before: BucketRecord;
  readonly written: BucketRecord;
  readonly after: BucketRecord | undefined;
  /** The claim without what it passes by. */
  readonly claim: Decided;
}

export function takenFrom(
  record: BucketRecord | undefined,
  claim: Claim,
  by: Planner,
  context: RecordContext,
): TakenRecord {
  const before = brought(record, claim, context);
  const written = by === "plan" ? before : withState(before, atWrite(before.state, context), context);
  const due = decided(written.state, claim, context.nowMs);
  const state = taken(written.state, due, context.nowMs);
  if (state === undefined) return { before, written, after: undefined, claim: due };
  const amounts = context.countsUsage ? countedOfTake(state, due, context.nowMs) : due.take;
  return { before, written, after: counted(written, state, { amounts, sign: 1, requests: 1 }, context), claim: due };
}

/** `after` is undefined where the debt would be too deep. */
export function debitedFrom(
  record: BucketRecord | undefined,
  held: Held,
  amounts: readonly Amount[],
  context: RecordContext,
): Omit<TakenRecord, "before" | "claim"> {
  const written = writtenFor(record, held, context);
  const state = debited(written.state, held, amounts, context.nowMs);
  if (state === undefined) return { written, after: undefined };
  const counting = { amounts: countedOf(amounts, held.bypass), sign: 1, requests: 0 } as const;
  return { written, after: counted(written, state, counting, context) };
}

/** What was given back is not usage, also where it comes too late for its period. */
export function creditedTo(
  record: BucketRecord,
  held: Held,
  amounts: readonly Amount[],
  slots: SlotsBack,
  context: RecordContext,
): BucketRecord {
  const before = forGiveBack(record, held, context);
  const state = credited(before.state, held, amounts, context.nowMs);
  const back = context.countsUsage ? countedOfCredit(before.state, held, amounts, slots, context.nowMs) : amounts;
  return counted(before, state, { amounts: back, sign: -1, requests: 0 }, context);
}

/** A record after a renewal, and the ticket of what is held now; undefined: it is held no more. */
export function renewedIn(
  record: BucketRecord,
  held: Held,
  amounts: readonly Amount[],
  context: RecordContext,
): { readonly record: BucketRecord; readonly ticket: Ticket } | undefined {
  const before = forGiveBack(record, held, context);
  const renewed = renewedSlots(before.state, held, amounts, context.nowMs);
  if (renewed === undefined) return undefined;
  const counting = { amounts: heldCounts(renewed.times), sign: 1 as const, requests: 0 };
  return { record: counted(before, renewed.state, counting, context), ticket: renewed.ticket };
}

/** Usage of what is given back to a bucket that is forgotten. */
export function creditedToNone(
  held: Held,
  amounts: readonly Amount[],
  slots: SlotsBack,
  { countsUsage, nowMs }: RecordContext,
): readonly HourCount[] {
  if (!countsUsage) return NONE;
  const back = countedOfCredit(undefined, held, amounts, slots, nowMs);
  return asCount({ amounts: back, sign: -1, requests: 0, nowMs });
}

/** Usage of holds that ended by themselves on a bucket that is to be forgotten: no write comes any more that would count them. */
export function endedOn(state: BucketState, nowMs: number): readonly HourCount[] {
  const amounts = countedOfTime(state, { epochMs: nowMs });
  return asCount({ amounts, sign: 1, requests: 0, nowMs });
}

/** The record as something is given back to it; the same object when nothing was due. */
export function forGiveBack(record: BucketRecord, held: Held, context: RecordContext): BucketRecord {
  return held.bypass ? record : withState(record, atGiveBack(record.state, held.bucket, context), context);
}

/**
 * The record in the hour of a reading, with room to count these amounts: where not, what was counted so far leaves it. The same
 * object when nothing was due. For a store that only adds to what a row counts.
 */
export function roomToCount(
  record: BucketRecord,
  counting: { readonly amounts: readonly Amount[]; readonly sign: 1 | -1 },
  { countsUsage, nowMs }: RecordContext,
): BucketRecord {
  if (!countsUsage) return record;
  const { shape, open, left } = record;
  const isOver = nowMs >= open.hourMs + HOUR_MS;
  const hasRoom = counting.amounts.every(({ limit, milli }) => {
    const counted = open.counted[shape.limits.findIndex(({ name }) => name === limit)];
    return counted === undefined || Number.isNaN(counted) || Number.isSafeInteger(counted + counting.sign * milli);
  });
  if (!isOver && hasRoom) return record;
  return {
    ...record,
    open: emptyHour(open.counted.length, isOver ? nowMs : open.hourMs),
    left: [...left, ...leaving(open, shape.counts)],
  };
}

/** What an operation did, before it is remembered by its key: `amounts` is what each limit gained. */
export type OperatedRecord =
  | { readonly kind: "done"; readonly record: BucketRecord; readonly amounts: readonly Amount[] }
  | Extract<OperationReply, { readonly kind: "tooLarge" }>;

export function toppedUpRecord(
  record: BucketRecord | undefined,
  of: LimitedBucket,
  amounts: readonly Amount[],
  context: RecordContext,
): OperatedRecord {
  const before = writtenFor(record, of, context);
  const topped = toppedUp(before.state, amounts, context.nowMs, context.calendar);
  if (topped.kind === "tooLarge") return topped;
  return { kind: "done", record: withState(before, topped.state, context), amounts: topped.gained };
}

/** All limits when undefined. */
export function resetRecord(
  record: BucketRecord | undefined,
  of: LimitedBucket,
  limits: readonly string[] | undefined,
  context: RecordContext,
): OperatedRecord {
  const before = writtenFor(record, of, context);
  const state = resetLimits(before.state, limits, context.nowMs, context.calendar);
  return { kind: "done", record: withState(before, state, context), amounts: [] };
}

/** The record after its counts went to their table. */
export function withoutLeft({ state, shape, open, left }: BucketRecord): BucketRecord {
  return { state, shape, open, left: left.length === 0 ? left : NONE };
}

/** Whether all numbers are such that can be worked with. */
export function isSound(
  { epochMs, limits, origin, validUntilMs }: BucketState,
  { requests, counted: counts }: OpenHour,
): boolean {
  if (!Number.isSafeInteger(epochMs) || !Number.isSafeInteger(requests)) return false;
  if (Number.isNaN(origin.asOfMs) || Number.isNaN(validUntilMs)) return false;
  for (const count of counts) if (!Number.isSafeInteger(count) && !Number.isNaN(count)) return false;
  for (let i = 0; i < limits.length; i++) {
    const { tokensMilli, remainder, quota, slices, told = 0 } = limits[i] as LimitState;
    if (!Number.isSafeInteger(told) || told < 0 || told > 100) return false;
    if (!Number.isSafeInteger(tokensMilli) || !Number.isSafeInteger(remainder) || remainder < 0) return false;
    if (!slices.every(isSoundSlice)) return false;
    if (quota === undefined) continue;
    const { windowStartMs = 0, topUpMilli, resets } = quota;
    if (![windowStartMs, topUpMilli, resets].every(Number.isSafeInteger) || topUpMilli < 0) return false;
  }
  return true;
}

function isSoundSlice({ endMs, heldMilli }: Slice): boolean {
  return Number.isSafeInteger(endMs) && Number.isSafeInteger(heldMilli) && heldMilli >= 0;
}

function newRecord(state: BucketState, context: RecordContext): BucketRecord {
  const shape = shapeOf(state);
  return { state, shape, open: emptyHour(roomIn(shape, context), context.nowMs), left: NONE };
}

function roomIn({ limits, counts }: Shape, { hasRoomForHeld }: RecordContext): number {
  return hasRoomForHeld ? counts.length : limits.length;
}

function writtenFor(record: BucketRecord | undefined, of: LimitedBucket, context: RecordContext): BucketRecord {
  const before = broughtByLease(record, of, context);
  return withState(before, atWrite(before.state, context), context);
}

// The counts are kept in the order of the limits: where that has changed, they leave by name.
function withState(record: BucketRecord, state: BucketState, context: RecordContext): BucketRecord {
  if (state === record.state) return record;
  const times = context.countsUsage ? countedOfTime(record.state, state) : [];
  const bare = reshaped(record, state, context);
  return times.length === 0 ? bare : counted(bare, state, { amounts: times, sign: 1, requests: 0 }, context);
}

function reshaped(record: BucketRecord, state: BucketState, context: RecordContext): BucketRecord {
  const { shape: before, open, left } = record;
  const shape = shapeOf(state);
  if (shape === before || sameNames(shape, before)) return { state, shape, open, left };
  const leftOver = [...left, ...leaving(open, before.counts)];
  return { state, shape, open: emptyHour(roomIn(shape, context), open.hourMs), left: leftOver };
}

function sameNames({ counts: a }: Shape, { counts: b }: Shape): boolean {
  return a.length === b.length && a.every(({ name }, i) => name === b[i]?.name);
}

/** The record with a state of the same shape, and its usage counted. */
function counted(
  { shape, open, left }: BucketRecord,
  state: BucketState,
  {
    amounts,
    sign,
    requests,
  }: { readonly amounts: readonly CountedAmount[]; readonly sign: 1 | -1; readonly requests: number },
  { countsUsage, nowMs }: RecordContext,
): BucketRecord {
  if (!countsUsage) return { state, shape, open, left };
  const next = countedIn(open, shape.counts, { amounts, sign, requests, nowMs });
  return { state, shape, open: next.open, left: next.left.length === 0 ? left : [...left, ...next.left] };
}
