import type { BucketKey } from "../domain/bucket/bucket-key.ts";
import type { BucketState } from "../domain/bucket/bucket-state.ts";
import type { Ticket } from "../domain/bucket/give-back.ts";
import type { Slice } from "../domain/bucket/holds.ts";
import type { Amount } from "../domain/charge/amounts.ts";
import type { AuditEvent } from "../domain/config/audit.ts";
import type { LeaseRecord } from "../domain/lease/lease-record.ts";
import type { Limit } from "../domain/limits/limit.ts";
import type { LimitedBucket } from "../domain/limits/limit-set.ts";
import type { Crossed } from "../domain/limits/thresholds.ts";
import type { Page, PageRequest } from "../domain/names/paging.ts";
import type { Clock } from "./system.ts";

/** Work that was begun under an idempotency key by the process that has the mark. */
export interface KeyMark {
  readonly key: string;
  /** New for every beginning: only who has it may finish. */
  readonly mark: string;
}

/** The answer that a key is remembered by. */
export interface KeyFinish extends KeyMark {
  /** What a repeat is answered with; a text that the store does not read. */
  readonly answer: string;
  readonly nowMs: number;
}

/** A write beside a take: the record of a lease, the answer under a key, or both at once. */
export interface LeaseWrite {
  readonly record: LeaseRecord | undefined;
  readonly finish: KeyFinish | undefined;
}

/** The claim of one level of a request on one bucket: all of `take` or nothing. */
export interface Claim extends LimitedBucket {
  readonly take: readonly Amount[];
  /** The limits of the set that the request may take of, to be shown; absent: all. A store goes by `take`. */
  readonly limits?: readonly Limit[];
  /** The request is let through and counted as usage; nothing is debited, and nothing can be short. */
  readonly bypass: boolean;
  /** Percent of every limit that it takes from, but for soft ones, that must be left after it; absent: none. */
  readonly leavePercent?: number;
  /** The ms for which the slots that it takes are held; absent, or above a limit's own: as long as the limit says. */
  readonly holdMs?: number;
  /**
   * Whether configuration of this level, and of those above it that are no claims, was read consistently for this very request.
   * A store that announces changes on its buckets cannot announce them on one that is not there: it makes none without this,
   * but answers `configSuspect`.
   */
  readonly isConfigJustRead?: boolean;
  /**
   * The level itself is switched off, and the caller is exempt from that. Other callers hear of it by its bucket, on a store that announces
   * changes there: what that says stays.
   */
  readonly isOff?: boolean;
  /** An object that asks for this bucket again and again: a store may note there where it last found the bucket. */
  readonly link?: { place?: unknown };
}

/** The part of a lease on one bucket that a store needs to know to debit or credit it. */
export interface Held extends LimitedBucket {
  /** The ticket of what is given back. A debit makes its own, and does not go by this one. */
  readonly ticket: Ticket;
  /** The lease was let through by a bypass at the start, and so all the way: only usage knows of it. */
  readonly bypass: boolean;
  /** The ms for which slots are renewed; absent, or above a limit's own: as long as the limit says. */
  readonly holdMs?: number;
}

/** A bucket that something is given back to, whoever took it. */
export type Refunded = Omit<Held, "ticket" | "bypass" | "holdMs">;

export interface CallContext {
  /** One reading of the clock for the whole acquire. */
  readonly nowMs: number;
  /** The store answers within this time, or that it is unavailable. */
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
  /** The events of a take or a debit that is undone unless a later write is made wait here. Absent: it stays once it is applied. */
  readonly undecided?: Undecided | undefined;
}

/** The events of calls, until the caller knows that what they did stays. */
export interface Undecided {
  add(tell: () => void): void;
}

/**
 * `undoes`: the request that took it was refused elsewhere, and all of it is undone: its count and its overdrafts, what shadows would have
 * refused of it, and a window that it opened. Also where it took nothing.
 */
export interface CreditContext extends CallContext {
  readonly undoes?: "request";
  /** Slots that come back were used: usage keeps them, and counts how long they were held. Absent: it is as if they were never taken. */
  readonly slotsUsed?: true;
}

