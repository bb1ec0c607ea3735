import { credit } from "../../bucket/take.ts";
import type { Amount } from "../charge/amounts.ts";
import type { Calendar } from "../limits/calendar.ts";
import { sameReset } from "../limits/kinds/calendar.ts";
import { isSlotPin, type PeriodPin, type QuotaPin, type SlotPin } from "../limits/kinds/kind.ts";
import { rulesOf } from "../limits/kinds/table.ts";
import type { BucketState, LimitState } from "./bucket-state.ts";
import { findLimit, holdEndMs } from "./bucket-state.ts";
import { givenBack, sliceEndingBy } from "./holds.ts";

export { isSlotPin, type PeriodPin, type QuotaPin, type SlotPin };

/**
 * What a take leaves behind for giving it back: when it was, not where. A value: it may be stored and read by any process, and
 * two tickets that say the same are the same.
 */
export interface Ticket {
  readonly pins: readonly PeriodPin[];
  /** For undoing the request as a whole: the soft limits that it left below zero. */
  readonly overdrawn: readonly string[];
  /** For undoing the request as a whole: the limits whose window it opened. */
  readonly opened: readonly string[];
  /** For undoing the request as a whole: the shadow limits that would have refused it. Nothing of them was taken. */
  readonly shadowed: readonly string[];
}

const NONE: readonly string[] = Object.freeze([]);

/** The ticket of nearly every take: nothing about it needs remembering. */
export const PLAIN_TICKET: Ticket = Object.freeze({
  ...{ pins: Object.freeze([]), overdrawn: NONE, opened: NONE, shadowed: NONE },
});

/** The ticket of a take, from the state it left behind. `holdMs`: how long the request holds slots, where it says so. */
export function ticketOf(
  state: BucketState,
  amounts: readonly Amount[],
  nowMs: number,
  calendar: Calendar,
  holdMs?: number | undefined,
): Ticket {
  if (state.plain) return PLAIN_TICKET;
  let pins: PeriodPin[] | undefined;
  let opened: string[] | undefined;
  for (let a = 0; a < amounts.length; a++) {
    const { limit: name, milli } = amounts[a] as Amount;
    const held = findLimit(state, name);
    if (held?.quota === undefined) continue;
    if (rulesOf(held.limit).holdsSlots) {
      const atMs = Math.max(nowMs, state.epochMs);
      const slice = milli > 0 ? sliceEndingBy(held.slices, holdEndMs(held.limit, holdMs, atMs)) : undefined;
      if (slice === undefined) continue;
      const pin = { limit: name, place: slice.place, endMs: slice.endMs, resets: held.quota.resets, sinceMs: atMs };
      // An array that grows by pushing takes room for seventeen.
      pins = pins === undefined ? [pin] : [...pins, pin];
      continue;
    }
    const { windowStartMs, resets } = held.quota;
    const { reset, untilMs } = rulesOf(held.limit).pin(held.limit, Math.max(nowMs, state.epochMs), calendar);
    pins ??= [];
    pins.push({ limit: name, reset, untilMs, windowStartMs, resets });
    // An earlier request has an earlier reading. One with the same reading that still holds something keeps the window open.
    if (windowStartMs !== undefined && windowStartMs >= nowMs) opened = [...(opened ?? []), name];
  }
  return pins === undefined ? PLAIN_TICKET : { pins, overdrawn: NONE, opened: opened ?? NONE, shadowed: NONE };
}

/**
 * The bucket with the amounts given back: a limit that the bucket no longer holds is left out, and so is a quota whose
 * period has ended since. The bucket must be across its boundaries, lest what comes back now is clipped by
 * a window of before.
 */
export function giveBack(state: BucketState, amounts: readonly Amount[], ticket: Ticket, nowMs: number): BucketState {
  const limits = state.limits.slice();
  for (const { limit, milli } of amounts) {
    const pin = pinOf(ticket, limit);
    for (let i = 0; i < limits.length; i++) {
      const held = limits[i] as LimitState;
      if (held.name !== limit) continue;
      if (isSlotPin(pin)) limits[i] = withSlotsBack(held, pin, milli);
      else if (isOfPeriod(held, ticket, Math.max(nowMs, state.epochMs)))
        limits[i] = { ...held, tokensMilli: credit(held, milli) };
      break;
    }
  }
  return { ...state, limits };
}

/** Into its own slice or nowhere: a late give-back must not free what somebody else holds. */
function withSlotsBack(held: LimitState, pin: SlotPin, milli: number): LimitState {
  const slices = hasSlots(held, pin) ? givenBack(held.slices, pin, milli) : undefined;
  return slices === undefined ? held : { ...held, tokensMilli: held.tokensMilli + milli, slices };
}

/** Whether slots of a pin may still be held: the limit counts how many are at once, and has not begun anew since. */
export function hasSlots({ limit, quota }: LimitState, { resets }: SlotPin): boolean {
  return quota !== undefined && quota.resets === resets && rulesOf(limit).holdsSlots;
}

/** Whether what was taken then belongs into the period that a limit is in now. */
export function isOfPeriod({ name, limit, quota }: LimitState, ticket: Ticket, nowMs: number): boolean {
  const pin = pinOf(ticket, name);
  if (isSlotPin(pin)) return false;
  if (quota === undefined) return pin === undefined;
  if (pin === undefined || pin.resets !== quota.resets || pin.windowStartMs !== quota.windowStartMs) return false;
  return rulesOf(limit).isOf(limit, quota, pin, nowMs);
}

/**
 * Whether a calendar quota has come to the period of a ticket at an instant. A shard that no request came to since may be in an
 * earlier one, for a clock that is behind: what was taken later is not given back into that.
 */
