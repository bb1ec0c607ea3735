import type { BucketKey } from "../domain/bucket/bucket-key.ts";
import type { BucketState } from "../domain/bucket/bucket-state.ts";
import type { Ticket } from "../domain/bucket/give-back.ts";
import type { LimitedBucket } from "../domain/bucket/limited-bucket.ts";
import type { Amount } from "../domain/charge/amounts.ts";
import type { AuditEvent } from "../domain/config/audit.ts";
import type { Limit } from "../domain/limits/limit.ts";
import type { Crossed } from "../domain/limits/thresholds.ts";
import type { Page, PageRequest } from "../domain/names/paging.ts";
import type { KeyMark, LeaseWrite } from "./lease-write.ts";
import type { Clock } from "./system.ts";

/** What one level of a request wants of one bucket: all of `take` or nothing. */
export interface Claim extends LimitedBucket {
  readonly take: readonly Amount[];
  /** Of the set, those that the request may take of, for whoever shows them; absent: all. A store goes by `take`. */
  readonly limits?: readonly Limit[];
  /** Let through and counted as usage; nothing is debited, and nothing can be short. */
  readonly bypass: boolean;
  /** So many percent of every limit that it takes from, but for soft ones, must be left after it; absent: nothing must. */
  readonly leavePercent?: number;
  /** How long the slots that it takes are held, in ms; absent, or above a limit's own: as long as the limit says. */
  readonly holdMs?: number;
  /**
   * Whether configuration of this level, and of those above it that are no claims, was read consistently for this very request.
   * A store that announces changes on its buckets cannot announce them on one that is not there: it makes none without this,
   * but answers `configSuspect`.
   */
  readonly isConfigJustRead?: boolean;
  /**
   * The level itself is switched off, and who asks is exempt from that. Others who ask for it hear of it by its bucket, on a store that
   * announces changes there: what that says stays.
   */
  readonly isOff?: boolean;
  /** What asks for this bucket again and again, where something does: a store may note there where it last found the bucket. */
  readonly link?: { place?: unknown };
}

/** What a lease holds on one bucket, as far as a store needs to know it to debit or credit it. */
export interface Held extends LimitedBucket {
  /** Of what is given back. A debit has its own afterwards, and does not go by this one. */
  readonly ticket: Ticket;
  /** Let through by a bypass at the start, and so all the way: only usage knows of it. */
  readonly bypass: boolean;
  /** For how long slots are renewed, in ms; absent, or above a limit's own: as long as the limit says. */
  readonly holdMs?: number;
}

export interface CallContext {
  /** One reading of the clock for the whole acquire. */
  readonly nowMs: number;
  /** The store answers within this time, or that it is unavailable. */
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
  /** Of a take or a debit that is undone unless a later write is made: what it has to tell waits here. Absent: it stays once it is applied. */
  readonly undecided?: Undecided | undefined;
}

/** What calls have to tell, until somebody knows that what they did stays. */
export interface Undecided {
  add(tell: () => void): void;
}

/**
 * `undoes`: the request that took it was refused elsewhere, so that everything is to be as if it had never been: its count and
 * its overdrafts, what shadows would have refused of it, and a window that it opened. Also where it took nothing.
 */
export interface CreditContext extends CallContext {
  readonly undoes?: "request";
  /** Slots that come back were used: usage keeps them, and counts how long they were held. Absent: it is as if they were never taken. */
  readonly slotsUsed?: true;
}

export interface TakeContext extends CallContext {
  /** The generation of configuration the claims were planned with; see `ConfigStore.generation`. */
  readonly generation: number | undefined;
  /** Whether all claims must be taken in one transaction even where the store would rather not. */
  readonly atomic: boolean;
  /** What is written down with the take, by a store whose `LeaseStore.isWrittenByTake`; others leave it to the caller. */
  readonly lease?: LeaseDraft | undefined;
}

