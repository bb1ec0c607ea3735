import type { BucketKey } from "../../domain/bucket/bucket-key.ts";
import { withoutShadowed } from "../../domain/bucket/bucket-questions.ts";
import { freshBucket } from "../../domain/bucket/bucket-state.ts";
import type { Amount } from "../../domain/charge/amounts.ts";
import type { Calendar } from "../../domain/limits/schedule.ts";
import { LimiterError, RateLimiterUnavailable } from "../../domain/names/errors.ts";
import type {
  Answer,
  BucketStore,
  CallContext,
  Claim,
  CreditContext,
  Held,
  MaybePromise,
  Refunded,
  TakenAnswer,
  WriteReply,
} from "../../ports/bucket-store.ts";
import type { GaveBackEvent } from "../../ports/events.ts";
import type { Clock } from "../../ports/system.ts";
import type { EventPublisher } from "../limiter/event-publisher.ts";
import type { Lifecycle } from "../limiter/lifecycle.ts";
import type { ObservedBucket } from "../refusal/refusal.ts";
import type { DenyMemory } from "./deny-memory.ts";

/** The end of a debit or a credit. `no`: it certainly is not stored. `unknown`: it may be. */
export type WriteEnd = Exclude<WriteReply, { readonly kind: "unavailable" }> | { readonly kind: "no" | "unknown" };

const ATTEMPTS_MAX = 3;

interface WritesDeps {
  readonly clock: Clock;
  readonly deny: DenyMemory;
  readonly lifecycle: Lifecycle;
  readonly timeoutMs: number;
}

/** Sends debits and credits, again if they certainly were not applied. */
export class StoreWrites {
  readonly #deps: WritesDeps;

  constructor(deps: WritesDeps) {
    this.#deps = deps;
  }

