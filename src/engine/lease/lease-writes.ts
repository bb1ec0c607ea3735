import type { BucketKey } from "../../domain/bucket/bucket-key.ts";
import type { BucketState } from "../../domain/bucket/bucket-state.ts";
import { debtTooLarge } from "../../domain/charge/charge-errors.ts";
import type { Answer, CallContext, Claim, MaybePromise } from "../../ports/bucket-store.ts";
import type { GaveBackEvent } from "../../ports/events.ts";
import type { ChangeReply, Charged, LeaseChange, LeaseMoves, LeaseStore } from "../../ports/lease-store.ts";
import { checkRefusal } from "../acquire/request.ts";
import { outageOf } from "../acquire/store-calls.ts";
import type { Listeners } from "../acquire/store-client.ts";
import { limiterClosed } from "../limiter/lifecycle.ts";
import type { EngineDeps } from "../limiter/settings.ts";
import { observedBy, type Refusal, refusalOf } from "../refusal/refusal.ts";

/** The result of a change of a stored lease. */
export type LeaseChanged =
  | { readonly kind: "stored" }
  | { readonly kind: "refused"; readonly refusal: Refusal }
  | Extract<ChangeReply, { readonly kind: "conflict" | "keyLost" | "lost" | "unavailable" }>;

interface OwnChange extends LeaseChange {
  /** The levels of the lease, the caller first. */
  readonly chain: readonly { readonly bucket: BucketKey }[];
  /** The store's last charge for the change. */
  readonly charged: Charged | undefined;
}

/** The parts of a limiter that changes of its stored leases need. */
interface ChangeDeps {
  readonly engine: Pick<EngineDeps, "clock" | "calendar">;
  readonly listeners: Listeners;
  readonly timeoutMs: number;
}

/** Sends a change of a lease to a store whose transaction covers records and buckets. `reason` is that of give-backs. */
export async function changeLease(
  { engine, listeners, timeoutMs }: ChangeDeps,
  store: Required<Pick<LeaseStore, "change">>,
  change: OwnChange,
  reason: GaveBackEvent["reason"],
): Promise<LeaseChanged> {
  const { deny, lifecycle } = listeners;
  if (lifecycle.isStoreClosed) return { kind: "unavailable", applied: "no", cause: limiterClosed() };
  const context: CallContext = { nowMs: engine.clock.now(), timeoutMs };
  const buckets = bucketsOf(change.moves);
  // Before as well as after: the change may be applied long before its answer arrives.
  for (const { id } of buckets) deny.forget(id);
  let reply: ChangeReply;
  try {
    reply = await lifecycle.track(replyOf(() => store.change(change, context)));
  } finally {
    for (const { id } of buckets) deny.forget(id);
  }
  switch (reply.kind) {
    case "stored":
    case "repeated": {
      const credited = reply.kind === "stored" ? reply.credited : undefined;
      publish(listeners, change, reason, (i) => credited === undefined || credited[i]?.kind === "applied");
      return { kind: "stored" };
    }
    case "tooDeep":
      throw debtTooLarge(reply.debit.held.bucket, reply.debit.amounts);
    case "short": {
      const { answers } = reply;
      const observed = claimsOf(change.moves).map((claim, i) =>
        observedBy(claim, { state: stateOf(answers[i] as Answer), taken: false, seen: "now" }),
      );
      const times = { askedMs: context.nowMs, toldMs: engine.clock.now() };
      const refusal = refusalOf(observed, change.chain, times, engine.calendar);
      checkRefusal(refusal);
      return { kind: "refused", refusal };
    }
    default:
      return reply;
  }
}

function publish(
  { publisher, returned }: Listeners,
  { moves, charged }: OwnChange,
  reason: GaveBackEvent["reason"],
  isConfirmed: (credit: number) => boolean,
): void {
  if (moves.kind === "take") {
    const taken = charged?.kind === "take" ? charged.taken : [];
    for (const [i, answer] of taken.entries()) publisher.consumed(moves.claims[i] as Claim, answer);
    return;
  }
  if (moves.kind === "renew") return;
  for (const { held, amounts } of moves.debits) publisher.charged(held.bucket, amounts, "adjust");
  for (const [i, { held, amounts, reason: own = reason }] of moves.credits.entries()) {
    publisher.gaveBack(held.bucket, amounts, { reason: own, confirmed: isConfirmed(i) });
  }
  for (const { held } of moves.credits) returned({ after: "use", bucket: held.bucket });
}

function bucketsOf(moves: LeaseMoves): readonly BucketKey[] {
  if (moves.kind === "take") return moves.claims.map(({ bucket }) => bucket);
  if (moves.kind === "renew") return [];
  return [...moves.debits, ...moves.credits].map(({ held }) => held.bucket);
}

function claimsOf(moves: LeaseMoves): readonly Claim[] {
  return moves.kind === "take" ? moves.claims : [];
}

function stateOf(answer: Answer): BucketState {
  if ("state" in answer) return answer.state;
  throw new TypeError(`A store that takes in one transaction has answered a claim as ${answer.kind}.`);
}

async function replyOf(send: () => MaybePromise<ChangeReply>): Promise<ChangeReply> {
  try {
    return await send();
  } catch (error) {
    const outage = outageOf(error);
    if (outage === undefined) throw error;
    return outage;
  }
}