export function hasComeTo(held: LimitState, ticket: Ticket, atMs: number, calendar: Calendar): boolean {
  const { untilMs = Number.POSITIVE_INFINITY } = quotaPinOf(ticket, held.name) ?? {};
  return !Number.isFinite(untilMs) || rulesOf(held.limit).pin(held.limit, atMs, calendar).untilMs === untilMs;
}

export function pinOf({ pins }: Ticket, limit: string): PeriodPin | undefined {
  for (let i = 0; i < pins.length; i++) if ((pins[i] as PeriodPin).limit === limit) return pins[i];
  return undefined;
}

/** The period of a quota; undefined where there is none, or the limit is about slots. */
export function quotaPinOf(ticket: Ticket, limit: string): QuotaPin | undefined {
  const pin = pinOf(ticket, limit);
  return isSlotPin(pin) ? undefined : pin;
}

/** What of some amounts belongs to one period of each limit. */
export interface PeriodShare {
  readonly ticket: Ticket;
  readonly amounts: readonly Amount[];
}

/**
 * The amounts of a take by period. Nearly always that is one share. A limit that was taken in several periods has its amount in
 * several shares, each at most what that period gave.
 */
export function byPeriod(ticket: Ticket, amounts: readonly Amount[]): readonly PeriodShare[] {
  const { pins } = ticket;
  if (isOfOnePeriod(ticket)) return [{ ticket, amounts }];
  const shares: { readonly pins: PeriodPin[]; readonly amounts: Amount[] }[] = [];
  const shareAt = (i: number) => {
    shares[i] ??= { pins: [], amounts: [] };
    return shares[i];
  };
  for (const { limit, milli } of amounts) {
    const own = pins.filter((pin) => pin.limit === limit);
    if (own.length === 0) shareAt(0).amounts.push({ limit, milli });
    let left = milli;
    for (const [i, { milli: mostMilli, ...pin }] of own.entries()) {
      const part = Math.min(left, mostMilli ?? left);
      shareAt(i).pins.push(pin);
      shareAt(i).amounts.push({ limit, milli: part });
      left -= part;
    }
  }
  return shares.map((share, i) =>
    i === 0
      ? { ticket: { ...ticket, pins: share.pins }, amounts: share.amounts }
      : { ticket: { ...PLAIN_TICKET, pins: share.pins }, amounts: share.amounts },
  );
}

/** What a ticket says of the rest of its take, once these amounts are somebody's: they are of its first periods, as `byPeriod` has it. */
export function ticketOfRest(ticket: Ticket, amounts: readonly Amount[]): Ticket {
  if (isOfOnePeriod(ticket)) return ticket;
  const left = new Map(amounts.map(({ limit, milli }) => [limit, milli]));
  const pins = ticket.pins.flatMap((pin) => {
    if (pin.milli === undefined) return [pin];
    const part = Math.min(pin.milli, left.get(pin.limit) ?? 0);
    left.set(pin.limit, (left.get(pin.limit) ?? 0) - part);
    return part === pin.milli ? [] : [{ ...pin, milli: pin.milli - part }];
  });
  return { ...ticket, pins };
}

/** Whether every limit was taken in one period. */
export function isOfOnePeriod({ pins }: Ticket): boolean {
  for (let i = 0; i < pins.length; i++) if ((pins[i] as PeriodPin).milli !== undefined) return false;
  return true;
}

/** One ticket for a take of one limit set from several shards, each with what it gave. */
export function joinedTicket(parts: readonly PeriodShare[]): Ticket {
  const [first] = parts;
  if (first === undefined) return PLAIN_TICKET;
  if (parts.every(({ ticket }) => ticket === PLAIN_TICKET)) return PLAIN_TICKET;
  const pins: PeriodPin[] = [];
  for (const { ticket, amounts } of parts) {
    for (const pin of ticket.pins) {
      const gave = amounts.find(({ limit }) => limit === pin.limit)?.milli ?? 0;
      const same = pins.findIndex((other) => isSamePeriod(other, pin));
      const before = same < 0 ? 0 : (pins[same]?.milli ?? 0);
      if (same < 0) pins.push({ ...pin, milli: gave });
      else pins[same] = { ...together(pin, gave, pins[same] as PeriodPin, before), milli: before + gave };
    }
  }
  const isOne = ({ limit }: PeriodPin) => pins.filter((pin) => pin.limit === limit).length === 1;
  return {
    pins: pins.map((pin) => {
      const { milli: _, ...whole } = pin;
      return isOne(pin) ? whole : pin;
    }),
    overdrawn: parts.flatMap(({ ticket }) => ticket.overdrawn),
    opened: first.ticket.opened,
    shadowed: first.ticket.shadowed,
  };
}

/** One pin for what two say of one period. Slots count from when they are held on average: together the time that each of them would. */
export function together(pin: PeriodPin, milli: number, other: PeriodPin | undefined, otherMilli: number): PeriodPin {
  if (!isSlotPin(pin) || !isSlotPin(other) || milli <= 0 || otherMilli <= 0) return pin;
  const apartMs = other.sinceMs - pin.sinceMs;
  return { ...pin, sinceMs: pin.sinceMs + Math.round(apartMs * (otherMilli / (milli + otherMilli))) };
}

/** Whether two pins name the same period, or the same slice, of the same limit. */
export function isSamePeriod(a: PeriodPin, b: PeriodPin): boolean {
  if (a.limit !== b.limit || a.resets !== b.resets) return false;
  if (isSlotPin(a) || isSlotPin(b)) {
    return isSlotPin(a) && isSlotPin(b) && a.place === b.place && a.endMs === b.endMs;
  }
  return a.untilMs === b.untilMs && a.windowStartMs === b.windowStartMs && sameReset(a.reset, b.reset);
}