/**
 * What is to be written down with a take: made of its answers, inside its transaction where that can run code. Where it cannot, the
 * draft is written down as data together with the answers, and whoever reads it works out the same by `LeaseForm`.
 */
export interface LeaseDraft {
  /** Must still be the caller's, or nothing is taken. */
  readonly key: KeyMark | undefined;
  writeOf(answers: readonly TakenAnswer[]): LeaseWrite;
  data(): DraftData;
}

/** A draft as data. */
export interface DraftData {
  /** Undefined: there is no lease, but an answer under a key. */
  readonly leaseId: string | undefined;
  readonly entityId: string;
  readonly resource: string;
  /** Its time is up so long after the reading of the take. */
  readonly holdMs: number;
  /** For `LeaseForm`. */
  readonly text: string;
}

/**
 * What became of one claim. `taken` shows the state after, all others the state before.
 * - `skipped`: nothing was taken, because another claim of the same call did not fit.
 * - `unseen`: the same, or it could not be decided in time, and what the bucket holds is not known.
 * - `configSuspect`: the bucket casts doubt on the configuration of this claim; read it again, then plan again.
 * - `contended`: it could not be decided in time among many; a refusal, not a fault.
 * - `unavailable`: transient; whether it was applied may be unknown, and then it counts as taken.
 *
 * `seenAtMs`: the bucket was not looked at in this call; so it stood when it was seen last. Absent: in this call.
 *
 * `readingMs`: the reading that the whole call went by, where it is not the caller's: the store showed meanwhile that the clock
 * was wrong. What is said of the buckets must be said of that instant. Absent: the caller's.
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
  /** The shadow limits that would have refused the claim: of them nothing was taken. The ticket names them too. */
  readonly shadowed: readonly string[];
  readonly readingMs?: number;
}

/** One answer a claim, in order; or `stale`: configuration has moved on, nothing was taken, plan again. */
export type TakeReply = readonly Answer[] | "stale";

/**
 * Outcome of a debit or credit. `gone`: there is nothing to give back to. `tooDeep`: a debit that would leave a limit with a debt
 * too deep to be exact; nothing was taken. `unknown`: perhaps applied; never repeat it.
 * `ticket`: what gives a debit back; absent where that is the plain one.
 */
export type WriteReply =
  | { readonly kind: "applied"; readonly state: BucketState; readonly ticket?: Ticket }
  | { readonly kind: "gone" }
  | { readonly kind: "tooDeep" }
  | { readonly kind: "unavailable"; readonly applied: "no" | "unknown"; readonly cause: unknown };

/**
 * Outcome of a renewal. `renewed`: all of it is held anew, as its ticket says. `lost`: some of it is held no more, and nothing was
 * changed; of which limit, who asks finds out by asking for each of them. `unavailable`: transient; what is held ends as the ticket of before says.
 */
export type RenewReply =
  | { readonly kind: "renewed"; readonly ticket: Ticket }
  | { readonly kind: "lost" }
  | { readonly kind: "unavailable"; readonly cause: unknown };

/** A purchase or a reset: money, so it happens once per key and is audited in the same transaction. */
export interface Operation extends LimitedBucket {
  readonly nowMs: number;
  /** Remembered for 30 days with the bucket. */
  readonly idempotencyKey: string;
  /** What is asked, remembered with the key. Absent: nobody compares it. */
  readonly asks?: string;
  readonly event: AuditEvent;
}

/**
 * `repeated`: the key was used before, and nothing was done now. `amounts`: what each limit gained, then or now. `tooLarge`: the
 * limit would hold more than can be counted exactly; nothing was done, and nothing is remembered of the key.
 */
