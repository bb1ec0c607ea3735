import { PLAIN_TICKET, type Ticket } from "../../domain/bucket/give-back.ts";
import type { Amount } from "../../domain/charge/amounts.ts";
import type { Held } from "../../ports/bucket-store.ts";
import type { StoreClient } from "../acquire/store-client.ts";

/** What became of a renewal, limit by limit. */
export interface Renewal {
  /** Of what is held anew: of other limits it says nothing. */
  readonly ticket: Ticket;
  /** The limits of which some is held no more, and nothing was changed. */
  readonly lost: readonly string[];
  /** Why the store did not answer for some of them, where it did not; what is held ends as before. */
  readonly unanswered: { readonly cause: unknown } | undefined;
}

/** Holds slots of a bucket for as long again. Where some are lost, those of each limit are asked for by themselves. */
export async function renewed(
  client: Pick<StoreClient, "renew">,
  held: Held,
  amounts: readonly Amount[],
): Promise<Renewal> {
  const reply = await client.renew(held, amounts);
  if (reply.kind === "renewed") return { ticket: reply.ticket, lost: [], unanswered: undefined };
  if (reply.kind === "unavailable") return { ticket: PLAIN_TICKET, lost: [], unanswered: reply };
  if (amounts.length === 1) {
    return { ticket: PLAIN_TICKET, lost: amounts.map(({ limit }) => limit), unanswered: undefined };
  }
  const each: Renewal[] = [];
  for (const amount of amounts) each.push(await renewed(client, held, [amount]));
  return {
    ticket: { ...PLAIN_TICKET, pins: each.flatMap(({ ticket }) => ticket.pins) },
    lost: each.flatMap(({ lost }) => lost),
    unanswered: each.find(({ unanswered }) => unanswered !== undefined)?.unanswered,
  };
}
