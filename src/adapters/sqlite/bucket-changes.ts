import type { Amount } from "../../domain/amounts.ts";
import { resetLimits, toppedUp } from "../../domain/bucket-operations.ts";
import {
  acrossBoundaries,
  advanced,
  type BucketState,
  bornAs,
  bucketFor,
  countFrom,
  debitFrom,
  freshBucket,
  overdrawnOf,
  takeFrom,
  touched,
} from "../../domain/bucket-state.ts";
import type { Calendar } from "../../domain/calendar.ts";
import { giveBack, PLAIN_TICKET, ticketOf } from "../../domain/give-back.ts";
import type { LimitedBucket } from "../../domain/limited-bucket.ts";
import { bypassOf, overdraftOf } from "../../domain/usage.ts";
import type { Answer, Claim, Held, OperationReply, WriteReply } from "../../ports/bucket-store.ts";
import type { Debited } from "../../ports/lease-change.ts";
import { asCount, type Counting, countedIn, emptyHour, leaving, NONE } from "../../stored/open-hour.ts";
import { type Shape, shapeOf } from "../../stored/shape.ts";
import type { BucketRow, BucketRows, NamespaceRows, Slot } from "./bucket-rows.ts";

/** What a call does to the rows of one namespace, inside a transaction. Each puts all its rows or, when it throws, none. */
export interface RowsContext {
  readonly rows: BucketRows;
  readonly namespace: NamespaceRows;
  readonly nowMs: number;
  readonly calendar: Calendar;
  /** The generation of configuration in this transaction. */
  readonly generation: number;
  readonly countsUsage: boolean;
}

interface Draft {
  readonly slot: Slot;
  readonly claim: Claim;
  readonly before: BucketRow;
  readonly after: BucketRow | undefined;
}

/** All claims or none. Those of a lease go by its limits, which may have been changed since. */
export function takeAll(context: RowsContext, claims: readonly Claim[], by: "plan" | "lease"): readonly Answer[] {
  const drafts: Draft[] = [];
  let fitting = true;
  for (const claim of claims) {
    const slot = context.rows.slot(context.namespace, claim.bucket);
    const standing = brought(latest(drafts, slot), claim, context);
    const before = by === "plan" ? standing : written(standing, context);
    const state = claim.bypass ? touched(before.state) : takeFrom(before.state, claim.take, context.nowMs);
    if (state === undefined) fitting = false;
    const after = state === undefined ? undefined : taken(before, state, claim, context);
    drafts.push({ slot, claim, before, after });
  }
  return fitting ? granted(context, drafts) : refused(context, drafts);
}

export function debit(context: RowsContext, held: Held, amounts: readonly Amount[]): Debited {
  const slot = context.rows.slot(context.namespace, held.bucket);
  const before = written(brought(slot.row, held, context), context);
  const { bypass } = held;
  const state = bypass ? touched(before.state) : debitFrom(before.state, amounts, context.nowMs);
  if (state === undefined) return { kind: "tooDeep" };
  const counting = { amounts: counts(amounts, bypass), sign: 1, requests: 0 } as const;
  context.rows.put(slot, counted(before, state, counting, context));
  if (bypass) return { kind: "applied", state };
  const ticket = ticketOf(state, amounts, context.nowMs, context.calendar);
  return ticket === PLAIN_TICKET ? { kind: "applied", state } : { kind: "applied", state, ticket };
}

export function credit(context: RowsContext, held: Held, amounts: readonly Amount[]): WriteReply {
  const slot = context.rows.slot(context.namespace, held.bucket);
  const { bypass } = held;
  // Also what comes too late for its period, or for a bucket that was full and is forgotten: it was not used.
  const counting = { amounts: counts(amounts, bypass), sign: -1, requests: 0 } as const;
  if (slot.row === undefined) {
    const { nowMs } = context;
    if (context.countsUsage)
      for (const count of asCount({ ...counting, nowMs })) context.rows.countForgotten(slot, count);
    return { kind: "gone" };
  }
  const before = bypass ? slot.row : across(slot.row, context);
  const state = bypass ? before.state : giveBack(before.state, amounts, held.ticket, context.nowMs);
  context.rows.put(slot, counted(before, state, counting, context));
  return { kind: "applied", state };
}

export function topUp(context: RowsContext, bucket: LimitedBucket, amounts: readonly Amount[]): Operated {
  const slot = context.rows.slot(context.namespace, bucket.bucket);
  const before = written(brought(slot.row, bucket, context), context);
  const topped = toppedUp(before.state, amounts, context.nowMs, context.calendar);
  if (topped.kind === "tooLarge") return topped;
  context.rows.put(slot, reshaped(before, topped.state));
  return { kind: "done", amounts: topped.gained };
}

/** What an operation did, before it is remembered by its key: `amounts` is what each limit gained. */
export type Operated =
  | { readonly kind: "done"; readonly amounts: readonly Amount[] }
  | Extract<OperationReply, { kind: "tooLarge" }>;

