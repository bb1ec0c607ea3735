import type { BucketKey } from "../domain/bucket-key.ts";
import { LimiterError, RateLimiterUnavailable } from "../domain/errors.ts";
import type { CallContext, MaybePromise, WriteReply } from "../ports/bucket-store.ts";
import type { Clock } from "../ports/system.ts";
import type { DenyMemory } from "./deny-memory.ts";
import type { Lifecycle } from "./lifecycle.ts";

/** What became of a debit or a credit. `no`: it certainly is not stored. `unknown`: perhaps. */
export type WriteEnd = Exclude<WriteReply, { readonly kind: "unavailable" }> | { readonly kind: "no" | "unknown" };

/** How often a give-back or an adjustment that certainly was not applied is tried. */
const ATTEMPTS_MAX = 3;

interface WritesDeps {
  readonly clock: Clock;
  readonly deny: DenyMemory;
  readonly lifecycle: Lifecycle;
  /** As long as a call may take. */
  readonly timeoutMs: number;
}

/** Debits and credits of buckets, tried again where they certainly were not applied. */
export class StoreWrites {
  readonly #deps: WritesDeps;

  constructor(deps: WritesDeps) {
    this.#deps = deps;
  }

  /** All attempts in one time: until then, or as long as a call may take. At once where the store has answered at once. */
  write(write: StoreWrite, givenMs: number | undefined): MaybePromise<WriteEnd> {
    const { clock, deny, lifecycle, timeoutMs } = this.#deps;
    // Before as well as after: the write may be applied long before its answer arrives.
    deny.forget(write.bucket.id);
    const nowMs = clock.now();
    const untilMs = givenMs === undefined ? nowMs + timeoutMs : Math.min(givenMs, nowMs + timeoutMs);
    try {
      const reply = replyOf(write, { nowMs, timeoutMs: Math.max(1, untilMs - nowMs) });
      if (!(reply instanceof Promise) && reply.kind !== "unavailable") return reply;
      return this.#attempted(write, untilMs, reply, lifecycle.callBegins());
    } catch (error) {
      return Promise.reject(error);
    }
  }

  // Only what certainly was not applied is tried again: a give-back that was applied unseen must not happen twice.
  async #attempted(
    write: StoreWrite,
    untilMs: number,
    first: MaybePromise<WriteReply>,
    callEnds: () => void,
  ): Promise<WriteEnd> {
    const { clock, deny } = this.#deps;
    try {
      let reply = await first;
      for (let attempt = 1; reply.kind === "unavailable"; attempt++) {
        const nowMs = clock.now();
        if (reply.applied === "unknown" || attempt === ATTEMPTS_MAX || nowMs >= untilMs) {
          return { kind: reply.applied };
        }
        reply = await replyOf(write, { nowMs, timeoutMs: Math.max(1, untilMs - nowMs) });
      }
      return reply;
    } finally {
      deny.forget(write.bucket.id);
      callEnds();
    }
  }
}

/** One call to the store that changes a bucket. An object, not a function: that would keep what it closes over in one more. */
export interface StoreWrite {
  readonly bucket: BucketKey;
  send(context: CallContext): MaybePromise<WriteReply>;
}

/** What a call came to. At once where the store answers at once. */
function replyOf(write: StoreWrite, context: CallContext): MaybePromise<WriteReply> {
  try {
    const reply = write.send(context);
    return reply instanceof Promise ? reply.catch(notAnswered) : reply;
  } catch (error) {
    return notAnswered(error);
  }
}

function notAnswered(error: unknown): WriteReply {
  // The work of a lease is done; that somebody closed the store meanwhile is no fault of its caller.
  if (error instanceof LimiterError && error.code === "closed") {
    return { kind: "unavailable", applied: "no", cause: error };
  }
  if (!(error instanceof RateLimiterUnavailable)) throw error;
  return { kind: "unavailable", applied: "unknown", cause: error };
}
