import type { BucketKey } from "../../domain/bucket/bucket-key.ts";
import type { BucketState } from "../../domain/bucket/bucket-state.ts";
import type { Ticket } from "../../domain/bucket/give-back.ts";
import type { Amount } from "../../domain/charge/amounts.ts";
import { debtTooLarge } from "../../domain/charge/charge-errors.ts";
import { RateLimiterUnavailable } from "../../domain/names/errors.ts";
import type { Mode } from "../../domain/steps.ts";
import type {
  Answer,
  BucketStore,
  CallContext,
  Claim,
  Held,
  MaybePromise,
  Operation,
  OperationReply,
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
import { type ObservedBucket, type Refusal, refusalOf } from "../refusal/refusal.ts";
import { allDone } from "./all-done.ts";
import type { CallStart, DenyMemory } from "./deny-memory.ts";
import { RememberedAnswer } from "./remembered-answer.ts";
import { checkRefusal } from "./request.ts";
import { CREDITS, Credit, type CreditEvents, withoutConfigCheck } from "./store-calls.ts";
import { type StoreWrite, StoreWrites, type WriteEnd } from "./store-writes.ts";
import { allTaken, readingOf, seenIn, undoneOf } from "./take-answers.ts";

/** What the store made of all claims of a request. */
export type Taken =
  | { readonly kind: "granted"; readonly answers: readonly TakenAnswer[] }
  | { readonly kind: "refused"; readonly refusal: Refusal }
  | { readonly kind: "unavailable"; readonly cause: unknown }
  /** `buckets`: those whose configuration has to be read again; undefined: all. */
  | { readonly kind: "stale"; readonly buckets: readonly BucketKey[] | undefined };

/**
 * What became of a debit or credit; `state` is the one after it, where the store reports it. `gone`: there was nothing left
 * to give back to.
 */
interface Written {
  readonly outcome: WriteEnd["kind"];
  readonly state: BucketState | undefined;
  /** Of a debit that is given back by itself. */
  readonly ticket: Ticket | undefined;
}

/** The levels of a request, the entity that asks first. */
type Chain = readonly { readonly bucket: BucketKey }[];

const NOTHING_REPORTED = { state: undefined, ticket: undefined };

const NOT_STORED: WriteEnd = { kind: "no" };

const NONE_LATER: readonly Promise<unknown>[] = Object.freeze([]);

/** Who hears of writes, besides the store. */
export interface Listeners {
  readonly deny: DenyMemory;
  /** Hears of everything that came back, for those that wait. */
  readonly returned: (returned: Returned) => void;
  readonly publisher: WriteEvents;
  readonly lifecycle: Lifecycle;
}

/** What is published of writes. */
type WriteEvents = Pick<EventPublisher, "charged" | "consumed"> & CreditEvents;

/** The store, as far as writes to buckets need it. */
export interface StoreClientDeps extends Pick<EngineDeps, "clock" | "calendar"> {
  readonly store: Pick<EngineDeps["store"], "onBackgroundFault">;
  readonly scope: {
    readonly buckets: Pick<BucketStore, "take" | "takeSync" | "debit" | "credit" | "renew" | "topUp" | "reset">;
  };
}

/**
 * Every write to buckets goes through here: the deny memory hears of each one, and closing waits for it. There is one
 * give-back, for refusals, rollbacks, releases and negative adjustments.
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
   * Takes the claims; in the mode "sync" from a store that can answer without a promise. `chain`: every level of the request, those
   * that are asked for nothing included.
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

  /** Takes the claims from a store that answers with a promise, and goes on with `then`: with one promise for both. */
  takeThen<Value>(
    claims: readonly Claim[],
    chain: Chain,
    context: TakeContext,
    then: (taken: Taken) => MaybePromise<Value>,
  ): Promise<Value> {
    const reply = this.#deps.scope.buckets.take(claims, context);
    return this.#answered(claims, chain, Promise.resolve(reply), context, then);
  }

  /** Takes more for a lease: from where it was taken, by the limits it was taken under, whatever configuration says. */
  async takeMore(claims: readonly Claim[], chain: Chain, undecided?: Undecided): Promise<Taken> {
    if (this.#lifecycle.isStoreClosed) throw limiterClosed();
    const context = { ...this.#context(), generation: undefined, atomic: false, undecided };
    const taken = await this.take(claims.map(withoutConfigCheck), chain, context, "async");
    if (taken.kind === "refused") checkRefusal(taken.refusal);
    if (taken.kind !== "granted") return taken;
    for (let i = 0; i < claims.length; i++) {
      this.#publisher.consumed(claims[i] as Claim, taken.answers[i] as TakenAnswer);
    }
    return taken;
  }

  /** Gives back what is held on several buckets. What cannot be confirmed counts as not given. At once where the store does so at once. */
  giveBack(
    helds: readonly Held[],
    amounts: readonly (readonly Amount[])[],
    reason: GaveBackEvent["reason"],
  ): MaybePromise<void> {
    return this.#giveBackBy(undefined, helds, amounts, reason);
  }

  /** `untilMs`: of the request that it belongs to; undefined: it has a time of its own. */
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

  // Not an async function, like `#answered`: every take of slots has a give-back.
  #returnedAfter(
    later: readonly Promise<unknown>[],
    helds: readonly Held[],
    reason: GaveBackEvent["reason"],
  ): Promise<void> {
    const given = later.length === 1 ? (later[0] as Promise<unknown>) : allDone(later);
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

  /** Takes without a lower bound. Answers whether it is stored, certainly not, or perhaps. */
  async debit(held: Held, amounts: readonly Amount[], undecided?: Undecided): Promise<Written> {
    const { bucket } = held;
    const send: StoreWrite["send"] = (context) =>
      this.#deps.scope.buckets.debit(held, amounts, { ...context, undecided });
    const end = this.#lifecycle.isStoreClosed ? NOT_STORED : await this.#writes.write({ bucket, send }, undefined);
    if (end.kind === "tooDeep") throw debtTooLarge(held.bucket, amounts);
    if (end.kind !== "applied") return { outcome: end.kind, ...NOTHING_REPORTED };
    this.#publisher.charged(held.bucket, amounts, "adjust");
    return { outcome: "applied", state: end.state, ticket: end.ticket };
  }

  /** Holds slots for as long again. It is not repeated here: who renews asks again while there is time. */
  async renew(held: Held, amounts: readonly Amount[]): Promise<RenewReply> {
    if (this.#lifecycle.isStoreClosed) return { kind: "unavailable", cause: limiterClosed() };
    try {
      return await this.#lifecycle.track(this.#deps.scope.buckets.renew(held, amounts, this.#context()));
    } catch (cause) {
      if (cause instanceof RateLimiterUnavailable) return { kind: "unavailable", cause };
      throw cause;
    }
  }

  topUp(operation: Operation, amounts: readonly Amount[]): Promise<OperationReply> {
    return this.#operate(operation.bucket, () => this.#deps.scope.buckets.topUp(operation, amounts));
  }

  reset(operation: Operation, limits: readonly string[] | undefined): Promise<OperationReply> {
    return this.#operate(operation.bucket, () => this.#deps.scope.buckets.reset(operation, limits));
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
    // Of one claim alone there is nothing to give back when it is refused.
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
    // They may have been taken.
    for (const { bucket } of claims) this.#deny.forget(bucket.id);
    if (error instanceof RateLimiterUnavailable) return { kind: "unavailable", cause: error };
    throw error;
  }

  // What was taken of a request that is then refused is given back before the refusal is returned.
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
      const { bucket, set, limits = set.limits, take, bypass, leavePercent = 0 } = claims[i] as Claim;
      if (answer.kind === "unavailable") {
        // It may have been taken.
        this.#deny.forget(bucket.id);
        return { kind: "unavailable", cause: answer.cause };
      }
      observed.push({
        bucket,
        limits,
        take,
        leavePercent,
        bypass,
        ...seenIn(claims[i] as Claim, answer, nowMs, this.#deps.calendar),
      });
    }
    this.#deny.remember(observed, nowMs, since);
    const times = { askedMs: nowMs, toldMs: this.#deps.clock.now() };
    return { kind: "refused", refusal: refusalOf(observed, chain, times, this.#deps.calendar) };
  }

  /** Undefined where it is done. */
  #giveBackOne(
    held: Held,
    amounts: readonly Amount[],
    reason: GaveBackEvent["reason"],
    untilMs: number | undefined,
  ): Promise<WriteEnd> | undefined {
    const due = amounts.some(isNone) ? amounts.filter((amount) => !isNone(amount)) : amounts;
    // A request that took nothing of a level was counted there all the same.
    if (due.length === 0 && CREDITS[reason].undoes === undefined) return undefined;
    const credit = new Credit(this.#deps.scope.buckets, this.#publisher, held, due, reason);
    if (this.#lifecycle.isStoreClosed) {
      credit.ended(NOT_STORED);
      return undefined;
    }
    const end = this.#writes.write(credit, untilMs);
    return end instanceof Promise ? end : undefined;
  }

  async #operate(bucket: BucketKey, send: () => MaybePromise<OperationReply>): Promise<OperationReply> {
    this.#deny.forget(bucket.id);
    try {
      return await this.#lifecycle.track(send());
    } finally {
      this.#deny.forget(bucket.id);
      // What was refused before may fit now.
      this.#returned({ after: "use", bucket });
    }
  }

  /** What fails without a caller is told to those who listen. Where the namespace could not be asked for, the next call asks. */
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