export function reset(context: RowsContext, bucket: LimitedBucket, limits: readonly string[] | undefined): Operated {
  // Of everything: then it does not matter what it held, nor whether that can be read.
  const slot =
    limits === undefined
      ? context.rows.slotToReplace(context.namespace, bucket.bucket)
      : context.rows.slot(context.namespace, bucket.bucket);
  const before = written(brought(slot.row, bucket, context), context);
  context.rows.put(slot, reshaped(before, resetLimits(before.state, limits, context.nowMs, context.calendar)));
  return { kind: "done", amounts: [] };
}

function counts(amounts: readonly Amount[], bypass: boolean): readonly Amount[] {
  if (!bypass) return amounts;
  return [...amounts, ...amounts.map(({ limit, milli }) => ({ limit: bypassOf(limit), milli }))];
}

function taken(before: BucketRow, state: BucketState, { take, bypass }: Claim, context: RowsContext): BucketRow {
  if (state.plain && !bypass) return counted(before, state, { amounts: take, sign: 1, requests: 1 }, context);
  const overdrawn = bypass ? [] : overdrawnOf(state, take, context.nowMs);
  const events = overdrawn.map((limit) => ({ limit: overdraftOf(limit), milli: 1000 }));
  const amounts = events.length === 0 ? counts(take, bypass) : [...take, ...events];
  return counted(before, state, { amounts, sign: 1, requests: 1 }, context);
}

// Two claims of one call on the same bucket see each other.
function latest(drafts: readonly Draft[], slot: Slot): BucketRow | undefined {
  for (let i = drafts.length - 1; i >= 0; i--) {
    const draft = drafts[i] as Draft;
    if (draft.slot === slot) return draft.after ?? draft.before;
  }
  return slot.row;
}

function brought(row: BucketRow | undefined, bucket: LimitedBucket, context: RowsContext): BucketRow {
  if (row === undefined) return born(bucket, context);
  const state = bucketFor(row.state, bucket, context.nowMs, context.calendar);
  return state === row.state ? row : reshaped(row, state);
}

/** Changed limits that this write may not go by count from it on at the earliest: from the epoch. */
function written(row: BucketRow, { nowMs, calendar }: RowsContext): BucketRow {
  const state = advanced(row.state, nowMs, calendar);
  return state === row.state ? row : reshaped(row, state);
}

// Numbered by the file's generation: what the bucket is made for may be older than a deletion.
function born({ set, origin }: LimitedBucket, { nowMs, calendar, generation }: RowsContext): BucketRow {
  const state = bornAs(freshBucket(set, origin, nowMs, calendar), countFrom(nowMs, generation));
  return { state, shape: shapeOf(state), open: emptyHour(state.limits, nowMs), left: NONE };
}

function across(row: BucketRow, { nowMs, calendar }: RowsContext): BucketRow {
  const state = acrossBoundaries(row.state, nowMs, calendar);
  return state === row.state ? row : reshaped(row, state);
}

// The counts are kept in the order of the limits: where that has changed, they leave by name.
function reshaped({ shape: before, open, left }: BucketRow, state: BucketState): BucketRow {
  const shape = shapeOf(state);
  const same = shape === before || sameNames(shape, before);
  if (same) return { state, shape, open, left };
  const leftOver = [...left, ...leaving(open, before.limits)];
  return { state, shape, open: emptyHour(state.limits, open.hourMs), left: leftOver };
}

function sameNames(a: Shape, b: Shape): boolean {
  return a.limits.length === b.limits.length && a.limits.every(({ name }, i) => name === b.limits[i]?.name);
}

function counted(
  { shape, open, left }: BucketRow,
  state: BucketState,
  counting: Omit<Counting, "nowMs">,
  { countsUsage, nowMs }: RowsContext,
): BucketRow {
  if (!countsUsage) return { state, shape, open, left };
  const next = countedIn(open, shape.limits, { ...counting, nowMs });
  return { state, shape, open: next.open, left: next.left.length === 0 ? left : [...left, ...next.left] };
}

function granted(context: RowsContext, drafts: readonly Draft[]): readonly Answer[] {
  return drafts.map(({ slot, claim, after }): Answer => {
    const row = after as BucketRow;
    context.rows.put(slot, row);
    const ticket = claim.bypass ? PLAIN_TICKET : ticketOf(row.state, claim.take, context.nowMs, context.calendar);
    return { kind: "taken", state: row.state, ticket };
  });
}

function refused(context: RowsContext, drafts: readonly Draft[]): readonly Answer[] {
  return drafts.map(({ slot, claim, before, after }): Answer => {
    const kind = after === undefined ? "short" : "skipped";
    if (slot.row === undefined) return { kind, state: before.state };
    // Changed limits count from the moment they reach the bucket, granted or refused.
    const row = brought(slot.row, claim, context);
    if (row !== slot.row) context.rows.put(slot, row);
    return { kind, state: row.state };
  });
}
