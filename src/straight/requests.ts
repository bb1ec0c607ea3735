import { minus } from "../bucket/integers.ts";
import { isSlotPin, pinOf, type Ticket } from "../domain/bucket/give-back.ts";
import type { Amount, CountedAmount } from "../domain/charge/amounts.ts";
import { rulesOf } from "../domain/limits/kinds/table.ts";
import type { SourcedLimits } from "../domain/limits/limit-set.ts";
import type { BatchClaim, LevelPin, ShadowPlace } from "../ports/batch-store.ts";
import type { CallContext, Claim, Held, LeaseDraft } from "../ports/bucket-store.ts";
import {
  type BucketRecord,
  recordFor,
  recordForGiveBack,
  recordForLease,
  roomToCount,
  usageOfForgotten,
} from "../stored/bucket-record.ts";
import {
  heldUsage,
  type LimitsFrom,
  type RuleContext,
  type SlotsBack,
  usageOf,
  usageOfCredit,
} from "../stored/bucket-rules.ts";
import type { Shape } from "../stored/shape.ts";
import { levelAt, type RowForm } from "./row-form.ts";
import { asIfEnough, holdsOf, openedForRenewal, openedForTake, renewalOf, sliceOfTicket } from "./slot-moves.ts";

/**
 * A call on buckets, before it is known what the rows are. `mayBeEnded`: where it goes by older limits, a row may show that an override has
 * ended of which the call does not know; then it is not done, but reads first.
 */
export type Call = { readonly mayBeEnded: boolean } & (
  | {
      readonly kind: "take";
      readonly claims: readonly Claim[];
      readonly limitsFrom: LimitsFrom;
      readonly generation: number | undefined;
      /** See `TakeContext.goesBy`. */
      readonly goesBy: readonly string[];
      readonly lease: LeaseDraft | undefined;
    }
  | HeldCall
);

/** A call on amounts that are held already. */
export type HeldCall = (
  | { readonly kind: "debit" }
  | { readonly kind: "renew" }
  | {
      readonly kind: "credit";
      readonly slots: SlotsBack;
      /** Usage counts these further, for a request that is undone. */
      readonly undone: readonly Amount[];
    }
) & {
  readonly held: Held;
  readonly amounts: readonly Amount[];
  /** The bucket has met, or meets by `stored`, every change of limits up to this generation; undefined: it is not compared. */
  readonly generation: number | undefined;
  /** The stored limits of the bucket, where they were read for this call. */
  readonly stored: SourcedLimits | undefined;
};

/** One bucket of a call. */
export interface Part {
  readonly of: Claim | Held;
  readonly amounts: readonly Amount[];
  /** Usage counts these; overdrafts only the store sees. */
  readonly counted: readonly Amount[];
  readonly undone: readonly Amount[];
  /** A credit says how slots come back. */
  readonly slots: SlotsBack;
}

const NOTHING: readonly Amount[] = [];
const AS_TAKEN: SlotsBack = {};
const NOTHING_PASSES: readonly ShadowPlace[] = [];

export function partsOf(call: Call): readonly Part[] {
  if (call.kind === "take") {
    return call.claims.map((claim) => ({
      of: claim,
      amounts: claim.take,
      counted: usageOf(claim.take, claim.bypass),
      undone: NOTHING,
      slots: AS_TAKEN,
    }));
  }
  const { kind, held, amounts } = call;
  const counted = kind === "renew" ? NOTHING : usageOf(amounts, held.bypass);
  const { undone, slots } = kind === "credit" ? call : { undone: NOTHING, slots: AS_TAKEN };
  return [{ of: held, amounts, counted, undone, slots }];
}

/**
 * The record as the row must be for a part of a call: what differs from the row is brought to it. Undefined: there is none, and
 * none is made for a credit.
 */
export function readyFor(
  record: BucketRecord | undefined,
  kind: Call["kind"],
  { of, amounts, counted }: Part,
  context: RuleContext,
): BucketRecord | undefined {
  if (kind === "take" || kind === "debit") {
    const ready = kind === "take" ? recordFor(record, of, context) : recordForLease(record, of, context);
    const isPlain = ready.state.plain || of.bypass;
    const opened = isPlain ? ready : openedForTake(ready, holdingOf(kind, of, amounts), context.nowMs);
    return roomToCount(opened, { amounts: counted, sign: 1 }, context);
  }
  if (record === undefined) return undefined;
  const ready = recordForGiveBack(record, of as Held, context);
  const opened = kind === "renew" ? openedForRenewal(ready, of as Held, amounts, context.nowMs) : ready;
  return roomToCount(opened, { amounts: counted, sign: -1 }, context);
}

