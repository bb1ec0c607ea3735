import { slotsOf } from "../../domain/bucket/slot-time.ts";
import type { Amount } from "../../domain/charge/amounts.ts";
import type { CallContext, Held, RenewReply, WriteReply } from "../../ports/bucket-store.ts";
import type { ProtocolContext } from "../context.ts";
import { listenerFor, usedBy } from "../marks/mark.ts";
import { beginCall, jobOf } from "../process/call.ts";
import { MOVES_MAX } from "../process/retry-policy.ts";
import { wholeAround } from "../shards/gather.ts";
import { fullestShard, replacementShard } from "../shards/pick.ts";
import { runAtShard } from "../take/shard-take.ts";
import { endingFirst, renewedTicket } from "../take/slots.ts";
import { imageAfterJob, ticketOfJob } from "../take/ticket.ts";
import { notRead } from "./crediting.ts";

/** Takes more for a lease, into debt if need be: the price of work that was done. */
export async function debit(
  context: ProtocolContext,
  held: Held,
  amounts: readonly Amount[],
  asked: CallContext,
): Promise<WriteReply> {
  const call = beginCall(context, asked);
  const job = jobOf(context, held, "debit", amounts, call);
  const cache = context.caches.of(held.bucket);
  let shard = fullestShard(cache, job);
  for (let moves = 0; moves < MOVES_MAX; moves++) {
    const outcome = await runAtShard(context, cache, shard, job, call.signal);
    if (outcome.kind === "elsewhere") {
      const there = await replacementShard(context, cache, shard, call).catch(notRead);
      if (typeof there !== "number") return there;
      shard = there;
      continue;
    }
    if (outcome.kind === "unavailable") return outcome;
    if (outcome.kind === "short") return { kind: "tooDeep" };
    if (outcome.kind !== "taken") return { kind: "unavailable", applied: "no", cause: notDebited(outcome.kind, held) };
    const ticket = ticketOfJob(job, outcome, context.env);
    const state = wholeAround(context, imageAfterJob(held, outcome));
    listenerFor(context.marks, asked).look(held, usedBy(amounts, outcome), state, outcome.image);
    return { kind: "applied", state, ticket };
  }
  return { kind: "unavailable", applied: "no", cause: notDebited("elsewhere", held) };
}

function notDebited(outcome: "configSuspect" | "contended" | "elsewhere", { bucket }: Held): Error {
  const why = outcome === "elsewhere" ? "its shards keep being split or joined" : `it is ${outcome}`;
  return new Error(`The debit of ${bucket.entityId} on ${bucket.resource} could not be stored: ${why}.`);
}

/**
 * Holds slots for longer. Waiting renewals of one process leave in one write. A bucket in shards holds no slots: what its first
 * shard does not hold is lost.
 */
export async function renew(
  context: ProtocolContext,
  held: Held,
  amounts: readonly Amount[],
  asked: CallContext,
): Promise<RenewReply> {
  if (slotsOf(held.ticket, amounts).length === 0) return { kind: "lost" };
  const call = beginCall(context, asked);
  const job = jobOf(context, held, "renew", amounts, call);
  const outcome = await runAtShard(context, context.caches.of(held.bucket), 0, job, call.signal);
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
