import type { Amount, CountedAmount } from "../charge/amounts.ts";
import { type BucketState, holdEndMs } from "./bucket-state.ts";
import {
  byPeriod,
  hasSlots,
  isSamePeriod,
  isSlotPin,
  joinedTicket,
  type PeriodShare,
  PLAIN_TICKET,
  pinOf,
  type SlotPin,
  type Ticket,
} from "./give-back.ts";
import { moved } from "./holds.ts";
import type { LimitState } from "./limit-state.ts";
import { heldFor } from "./slot-time.ts";

/** What a renewal makes of a bucket. */
export interface RenewedSlots {
  readonly state: BucketState;
  /** Of what is held now. */
  readonly ticket: Ticket;
  /** How long the slots were held that moved, for usage. */
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
      parts.push({ ticket: { ...PLAIN_TICKET, pins: [own] }, amounts: [{ limit: name, milli }] });
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

const NONE: readonly Amount[] = Object.freeze([]);
