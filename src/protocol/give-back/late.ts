import type { Amount } from "../../domain/charge/amounts.ts";
import { withoutShadowed } from "../../domain/limits/shadow.ts";
import type { CreditContext, Held, WriteReply } from "../../ports/bucket-store.ts";
import type { ProtocolContext } from "../context.ts";
import { RETRY } from "../process/retry-policy.ts";
import { type BackgroundTasks, NOT_GIVEN_BACK } from "../shards/background-tasks.ts";
import type { Sent } from "../take/job.ts";
import { ticketOfJob } from "../take/ticket.ts";
import { orFault } from "./crediting.ts";

interface LateParts {
  readonly credit: (held: Held, amounts: readonly Amount[], context: CreditContext) => Promise<WriteReply>;
  readonly background: BackgroundTasks;
}

/** A write whose outcome was reported as unknown was applied: no caller was granted anything for it, so it is given back. */
export function giveBackLate(
  context: ProtocolContext,
  { jobs, leaves, sides, intent }: Sent,
  { credit, background }: LateParts,
): void {
  const written = { written: leaves, readingMs: intent.readingMs, by: { jobs, sides } };
  for (const job of jobs) {
    // A debit is the price of work that was done, whatever outcome its caller got; and what was renewed ends later, that is all.
    if (job.kind !== "take") continue;
    const ticket = ticketOfJob(job, written, context.env);
    const { bucket } = job.of;
    const nowMs = context.clock.now();
    const call = { nowMs, timeoutMs: RETRY.giveBack.timeoutMs, undoes: "request" } as const;
    const credited = credit({ ...job.of, ticket }, withoutShadowed(job.amounts, ticket.shadowed), call).then(orFault);
    background.track(
      credited.finally(() => context.returnedLate(bucket)),
      bucket,
      "give_back_not_stored",
      NOT_GIVEN_BACK,
    );
  }
}
