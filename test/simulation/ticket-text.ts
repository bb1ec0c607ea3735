import type { Ticket } from "../../src/domain/bucket/give-back.ts";
import { storedTicket, ticketFrom } from "../../src/domain/lease/stored-ticket.ts";

/** A ticket as the record of a stored lease has it. */
export function ticketText(ticket: Ticket): string {
  return JSON.stringify(storedTicket(ticket));
}

/** The ticket as another process reads it: equal, and no object of the one that took. */
export function ticketIn(text: string): Ticket {
  return ticketFrom(JSON.parse(text));
}

/** What any other process would give back with. */
export function readAnew<Held extends { readonly ticket: Ticket }>(held: Held): Held {
  return { ...held, ticket: ticketIn(ticketText(held.ticket)) };
}
