import { refilledMilli } from "../../bucket/level.ts";
import { credit } from "../../bucket/take.ts";
import { type Amount, milliOf } from "../charge/amounts.ts";
import { sameReset } from "../limits/kinds/calendar.ts";
import { isSlotPin, type PeriodPin, type QuotaPin, type SlotPin } from "../limits/kinds/kind.ts";
import { rulesOf } from "../limits/kinds/table.ts";
import type { Calendar } from "../limits/schedule.ts";
import { availableMilli, type BucketState, findLimit, holdEndMs, type LimitState } from "./bucket-state.ts";
import { givenBack, sliceEndingBy } from "./holds.ts";

export { isSlotPin, type PeriodPin, type QuotaPin, type SlotPin };

/**
 * The ticket of a take, by which it is given back: it says when the take was, not where. It is a value: any process may store and read
 * it, and two tickets that say the same are the same.
 */
export interface Ticket {
  readonly pins: readonly PeriodPin[];
  /** The soft limits that the request left below zero. This and the next two are for undoing the request as a whole. */
  readonly overdrawn: readonly string[];
  /** The limits whose window it opened. */
  readonly opened: readonly string[];
  /** The shadow limits that would have refused it: nothing of them was taken. */
  readonly shadowed: readonly string[];
}

const NONE: readonly never[] = Object.freeze([]);

/** The ticket of nearly every take: nothing about it needs remembering. */
export const PLAIN_TICKET: Ticket = Object.freeze({ pins: NONE, overdrawn: NONE, opened: NONE, shadowed: NONE });

/** A ticket with these pins and nothing else. */
export function ticketWith(pins: readonly PeriodPin[]): Ticket {
  return pins.length === 0 ? PLAIN_TICKET : { ...PLAIN_TICKET, pins };
}

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

/**
 * What may be given back of some amounts without a ticket: at most what is missing to the capacity in force, of a quota what its period has
 * used. Slots, and limits that the bucket does not hold, are left out. The bucket must be across its boundaries.
 */
export function missingOf(state: BucketState, amounts: readonly Amount[], nowMs: number): readonly Amount[] {
  return amounts.flatMap(({ limit: name, milli }) => {
    const held = findLimit(state, name);
    if (held === undefined || rulesOf(held.limit).holdsSlots) return [];
    const missing = held.terms.capacityMilli - availableMilli(state, held, Math.max(nowMs, state.epochMs));
    const given = Math.min(milli, missing);
    return given > 0 ? [{ limit: name, milli: given }] : [];
  });
}

/**
 * The part of some amounts, just given back with this ticket, that did not come back: there was no room for it, and the next take cuts it off,
 * or the limit is not in the period of the ticket.
 */
export function unreturnedOf(
  state: BucketState,
  amounts: readonly Amount[],
  ticket: Ticket,
  nowMs: number,
): readonly Amount[] {
  const atMs = Math.max(nowMs, state.epochMs);
  return amounts.flatMap(({ limit: name, milli }) => {
    const held = findLimit(state, name);
    if (held === undefined || !isOfPeriod(held, ticket, atMs)) return [{ limit: name, milli }];
    const { terms, remainder, tokensMilli } = held;
    const over = tokensMilli + refilledMilli(remainder, terms, atMs - state.epochMs) - terms.capacityMilli;
    return over > 0 ? [{ limit: name, milli: Math.min(milli, over) }] : [];
  });
}

/** Gives slots back into their own slice or nowhere: a late give-back must not free what somebody else holds. */
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

/** The part of some amounts that belongs to one period of each limit. */
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
  return shares.map(({ pins: own, amounts }, i) => ({
    ticket: i === 0 ? { ...ticket, pins: own } : ticketWith(own),
    amounts,
  }));
}

/** The ticket of the rest of a take, once these amounts are given to somebody: they are of its first periods, as `byPeriod` has it. */
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
  if (first === undefined || parts.every(({ ticket }) => ticket === PLAIN_TICKET)) return PLAIN_TICKET;
  const pins: PeriodPin[] = [];
  for (const { ticket, amounts } of parts) {
    for (const pin of ticket.pins) {
      const gave = milliOf(amounts, pin.limit);
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

/** Joins two pins of one period. Slots count from when they are held on average, so that their times add up. */
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
