import { type Count, times } from "../../bucket/integers.ts";
import type { Amount, CountedAmount } from "../charge/amounts.ts";
import { HOLD_LEAST_MS, holdMsOf } from "../limits/kinds/concurrent.ts";
import { rulesOf } from "../limits/kinds/table.ts";
import { isHard, type Limit } from "../limits/limit.ts";
import { ValidationError } from "../names/errors.ts";
import { shown } from "../names/names.ts";
import { type BucketState, findLimit, holdEndMs } from "./bucket-state.ts";
import {
  byPeriod,
  hasSlots,
  isSamePeriod,
  isSlotPin,
  joinedTicket,
  type PeriodShare,
  pinOf,
  type SlotPin,
  type Ticket,
  ticketWith,
} from "./give-back.ts";
import { givenBack, moved } from "./holds.ts";
import type { LimitState } from "./limit-state.ts";

// Usage counts the time for which slots were held, in thousandths of a slot times milliseconds: where a hold is given back or renewed, and
// by the whole `holdMs` where it ended by itself. A hold that is given back after its end is counted once, by its end.

/** The time for which slots were held that are given back to a bucket, by limit. */
export function timeOfGivenBack(
  state: BucketState,
  amounts: readonly Amount[],
  ticket: Ticket,
  nowMs: number,
): readonly CountedAmount[] {
  const atMs = Math.max(nowMs, state.epochMs);
  return amounts.flatMap(({ limit, milli }) => {
    const pin = pinOf(ticket, limit);
    const held = findLimit(state, limit);
    if (!isSlotPin(pin) || held === undefined || !hasSlots(held, pin)) return [];
    return givenBack(held.slices, pin, milli) === undefined ? [] : [heldFor(limit, milli, atMs - pin.sinceMs)];
  });
}

/** The time of holds that ended by themselves between a state of a bucket and a later one, or the instant of one, by limit. */
export function timeOfEnded(
  before: BucketState | undefined,
  after: Pick<BucketState, "epochMs">,
): readonly CountedAmount[] {
  if (before === undefined || before === after || before.plain) return NONE;
  return before.limits.flatMap(({ name, limit, slices }) => {
    if (slices.length === 0 || !rulesOf(limit).holdsSlots) return [];
    let milli = 0;
    for (const { endMs, heldMilli } of slices) if (endMs <= after.epochMs) milli += heldMilli;
    return milli === 0 ? [] : [heldFor(name, milli, holdMsOf(limit))];
  });
}

export function heldFor(limit: string, milli: number, ms: number): CountedAmount {
  return { limit, milli: timeOf(milli, ms) };
}

export function timeOf(milli: number, ms: number): Count {
  return times(milli, Math.max(0, ms));
}

const NONE: readonly never[] = Object.freeze([]);

/** A bucket after a renewal. */
export interface RenewedSlots {
  readonly state: BucketState;
  /** Gives back what is held now. */
  readonly ticket: Ticket;
  /** The time for which the slots were held that moved, for usage. */
  readonly times: readonly CountedAmount[];
}

/**
 * The bucket with slots that are held anew from now on, by the limits that it has. Undefined where one of them is held no more, or was
 * never a slot: then nothing is renewed. The bucket must be across its boundaries.
 */
export function renewSlots(
  state: BucketState,
  amounts: readonly Amount[],
  ticket: Ticket,
  { nowMs, holdMs }: { readonly nowMs: number; readonly holdMs: number | undefined },
): RenewedSlots | undefined {
  const atMs = Math.max(nowMs, state.epochMs);
  const limits = state.limits.slice();
  const parts: PeriodShare[] = [];
  const times: CountedAmount[] = [];
  let validUntilMs = state.validUntilMs;
  for (const share of byPeriod(ticket, amounts)) {
    for (const { limit: name, milli } of share.amounts) {
      if (milli === 0) continue;
      const pin = pinOf(share.ticket, name);
      const i = limits.findIndex((held) => held.name === name);
      const held = limits[i];
      if (!isSlotPin(pin) || held === undefined || !hasSlots(held, pin)) return undefined;
      const after = moved(held.slices, pin, milli, holdEndMs(held.limit, holdMs, atMs));
      if (after === undefined) return undefined;
      const { slices, into } = after;
      const isMoved = slices !== held.slices;
      limits[i] = { ...held, slices } satisfies LimitState;
      validUntilMs = Math.min(validUntilMs, into.endMs);
      if (isMoved) times.push(heldFor(name, milli, atMs - pin.sinceMs));
      const sinceMs = isMoved ? atMs : pin.sinceMs;
      const own = { limit: name, ...into, resets: pin.resets, sinceMs };
      parts.push({ ticket: ticketWith([own]), amounts: [{ limit: name, milli }] });
    }
  }
  if (parts.length === 0) return undefined;
  const renewAtMs = Math.min(state.renewAtMs, validUntilMs);
  return { state: { ...state, limits, validUntilMs, renewAtMs }, ticket: joinedTicket(parts), times };
}

