import type { BucketKey } from "../../domain/bucket/bucket-key.ts";
import type { BucketState } from "../../domain/bucket/bucket-state.ts";
import type { Ticket } from "../../domain/bucket/give-back.ts";
import type { Amount } from "../../domain/charge/amounts.ts";
import { debtTooLarge } from "../../domain/charge/charge-errors.ts";
import { RateLimiterUnavailable } from "../../domain/names/errors.ts";
import { andThen, type Mode } from "../../domain/steps.ts";
import type {
  Answer,
  BucketStore,
  CallContext,
  Claim,
  Held,
  MaybePromise,
  OperationReply,
  Refunded,
  RenewReply,
  Returned,
  TakeContext,
  TakenAnswer,
  TakeReply,
  Undecided,
} from "../../ports/bucket-store.ts";
import type { GaveBackEvent } from "../../ports/events.ts";
import { type EventPublisher, reasonOf } from "../limiter/event-publisher.ts";
import { type Lifecycle, limiterClosed } from "../limiter/lifecycle.ts";
import type { EngineDeps, Settings } from "../limiter/settings.ts";
import { type ObservedBucket, observedBy, type Refusal, refusalOf } from "../refusal/refusal.ts";
import type { CallStart, DenyMemory } from "./deny-memory.ts";
import { RememberedAnswer } from "./remembered-answer.ts";
import { checkRefusal } from "./request.ts";
import {
  allEnded,
  allTaken,
  CREDITS,
  Credit,
  type CreditEvents,
  Refund,
  readingOf,
  type StoreWrite,
  StoreWrites,
  seenIn,
  undoneOf,
  type WriteEnd,
  withoutConfigCheck,
} from "./store-calls.ts";

/** The store's decision about all claims of a request. */
export type Taken =
  | { readonly kind: "granted"; readonly answers: readonly TakenAnswer[] }
  | { readonly kind: "refused"; readonly refusal: Refusal }
  | { readonly kind: "unavailable"; readonly cause: unknown }
  /** `buckets`: those whose configuration has to be read again; undefined: all. */
  | { readonly kind: "stale"; readonly buckets: readonly BucketKey[] | undefined };

/**
 * The result of a debit or credit. `state` is the state after it, if the store reports it. `gone`: the bucket no longer exists.
 */
interface Written {
  readonly outcome: WriteEnd["kind"];
  readonly state: BucketState | undefined;
  /** Gives back the debit. */
  readonly ticket: Ticket | undefined;
}

/** The levels of a request, the caller first. */
type Chain = readonly { readonly bucket: BucketKey }[];

const NOTHING_REPORTED = { state: undefined, ticket: undefined };
const NOT_STORED: WriteEnd = { kind: "no" };
const NONE_LATER: readonly Promise<unknown>[] = Object.freeze([]);

/** Observers of writes. */
export interface Listeners {
  readonly deny: DenyMemory;
  /** Hears of every give-back, for requests that wait. */
  readonly returned: (returned: Returned) => void;
  readonly publisher: WriteEvents;
  readonly lifecycle: Lifecycle;
}

/** The events of writes. */
type WriteEvents = Pick<EventPublisher, "charged" | "consumed"> & CreditEvents;

/** The part of the store that writes to buckets need. */
interface StoreClientDeps extends Pick<EngineDeps, "clock" | "calendar"> {
  readonly store: Pick<EngineDeps["store"], "onBackgroundFault">;
  readonly scope: {
    readonly buckets: Pick<BucketStore, "take" | "takeSync" | "debit" | "credit" | "refund" | "renew">;
  };
}

/**
 * Sends every write to buckets: the deny memory hears of each one, and closing waits for it. Refusals, rollbacks, releases and
 * negative adjustments share one give-back.
 */
export class StoreClient {
  readonly #deps: StoreClientDeps;
  readonly #settings: Settings;
  readonly #deny: DenyMemory;
  readonly #returned: (returned: Returned) => void;
  readonly #publisher: WriteEvents;
  readonly #lifecycle: Lifecycle;
  readonly #writes: StoreWrites;

  readonly #faults = new RememberedAnswer(() => this.#tellFaults());

