import type { Amount } from "../../domain/charge/amounts.ts";
import type { CallContext, Held, WriteReply } from "../../ports/bucket-store.ts";
import type { ProtocolContext } from "../context.ts";
import { listenerOf, usedBy } from "../marks/mark.ts";
import { called, jobOf } from "../process/call.ts";
import { MOVES_MAX } from "../process/retry-policy.ts";
import type { ShardLanes } from "../process/shard-lanes.ts";
import { wholeAround } from "../shards/gather.ts";
import { fullestShard } from "../shards/pick.ts";
import { replacementShard } from "../shards/stand-in.ts";
import { imageAfterJob } from "../take/after-job.ts";
import { ticketOfJob } from "../take/ticket.ts";
import { notRead } from "./crediting.ts";

/** Takes more for a lease that holds something, into debt if need be: the price of work that was done. */
export async function debit(
  context: ProtocolContext,
  lanes: ShardLanes,
  { held, amounts, asked }: { readonly held: Held; readonly amounts: readonly Amount[]; readonly asked: CallContext },
): Promise<WriteReply> {
  const call = called(context, asked);
  const job = jobOf(context, held, "debit", amounts, call);
  const cache = context.caches.of(held.bucket);
  let shard = fullestShard(cache, job);
  for (let moves = 0; moves < MOVES_MAX; moves++) {
    const outcome = await lanes.add(cache, shard, job, call.signal);
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
    listenerOf(context.marks, asked).look(held, usedBy(amounts, outcome), state, outcome.image);
    return { kind: "applied", state, ticket };
  }
  return { kind: "unavailable", applied: "no", cause: notDebited("elsewhere", held) };
}

function notDebited(outcome: "configSuspect" | "contended" | "elsewhere", { bucket }: Held): Error {
  const why = outcome === "elsewhere" ? "its shards keep being split or joined" : `it is ${outcome}`;
  return new Error(`The debit of ${bucket.entityId} on ${bucket.resource} could not be stored: ${why}.`);
}