export interface TakeContext extends CallContext {
  /** The generation of configuration the claims were planned with; see `ConfigStore.generation`. */
  readonly generation: number | undefined;
  /** Tells the names that the claims go by, beside their entities and resources: plans, and levels that nothing is taken of. Absent: none. */
  readonly goesBy?: () => readonly string[];
  /** The claims have the limits of a lease, which may have changed since. So have all that compare no generation. */
  readonly limitsOf?: "lease";
  /** All claims must be taken in one transaction, even where the store would rather not. */
  readonly atomic: boolean;
  /** The lease that a store with `LeaseStore.isWrittenByTake` writes with the take; others leave it to the caller. */
  readonly lease?: LeaseDraft | undefined;
}

/**
 * A write that is made of the answers of a take, inside its transaction where that can run code. Where it cannot, the draft is written as
 * data together with the answers, and a reader works out the same by `LeaseForm`.
 */
export interface LeaseDraft {
  /** The key must still be the caller's, or nothing is taken. */
  readonly key: KeyMark | undefined;
  writeOf(answers: readonly TakenAnswer[]): LeaseWrite;
  data(): DraftData;
}

export interface DraftData {
  /** Undefined: there is no lease, but an answer under a key. */
  readonly leaseId: string | undefined;
  readonly entityId: string;
  readonly resource: string;
  /** Its time is up so long after the reading of the take. */
  readonly holdMs: number;
  /** The text that `LeaseForm` reads. */
  readonly text: string;
}

/**
 * The outcome of one claim. `taken` shows the state after, all others the state before.
 * - `skipped`: nothing was taken, because another claim of the same call did not fit.
 * - `unseen`: as `skipped`, or the claim could not be decided in time, and what the bucket holds is not known.
 * - `configSuspect`: the bucket casts doubt on the configuration of this claim; read it again, then plan again.
 * - `contended`: it could not be decided in time among many; a refusal, not a fault.
 * - `unavailable`: transient; whether it was applied may be unknown, and then it counts as taken.
 *
 * `seenAtMs`: the bucket was not looked at in this call; the state is that of this instant. Absent: it was looked at.
 *
 * `readingMs`: the reading that the whole call went by, where it is not the caller's: the store showed meanwhile that the clock
 * was wrong. Statuses of the buckets must be of that instant. Absent: the caller's.
 */
export type Answer =
  | TakenAnswer
  | { readonly kind: "short"; readonly state: BucketState; readonly seenAtMs?: number; readonly readingMs?: number }
  | { readonly kind: "skipped"; readonly state: BucketState; readonly seenAtMs?: number; readonly readingMs?: number }
  | { readonly kind: "contended"; readonly state: BucketState; readonly seenAtMs?: number; readonly readingMs?: number }
  | { readonly kind: "unseen" }
  | { readonly kind: "configSuspect"; readonly state: BucketState }
  | { readonly kind: "unavailable"; readonly cause: unknown };

export interface TakenAnswer {
  readonly kind: "taken";
  readonly state: BucketState;
  readonly ticket: Ticket;
  /** The shadow limits that would have refused the claim: nothing was taken of them. The ticket names them too. */
  readonly shadowed: readonly string[];
  readonly readingMs?: number;
}

/** One answer a claim, in order; or `stale`: configuration has moved on, nothing was taken, plan again. */
export type TakeReply = readonly Answer[] | "stale";

/**
 * Outcome of a debit or credit. `gone`: there is nothing to give back to. `tooDeep`: a debit that would leave a limit with a debt
 * too deep to be exact; nothing was taken. `unknown`: perhaps applied; never repeat it.
 * `ticket`: what gives a debit back; absent where that is the plain one. `given`: what a refund has given back.
 */
export type WriteReply =
  | {
      readonly kind: "applied";
      readonly state: BucketState;
      readonly ticket?: Ticket;
      readonly given?: readonly Amount[];
    }
  | { readonly kind: "gone" }
  | { readonly kind: "tooDeep" }
  | { readonly kind: "unavailable"; readonly applied: "no" | "unknown"; readonly cause: unknown };

