import {
  byPeriod,
  isSamePeriod,
  isSlotPin,
  type PeriodPin,
  PLAIN_TICKET,
  pinOf,
  type SlotPin,
  type Ticket,
  ticketWith,
  together,
} from "../bucket/give-back.ts";
import { type Amount, milliOf } from "../charge/amounts.ts";

/**
 * The amounts that a lease still holds on one bucket with one ticket. A lease has few holdings on a bucket, however often it takes more:
 * tickets that say the same are one holding.
 */
export interface Holding {
  readonly ticket: Ticket;
  /** Each limit once. */
  readonly held: readonly Amount[];
}

/**
 * The holdings of a bucket with what was taken further. An amount joins the holding that has the same period of its limit, or
 * one that has nothing of that limit. So without quotas there is one holding. With them there is one for the present periods
 * and one for those that are over: the new pin of a later period proves that the earlier ones have ended.
 */
export function withTaken(
  holdings: readonly Holding[],
  amounts: readonly Amount[],
  ticket: Ticket,
): readonly Holding[] {
  let all = holdings;
  for (const share of byPeriod(ticket, amounts)) {
    for (const amount of share.amounts) {
      // A limit of which nothing is taken is named once, so that the lease shows it.
      if (amount.milli === 0 && all.some(({ held }) => held.some(({ limit }) => limit === amount.limit))) continue;
      const pin = pinOf(share.ticket, amount.limit);
      all = withAmount(withEndedJoined(all, pin), amount, pin);
    }
  }
  return all;
}

function withAmount(holdings: readonly Holding[], amount: Amount, pin: PeriodPin | undefined): readonly Holding[] {
  const { limit } = amount;
  let place = holdings.findIndex((one) => isHeld(one, limit) && isSamePin(pinOf(one.ticket, limit), pin));
  if (place < 0) place = holdings.findIndex((one) => !isHeld(one, limit));
  if (place < 0) return [...holdings, holdingWith({ ticket: PLAIN_TICKET, held: [] }, amount, pin)];
  return holdings.map((one, i) => (i === place ? holdingWith(one, amount, pin) : one));
}

/** The holding with an amount more, whose period replaces one of which nothing is held any more. */
function holdingWith({ ticket, held }: Holding, { limit, milli }: Amount, pin: PeriodPin | undefined): Holding {
  const before = held.find((one) => one.limit === limit);
  const after = { limit, milli: (before?.milli ?? 0) + milli };
  const others = ticket.pins.filter((one) => one.limit !== limit);
  const own = pin && together(pin, milli, pinOf(ticket, limit), before?.milli ?? 0);
  const pins = own === undefined ? others : [...others, own].sort(byName);
  const isSame =
    !isSlotPin(own) && pins.length === ticket.pins.length && pins.every((one, i) => isSamePin(one, ticket.pins[i]));
  return {
    ticket: isSame ? ticket : ticketWith(pins),
    held: before === undefined ? [...held, after] : held.map((one) => (one === before ? after : one)),
  };
}

/** Amounts of a limit whose periods are over by this pin, all in the first of their holdings: none of them can come back. */
function withEndedJoined(holdings: readonly Holding[], pin: PeriodPin | undefined): readonly Holding[] {
  if (pin === undefined || holdings.length < 2) return holdings;
  const { limit } = pin;
  const ended = holdings.filter((one) => isHeld(one, limit) && isOverBy(pinOf(one.ticket, limit), pin));
  const [first, ...rest] = ended;
  if (first === undefined || rest.length === 0) return holdings;
  const milli = rest.reduce((sum, { held }) => sum + milliOf(held, limit), 0);
  const joined = holdingWith(first, { limit, milli }, pinOf(first.ticket, limit));
  return holdings
    .map((one) => (one === first ? joined : rest.includes(one) ? withoutLimit(one, limit) : one))
    .filter(({ held }) => held.length > 0);
}

function withoutLimit({ ticket, held }: Holding, limit: string): Holding {
  const isOther = (one: { readonly limit: string }) => one.limit !== limit;
  return { ticket: ticketWith(ticket.pins.filter(isOther)), held: held.filter(isOther) };
}

/** Whether the store has moved on from a period, as a later one shows. */
function isOverBy(before: PeriodPin | undefined, later: PeriodPin): boolean {
  if (before === undefined) return false;
  // A later slice of slots proves nothing: it was opened while the earlier one goes on.
  if (isSlotPin(before) || isSlotPin(later)) return false;
  if (before.windowStartMs !== undefined && later.windowStartMs !== undefined) {
    return before.windowStartMs < later.windowStartMs;
  }
  return before.untilMs < later.untilMs && Number.isFinite(later.untilMs);
}

function isHeld({ held }: Holding, limit: string): boolean {
  return held.some((one) => one.limit === limit && one.milli > 0);
}

function isSamePin(a: PeriodPin | undefined, b: PeriodPin | undefined): boolean {
  return a === undefined || b === undefined ? a === b : isSamePeriod(a, b);
}

function byName(a: PeriodPin, b: PeriodPin): number {
  return a.limit < b.limit ? -1 : 1;
}

/** The holdings after so much of one slice was renewed into another. */
export function withRenewed(
  holdings: readonly Holding[],
  { from, to, milli }: { readonly from: SlotPin; readonly to: SlotPin; readonly milli: number },
): readonly Holding[] {
  const { limit } = from;
  const place = holdings.findIndex((one) => isHeld(one, limit) && isSamePin(pinOf(one.ticket, limit), from));
  const own = holdings[place];
  // The hold was given back meanwhile.
  if (own === undefined) return holdings;
  const heldMilli = milliOf(own.held, limit);
  const part = Math.min(milli, heldMilli);
  const held = own.held.map((one) => (one.limit === limit ? { limit, milli: heldMilli - part } : one));
  const rest = holdings.map((one, i) => (i === place ? { ...own, held } : one));
  return withAmount(rest, { limit, milli: part }, to);
}

/** Splits what is given back among the holdings, at most what they hold: the latest first, into the period it was taken in last. */
export function returnsOf(holdings: readonly Holding[], amounts: readonly Amount[]): readonly Holding[] {
  const parts = holdings.map((): Amount[] => []);
  for (const { limit, milli } of amounts) {
    let due = milli;
    for (let i = holdings.length - 1; i >= 0 && due > 0; i--) {
      const part = Math.min(due, milliOf(holdings[i]?.held ?? [], limit));
      if (part <= 0) continue;
      parts[i]?.push({ limit, milli: part });
      due -= part;
    }
  }
  return holdings.map(({ ticket }, i) => ({ ticket, held: parts[i] ?? [] }));
}

/** The holdings without what is given back: one entry for each of them, in their order. */
export function without(holdings: readonly Holding[], returns: readonly Holding[]): readonly Holding[] {
  return holdings.map(({ ticket, held }, i) => {
    const returned = returns[i]?.held ?? [];
    return { ticket, held: held.map(({ limit, milli }) => ({ limit, milli: milli - milliOf(returned, limit) })) };
  });
}
