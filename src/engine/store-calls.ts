import type { Amount } from "../domain/amounts.ts";
import type { BucketKey } from "../domain/bucket-key.ts";
import type {
  BucketStore,
  CallContext,
  Claim,
  CreditContext,
  Held,
  MaybePromise,
  WriteReply,
} from "../ports/bucket-store.ts";
import type { GaveBackEvent } from "../ports/events.ts";
import type { StoreWrite } from "./store-writes.ts";

type CreditHow = Pick<CreditContext, "undoes" | "slotsUsed">;

/** What each reason of a give-back means to the store: of slots, whether they were used. */
export const CREDITS: Readonly<Record<GaveBackEvent["reason"], CreditHow>> = {
  refused: { undoes: "request" },
  rollback: {},
  release: { slotsUsed: true },
  adjust: { slotsUsed: true },
  settle: { slotsUsed: true },
};

/** A give-back, as it is sent to the store. */
export class Credit implements StoreWrite {
  readonly #buckets: Pick<BucketStore, "credit">;
  readonly #held: Held;
  readonly #amounts: readonly Amount[];
  readonly #how: CreditHow;

  constructor(buckets: Pick<BucketStore, "credit">, held: Held, amounts: readonly Amount[], how: CreditHow) {
    this.#buckets = buckets;
    this.#held = held;
    this.#amounts = amounts;
    this.#how = how;
  }

  get bucket(): BucketKey {
    return this.#held.bucket;
  }

  send({ nowMs, timeoutMs }: CallContext): MaybePromise<WriteReply> {
    return this.#buckets.credit(this.#held, this.#amounts, { nowMs, timeoutMs, ...this.#how });
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