/**
 * Outcome of a renewal. `renewed`: all of it is held anew, as its ticket says. `lost`: some of it is held no more, and nothing was
 * changed; a caller finds out of which limit by asking for each. `unavailable`: transient; what is held ends as the ticket of before says.
 */
export type RenewReply =
  | { readonly kind: "renewed"; readonly ticket: Ticket }
  | { readonly kind: "lost" }
  | { readonly kind: "unavailable"; readonly cause: unknown };

/** A purchase or a reset: it is about money, so it happens once per key and is audited in the same transaction. */
export interface Operation extends LimitedBucket {
  readonly nowMs: number;
  /** The key is remembered for 30 days with the bucket. */
  readonly idempotencyKey: string;
  /** The text of the request, remembered with the key. Absent: nobody compares it. */
  readonly asks?: string;
  readonly event: AuditEvent;
}

/**
 * `repeated`: the key was used before, and nothing was done now. `amounts`: the gain of each limit, then or now. `tooLarge`: the
 * limit would hold more than can be counted exactly; nothing was done, and nothing is remembered of the key.
 */
export type OperationReply =
  | {
      readonly kind: "done";
      readonly repeated: boolean;
      readonly amounts: readonly Amount[];
      /** The request of then, for a repeat. */
      readonly asks?: string | undefined;
    }
  | { readonly kind: "tooLarge"; readonly limit: string; readonly repeated: false; readonly amounts: readonly [] };

/** Tokens that came back to a bucket: from a lease, by a purchase or a reset; or from a request that was refused elsewhere. */
export type Returned =
  | { readonly after: "use"; readonly bucket: BucketKey }
  | {
      readonly after: "refusal";
      readonly bucket: BucketKey;
      readonly amounts: readonly Amount[];
      /** The reading of the refused request: it held them from then on at the earliest. */
      readonly askedMs: number;
    };

/** The claim of a refused request on a bucket, and the state that it was refused by. */
export interface WantedRoom extends Pick<Claim, "bucket" | "take" | "bypass"> {
  readonly leavePercent: number;
  readonly state: Pick<BucketState, "signature">;
}

/** Calls `wake` when all of it may fit, and never for nothing. The function that it answers ends that. */
export type WatchRoom = (by: readonly WantedRoom[], wake: () => void) => () => void;

/** The owner of the buckets that are wanted. */
export interface BucketOwner {
  /** The id of the entity; absent: any. */
  readonly entityId?: string;
}

/** A value that may be there at once: a store that computes in memory answers without a promise. */
export type MaybePromise<Value> = Value | Promise<Value>;

/**
 * Buckets of one namespace. A bucket that does not exist is full; limits that differ from the bucket's are installed on
 * it first (stored even when the claim is then refused). A store may take all claims of a call in one transaction, and then
 * takes all or none; otherwise it answers each, and the caller gives back.
 */
