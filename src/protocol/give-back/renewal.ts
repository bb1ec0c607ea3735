import { slotsOf } from "../../domain/bucket/renew-slots.ts";
import type { Amount } from "../../domain/charge/amounts.ts";
import type { CallContext, Held, RenewReply } from "../../ports/bucket-store.ts";
import type { ProtocolContext } from "../context.ts";
import { called, jobOf } from "../process/call.ts";
import type { ShardLanes } from "../process/shard-lanes.ts";
import { renewedTicket } from "../take/renew.ts";
import { endingFirst } from "../take/slots.ts";

/**
 * Holds slots for longer. Renewals of one process that wait for each other leave in one write. A bucket in shards holds none: what is not
 * held at its first shard is lost.
 */
export async function renew(
  context: ProtocolContext,
  lanes: ShardLanes,
  { held, amounts, asked }: { readonly held: Held; readonly amounts: readonly Amount[]; readonly asked: CallContext },
): Promise<RenewReply> {
  if (slotsOf(held.ticket, amounts).length === 0) return { kind: "lost" };
  const call = called(context, asked);
  const job = jobOf(context, held, "renew", amounts, call);
  const outcome = await lanes.add(context.caches.of(held.bucket), 0, job, call.signal);
  if (outcome.kind === "short") return { kind: "lost" };
  if (outcome.kind === "unavailable") return { kind: "unavailable", cause: outcome.cause };
  if (outcome.kind !== "taken") {
    const { entityId, resource } = held.bucket;
    const cause = new Error(`The renewal of ${entityId} on ${resource} could not be stored: it is ${outcome.kind}.`);
    return { kind: "unavailable", cause };
  }
  const { written, orLeft = [], readingMs } = outcome;
  const [own, ...others] = [written, ...orLeft].map((state) => renewedTicket(job, state, readingMs));
  return { kind: "renewed", ticket: endingFirst(own ?? held.ticket, others) };
}
