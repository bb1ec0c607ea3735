import type { BucketKey } from "../../domain/bucket/bucket-key.ts";
import { LimiterError, RateLimiterUnavailable } from "../../domain/names/errors.ts";
import type { CallContext, MaybePromise, WriteReply } from "../../ports/bucket-store.ts";
import type { Clock } from "../../ports/system.ts";
import type { Lifecycle } from "../limiter/lifecycle.ts";
import type { DenyMemory } from "./deny-memory.ts";

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
    const { clock, deny, timeoutMs } = this.#deps;
    // Before as well as after: the write may be applied long before its answer arrives.
    deny.forget(write.bucket.id);
    const nowMs = clock.now();
    const untilMs = givenMs === undefined ? nowMs + timeoutMs : Math.min(givenMs, nowMs + timeoutMs);
    let reply: MaybePromise<WriteReply>;
    try {
      reply = write.send({ nowMs, timeoutMs: Math.max(1, untilMs - nowMs) });
    } catch (error) {
      reply = Promise.reject(error);
    }
    if (reply instanceof Promise) return this.#later(write, untilMs, reply);
    if (reply.kind === "unavailable") return this.#later(write, untilMs, Promise.resolve(reply));
    write.ended?.(reply);
    return reply;
  }

  // Not an async function: the first answer is nearly always the last, and a frame would cost more than what is done with it.
  #later(write: StoreWrite, untilMs: number, first: Promise<WriteReply>): Promise<WriteEnd> {
    const callEnds = this.#deps.lifecycle.callBegins();
    return first.then(
      (reply) => {
        if (reply.kind === "unavailable") return this.#repeated(write, untilMs, reply, callEnds);
        this.#over(write, callEnds);
        write.ended?.(reply);
        return reply;
      },
      (error) => {
        const outage = outageOf(error);
        if (outage !== undefined) return this.#repeated(write, untilMs, outage, callEnds);
        this.#over(write, callEnds);
        throw error;
      },
    );
  }

  // Only what certainly was not applied is tried again: a give-back that was applied unseen must not happen twice.
  async #repeated(write: StoreWrite, untilMs: number, first: NotAnswered, callEnds: () => void): Promise<WriteEnd> {
    let reply: WriteReply = first;
    try {
      for (let attempt = 1; reply.kind === "unavailable" && reply.applied === "no"; attempt++) {
        const nowMs = this.#deps.clock.now();
        if (attempt === ATTEMPTS_MAX || nowMs >= untilMs) break;
        reply = await replyOf(write, { nowMs, timeoutMs: Math.max(1, untilMs - nowMs) });
      }
    } finally {
      this.#over(write, callEnds);
    }
    const end = reply.kind === "unavailable" ? { kind: reply.applied } : reply;
    write.ended?.(end);
    return end;
  }

  #over(write: StoreWrite, callEnds: () => void): void {
    this.#deps.deny.forget(write.bucket.id);
    callEnds();
  }
}

/** One call to the store that changes a bucket. An object, not a function: that would keep what it closes over in one more. */
export interface StoreWrite {
  readonly bucket: BucketKey;
  send(context: CallContext): MaybePromise<WriteReply>;
  /** Called once, before its end is answered; not where it fails. */
  ended?(end: WriteEnd): void;
}

async function replyOf(write: StoreWrite, context: CallContext): Promise<WriteReply> {
  try {
    return await write.send(context);
  } catch (error) {
    const outage = outageOf(error);
    if (outage === undefined) throw error;
    return outage;
  }
}

type NotAnswered = Extract<WriteReply, { readonly kind: "unavailable" }>;

/** A call that threw, as the answer that it stands for; undefined: the error is no outage. */
function outageOf(error: unknown): NotAnswered | undefined {
  // The work of a lease is done; that somebody closed the store meanwhile is no fault of its caller.
  if (error instanceof LimiterError && error.code === "closed") {
    return { kind: "unavailable", applied: "no", cause: error };
  }
  if (error instanceof RateLimiterUnavailable) return { kind: "unavailable", applied: "unknown", cause: error };
  return undefined;
}