export interface BucketStore {
  take(claims: readonly Claim[], context: TakeContext): MaybePromise<TakeReply>;
  /** Takes at once, where the store can answer without waiting. */
  takeSync?(claims: readonly Claim[], context: TakeContext): TakeReply;
  /** Takes without a lower bound. */
  debit(held: Held, amounts: readonly Amount[], context: CallContext): MaybePromise<WriteReply>;
  /** Gives back what was taken with this ticket. Called at most once for any token. */
  credit(held: Held, amounts: readonly Amount[], context: CreditContext): MaybePromise<WriteReply>;
  /**
   * Gives back without a ticket: of each limit at most what is missing to its capacity in force, of a quota what its period has used; slots
   * are left out. The reply says what was given. A bucket that is not there is full (`gone`).
   */
  refund(of: Refunded, amounts: readonly Amount[], context: CallContext): MaybePromise<WriteReply>;
  /**
   * Holds slots for as long again from now on, or as long as before where that is longer. The ticket may have several slices of a limit,
   * each with its part; all of them are renewed, or none.
   */
  renew(held: Held, amounts: readonly Amount[], context: CallContext): MaybePromise<RenewReply>;
  /** A quota gains exactly the amounts until its next reset; a limit that drips at most the room below its capacity. */
  topUp(operation: Operation, amounts: readonly Amount[]): MaybePromise<OperationReply>;
  /**
   * Fills limits, and forgives debt; a calendar quota begins a new period, a session window ends. All limits when undefined, but not those
   * on how many are at once: their work still runs. Where they are named, all that is held of them is forgotten.
   */
  reset(operation: Operation, limits: readonly string[] | undefined): MaybePromise<OperationReply>;
  /**
   * Calls the listener when tokens come back of which no answer tells: after the caller that gave them back was answered, or within a
   * take. The function that it answers removes the listener. Absent where that cannot happen.
   */
  watchReturns?(listener: (returned: Returned) => void): () => void;
  /**
   * Notes what other processes have written so far. The function that it answers wakes a request that is refused afterwards, soon after
   * another process has made room. It looks by this clock, and keeps no process alive. Absent where the store cannot tell.
   */
  foreignRoom?(clock: Clock): WatchRoom;
  /**
   * Calls the listener when a take or a debit of this object has reached a percentage of a limit (`notifyAt`), once the mark of it
   * is stored: each is told at most once, by one process. Of several listeners the first is called. The function that it answers removes
   * the listener. Only with `Store.tellsThresholds`.
   */
  watchThresholds?(listener: (crossed: Crossed) => void): () => void;
  /** Resolves when the percentages that takes have reached so far are told, or never will be. Absent: they are told when a take is answered. */
  thresholdsTold?(): Promise<void>;
  /** States as they are stored, in the order of the keys; undefined where there is none. */
  read(keys: readonly BucketKey[]): MaybePromise<readonly (BucketState | undefined)[]>;
  /** Lists the keys of buckets, of one entity or of all: by entity id, then by resource. */
  listKeys(owner: BucketOwner, page: PageRequest): MaybePromise<Page<BucketKey>>;
  /** Buckets of a resource, by entity id. */
  listByResource(resource: string, page: PageRequest): MaybePromise<Page<ListedBucket>>;
}

/** A bucket of a list. `expires`: once it is full, it is there only because its usage is kept, and equals a bucket that does not exist. */
export interface ListedBucket {
  readonly key: BucketKey;
  readonly state: BucketState;
  readonly expires?: true;
}

/**
 * The shortest way of a take, which a store in this process's memory has beside its port: one bucket, no plan and hardly an object. A
 * store need not have it.
 */
export interface InPlaceTakes {
  /**
   * Takes from one bucket. Undefined when nothing was taken, for whatever reason: nothing has changed then, and `BucketStore.take`
   * answers why.
   */
  takeOne(
    of: PlacedBucket,
    take: readonly Amount[],
    nowMs: number,
    generation: number | undefined,
  ): TakenInPlace | undefined;
}

/** A bucket that is asked for again and again by the same object. */
export interface PlacedBucket extends LimitedBucket {
  /** The place where the store last found it, for the store alone. */
  place?: unknown;
}

export type BucketsMaybeInPlace = BucketStore & Partial<InPlaceTakes>;

export interface TakenInPlace extends TakenAnswer {
  /** The state, where later takes write it in place until it is first looked at. */
  readonly shared?: SharedState;
}

/**
 * The tokens of each limit, in the order of the state's limits. Of one limit, and of two, they are numbers: of the first here, of the
 * second beside it, so that no list is made. A bucket with slots has the slices of each limit after its tokens, always in a list.
 */
export type TokensLeft = number | readonly (number | readonly Slice[])[];

/** A state that later takes go on changing. */
export interface SharedState {
  /** The tokens that the latest take left: to be asked before anything else is done with the bucket. */
  tokensLeft(): TokensLeft;
  /** The tokens of the second limit; undefined where there are not two, or all are in the list. */
  secondLeft(): number | undefined;
  /** The state as the take that left these tokens showed it; a value of its own. */
  stateWith(left: TokensLeft, ofSecond: number | undefined): BucketState;
}
