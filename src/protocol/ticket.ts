import type { Amount } from "../domain/amounts.ts";
import { PLAIN_MARK, type TakeMark } from "../domain/give-back.ts";
import type { Ticket } from "../ports/bucket-store.ts";

/** Where something was taken: on which shard, of how many, in which periods. */
export interface TicketPart {
  readonly shard: number;
  readonly shardCount: number;
  readonly mark: TakeMark;
  /** Of what was gathered from several shards: what this one gave, and gets back at most. */
  readonly gave: readonly Amount[] | undefined;
}

/** What was taken at once; gathered from several shards it has several parts. */
export interface ShardTicket {
  readonly parts: readonly TicketPart[];
}

const FIRST: ShardTicket = Object.freeze({
  parts: Object.freeze([{ shard: 0, shardCount: 1, mark: PLAIN_MARK, gave: undefined }]),
});

/** The ticket of nearly every take is the same: an unsplit bucket of limits that drip. */
export function ticketOf(shard: number, shardCount: number, mark: TakeMark): ShardTicket {
  if (shardCount === 1 && mark === PLAIN_MARK) return FIRST;
  return { parts: [{ shard, shardCount, mark, gave: undefined }] };
}

export function ticketOn(ticket: Ticket | undefined): ShardTicket {
  return ticket === undefined ? FIRST : (ticket as ShardTicket);
}

export function isPlainTicket(ticket: ShardTicket): boolean {
  return ticket === FIRST;
}