  /** All attempts share one deadline: `givenMs`, at most `timeoutMs` from now. Synchronous if the store is. */
  write(write: StoreWrite, givenMs: number | undefined): MaybePromise<WriteEnd> {
    const { clock, deny, timeoutMs } = this.#deps;
    // Before and after the call: the write may be applied long before its answer arrives.
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

  // Not an async function: the first answer is nearly always the last, and an async frame costs more than the rest.
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

  // Retries only a write that certainly was not applied: a give-back must not happen twice.
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

/** One call that changes a bucket. An object rather than a closure, which would allocate once more. */
export interface StoreWrite {
  readonly bucket: BucketKey;
  send(context: CallContext): MaybePromise<WriteReply>;
  /** Called once, before the end is returned; not if the call throws. */
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

/** The reply that an error stands for; undefined: the error is no outage. */
export function outageOf(error: unknown): NotAnswered | undefined {
  // The work of the lease is done. A store that was closed meanwhile is no fault of the caller.
  if (error instanceof LimiterError && error.code === "closed") {
    return { kind: "unavailable", applied: "no", cause: error };
  }
  if (error instanceof RateLimiterUnavailable) return { kind: "unavailable", applied: "unknown", cause: error };
  return undefined;
}

type CreditHow = Pick<CreditContext, "undoes" | "slotsUsed">;

/** The meaning of each reason to the store: whether it undoes the request, and whether slots were used. */
export const CREDITS: Readonly<Record<GaveBackEvent["reason"], CreditHow>> = {
  refused: { undoes: "request" },
  rollback: {},
  release: { slotsUsed: true },
  adjust: { slotsUsed: true },
  settle: { slotsUsed: true },
  refund: {},
};

/** The events of give-backs. */
export type CreditEvents = Pick<EventPublisher, "gaveBack" | "degraded">;

/** A give-back and its event. */
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

  // The state is not read: a store in memory would copy it.
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

/** A give-back without a ticket, and its event. */
export class Refund implements StoreWrite {
  readonly bucket: BucketKey;
  readonly #buckets: Pick<BucketStore, "refund">;
  readonly #events: CreditEvents;
  readonly #of: Refunded;
  readonly #amounts: readonly Amount[];

  constructor(buckets: Pick<BucketStore, "refund">, events: CreditEvents, of: Refunded, amounts: readonly Amount[]) {
    this.bucket = of.bucket;
    this.#buckets = buckets;
    this.#events = events;
    this.#of = of;
    this.#amounts = amounts;
  }

  send(context: CallContext): MaybePromise<WriteReply> {
    return this.#buckets.refund(this.#of, this.#amounts, context);
  }

  ended(end: WriteEnd): void {
    if (end.kind === "unknown") {
      this.#events.gaveBack(this.bucket, this.#amounts, { reason: "refund", confirmed: false });
      this.#events.degraded(this.bucket, "give_back_not_stored", "a give-back may not be stored", undefined);
    }
    if (end.kind !== "applied") return;
    const { given = [] } = end;
    if (given.length > 0) this.#events.gaveBack(this.bucket, given, { reason: "refund", confirmed: true });
  }
}

/**
 * The claim of a lease without the number of its reading: the lease keeps its limits, so the store must not ask to read configuration
 * again. The changes stay: this claim may be the first to bring them to a shard.
 */
export function withoutConfigCheck(claim: Claim): Claim {
  const { reading, ...origin } = claim.origin;
  return reading === undefined ? claim : { ...claim, origin };
}

export function allTaken(answers: readonly Answer[]): answers is readonly TakenAnswer[] {
  for (let i = 0; i < answers.length; i++) if (answers[i]?.kind !== "taken") return false;
  return true;
}

/** The clock reading that the store used; undefined: that of the caller. */
export function readingOf(answers: readonly Answer[]): number | undefined {
  for (const answer of answers) if ("readingMs" in answer) return answer.readingMs;
  return undefined;
}

/** The state of a claim's bucket in the store's answer. */
export function seenIn(
  { set, origin }: Claim,
  answer: Exclude<Answer, { kind: "unavailable" }>,
  nowMs: number,
  calendar: Calendar,
): Pick<ObservedBucket, "state" | "taken" | "shadowed" | "seen"> {
  if (answer.kind === "unseen") {
    return { state: freshBucket(set, origin, nowMs, calendar), taken: false, seen: "never" };
  }
  const seenAtMs = "seenAtMs" in answer ? answer.seenAtMs : undefined;
  const seen = seenAtMs === undefined ? "now" : { atMs: seenAtMs };
  if (answer.kind !== "taken") return { state: answer.state, taken: false, seen };
  return { state: answer.state, taken: true, shadowed: answer.shadowed, seen };
}

/** The part of a claim to give back; shadow limits that it passed by took nothing. */
export function undoneOf(claim: Claim, { ticket, shadowed }: TakenAnswer): Claim & Held {
  return { ...claim, take: withoutShadowed(claim.take, shadowed), ticket };
}

/**
 * Does all work, even if some of it fails, and returns the values in order: at once if no work fails or answers with a promise. Then it
 * throws the failures: one error as it is, several as one error that names all.
 */
export function allDone<Value>(work: readonly (() => MaybePromise<Value>)[]): MaybePromise<readonly Value[]> {
  const begun = work.map(begin);
  return begun.some((value) => value instanceof Promise) ? allEnded(begun) : (begun as Value[]);
}

function begin<Value>(work: () => MaybePromise<Value>): MaybePromise<Value> {
  try {
    return work();
  } catch (error) {
    return Promise.reject(error);
  }
}

/** Waits until all of them have ended, and returns or throws as `allDone` does. */
export async function allEnded<Value>(work: readonly MaybePromise<Value>[]): Promise<readonly Value[]> {
  const values: Value[] = [];
  const errors: unknown[] = [];
  for (const outcome of await Promise.allSettled(work)) {
    if (outcome.status === "fulfilled") values.push(outcome.value);
    else errors.push(outcome.reason);
  }
  if (errors.length > 0) throw joinedError(errors);
  return values;
}

/** Joins errors. An outage among them makes it an outage; otherwise it has the class and code of the first. */
function joinedError(errors: readonly unknown[]): unknown {
  if (errors.length === 1) return errors[0];
  const [cause] = errors;
  const message = errors.map((error) => (error instanceof Error ? error.message : String(error))).join(" ");
  if (errors.some((error) => error instanceof RateLimiterUnavailable)) {
    return new RateLimiterUnavailable(message, { cause, errors });
  }
  if (cause instanceof LimiterError) return new LimiterError(cause.code, message, { cause, errors });
  return new AggregateError(errors, message, { cause });
}
