import type { TakeMark } from "../../src/domain/give-back.ts";
import type { TicketForm } from "../../src/domain/stored-lease.ts";
import { markFrom, storedMark } from "../../src/domain/stored-mark.ts";
import type { Ticket } from "../../src/ports/bucket-store.ts";
import { SHARD_TICKETS } from "../../src/protocol/stored-ticket.ts";

/** Tickets of the stores that do a call as a whole. */
export const MARK_TICKETS: TicketForm = { stored: (ticket) => storedMark(ticket as TakeMark), from: markFrom };

/** Tickets of conditional writes. */
export const ITEM_TICKETS: TicketForm = SHARD_TICKETS;

/** A ticket as the record of a stored lease has it: text. */
export function ticketText(ticket: Ticket, form: TicketForm): string {
  return JSON.stringify(form.stored(ticket));
}

/** The ticket as another process reads it: equal, and no object of the one that took. */
export function ticketFrom(text: string, form: TicketForm): Ticket {
  return form.from(JSON.parse(text));
}