/** A part of a call on a row that is as this record is. `form`: what is expected of the row. */
export function claimOf(
  bucket: number,
  kind: Call["kind"],
  part: Part,
  row: ExpectedRow,
  context: RuleContext,
): BatchClaim {
  const judgedMs = Math.max(context.nowMs, row.record?.state.epochMs ?? context.nowMs);
  switch (kind) {
    case "take":
      return claimFrom(bucket, part, row, ofClaim(part, row, context), ofTake(part, row, judgedMs, context), true);
    case "debit":
      return claimFrom(bucket, part, row, ofClaim(part, row, context), ofDebit(part, row, judgedMs, context), false);
    case "credit":
      return claimFrom(bucket, part, row, OF_ITSELF, ofCredit(part, row, judgedMs, context), false);
    case "renew":
      return claimFrom(bucket, part, row, OF_ITSELF, ofRenewal(part, row, judgedMs, context), false);
  }
}

/** The part of a claim that its limits make; beside it stands the part that its amounts make, where what is not said is the default. */
type ByLimits = Pick<BatchClaim, "changeNumber" | "origin" | "strays">;
type ByAmounts = Pick<BatchClaim, "amounts"> & Partial<BatchClaim>;

/** It goes by the limits of the row, whatever those are. */
const OF_ITSELF: ByLimits = { changeNumber: -1, origin: undefined, strays: NOTHING };

/** One literal: a batch has hundreds of claims, and to spread objects into each of them took a tenth of its time. */
function claimFrom(
  bucket: number,
  { of: { bypass } }: Part,
  { form, signature }: ExpectedRow,
  limits: ByLimits,
  asked: ByAmounts,
  isTake: boolean,
): BatchClaim {
  const { changeNumber, origin } = limits;
  const { amounts, leavePercent = 0, shadows = NOTHING_PASSES, pins, judgedMs = null, lost } = asked;
  const strays = asked.strays ?? limits.strays;
  const isPlain = isTake && !bypass && origin === undefined && leavePercent === 0 && strays.length === 0;
  const isSummable = isPlain && form.shape.isSummable && form.slices.length === 0;
  return {
    bucket,
    signature,
    changeNumber,
    origin,
    isSummable,
    bypass,
    leavePercent,
    amounts,
    shadows,
    pins,
    judgedMs,
    strays,
    lost,
  };
}

/** A row as it is expected, and the record where one is known. */
interface ExpectedRow {
  readonly record: BucketRecord | undefined;
  readonly form: RowForm;
  readonly signature: string;
}

function ofClaim(
  { of, counted }: Part,
  { record, form }: ExpectedRow,
  { countsUsage }: RuleContext,
): Pick<BatchClaim, "changeNumber" | "origin" | "strays"> {
  return {
    changeNumber: of.origin.changeNumber ?? -1,
    origin: decisiveOrigin(of, record),
    strays: countsUsage ? strangers(form, counted) : NOTHING,
  };
}

/** The slots that a call takes and holds. A debit, made while the limit was of another kind, holds them as long as the limit says. */
function holdingOf(kind: "take" | "debit", of: Part["of"], amounts: readonly Amount[]): Pick<Claim, "take" | "holdMs"> {
  return kind === "take" ? (of as Claim) : { take: amounts };
}

/** Amounts by the levels of the row, and what is held by them: what is taken of the limit is held in the slice, the opposite. */
function withHolds(
  kind: "take" | "debit",
  { of, amounts }: Part,
  { record, form }: ExpectedRow,
  nowMs: number,
): { readonly places: (number | null)[]; readonly holds: ReturnType<typeof holdsOf> } {
  const isHeld = record !== undefined && form.slices.length > 0 && !of.bypass;
  const holds = isHeld ? holdsOf(record.state, holdingOf(kind, of, amounts), nowMs) : [];
  const places = placed(form, amounts);
  for (const { limit, milli, ...slice } of holds) {
    const i = levelAt(form, limit, slice);
    places[i] = (places[i] ?? 0) - milli;
  }
  return { places, holds };
}

function ofDebit(
  part: Part,
  row: ExpectedRow,
  judgedMs: number,
  { nowMs }: RuleContext,
): Pick<BatchClaim, "amounts" | "judgedMs"> {
  const { places, holds } = withHolds("debit", part, row, nowMs);
  return { amounts: places, judgedMs: holds.length === 0 ? null : judgedMs };
}

function ofTake(
  part: Part,
  row: ExpectedRow,
  judgedMs: number,
  { nowMs }: RuleContext,
): Pick<BatchClaim, "amounts" | "leavePercent" | "judgedMs" | "shadows"> {
  const { of } = part;
  const { form } = row;
  const claim = of as Claim;
  const { places, holds } = withHolds("take", part, row, nowMs);
  const sliceOf = (place: number) => {
    const hold = holds.find(({ limit }) => limit === place);
    return hold === undefined ? undefined : levelAt(form, place, hold);
  };
  const shadows =
    form.shape.shadows.length === 0 || of.bypass
      ? NOTHING_PASSES
      : form.shape.shadows.map((place) => ({ place, slice: sliceOf(place) }));
  const { leavePercent = 0 } = claim;
  return { amounts: places, leavePercent, judgedMs: holds.length === 0 ? null : judgedMs, shadows };
}