/**
 * The ticket of one of several holdings that were renewed together. What was moved is in one slice of its limit now: one that was not
 * there before, or has more than before. Pins of slices that end later than that stay.
 */
export function ticketAfter(before: Ticket, joined: Ticket, renewed: Ticket): Ticket {
  const pins = before.pins.map((pin) => {
    if (!isSlotPin(pin)) return pin;
    const now = slotPinsOf(renewed, pin.limit);
    if (now.length === 0 || now.some((one) => isSamePeriod(one, pin))) return pin;
    const into = now.length === 1 ? now[0] : now.find((one) => hasGrown(one, slotPinsOf(joined, pin.limit)));
    if (into === undefined) return pin;
    const { milli: _, ...own } = into;
    return pin.milli === undefined ? own : { ...own, milli: pin.milli };
  });
  return { ...before, pins };
}

function hasGrown(pin: SlotPin, before: readonly SlotPin[]): boolean {
  const same = before.find((one) => isSamePeriod(one, pin));
  return same === undefined || (pin.milli ?? 0) > (same.milli ?? 0);
}

function slotPinsOf({ pins }: Ticket, limit: string): readonly SlotPin[] {
  return pins.filter(isSlotPin).filter((pin) => pin.limit === limit);
}

/** The slots among some amounts: those whose ticket says in which slice they are. */
export function slotsOf(ticket: Ticket, amounts: readonly Amount[]): readonly Amount[] {
  if (ticket.pins.length === 0) return NONE;
  const isSlots = ({ limit, milli }: Amount) => milli > 0 && isSlotPin(pinOf(ticket, limit));
  return amounts.every(isSlots) ? amounts : amounts.filter(isSlots);
}

/** Checks how long a request wants to hold its slots; undefined: as long as each limit says. */
export function checkHold(holdMs: unknown): number | undefined {
  if (holdMs === undefined) return undefined;
  if (typeof holdMs === "number" && Number.isSafeInteger(holdMs) && holdMs >= HOLD_LEAST_MS) return holdMs;
  throw new ValidationError(
    "hold_invalid",
    `holdMs is ${shown(holdMs)}; give a whole number of milliseconds, ${HOLD_LEAST_MS} or more.`,
  );
}

/** The limits on how many are at once that something is taken of. */
export function slotLimits(limits: readonly Limit[], take: readonly Amount[]): readonly Limit[] {
  const slots = limits.filter((limit) => rulesOf(limit).holdsSlots);
  if (slots.length === 0) return slots;
  return slots.filter(({ name }) => take.some(({ limit, milli }) => limit === name && milli > 0));
}

/** The slot limits that may refuse: others neither bound a hold nor need one. */
export function hardSlotLimits(limits: readonly Limit[], take: readonly Amount[]): readonly Limit[] {
  return slotLimits(limits, take).filter(isHard);
}

/** Throws for a request that wants to hold slots of a hard limit for longer than the limit lets it. */
export function checkHoldIn(slots: readonly Limit[], holdMs: number): void {
  const short = slots.find((limit) => holdMs > holdMsOf(limit));
  if (short === undefined) return;
  const error = new ValidationError(
    "hold_too_long",
    `holdMs is ${holdMs}, but slots of "${short.name}" are held for at most ${holdMsOf(short)} ms. ` +
      "Ask for less and renew the lease, or raise the limit's holdMs.",
  );
  // A client that did not choose asks again with that.
  throw Object.assign(error, { holdMs: Math.min(...slots.map(holdMsOf)) });
}
