import type { Amount } from "../domain/charge/amounts.ts";
import { RateLimiterUnavailable } from "../domain/names/errors.ts";
import type {
  Answer,
  BucketStore,
  CallContext,
  Claim,
  CreditContext,
  Held,
  RenewReply,
  Returned,
  TakeContext,
  TakenAnswer,
  TakeReply,
  WriteReply,
} from "../ports/bucket-store.ts";
import type { BackgroundFault } from "../ports/store.ts";
import type { ProtocolContext } from "./context.ts";
import { Crediting } from "./give-back/crediting.ts";
import { debit } from "./give-back/debit.ts";
import { giveBackLate } from "./give-back/late.ts";
import { renew } from "./give-back/renewal.ts";
import { Nonces } from "./item/nonces.ts";
import { listenerOf, type TakeListener, takenOf, UndecidedTakes, usedBy } from "./marks/mark.ts";
import { Marks } from "./marks/marks.ts";
import { BucketUpkeep } from "./operations/upkeep.ts";
import type { ProtocolOptions } from "./options.ts";
import type { BucketCache } from "./process/bucket-cache.ts";
import { BucketCaches } from "./process/bucket-caches.ts";
import { type Called, called, jobOf } from "./process/call.ts";
import { inContact, withoutConfig } from "./process/first-contact.ts";
import { decidedBy, readBy } from "./process/read-by.ts";
import { MOVES_MAX } from "./process/retry-policy.ts";
import { ShardLanes } from "./process/shard-lanes.ts";
import { takeChain } from "./several/chain.ts";
import { chainOps } from "./several/chain-ops.ts";
import { isTaken, Looks, UNSEEN } from "./several/looks.ts";
import { BackgroundTasks, NO_SHEET } from "./shards/background-tasks.ts";
import { isWholeOf, takeTogether, wholeAround, wholeState } from "./shards/gather.ts";
import { JoinFirst } from "./shards/join-first.ts";
import { pickOther, pickShard } from "./shards/pick.ts";
import { replacementShard } from "./shards/stand-in.ts";
import { imageAfterJob } from "./take/after-job.ts";
import type { JobOutcome } from "./take/job.ts";
import { ticketOfJob } from "./take/ticket.ts";
import { SheetQueue } from "./usage/sheet-queue.ts";

/** Buckets made of single-item conditional writes: exact without a lock. See docs/protocol.md. */
export class ProtocolBuckets extends BucketUpkeep implements BucketStore {
  readonly #options: ProtocolOptions;
  protected readonly context: ProtocolContext;
  readonly #caches: BucketCaches;
  readonly #crediting: Crediting;
  readonly #background: BackgroundTasks;
  readonly #sheets: SheetQueue;
  readonly #lanes: ShardLanes;
  readonly #looks: Looks;
  readonly #joins: JoinFirst;
  readonly #returnListeners = new Set<(returned: Returned) => void>();

