import type { BucketKey } from "../../domain/bucket/bucket-key.ts";
import type { BucketState } from "../../domain/bucket/bucket-state.ts";
import { debtTooLarge } from "../../domain/charge/charge-errors.ts";
import { LimiterError, RateLimiterUnavailable } from "../../domain/names/errors.ts";
import type { Answer, CallContext, Claim, MaybePromise } from "../../ports/bucket-store.ts";
import type { GaveBackEvent } from "../../ports/events.ts";
import type { ChangeReply, Charged, LeaseChange, LeaseMoves } from "../../ports/lease-change.ts";
import type { LeaseStore } from "../../ports/lease-store.ts";
import { checkRefusal } from "../acquire/request.ts";
import type { Listeners } from "../acquire/store-client.ts";
import { limiterClosed } from "../limiter/lifecycle.ts";
import type { EngineDeps, Settings } from "../limiter/settings.ts";
import { type ObservedBucket, type Refusal, refusalOf } from "../refusal/refusal.ts";

/** What became of a change of a stored lease. */
export type LeaseChanged =
  | { readonly kind: "stored" }
  | { readonly kind: "refused"; readonly refusal: Refusal }
  | Extract<ChangeReply, { readonly kind: "conflict" | "keyLost" | "lost" | "unavailable" }>;

/** A change as its lease makes it. */
interface OwnChange extends LeaseChange {
  /** The levels of its lease: the entity that asked first. */
  readonly chain: readonly { readonly bucket: BucketKey }[];
  /** What the store last took for it: once it is stored, what was taken. */
  readonly charged: Charged | undefined;
}

/** Changes of leases by a store whose transaction covers their records and their buckets. */
export class LeaseWrites {
  readonly #deps: EngineDeps;
  readonly #settings: Settings;
  readonly #listeners: Listeners;

  constructor(deps: EngineDeps, settings: Settings, listeners: Listeners) {
    this.#deps = deps;
    this.#settings = settings;
    this.#listeners = listeners;
  }

  /** `reason`: why something is given back. */
  async change(
    store: Required<Pick<LeaseStore, "change">>,
    change: OwnChange,
    reason: GaveBackEvent["reason"],
  ): Promise<LeaseChanged> {
    const { deny, lifecycle } = this.#listeners;
    if (lifecycle.isStoreClosed) return { kind: "unavailable", applied: "no", cause: limiterClosed() };
    const context: CallContext = { nowMs: this.#deps.clock.now(), timeoutMs: this.#settings.timeoutMs };
    const buckets = bucketsOf(change.moves);
    // Before as well as after: the change may be applied long before its answer arrives.
    for (const { id } of buckets) deny.forget(id);
    try {
      const reply = await lifecycle.track(replyOf(() => store.change(change, context)));
      return this.#concluded(change, reply, reason, context.nowMs);
    } finally {
      for (const { id } of buckets) deny.forget(id);
    }
  }

  #concluded(change: OwnChange, reply: ChangeReply, reason: GaveBackEvent["reason"], askedMs: number): LeaseChanged {
    const { moves } = change;
    switch (reply.kind) {
      case "stored":
        this.#publish(change, reason, (i) => reply.credited[i]?.kind === "applied");
        return { kind: "stored" };
      case "repeated":
        this.#publish(change, reason, () => true);
        return { kind: "stored" };
      case "tooDeep":
        throw debtTooLarge(reply.debit.held.bucket, reply.debit.amounts);
      case "short": {
        const observed = claimsOf(moves).map(
          ({ bucket, set, limits = set.limits, take, bypass, leavePercent = 0 }, i): ObservedBucket => {
            const state = stateOf(reply.answers[i] as Answer);
            return { bucket, state, limits, take, leavePercent, taken: false, bypass, seen: "now" };
          },
        );
        const times = { askedMs, toldMs: this.#deps.clock.now() };
        const refusal = refusalOf(observed, change.chain, times, this.#deps.calendar);
        checkRefusal(refusal);
        return { kind: "refused", refusal };
      }
      default:
        return reply;
    }
  }

  #publish(
    { moves, charged }: OwnChange,
    reason: GaveBackEvent["reason"],
    isConfirmed: (credit: number) => boolean,
  ): void {
    const { publisher, returned } = this.#listeners;
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
    const isClosed = error instanceof LimiterError && error.code === "closed";
    if (!isClosed && !(error instanceof RateLimiterUnavailable)) throw error;
    return { kind: "unavailable", applied: isClosed ? "no" : "unknown", cause: error };
  }
}