  constructor(deps: StoreClientDeps, settings: Settings, { deny, returned, publisher, lifecycle }: Listeners) {
    this.#deps = deps;
    this.#settings = settings;
    this.#deny = deny;
    this.#returned = returned;
    this.#publisher = publisher;
    this.#lifecycle = lifecycle;
    this.#writes = new StoreWrites({ clock: deps.clock, deny, lifecycle, timeoutMs: settings.timeoutMs });
    this.#listenForFaults();
  }

  /**
   * Takes the claims; in the mode "sync" from a store that can answer without a promise. `chain` has every level of the request, also
   * those without a claim.
   */
  take(claims: readonly Claim[], chain: Chain, context: TakeContext, mode: Mode): MaybePromise<Taken> {
    const { buckets } = this.#deps.scope;
    try {
      const now = mode === "sync" ? buckets.takeSync?.(claims, context) : undefined;
      const reply = now ?? buckets.take(claims, context);
      if (reply instanceof Promise) return this.#answered(claims, chain, reply, context, asItIs);
      return this.#conclude(claims, chain, reply, context.nowMs, undefined, undefined);
    } catch (error) {
      return this.#failed(claims, error);
    }
  }

  /** Takes the claims from a store that answers with a promise, and continues with `then` on the same promise. */
  takeThen<Value>(
    claims: readonly Claim[],
    chain: Chain,
    context: TakeContext,
    then: (taken: Taken) => MaybePromise<Value>,
  ): Promise<Value> {
    const reply = this.#deps.scope.buckets.take(claims, context);
    return this.#answered(claims, chain, Promise.resolve(reply), context, then);
  }

  /**
   * Takes more for a lease, by the limits it was taken under, whatever configuration says now. `stale`: the generation is another one.
   */
  async takeMore(
    claims: readonly Claim[],
    chain: Chain,
    { generation, undecided }: Pick<TakeContext, "generation" | "undecided">,
  ): Promise<Taken> {
    if (this.#lifecycle.isStoreClosed) throw limiterClosed();
    const context = { ...this.#context(), generation, limitsOf: "lease" as const, atomic: false, undecided };
    const taken = await this.take(claims.map(withoutConfigCheck), chain, context, "async");
    if (taken.kind === "refused") checkRefusal(taken.refusal);
    if (taken.kind !== "granted") return taken;
    for (let i = 0; i < claims.length; i++) {
      this.#publisher.consumed(claims[i] as Claim, taken.answers[i] as TakenAnswer);
    }
    return taken;
  }

  /** Gives back on several buckets. An unconfirmed give-back counts as not given. Synchronous if the store is. */
  giveBack(
    helds: readonly Held[],
    amounts: readonly (readonly Amount[])[],
    reason: GaveBackEvent["reason"],
  ): MaybePromise<void> {
    return this.#giveBackBy(undefined, helds, amounts, reason);
  }

  /** `untilMs` is the deadline of the request; undefined: the give-back has its own. */
  #giveBackBy(
    untilMs: number | undefined,
    helds: readonly Held[],
    amounts: readonly (readonly Amount[])[],
    reason: GaveBackEvent["reason"],
  ): MaybePromise<void> {
    this.#listenForFaults();
    let later: readonly Promise<unknown>[] = NONE_LATER;
    for (let i = 0; i < helds.length; i++) {
      const given = this.#giveBackOne(helds[i] as Held, amounts[i] ?? [], reason, untilMs);
      if (given !== undefined) later = [...later, given];
    }
    return later.length === 0 ? this.#tellReturned(helds, reason) : this.#returnedAfter(later, helds, reason);
  }

  // Not an async function, like `#answered`: every take of slots ends with a give-back.
  #returnedAfter(
    later: readonly Promise<unknown>[],
    helds: readonly Held[],
    reason: GaveBackEvent["reason"],
  ): Promise<void> {
    const given = later.length === 1 ? (later[0] as Promise<unknown>) : allEnded(later);
    return given.then(
      () => this.#tellReturned(helds, reason),
      (error) => {
        this.#tellReturned(helds, reason);
        throw error;
      },
    );
  }

