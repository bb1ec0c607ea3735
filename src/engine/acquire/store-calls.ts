import type { BucketKey } from "../../domain/bucket/bucket-key.ts";
import type { Amount } from "../../domain/charge/amounts.ts";
import type {
  BucketStore,
  CallContext,
  Claim,
  CreditContext,
  Held,
  MaybePromise,
  WriteReply,
} from "../../ports/bucket-store.ts";
import type { GaveBackEvent } from "../../ports/events.ts";
import type { EventPublisher } from "../limiter/event-publisher.ts";
import type { StoreWrite, WriteEnd } from "./store-writes.ts";

type CreditHow = Pick<CreditContext, "undoes" | "slotsUsed">;

/** What each reason of a give-back means to the store: of slots, whether they were used. */
export const CREDITS: Readonly<Record<GaveBackEvent["reason"], CreditHow>> = {
  refused: { undoes: "request" },
  rollback: {},
  release: { slotsUsed: true },
  adjust: { slotsUsed: true },
  settle: { slotsUsed: true },
};

/** What is published of give-backs. */
export type CreditEvents = Pick<EventPublisher, "gaveBack" | "degraded">;

/** A give-back, as it is sent to the store, and what is published of it. */
export class Credit implements StoreWrite {
  readonly #buckets: Pick<BucketStore, "credit">;
  readonly #events: CreditEvents;
  readonly #held: Held;
  readonly #amounts: readonly Amount[];
  readonly #reason: GaveBackEvent["reason"];

  constructor(
    buckets: Pick<BucketStore, "credit">,
    events: CreditEvents,
    held: Held,
    amounts: readonly Amount[],
    reason: GaveBackEvent["reason"],
  ) {
    this.#buckets = buckets;
    this.#events = events;
    this.#held = held;
    this.#amounts = amounts;
    this.#reason = reason;
  }

  get bucket(): BucketKey {
    return this.#held.bucket;
  }

  send({ nowMs, timeoutMs }: CallContext): MaybePromise<WriteReply> {
    return this.#buckets.credit(this.#held, this.#amounts, { nowMs, timeoutMs, ...CREDITS[this.#reason] });
  }

  // The state of the end is not looked at: a store in memory would copy it.
  ended({ kind }: WriteEnd): void {
    const reason = this.#reason;
    if (this.#amounts.length > 0)
      this.#events.gaveBack(this.bucket, this.#amounts, { reason, confirmed: kind === "applied" });
    if (kind === "no")
      this.#events.degraded(this.bucket, "give_back_not_stored", "a give-back is not stored", undefined);
    if (kind === "unknown")
      this.#events.degraded(this.bucket, "give_back_not_stored", "a give-back may not be stored", undefined);
  }
}

/**
 * The claim of a lease: it keeps the limits it was taken under, so the store must not ask for its configuration to be read again. It
 * may be the first that tells a shard of changes that were made before the lease was taken: they count from their instants there, too.
 */
export function withoutConfigCheck(claim: Claim): Claim {
  const { reading, ...origin } = claim.origin;
  return reading === undefined ? claim : { ...claim, origin };
}
