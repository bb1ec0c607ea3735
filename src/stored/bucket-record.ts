import type { BucketState, LimitState } from "../domain/bucket/bucket-state.ts";
import type { Slice } from "../domain/bucket/holds.ts";
import type { Amount } from "../domain/charge/amounts.ts";
import { HOUR_MS } from "../domain/charge/usage.ts";
import type { LimitedBucket, SourcedLimits } from "../domain/limits/limit-set.ts";
import type { Held } from "../ports/bucket-store.ts";
import {
  type RuleContext,
  type SlotsBack,
  stateFor,
  stateForGiveBack,
  usageOfCredit,
  usageOfEnded,
  withStoredLimits,
} from "./bucket-rules.ts";
import { asCount, countedIn, emptyHour, type HourCount, leaving, NONE, type OpenHour } from "./open-hour.ts";
import type { RowChange } from "./row-buckets.ts";
import { type Shape, shapeOf } from "./shape.ts";

/** A bucket with its usage. A value; each change makes a new one, so that a call that fails half-way changed nothing. */
export interface BucketRecord {
  readonly state: BucketState;
  readonly shape: Shape;
  readonly open: OpenHour;
  /** Usage that goes to its table when the record is written. */
  readonly left: readonly HourCount[];
}

/** The record as it stands for these limits; the same object when nothing was due. A bucket that is not there begins full. */
export function recordFor(record: BucketRecord | undefined, of: SourcedLimits, context: RuleContext): BucketRecord {
  return recordAfter(record, stateFor(record?.state, of, context), undefined, context);
}

/** The record as it stands for limits that may be older than the stored ones. */
export function recordForLease(
  record: BucketRecord | undefined,
  of: LimitedBucket,
  context: RuleContext,
): BucketRecord {
  return recordFor(
    record && withState(record, withStoredLimits(record.state, of.bucket, context), context),
    of,
    context,
  );
}

/** The record of a bucket that stands like this, with what a call makes of it. A bucket that is not there begins with it. */
export function recordAfter(
  record: BucketRecord | undefined,
  standing: BucketState,
  change: RowChange | undefined,
  context: RuleContext,
): BucketRecord {
  const before = record === undefined ? newRecord(standing, context) : withState(record, standing, context);
  return change === undefined ? before : withUsage(before, change.state, change, context);
}

/** Usage of what is given back to a bucket that is forgotten. */
export function usageOfForgotten(
  held: Held,
  amounts: readonly Amount[],
  slots: SlotsBack,
  { countsUsage, nowMs }: RuleContext,
): readonly HourCount[] {
  if (!countsUsage) return NONE;
  const back = usageOfCredit(undefined, held, amounts, slots, nowMs);
  return asCount({ amounts: back, sign: -1, requests: 0, nowMs });
}

/** Usage of holds that ended by themselves on a bucket that is to be forgotten: no write comes any more that would count them. */
export function usageOfEndedHolds(state: BucketState, nowMs: number): readonly HourCount[] {
  const amounts = usageOfEnded(state, { epochMs: nowMs });
  return asCount({ amounts, sign: 1, requests: 0, nowMs });
}

/** The record as something is given back to it; the same object when nothing was due. */
export function recordForGiveBack(record: BucketRecord, held: Held, context: RuleContext): BucketRecord {
  return held.bypass ? record : withState(record, stateForGiveBack(record.state, held, context), context);
}

/**
 * The record in the hour of a reading, with room to count these amounts: where not, what was counted so far leaves it. The same
 * object when nothing was due. For a store that only adds to what a row counts.
 */
export function roomToCount(
  record: BucketRecord,
  counting: { readonly amounts: readonly Amount[]; readonly sign: 1 | -1 },
  { countsUsage, nowMs }: RuleContext,
): BucketRecord {
  if (!countsUsage) return record;
  const { shape, open, left } = record;
  const isOver = nowMs >= open.hourMs + HOUR_MS;
  const hasRoom = counting.amounts.every(({ limit, milli }) => {
    const count = open.counted[shape.limits.findIndex(({ name }) => name === limit)];
    return count === undefined || Number.isNaN(count) || Number.isSafeInteger(count + counting.sign * milli);
  });
  if (!isOver && hasRoom) return record;
  return {
    ...record,
    open: emptyHour(open.counted.length, isOver ? nowMs : open.hourMs),
    left: [...left, ...leaving(open, shape.counts)],
  };
}

/** The record after its counts went to their table. */
export function withoutLeft({ state, shape, open, left }: BucketRecord): BucketRecord {
  return { state, shape, open, left: left.length === 0 ? left : NONE };
}

/** A damaged row has numbers that no store writes. */
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

function newRecord(state: BucketState, context: RuleContext): BucketRecord {
  const shape = shapeOf(state);
  return { state, shape, open: emptyHour(roomIn(shape, context), context.nowMs), left: NONE };
}

function roomIn({ limits, counts }: Shape, { hasRoomForHeld }: RuleContext): number {
  return hasRoomForHeld ? counts.length : limits.length;
}

// The counts are kept in the order of the limits: where that has changed, they leave by name.
function withState(record: BucketRecord, state: BucketState, context: RuleContext): BucketRecord {
  if (state === record.state) return record;
  const times = context.countsUsage ? usageOfEnded(record.state, state) : [];
  const bare = reshaped(record, state, context);
  return times.length === 0 ? bare : withUsage(bare, state, { amounts: times, sign: 1, requests: 0 }, context);
}

function reshaped(record: BucketRecord, state: BucketState, context: RuleContext): BucketRecord {
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
function withUsage(
  { shape, open, left }: BucketRecord,
  state: BucketState,
  { amounts, sign, requests }: Omit<RowChange, "state">,
  { countsUsage, nowMs }: RuleContext,
): BucketRecord {
  if (!countsUsage) return { state, shape, open, left };
  const next = countedIn(open, shape.counts, { amounts, sign, requests, nowMs });
  return { state, shape, open: next.open, left: next.left.length === 0 ? left : [...left, ...next.left] };
}