  #tellReturned(helds: readonly Held[], reason: GaveBackEvent["reason"]): void {
    if (reason === "refused") return;
    for (let i = 0; i < helds.length; i++) this.#returned({ after: "use", bucket: (helds[i] as Held).bucket });
  }

  /** Gives back without a lease, at most what is missing: the end says what was given. */
  async refund(of: Refunded, amounts: readonly Amount[]): Promise<WriteEnd> {
    if (this.#lifecycle.isStoreClosed) return NOT_STORED;
    const end = await this.#writes.write(new Refund(this.#deps.scope.buckets, this.#publisher, of, amounts), undefined);
    if (end.kind === "applied") this.#returned({ after: "use", bucket: of.bucket });
    return end;
  }

  /** Takes without a lower bound. Synchronous if the store is. */
  debit(
    held: Held,
    amounts: readonly Amount[],
    reason: "adjust" | "charge",
    undecided?: Undecided,
  ): MaybePromise<Written> {
    if (this.#lifecycle.isStoreClosed) return { outcome: "no", ...NOTHING_REPORTED };
    const { buckets } = this.#deps.scope;
    const send: StoreWrite["send"] = (context) => buckets.debit(held, amounts, { ...context, undecided });
    return andThen(this.#writes.write({ bucket: held.bucket, send }, undefined), (end): Written => {
      if (end.kind === "tooDeep") throw debtTooLarge(held.bucket, amounts);
      if (end.kind !== "applied") return { outcome: end.kind, ...NOTHING_REPORTED };
      this.#publisher.charged(held.bucket, amounts, reason);
      return { outcome: "applied", state: end.state, ticket: end.ticket };
    });
  }

  /** Holds slots for as long again. Without retries: the caller renews again while there is time. */
  async renew(held: Held, amounts: readonly Amount[]): Promise<RenewReply> {
    if (this.#lifecycle.isStoreClosed) return { kind: "unavailable", cause: limiterClosed() };
    try {
      return await this.#lifecycle.track(this.#deps.scope.buckets.renew(held, amounts, this.#context()));
    } catch (cause) {
      if (cause instanceof RateLimiterUnavailable) return { kind: "unavailable", cause };
      throw cause;
    }
  }

  // Not an async function: its frame, and two promises that it takes besides, would be a tenth of a take from SQLite.
  #answered<Value>(
    claims: readonly Claim[],
    chain: Chain,
    reply: Promise<TakeReply>,
    { nowMs, timeoutMs }: TakeContext,
    then: (taken: Taken) => MaybePromise<Value>,
  ): Promise<Value> {
    const since = this.#deny.begin();
    // A single claim that is refused has nothing to give back.
    const untilMs = claims.length > 1 ? this.#deps.clock.now() + timeoutMs : undefined;
    const callEnds = this.#lifecycle.callBegins();
    const ended = (taken: Taken): MaybePromise<Value> => {
      this.#deny.end();
      callEnds();
      return then(taken);
    };
    const failed = (error: unknown): MaybePromise<Value> => {
      let taken: Taken;
      try {
        taken = this.#failed(claims, error);
      } finally {
        this.#deny.end();
        callEnds();
      }
      return then(taken);
    };
    return reply.then((answers) => {
      let taken: MaybePromise<Taken>;
      try {
        taken = this.#conclude(claims, chain, answers, nowMs, since, untilMs);
      } catch (error) {
        return failed(error);
      }
      return taken instanceof Promise ? taken.then(ended, failed) : ended(taken);
    }, failed);
  }

  #failed(claims: readonly Claim[], error: unknown): Taken {
    // The claims may have been taken.
    for (const { bucket } of claims) this.#deny.forget(bucket.id);
    if (error instanceof RateLimiterUnavailable) return { kind: "unavailable", cause: error };
    throw error;
  }

  // Claims that were taken for a refused request are given back before the refusal is returned.
  #conclude(
    claims: readonly Claim[],
    chain: Chain,
    reply: TakeReply,
    sentMs: number,
    since: CallStart | undefined,
    untilMs: number | undefined,
  ): MaybePromise<Taken> {
    if (reply === "stale") return { kind: "stale", buckets: undefined };
    if (allTaken(reply)) {
      for (let i = 0; i < claims.length; i++) this.#deny.forget((claims[i] as Claim).bucket.id);
      return { kind: "granted", answers: reply };
    }
    const nowMs = readingOf(reply) ?? sentMs;
    const verdict = this.#verdict(claims, chain, reply, nowMs, since);
    const taken = reply.flatMap((answer, i) => (answer.kind === "taken" ? [undoneOf(claims[i] as Claim, answer)] : []));
    if (taken.length === 0) return verdict;
    const amounts = taken.map(({ take }) => take);
    return Promise.resolve(this.#giveBackBy(untilMs, taken, amounts, "refused")).then(() => {
      for (const { bucket, take } of taken) this.#returned({ after: "refusal", bucket, amounts: take, askedMs: nowMs });
      return verdict;
    });
  }

  #verdict(
    claims: readonly Claim[],
    chain: Chain,
    answers: readonly Answer[],
    nowMs: number,
    since: CallStart | undefined,
  ): Taken {
    const suspects = claims.flatMap(({ bucket }, i) => (answers[i]?.kind === "configSuspect" ? [bucket] : []));
    if (suspects.length > 0) return { kind: "stale", buckets: suspects };
    const observed: ObservedBucket[] = [];
    for (const [i, answer] of answers.entries()) {
      const claim = claims[i] as Claim;
      if (answer.kind === "unavailable") {
        // The claim may have been taken.
        this.#deny.forget(claim.bucket.id);
        return { kind: "unavailable", cause: answer.cause };
      }
      observed.push(observedBy(claim, seenIn(claim, answer, nowMs, this.#deps.calendar)));
    }
    this.#deny.remember(observed, nowMs, since);
    const times = { askedMs: nowMs, toldMs: this.#deps.clock.now() };
    return { kind: "refused", refusal: refusalOf(observed, chain, times, this.#deps.calendar) };
  }

  /** Undefined if it is done. */
  #giveBackOne(
    held: Held,
    amounts: readonly Amount[],
    reason: GaveBackEvent["reason"],
    untilMs: number | undefined,
  ): Promise<WriteEnd> | undefined {
    const due = amounts.some(isNone) ? amounts.filter((amount) => !isNone(amount)) : amounts;
    // Usage counted the request on this level even if it took nothing.
    if (due.length === 0 && CREDITS[reason].undoes === undefined) return undefined;
    const credit = new Credit(this.#deps.scope.buckets, this.#publisher, held, due, reason);
    if (this.#lifecycle.isStoreClosed) {
      credit.ended(NOT_STORED);
      return undefined;
    }
    const end = this.#writes.write(credit, untilMs);
    return end instanceof Promise ? end : undefined;
  }

  /** Sends a top-up or a reset of a bucket. */
  async operate(bucket: BucketKey, send: () => MaybePromise<OperationReply>): Promise<OperationReply> {
    this.#deny.forget(bucket.id);
    try {
      return await this.#lifecycle.track(send());
    } finally {
      this.#deny.forget(bucket.id);
      // A refused request may fit now.
      this.#returned({ after: "use", bucket });
    }
  }

  /** Publishes faults that have no caller. If the id of the namespace could not be read, the next call tries again. */
  #listenForFaults(): void {
    if (this.#deps.store.onBackgroundFault === undefined) return;
    void Promise.resolve(this.#faults.get()).catch(() => {});
  }

  async #tellFaults(): Promise<void> {
    const { store } = this.#deps;
    const id = await this.#settings.namespaceId();
    if (store.onBackgroundFault === undefined || !this.#lifecycle.isOpen) return;
    const stop = store.onBackgroundFault(id, ({ kind = "other", reason, cause, ...about }) => {
      this.#publisher.degraded(about, kind, `${reason}: ${reasonOf(cause)}`, cause);
    });
    this.#lifecycle.onClosed(stop);
  }

  #context(): CallContext {
    return { nowMs: this.#deps.clock.now(), timeoutMs: this.#settings.timeoutMs };
  }
}

function isNone({ milli }: Amount): boolean {
  return milli <= 0;
}

function asItIs(taken: Taken): Taken {
  return taken;
}