  constructor(options: ProtocolOptions) {
    const { items, calendar, dialect, clock, random, readings, exact, serverTime, usageKeptS, coalesce } = options;
    const softUntilMs = (atMs: number) => dialect.softUntilMs(atMs, random);
    super();
    this.#options = options;
    this.#caches = new BucketCaches(calendar, dialect, options.bucketsMax);
    this.context = {
      items,
      env: { calendar, dialect, serverTime, softUntilMs, usageKeptS },
      clock,
      random,
      caches: this.#caches,
      nonces: new Nonces(random),
      readings,
      marks: new Marks(
        () => this.context,
        () => this.#background,
      ),
      exact,
      landedLate: (sent) => giveBackLate(this.context, sent, { credit: this.#credit, background: this.#background }),
      returnedLate: (bucket) => this.#tellReturned({ after: "use", bucket }),
      rolled: (image) => this.#sheets.add(image),
      throttled: (cache) => this.#background.resize(cache, "more", clock.now()),
    };
    this.#background = new BackgroundTasks(this.context);
    this.#sheets = new SheetQueue(this.context);
    this.#crediting = new Crediting(this.context, this.#background);
    this.#lanes = new ShardLanes({ context: this.context, coalesce });
    this.#looks = new Looks(this.context, options.denyMemoryMs, this.#background);
    this.#joins = new JoinFirst(this.context, this.#background);
  }

  // Not an async function: its frame costs as much as a tenth of what is done here.
  take(claims: readonly Claim[], asked: TakeContext): Promise<TakeReply> {
    const call = called(this.context, asked);
    const [only] = claims;
    const isOne = claims.length === 1 && only !== undefined && call.nowMs === asked.nowMs;
    if (!isOne || !this.#isUsual(only, call.nowMs)) return this.#takeAll(claims, asked, call);
    return this.#takeOne(only, call, listenerOf(this.context.marks, call));
  }

  async #takeAll(claims: readonly Claim[], { atomic, nowMs }: TakeContext, asked: Called): Promise<TakeReply> {
    for (const { set } of claims) this.#options.dialect.checkLimits(set);
    const known = this.#looks.remembered(claims, asked);
    if (known !== undefined) return readBy(await known, asked, nowMs);
    const call = await inContact(this.context, claims, asked);
    return readBy(await this.#takeInContact(claims, atomic, call), call, nowMs);
  }

  async #takeInContact(claims: readonly Claim[], atomic: boolean, call: Called): Promise<readonly Answer[]> {
    const unread = withoutConfig(this.context, claims);
    if (unread.length > 0) return claims.map((claim) => this.#notAsked(claim, unread.includes(claim), call.nowMs));
    const { untilMs, signal } = call;
    const undecided = await this.#joins.before(claims, call);
    if (undecided !== undefined) return undecided;
    const [only] = claims;
    const { clock, random } = this.context;
    const listener = listenerOf(this.context.marks, call);
    if (claims.length === 1 && only !== undefined) return this.#takeOne(only, call, listener);
    const takes = new UndecidedTakes(listener);
    const ops = chainOps(this.context, call, this.#singleOps(call, takes));
    const answers = atomic
      ? await takeTogether(this.context, claims, call, takes)
      : await takeChain(claims, ops, { clock, random, untilMs, signal });
    if (answers.every(isTaken)) takes.decided();
    return this.#looks.complete(claims, answers, call);
  }

  debit(held: Held, amounts: readonly Amount[], asked: CallContext): Promise<WriteReply> {
    return this.#caches.holding([held.bucket], () => debit(this.context, this.#lanes, { held, amounts, asked }));
  }

  credit(held: Held, amounts: readonly Amount[], context: CreditContext): Promise<WriteReply> {
    const { undoes, slotsUsed } = context;
    const call = called(this.context, context);
    return this.#crediting.credit(held, amounts, slotsUsed ? { ...call, undoes, slotsUsed } : { ...call, undoes });
  }

  renew(held: Held, amounts: readonly Amount[], asked: CallContext): Promise<RenewReply> {
    return this.#caches.holding([held.bucket], () => renew(this.context, this.#lanes, { held, amounts, asked }));
  }

  watchReturns(listener: (returned: Returned) => void): () => void {
    this.#returnListeners.add(listener);
    return () => this.#returnListeners.delete(listener);
  }

  /** Calls back with what failed of work that no caller waits for; the answer takes that back. */
  onFault(listener: (fault: BackgroundFault) => void): () => void {
    return this.#background.onFault(listener);
  }

  /** Resolves when no work is left that goes on without a caller: resizing, give-backs that are tried again. */
  settled(): Promise<void> {
    return this.#background.settled();
  }

  #singleOps(call: Called, listener: TakeListener) {
    return {
      take: async (claim: Claim) => (await this.#takeOne(claim, call, listener))[0],
      credit: this.#credit,
      tellReturned: (returned: Returned) => this.#tellReturned(returned),
    };
  }

  readonly #credit: ProtocolBuckets["credit"] = (...args) => this.credit(...args);

  #tellReturned(returned: Returned): void {
    for (const listener of this.#returnListeners) listener(returned);
  }

  /** Whatever happens to one claim is an answer: others of the same call may have been taken, and are given back by it. */
  async #takeOne(claim: Claim, call: Called, listener: TakeListener): Promise<readonly [Answer]> {
    this.#options.dialect.checkLimits(claim.set);
    const { random } = this.context;
    const job = jobOf(this.context, claim, "take", claim.take, call);
    const cache = this.#caches.of(claim.bucket);
    cache.hold();
    try {
      let shard = pickShard(cache, job, random);
      for (let moves = 0; shard !== undefined && moves < MOVES_MAX; moves++) {
        const outcome = await this.#lanes.add(cache, shard, job, call.signal);
        switch (outcome.kind) {
          case "taken":
            return [decidedBy(this.#taken(claim, cache, outcome, listener), outcome.readingMs, call)];
          case "short":
            if (isWholeOf(cache, outcome.state)) {
              return [decidedBy({ kind: "short", state: outcome.state }, outcome.readingMs, call)];
            }
            shard = moves === 0 ? pickOther(cache, job, shard) : undefined;
            break;
          case "elsewhere":
            shard = await replacementShard(this.context, cache, shard, call);
            break;
          case "unavailable":
            return [{ kind: "unavailable", cause: outcome.cause }];
          case "configSuspect":
            return [{ kind: "configSuspect", state: outcome.state }];
          default:
            return [this.#looks.undecided(claim, call)];
        }
      }
      // No single shard has it; all together may.
      const [answer] = await takeTogether(this.context, [claim], call, listener);
      return [answer as Answer];
    } catch (error) {
      if (error instanceof RateLimiterUnavailable) return [{ kind: "unavailable", cause: error }];
      // A job that left the queue was not taken; the engine hears of the abort by itself.
      if (call.signal?.aborted) return [UNSEEN];
      throw error;
    } finally {
      cache.letGo();
    }
  }

  #taken(
    claim: Claim,
    cache: BucketCache,
    outcome: Extract<JobOutcome, { kind: "taken" }>,
    listener: TakeListener,
  ): TakenAnswer {
    const { image, readingMs } = outcome;
    this.#background.watchSize(cache, image.key.shard, readingMs);
    if (readingMs >= this.#sheets.nextDueMs)
      this.#background.track(this.#sheets.writeDue(), claim.bucket, "other", NO_SHEET);
    const ticket = ticketOfJob({ of: claim, amounts: claim.take }, outcome, this.context.env);
    const state = wholeAround(this.context, imageAfterJob(claim, outcome));
    listener.look(claim, usedBy(takenOf(claim.take, ticket), outcome), state, image);
    return { kind: "taken", state, ticket, shadowed: ticket.shadowed };
  }

  /** Whether a claim can be taken as it is: its bucket is known, in one piece, and not known to be short. */
  #isUsual(claim: Claim, nowMs: number): boolean {
    const cache = this.#caches.of(claim.bucket);
    if (cache.isUnknown || cache.shardCount > 1 || !this.#options.serverTime.isKnown()) return false;
    return !this.#looks.isShort(claim, nowMs);
  }

  #notAsked(claim: Claim, isSuspect: boolean, nowMs: number): Answer {
    if (!isSuspect) return UNSEEN;
    const images = this.#caches.of(claim.bucket).images();
    return { kind: "configSuspect", state: wholeState(this.context, claim, { images }, nowMs) };
  }
}
