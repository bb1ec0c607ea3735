import type { Amount } from "../domain/amounts.ts";
import { StoredForm } from "../domain/stored-form.ts";
import type { TicketForm } from "../domain/stored-lease.ts";
import { markFrom, storedMark } from "../domain/stored-mark.ts";
import { isPlainTicket, type ShardTicket, type TicketPart, ticketOn } from "./ticket.ts";

const FORM = new StoredForm("The ticket of a stored lease");

/** Tickets as they are written down with leases: 0 for the one that nearly every take has, else the parts. */
export const SHARD_TICKETS: TicketForm = {
  stored: (given) => {
    const ticket = given as ShardTicket;
    return isPlainTicket(ticket) ? 0 : ticket.parts.map(storedPart);
  },
  from: (stored) => (stored === 0 ? ticketOn(undefined) : { parts: FORM.list(stored).map(partFrom) }),
};

function storedPart({ shard, shardCount, mark, gave, overdrawn }: TicketPart): readonly unknown[] {
  const given = gave === undefined ? null : gave.flatMap(({ limit, milli }) => [limit, milli]);
  return [shard, shardCount, storedMark(mark), given, overdrawn];
}

function partFrom(stored: unknown): TicketPart {
  const [shard, shardCount, mark, gave, overdrawn] = FORM.list(stored, 5);
  return {
    shard: FORM.natural(shard),
    shardCount: FORM.natural(shardCount),
    mark: markFrom(mark),
    gave: FORM.orNone(gave, amountsFrom),
    overdrawn: FORM.list(overdrawn).map((name) => FORM.text(name)),
  };
}

function amountsFrom(stored: unknown): readonly Amount[] {
  const flat = FORM.list(stored);
  const amounts: Amount[] = [];
  for (let i = 0; i < flat.length; i += 2) {
    amounts.push({ limit: FORM.text(flat[i]), milli: FORM.integer(flat[i + 1]) });
  }
  return amounts;
}
