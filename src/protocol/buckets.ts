import type { BucketKey } from "../domain/bucket/bucket-key.ts";
import type { BucketState } from "../domain/bucket/bucket-state.ts";
import type { Amount } from "../domain/charge/amounts.ts";
import type { Access } from "../domain/config/config.ts";
import type { SourcedLimits } from "../domain/limits/limit-set.ts";
import type { Crossed } from "../domain/limits/thresholds.ts";
import { RateLimiterUnavailable } from "../domain/names/errors.ts";
import type { Page, PageRequest } from "../domain/names/paging.ts";
import type {
  Answer,
  BucketOwner,
  BucketStore,
  CallContext,
  Claim,
  CreditContext,
  Held,
  ListedBucket,
  Operation,
  OperationReply,
  Refunded,
  RenewReply,
  Returned,
  TakeContext,
  TakenAnswer,
  TakeReply,
  WriteReply,
} from "../ports/bucket-store.ts";
import type { Item, ItemKey } from "../ports/item-store.ts";
import type { BackgroundFault } from "../ports/store.ts";
import { announce, installLimits, stampAccess } from "./config/apply.ts";
import type { ProtocolContext, ProtocolOptions } from "./context.ts";
import { giveBack, refund } from "./give-back/crediting.ts";
import { debit, renew } from "./give-back/debit.ts";
import { Nonces, TTL } from "./item/attributes.ts";
import { listenerFor, type TakeListener, takenOf, UndecidedTakes, usedBy } from "./marks/mark.ts";
import { Marks } from "./marks/marks.ts";
import { resetAll, topUpAll } from "./operations/operate.ts";
import { BackgroundTasks, NO_SHEET } from "./process/background-tasks.ts";
import type { BucketCache } from "./process/bucket-cache.ts";
import { BucketCaches } from "./process/bucket-caches.ts";
import {
  beginCall,
  type Called,
  jobOf,
  readFirstContact,
  withoutConfig,
  withReading,
  withReadings,
} from "./process/call.ts";
import { MOVES_MAX } from "./process/retry-policy.ts";
import { chainOps, takeChain } from "./several/chain.ts";
import { isTaken, Looks, UNSEEN } from "./several/looks.ts";
import { isWholeOf, takeTogether, wholeAround, wholeState } from "./shards/gather.ts";
import { joinFirst } from "./shards/join-first.ts";
import { pickOther, pickShard, replacementShard } from "./shards/pick.ts";
import { resize, watchSize } from "./shards/resize.ts";
import { readWhole, stateOfShards, withoutDeadline } from "./shards/whole.ts";
import type { JobOutcome } from "./take/job.ts";
import { runAtShard } from "./take/shard-take.ts";
import { imageAfterJob, ticketOfJob } from "./take/ticket.ts";
import { type CloseOptions, closeHours, type ShardClosed } from "./usage/close-hours.ts";
import { SheetQueue } from "./usage/sheet-queue.ts";

/** Buckets made of single-item conditional writes: exact without a lock. See docs/protocol.md. */
export class ProtocolBuckets implements BucketStore {
  // Not #context: tests split a bucket unseen through it.
  private readonly context: ProtocolContext;
  readonly #sheets: SheetQueue;
  readonly #looks: Looks;
  readonly #returnListeners = new Set<(returned: Returned) => void>();