export type OperationReply =
  | {
      readonly kind: "done";
      readonly repeated: boolean;
      readonly amounts: readonly Amount[];
      /** Of a repeat: what was asked then. */
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

/** What a refused request wants of a bucket, and the state that it was refused by. */
export interface WantedRoom extends Pick<Claim, "bucket" | "take" | "bypass"> {
  readonly leavePercent: number;
  readonly state: Pick<BucketState, "signature">;
}

/** Calls `wake` when all of it may fit; never for nothing. The answer ends that. */
export type WatchRoom = (by: readonly WantedRoom[], wake: () => void) => () => void;

/** Whose buckets are wanted. */
export interface BucketOwner {
  /** Absent: everybody's. */
  readonly entityId?: string;
}

/** Work that may be done at once. A store that computes in memory answers without a promise. */
export type MaybePromise<Value> = Value | Promise<Value>;

/**
 * Buckets of one namespace. A bucket that does not exist is full; limits that differ from the bucket's are installed on
 * it first (stored even when the claim is then refused). A store may take all claims of a call in one transaction, and then
 * takes all or none; otherwise it answers each, and the caller gives back.
 */
export interface BucketStore {
  take(claims: readonly Claim[], context: TakeContext): MaybePromise<TakeReply>;
  /** Only where the store can answer without waiting. */
  takeSync?(claims: readonly Claim[], context: TakeContext): TakeReply;
  /** Takes without a lower bound. */
  debit(held: Held, amounts: readonly Amount[], context: CallContext): MaybePromise<WriteReply>;
  /** Gives back what was taken with this ticket. Called at most once for any token. */
  credit(held: Held, amounts: readonly Amount[], context: CreditContext): MaybePromise<WriteReply>;
  /**
   * Holds slots for as long again from now on, or as long as before where that is longer. The ticket may have several slices of a limit,
   * each with its part; all of them are renewed, or none.
   */
  renew(held: Held, amounts: readonly Amount[], context: CallContext): MaybePromise<RenewReply>;
  /** A quota gains exactly the amounts until its next reset; a limit that drips at most the room below its capacity. */
  topUp(operation: Operation, amounts: readonly Amount[]): MaybePromise<OperationReply>;
  /**
   * Full again, debt forgiven; a calendar quota begins a new period, a session window ends. All limits when undefined, but not those on
   * how many are at once: what they count still runs. Named, all that is held of them is forgotten.
   */
  reset(operation: Operation, limits: readonly string[] | undefined): MaybePromise<OperationReply>;
  /**
   * Calls the listener when tokens come back of which no answer tells: later than the caller that gave them back was answered, or
   * within a take. The answer ends that. Absent where that cannot happen.
   */
  watchReturns?(listener: (returned: Returned) => void): () => void;
  /**
   * Notes what other processes have written so far. The answer is for a request that is refused afterwards: it wakes it soon after
   * another process has made room since. Looks are made on this clock, and keep no process alive. Absent where the store cannot tell.
   */
  foreignRoom?(clock: Clock): WatchRoom;
  /**
   * Calls the listener when a take or a debit of this object has reached a percentage of a limit (`notifyAt`), once the mark of it
   * is stored: so each is told at most once, by one process. Of several listeners the first is called. The answer ends that. Only with
   * `Store.tellsThresholds`.
   */
  watchThresholds?(listener: (crossed: Crossed) => void): () => void;
  /** Resolves when what takes have reached so far is told, or will never be. Absent: it is told when a take is answered. */
  thresholdsTold?(): Promise<void>;
  /** States as they are stored, in the order of the keys; undefined where there is none. */
  read(keys: readonly BucketKey[]): MaybePromise<readonly (BucketState | undefined)[]>;
  /** Which buckets there are, of one entity or of all: by entity id, then by resource. */
  listKeys(owner: BucketOwner, page: PageRequest): MaybePromise<Page<BucketKey>>;
  /** Buckets of a resource, by entity id. */
  listByResource(resource: string, page: PageRequest): MaybePromise<Page<ListedBucket>>;
}

/** `expires`: once it is full, it is there only because its usage is kept, and equals a bucket that does not exist. */
export interface ListedBucket {
  readonly key: BucketKey;
  readonly state: BucketState;
  readonly expires?: true;
}
