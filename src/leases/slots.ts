import { canonical } from "../domain/canonical.ts";
import type { Ticket } from "../domain/give-back.ts";
import type { LeaseHolding, LeaseRecord } from "../domain/lease-record.ts";
import type { Limit } from "../domain/limit.ts";
import { slotsOf } from "../domain/renew-slots.ts";
import { storedTicket } from "../domain/stored-ticket.ts";
import type { LeaseReturn } from "./change-plan.ts";

// Slots of a stored lease: the hold of the lease is theirs. They come back when it ends, in whatever way, and are renewed with it.

/** What a lease holds of limits on how many are at once. */
export function slotsIn({ holdings }: Pick<LeaseRecord, "holdings">): readonly LeaseHolding[] {
  return holdings.flatMap(({ at, ticket, held }) => {
    const slots = slotsOf(ticket, held);
    return slots.length === 0 ? [] : [{ at, ticket, held: slots }];
  });
}

/** All slots of a lease, as they come back when its work is done. */
export function slotsBack(record: Pick<LeaseRecord, "holdings">): readonly LeaseReturn[] {
  return slotsIn(record).map((holding) => ({ ...holding, reason: "settle" as const }));
}

/** What is given back without slots; none where nothing else is. */
export function withoutSlots(holding: LeaseReturn): readonly LeaseReturn[] {
  const slots = slotsOf(holding.ticket, holding.held);
  if (slots.length === 0) return [holding];
  const held = holding.held.filter((amount) => !slots.includes(amount));
  return held.length === 0 ? [] : [{ ...holding, held }];
}

/** The limits of which a lease has slots. */
export function slotLimitsOf(record: LeaseRecord): readonly Limit[] {
  return slotsIn(record).flatMap(({ at, held }) => {
    const limits = record.resources[at[0]]?.levels[at[1]]?.limits ?? [];
    return limits.filter(({ name }) => held.some(({ limit }) => limit === name));
  });
}

/** A holding of slots that was renewed, and its ticket since. */
export interface RenewedHolding {
  readonly at: LeaseHolding["at"];
  readonly before: Ticket;
  readonly after: Ticket;
}

/** The holdings with the tickets that they have since they were renewed. */
export function withRenewed(
  holdings: readonly LeaseHolding[],
  renewed: readonly RenewedHolding[],
): readonly LeaseHolding[] {
  return holdings.map((holding) => {
    const own = renewed.find(({ at, before }) => isSame(at, holding.at) && isSameTicket(before, holding.ticket));
    return own === undefined ? holding : { ...holding, ticket: own.after };
  });
}

/** Whether all slots of a lease are among those that were renewed. */
export function areRenewed(holdings: readonly LeaseHolding[], renewed: readonly RenewedHolding[]): boolean {
  return slotsIn({ holdings }).every(({ at, ticket }) =>
    renewed.some((one) => isSame(one.at, at) && isSameTicket(one.after, ticket)),
  );
}

function isSame(a: LeaseHolding["at"], b: LeaseHolding["at"]): boolean {
  return a[0] === b[0] && a[1] === b[1];
}

// A ticket that was read again is another object.
function isSameTicket(a: Ticket, b: Ticket): boolean {
  return a === b || canonical(storedTicket(a)) === canonical(storedTicket(b));
}