function ofCredit(
  { of, amounts, undone, slots }: Part,
  { record, form }: ExpectedRow,
  judgedMs: number,
  context: RuleContext,
): Pick<BatchClaim, "amounts" | "pins" | "judgedMs" | "strays" | "lost"> {
  const held = of as Held;
  const counted = usageOfCredit(record && asIfEnough(record.state), held, amounts, slots, context.nowMs);
  const back = strangers(form, counted).map(({ limit, milli }) => ({ limit, milli: minus(milli) }));
  return {
    amounts: placed(form, amounts),
    pins: pinsOf(form, amounts, held.ticket, { judgedMs, record, isUsed: slots.slotsUsed === true }),
    judgedMs: of.bypass ? null : judgedMs,
    strays: context.countsUsage ? [...back, ...undone] : NOTHING,
    lost: usageOfForgotten(held, amounts, slots, context)[0],
  };
}

function ofRenewal(
  { of, amounts }: Part,
  { record, form }: ExpectedRow,
  judgedMs: number,
  { nowMs, countsUsage }: RuleContext,
): Pick<BatchClaim, "amounts" | "pins" | "judgedMs" | "strays"> {
  const renewed = record && renewalOf(record.state, of as Held, amounts, nowMs);
  const places = placed(form, NOTHING);
  const pins: LevelPin[] = places.map(() => undefined);
  for (const { limit, milli, into, ...from } of renewed?.moves ?? []) {
    const i = levelAt(form, limit, from);
    places[i] = milli;
    pins[i] = { into: levelAt(form, limit, into) };
  }
  const strays = countsUsage && renewed !== undefined ? heldUsage(renewed.times) : NOTHING;
  return { amounts: places, pins, judgedMs, strays };
}

/** Counts that have no place in the row. */
function strangers({ shape }: RowForm, counted: readonly CountedAmount[]): readonly CountedAmount[] {
  return counted.filter(({ limit, milli }) => milli !== 0 && at(shape, limit) < 0);
}

/** An older claim goes by the limits of the bucket; that was decided for this origin of theirs, and no other. */
function decisiveOrigin({ set }: SourcedLimits, record: BucketRecord | undefined): BatchClaim["origin"] {
  if (record === undefined || record.state.signature === set.signature) return undefined;
  const { asOfMs, generation } = record.state.origin;
  return { asOfMs, generation };
}

/** Amounts by the levels of the row. */
function placed({ shape, slices }: RowForm, amounts: readonly Amount[]): (number | null)[] {
  const places: (number | null)[] = shape.limits.map(() => null);
  for (const { limit, milli } of amounts) {
    const i = at(shape, limit);
    if (i >= 0) places[i] = (places[i] ?? 0) + milli;
  }
  for (let i = 0; i < slices.length; i++) places.push(null);
  return places;
}

/** The row must still be in the period in which each limit was taken from. */
function pinsOf(
  form: RowForm,
  amounts: readonly Amount[],
  ticket: Ticket,
  by: { readonly judgedMs: number; readonly record: BucketRecord | undefined; readonly isUsed: boolean },
): BatchClaim["pins"] {
  const { shape, slices } = form;
  const { judgedMs, record, isUsed } = by;
  const pins: LevelPin[] = [...shape.limits, ...slices].map(() => undefined);
  for (const { limit: name } of amounts) {
    const i = at(shape, name);
    const held = shape.limits[i];
    if (held === undefined) continue;
    const pin = pinOf(ticket, name);
    if (isSlotPin(pin)) {
      const slice = sliceOfTicket(record?.state.limits[i], ticket);
      if (slice === undefined) pins[i] = isUsed ? "skipUsed" : "skip";
      else pins[i] = { from: levelAt(form, i, slice), isUsed };
      continue;
    }
    if (!held.isQuota) {
      pins[i] = pin === undefined ? undefined : "skip";
      continue;
    }
    const marks = { windowStartMs: pin?.windowStartMs, topUpMilli: 0, resets: pin?.resets ?? 0 };
    const isOf = pin !== undefined && rulesOf(held.limit).isOf(held.limit, marks, pin, judgedMs);
    pins[i] = isOf ? { resets: marks.resets, windowStartMs: marks.windowStartMs ?? null } : "skip";
  }
  return pins;
}

function at({ limits }: Shape, name: string): number {
  for (let i = 0; i < limits.length; i++) if (limits[i]?.name === name) return i;
  return -1;
}

/** The place in time of a call. */
export type CallTime = Pick<CallContext, "nowMs" | "timeoutMs" | "signal">;