  constructor(options: ProtocolOptions) {
    const { calendar, dialect, clock, random, serverTime, usageKeptS } = options;
    const softUntilMs = (atMs: number) => dialect.softUntilMs(atMs, random);
    this.context = {
      ...options,
      env: { calendar, dialect, serverTime, softUntilMs, usageKeptS },
      caches: new BucketCaches(calendar, dialect, options.bucketsMax),
      nonces: new Nonces(random),
      marks: new Marks(() => this.context),
      background: new BackgroundTasks(clock),
      returned: (returned) => {
        for (const listener of this.#returnListeners) listener(returned);
      },
      rolled: (image) => this.#sheets.add(image),
    };
    this.#sheets = new SheetQueue(this.context);
    this.#looks = new Looks(this.context, options.denyMemoryMs);
  }

  // Not an async function: its frame costs as much as a tenth of what is done here.
  take(claims: readonly Claim[], asked: TakeContext): Promise<TakeReply> {
    const call = beginCall(this.context, asked);
    const [only] = claims;
    const isOne = claims.length === 1 && only !== undefined && call.nowMs === asked.nowMs;
    if (!isOne || !this.#isUsual(only, call.nowMs)) return this.#takeAll(claims, asked, call);
    return this.#takeOne(only, call, listenerFor(this.context.marks, call));
  }

  async #takeAll(claims: readonly Claim[], { atomic, nowMs }: TakeContext, asked: Called): Promise<TakeReply> {
    for (const { set } of claims) this.context.env.dialect.checkLimits(set);
    const known = this.#looks.remembered(claims, asked);
    if (known !== undefined) return withReadings(await known, asked, nowMs);
    const call = await readFirstContact(this.context, claims, asked);
    return withReadings(await this.#takeInContact(claims, atomic, call), call, nowMs);
  }

  async #takeInContact(claims: readonly Claim[], atomic: boolean, call: Called): Promise<readonly Answer[]> {
    const unread = withoutConfig(this.context, claims);
    if (unread.length > 0) return claims.map((claim) => this.#notAsked(claim, unread.includes(claim), call.nowMs));
    const { untilMs, signal } = call;
    const undecided = await joinFirst(this.context, claims, call);
    if (undecided !== undefined) return undecided;
    const [only] = claims;
    const { clock, random } = this.context;
    const listener = listenerFor(this.context.marks, call);
    if (claims.length === 1 && only !== undefined) return this.#takeOne(only, call, listener);
    const takes = new UndecidedTakes(listener);
    const ops = chainOps(this.context, call, async (claim) => (await this.#takeOne(claim, call, takes))[0]);
    const answers = atomic
      ? await takeTogether(this.context, claims, call, takes)
      : await takeChain(claims, ops, { clock, random, untilMs, signal });
    if (answers.every(isTaken)) takes.decided();
    return this.#looks.complete(claims, answers, call);
  }

  debit(held: Held, amounts: readonly Amount[], asked: CallContext): Promise<WriteReply> {
    return this.context.caches.holding([held.bucket], () => debit(this.context, held, amounts, asked));
  }

  credit(held: Held, amounts: readonly Amount[], context: CreditContext): Promise<WriteReply> {
    return giveBack(this.context, held, amounts, context);
  }

  refund(of: Refunded, amounts: readonly Amount[], context: CallContext): Promise<WriteReply> {
    return refund(this.context, of, amounts, context);
  }

  renew(held: Held, amounts: readonly Amount[], asked: CallContext): Promise<RenewReply> {
    return this.context.caches.holding([held.bucket], () => renew(this.context, held, amounts, asked));
  }

  watchReturns(listener: (returned: Returned) => void): () => void {
    this.#returnListeners.add(listener);
    return () => this.#returnListeners.delete(listener);
  }

  /** Calls back with faults of background work; the returned function unsubscribes. */
  onFault(listener: (fault: BackgroundFault) => void): () => void {
    return this.context.background.onFault(listener);
  }

  /** Resolves when no background work is left: resizing, give-backs that are tried again. */
  settled(): Promise<void> {
    return this.context.background.settled();
  }

  async topUp(operation: Operation, amounts: readonly Amount[]): Promise<OperationReply> {
    this.context.env.dialect.checkTopUp(operation.bucket);
    return topUpAll(this.context, operation, amounts);
  }

  reset(operation: Operation, limits: readonly string[] | undefined): Promise<OperationReply> {
    return resetAll(this.context, operation, limits);
  }

  watchThresholds(listener: (crossed: Crossed) => void): () => void {
    return this.context.marks.watch(listener);
  }

  thresholdsTold(): Promise<void> {
    return this.context.marks.told();
  }

  async read(keys: readonly BucketKey[]): Promise<readonly (BucketState | undefined)[]> {
    const wholes = await readWhole(this.context, keys, withoutDeadline(this.context.clock.now()));
    const { calendar } = this.context.env;
    return wholes.map(({ images }) => (images.length === 0 ? undefined : stateOfShards(images, calendar)));
  }

  listByResource(resource: string, page: PageRequest): Promise<Page<ListedBucket>> {
    return bucketsOn(this.context, resource, page);
  }

  async listKeys(owner: BucketOwner, page: PageRequest): Promise<Page<BucketKey>> {
    return this.context.items.listKeys(owner, page);
  }

  /** Doubles, halves or joins the shards of a bucket now, whatever its load. Returns true if it was done. */
  resize(bucket: BucketKey, to: "more" | "fewer" | 1, readingMs: number): Promise<boolean> {
    return resize(this.context, bucket, to, readingMs);
  }

  /** Closes hours that have been over for some time; see close-hours.ts. At most 100 shards. */
  closeHours(shards: readonly ItemKey[], options: CloseOptions): Promise<readonly ShardClosed[]> {
    return closeHours(this.context, shards, options);
  }

  announce(bucket: BucketKey, readingMs: number): Promise<number> {
    return announce(this.context, bucket, readingMs);
  }

  stampAccess(bucket: BucketKey, access: Access, readingMs: number): Promise<number> {
    return stampAccess(this.context, bucket, access, readingMs);
  }

  /** Installs limits on every shard of an existing bucket. Returns true if all go by them. */
  installLimits(bucket: BucketKey, { set, origin }: SourcedLimits, readingMs: number): Promise<boolean> {
    return installLimits(this.context, { bucket, set, origin, readingMs, configConfirmed: true });
  }

  /** For an unknown bucket: takes in its first item from a caller that reads it anyway. */
  onFirstRead(bucket: BucketKey): ((item: Item | undefined, atMs: number) => void) | undefined {
    const { caches } = this.context;
    const cache = caches.of(bucket);
    if (!cache.isUnknown) return undefined;
    const about = { eventuallyConsistent: true, set: undefined, ownWrites: 0, sentAtSequence: caches.sequence };
    return (item, atMs) => caches.observe(cache, { bucket, shard: 0 }, item, { ...about, atMs });
  }

  /** Drops what is cached of a bucket: it was deleted, or another program wrote it. */
  forget(bucket: BucketKey): void {
    this.context.caches.of(bucket).forgetShards();
  }

  /** Every fault of one claim becomes an answer: other claims of the same call may have been taken, and the caller gives them back. */
  async #takeOne(claim: Claim, call: Called, listener: TakeListener): Promise<readonly [Answer]> {
    this.context.env.dialect.checkLimits(claim.set);
    const { random } = this.context;
    const job = jobOf(this.context, claim, "take", claim.take, call);
    const cache = this.context.caches.of(claim.bucket);
    cache.hold();
    try {
      let shard = pickShard(cache, job, random);
      for (let moves = 0; shard !== undefined && moves < MOVES_MAX; moves++) {
        const outcome = await runAtShard(this.context, cache, shard, job, call.signal);
        switch (outcome.kind) {
          case "taken":
            return [withReading(this.#taken(claim, cache, outcome, listener), outcome.readingMs, call)];
          case "short":
            if (isWholeOf(cache, outcome.state)) {
              return [withReading({ kind: "short", state: outcome.state }, outcome.readingMs, call)];
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
    watchSize(this.context, cache, image.key.shard, readingMs);
    if (readingMs >= this.#sheets.nextDueMs) {
      this.context.background.track(this.#sheets.writeDue(), claim.bucket, "other", NO_SHEET);
    }
    const ticket = ticketOfJob({ of: claim, amounts: claim.take }, outcome, this.context.env);
    const state = wholeAround(this.context, imageAfterJob(claim, outcome));
    listener.look(claim, usedBy(takenOf(claim.take, ticket), outcome), state, image);
    return { kind: "taken", state, ticket, shadowed: ticket.shadowed };
  }

  /** True for a claim on a known, unsplit bucket that is not known to be short. */
  #isUsual(claim: Claim, nowMs: number): boolean {
    const cache = this.context.caches.of(claim.bucket);
    if (cache.isUnknown || cache.shardCount > 1 || !this.context.env.serverTime.isKnown()) return false;
    return !this.#looks.isShort(claim, nowMs);
  }

  #notAsked(claim: Claim, isSuspect: boolean, nowMs: number): Answer {
    if (!isSuspect) return UNSEEN;
    const images = this.context.caches.of(claim.bucket).images();
    return { kind: "configSuspect", state: wholeState(this.context, claim, { images }, nowMs) };
  }
}

async function bucketsOn(context: ProtocolContext, resource: string, page: PageRequest): Promise<Page<ListedBucket>> {
  const { items: keys, ...rest } = await context.items.listBuckets(resource, page);
  const wholes = await readWhole(context, keys, withoutDeadline(context.clock.now()));
  const { calendar, dialect } = context.env;
  const items = wholes.flatMap(({ cache: { key }, images }): ListedBucket[] => {
    if (images.length === 0) return [];
    const expires = dialect.countsByHour && images.every(({ item }) => TTL in item);
    return [{ key, state: stateOfShards(images, calendar), ...(expires ? { expires } : {}) }];
  });
  return { ...rest, items };
}
