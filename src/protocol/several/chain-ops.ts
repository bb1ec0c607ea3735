import type { Amount } from "../../domain/charge/amounts.ts";
import { withoutShadowed } from "../../domain/limits/shadow.ts";
import type { Answer, Claim, CreditContext, Held, Returned, WriteReply } from "../../ports/bucket-store.ts";
import type { ProtocolContext } from "../context.ts";
import type { Called } from "../process/call.ts";
import type { ChainOps } from "./chain.ts";

/** How one claim is taken and given back, and who hears of what came back. */
interface SingleOps {
  readonly take: (claim: Claim) => Promise<Answer>;
  readonly credit: (held: Held, amounts: readonly Amount[], context: CreditContext) => Promise<WriteReply>;
  readonly tellReturned: (returned: Returned) => void;
}

/** What a chain of claims needs, for one call. */
export function chainOps({ caches, clock }: ProtocolContext, call: Called, ops: SingleOps): ChainOps {
  const { nowMs } = call;
  const cacheOf = ({ bucket }: Claim) => caches.of(bucket);
  return {
    take: ops.take,
    giveBack: async (claim, { ticket }) => {
      const { bucket } = claim;
      // Nothing was taken of a shadow that it passed by.
      const taken = withoutShadowed(claim.take, ticket.shadowed);
      // In what is left of the request's time; the rest of it goes on in the background.
      const timeoutMs = Math.max(1, call.untilMs - clock.now());
      const reply = await ops.credit({ ...claim, ticket }, taken, { ...call, timeoutMs, undoes: "request" });
      ops.tellReturned({ after: "refusal", bucket, amounts: taken, askedMs: nowMs });
      return reply.kind !== "unavailable" || reply.applied === "unknown";
    },
    isScarce: (claim) => cacheOf(claim).isScarce(nowMs),
    noteScarce: (claim) => cacheOf(claim).noteScarce(nowMs),
    hasOthers: (claim) => cacheOf(claim).hasOtherWriters(nowMs),
  };
}
