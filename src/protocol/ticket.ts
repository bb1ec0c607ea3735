import type { Amount } from "../domain/amounts.ts";
import { PLAIN_MARK, type TakeMark } from "../domain/give-back.ts";
import type { Claim, Ticket } from "../ports/bucket-store.ts";
import type { JobOutcome } from "./job.ts";

/** Where something was taken: on which shard, of how many, in which periods. */
export interface TicketPart {
  readonly shard: number;
  readonly shardCount: number;
  readonly mark: TakeMark;
  /** Of what was gathered from several shards: what this one gave, and gets back at most. */
  readonly gave: readonly Amount[] | undefined;
  /** Soft limits that the request left below zero there. */
  readonly overdrawn: readonly string[];
}

/** What was taken at once; gathered from several shards it has several parts. */
export interface ShardTicket {
  readonly parts: readonly TicketPart[];
}

const FIRST: ShardTicket = Object.freeze({
  parts: Object.freeze([{ shard: 0, shardCount: 1, mark: PLAIN_MARK, gave: undefined, overdrawn: [] }]),
});

/** The ticket of nearly every take is the same: an unsplit bucket of limits that drip. */
export function ticketOf(
  { shard, shardCount }: { readonly shard: number; readonly shardCount: number },
  mark: TakeMark,
  overdrawn: readonly string[],
): ShardTicket {
  if (shardCount === 1 && mark === PLAIN_MARK && overdrawn.length === 0) return FIRST;
  return { parts: [{ shard, shardCount, mark, gave: undefined, overdrawn }] };
}

export function ticketOn(ticket: Ticket | undefined): ShardTicket {
  return ticket === undefined ? FIRST : (ticket as ShardTicket);
}

export function isPlainTicket(ticket: ShardTicket): boolean {
  return ticket === FIRST;
}

/** The soft limits that one request of a write left below zero: of those that took from a limit, the last so many. */
export function overdrawnBy(
  { jobs, overdrafts }: Extract<JobOutcome, { kind: "taken" }>["by"],
  claim: Claim,
): readonly string[] {
  return overdrafts.flatMap(({ limit, milli }) => {
    const takers = jobs.filter(({ of, amounts }) => !of.bypass && amounts.some((one) => one.limit === limit));
    const place = takers.findIndex(({ of }) => of === claim);
    return place >= takers.length - milli / 1000 && place >= 0 ? [limit] : [];
  });
}
