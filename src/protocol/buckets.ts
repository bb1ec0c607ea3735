import type { Amount } from "../domain/amounts.ts";
import type { BucketKey } from "../domain/bucket-key.ts";
import { type BucketState, wholeOf } from "../domain/bucket-state.ts";
import type { Access } from "../domain/config.ts";
import { RateLimiterUnavailable } from "../domain/errors.ts";
import type { LimitSet, SetOrigin } from "../domain/limit-set.ts";
import type { Page, PageRequest } from "../domain/paging.ts";
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
  Returned,
  TakeContext,
  TakenAnswer,
  TakeReply,
  WriteReply,
} from "../ports/bucket-store.ts";
import type { Item } from "../ports/item-store.ts";
import type { BackgroundFault } from "../ports/store.ts";
import { announce, installLimits, stampAccess } from "./config/apply.ts";
import type { ProtocolContext } from "./context.ts";
import type { CloseOptions, ShardClosed } from "./decide/close.ts";
import { Crediting, notRead, orFault } from "./give-back/crediting.ts";
import type { Image } from "./item/codec.ts";
import { Nonces } from "./item/nonces.ts";
import { bucketsOn } from "./list-buckets.ts";
import { resetAll, topUpAll } from "./operations/operate.ts";
import type { ProtocolOptions } from "./options.ts";
import type { BucketCache } from "./process/bucket-cache.ts";
import { BucketCaches } from "./process/bucket-caches.ts";
import { makeContact, withoutConfig, withoutContact } from "./process/first-contact.ts";
import { decidedBy, readBy } from "./process/read-by.ts";
import { MOVES_MAX, RETRY } from "./process/retry-policy.ts";
import { ShardLanes } from "./process/shard-lanes.ts";
import { type ChainOps, takeChain } from "./several/chain.ts";
import { Looks, UNSEEN } from "./several/looks.ts";
import { BackgroundTasks, NO_SHEET, NOT_GIVEN_BACK } from "./shards/background-tasks.ts";
import { isWholeOf, takeTogether, wholeState } from "./shards/gather.ts";
import { JoinFirst } from "./shards/join-first.ts";
import { fullestShard, pickOther, pickShard } from "./shards/pick.ts";
import { resize } from "./shards/resize.ts";
import { standInFor } from "./shards/stand-in.ts";
import { readWhole, unhurried } from "./shards/whole.ts";
import type { Job, JobOutcome, Sent } from "./take/job.ts";
import { ticketOfJob } from "./take/ticket.ts";
import { closeHours, type ShardPlace } from "./usage/close-hours.ts";
import { SheetQueue } from "./usage/sheet-queue.ts";

/** A call, and when its caller must have an answer. */
interface Called extends CallContext {
  readonly untilMs: number;
  /** The last observation of this process when it began. */
  readonly askedAtSequence: number;
}

/** Buckets made of single-item conditional writes: exact without a lock. See docs/protocol.md. */
export class ProtocolBuckets implements BucketStore {
  readonly #options: ProtocolOptions;
  readonly #context: ProtocolContext;
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
    this.#options = options;
    this.#caches = new BucketCaches(calendar, dialect, options.bucketsMax);
    this.#context = {
      items,
      env: { calendar, dialect, serverTime, softUntilMs, usageKeptS },
      clock,
      random,
      caches: this.#caches,
      nonces: new Nonces(random),
      readings,
      exact,
      landedLate: (sent) => this.#giveBackLate(sent),
      returnedLate: (bucket) => this.#tellReturned({ after: "use", bucket }),
      rolled: (image) => this.#sheets.add(image),
      throttled: (cache) => this.#background.resize(cache, "more", clock.now()),
    };
    this.#background = new BackgroundTasks(this.#context);
    this.#sheets = new SheetQueue(this.#context);
    this.#crediting = new Crediting(this.#context, this.#background);
    this.#lanes = new ShardLanes({ context: this.#context, coalesce });
    this.#looks = new Looks(this.#context, options.denyMemoryMs, this.#background);
    this.#joins = new JoinFirst(this.#context, this.#background);
  }

  // Not an async function: its frame costs as much as a tenth of what is done here.
  take(claims: readonly Claim[], asked: TakeContext): Promise<TakeReply> {
    const call = this.#called(asked);
    const [only] = claims;
    const isOne = claims.length === 1 && only !== undefined && call.nowMs === asked.nowMs;
    return isOne && this.#isUsual(only, call.nowMs) ? this.#takeOne(only, call) : this.#takeAll(claims, asked, call);
  }

  async #takeAll(claims: readonly Claim[], { atomic, nowMs }: TakeContext, called: Called): Promise<TakeReply> {
    for (const { set } of claims) this.#options.dialect.checkLimits(set);
    const known = this.#looks.remembered(claims, called);
    if (known !== undefined) return readBy(await known, called, nowMs);
    const call = await this.#inContact(claims, called);
    return readBy(await this.#takeInContact(claims, atomic, call), call, nowMs);
  }

  async #takeInContact(claims: readonly Claim[], atomic: boolean, call: Called): Promise<readonly Answer[]> {
    const unread = withoutConfig(this.#context, claims);
    if (unread.length > 0) return claims.map((claim) => this.#notAsked(claim, unread.includes(claim), call.nowMs));
    const { untilMs, signal } = call;
    const undecided = await this.#joins.before(claims, call);
    if (undecided !== undefined) return undecided;
    const [only] = claims;
    if (claims.length === 1 && only !== undefined) return this.#takeOne(only, call);
    const { clock, random } = this.#context;
    const answers = atomic
      ? await takeTogether(this.#context, claims, call)
      : await takeChain(claims, this.#chainOps(call), { clock, random, untilMs, signal });
    return this.#looks.complete(claims, answers, call);
  }

  debit(held: Held, amounts: readonly Amount[], asked: CallContext): Promise<WriteReply> {
    return this.#caches.holding([held.bucket], () => this.#debit(held, amounts, asked));
  }

  async #debit(held: Held, amounts: readonly Amount[], asked: CallContext): Promise<WriteReply> {
    const context = this.#called(asked);
    const job = this.#jobOf(held, "debit", amounts, context);
    const cache = this.#caches.of(held.bucket);
    let shard = fullestShard(cache, job);
    for (let moves = 0; moves < MOVES_MAX; moves++) {
      const outcome = await this.#lanes.add(cache, shard, job, context.signal);
      if (outcome.kind === "elsewhere") {
        const there = await standInFor(this.#context, cache, shard, context).catch(notRead);
        if (typeof there !== "number") return there;
        shard = there;
        continue;
      }
      if (outcome.kind === "unavailable") return outcome;
      if (outcome.kind === "short") return { kind: "tooDeep" };
      if (outcome.kind !== "taken")
        return { kind: "unavailable", applied: "no", cause: notDebited(outcome.kind, held) };
      const ticket = ticketOfJob(job, outcome, this.#context.env);
      return { kind: "applied", state: this.#stateOf(outcome.image), ticket };
    }
    return { kind: "unavailable", applied: "no", cause: notDebited("elsewhere", held) };
  }

  credit(held: Held, amounts: readonly Amount[], context: CreditContext): Promise<WriteReply> {
    return this.#crediting.credit(held, amounts, { ...this.#called(context), undoes: context.undoes });
  }

  async topUp(operation: Operation, amounts: readonly Amount[]): Promise<OperationReply> {
    this.#options.dialect.checkTopUp(operation.bucket);
    return topUpAll(this.#context, operation, amounts);
  }

  reset(operation: Operation, limits: readonly string[] | undefined): Promise<OperationReply> {
    return resetAll(this.#context, operation, limits);
  }

  async read(keys: readonly BucketKey[]): Promise<readonly (BucketState | undefined)[]> {
    const readingMs = this.#context.clock.now();
    const wholes = await readWhole(this.#context, keys, unhurried(readingMs));
    return wholes.map(({ images }) =>
      images.length === 0
        ? undefined
        : wholeOf(
            images.map(({ state }) => state),
            this.#context.env.calendar,
          ),
    );
  }

  watchReturns(listener: (returned: Returned) => void): () => void {
    this.#returnListeners.add(listener);
    return () => this.#returnListeners.delete(listener);
  }

  listByResource(resource: string, page: PageRequest): Promise<Page<ListedBucket>> {
    return bucketsOn(this.#context, resource, page);
  }

  async listKeys(owner: BucketOwner, page: PageRequest): Promise<Page<BucketKey>> {
    return this.#context.items.listKeys(owner, page);
  }

  /** Doubles, halves or joins the shards of a bucket now, whatever it is used. True when it was done. */
  resize(bucket: BucketKey, to: "more" | "fewer" | 1, readingMs: number): Promise<boolean> {
    return resize(this.#context, bucket, to, readingMs);
  }

  /** Closes hours of shards that have been over for some time; see close-hours.ts. At most 100 shards. */
  closeHours(shards: readonly ShardPlace[], options: CloseOptions): Promise<readonly ShardClosed[]> {
    return closeHours(this.#context, shards, options);
  }

  /** Marks a bucket with "configuration changed"; how many shards were written. */
  announce(bucket: BucketKey, readingMs: number): Promise<number> {
    return announce(this.#context, bucket, readingMs);
  }

  /** Stamps what is allowed on a bucket; how many shards were written. */
  stampAccess(bucket: BucketKey, access: Access, readingMs: number): Promise<number> {
    return stampAccess(this.#context, bucket, access, readingMs);
  }

  /** Installs limits on every shard of a bucket that exists. True when all go by them. */
  installLimits(
    bucket: BucketKey,
    { set, origin }: { readonly set: LimitSet; readonly origin: SetOrigin },
    readingMs: number,
  ): Promise<boolean> {
    return installLimits(this.#context, { bucket, set, origin, readingMs, configConfirmed: true });
  }

  /** For a bucket that nothing is known of: takes in its first item from a caller that reads it anyway. */
  onFirstRead(bucket: BucketKey): ((item: Item | undefined, atMs: number) => void) | undefined {
    const cache = this.#caches.of(bucket);
    if (!cache.isUnknown) return undefined;
    const about = {
      eventuallyConsistent: true,
      set: undefined,
      ownWrites: 0,
      sentAtSequence: this.#caches.sequence,
    };
    return (item, atMs) => this.#caches.observe(cache, { bucket, shard: 0 }, item, { ...about, atMs });
  }

  /** Drops what is cached of a bucket: it was deleted, or another program wrote it. */
  forget(bucket: BucketKey): void {
    this.#caches.of(bucket).forgetShards();
  }

  /** Calls back with what failed of work that no caller waits for; the answer takes that back. */
  onFault(listener: (fault: BackgroundFault) => void): () => void {
    return this.#background.onFault(listener);
  }

  /** Resolves when no work is left that goes on without a caller: resizing, give-backs that are tried again. */
  settled(): Promise<void> {
    return this.#background.settled();
  }

  #tellReturned(returned: Returned): void {
    for (const listener of this.#returnListeners) listener(returned);
  }

  #called({ nowMs, timeoutMs, signal }: CallContext): Called {
    const untilMs = this.#context.clock.now() + timeoutMs;
    // A reading from before the clock was corrected may lie ahead of what the server can show.
    const readingMs = Math.min(nowMs, this.#options.serverTime.latestMs());
    return { nowMs: readingMs, timeoutMs, signal, untilMs, askedAtSequence: this.#caches.sequence };
  }

  #chainOps(call: Called): ChainOps {
    const { nowMs } = call;
    const cacheOf = ({ bucket }: Claim) => this.#caches.of(bucket);
    return {
      take: async (claim) => (await this.#takeOne(claim, call))[0],
      giveBack: async (claim, { ticket }) => {
        const { bucket, take } = claim;
        // In what is left of the request's time; the rest of it goes on in the background.
        const timeoutMs = Math.max(1, call.untilMs - this.#context.clock.now());
        const reply = await this.credit({ ...claim, ticket }, take, { ...call, timeoutMs, undoes: "request" });
        this.#tellReturned({ after: "refusal", bucket, amounts: take, askedMs: nowMs });
        return reply.kind !== "unavailable" || reply.applied === "unknown";
      },
      isScarce: (claim) => cacheOf(claim).isScarce(nowMs),
      noteScarce: (claim) => cacheOf(claim).noteScarce(nowMs),
      hasOthers: (claim) => cacheOf(claim).hasOtherWriters(nowMs),
    };
  }

  #jobOf(of: Claim | Held, kind: Job["kind"], amounts: readonly Amount[], { nowMs, untilMs }: Called): Job {
    return { of, kind, amounts, readingMs: nowMs, untilMs, askedAtSequence: this.#caches.sequence };
  }

  /** Whatever happens to one claim is an answer: others of the same call may have been taken, and are given back by it. */
  async #takeOne(claim: Claim, call: Called): Promise<readonly [Answer]> {
    this.#options.dialect.checkLimits(claim.set);
    const { random } = this.#context;
    const job = this.#jobOf(claim, "take", claim.take, call);
    const cache = this.#caches.of(claim.bucket);
    cache.hold();
    try {
      let shard = pickShard(cache, job, random);
      for (let moves = 0; shard !== undefined && moves < MOVES_MAX; moves++) {
        const outcome = await this.#lanes.add(cache, shard, job, call.signal);
        switch (outcome.kind) {
          case "taken":
            return [decidedBy(this.#taken(claim, cache, outcome), outcome.readingMs, call)];
          case "short":
            if (isWholeOf(cache, outcome.state)) {
              return [decidedBy({ kind: "short", state: outcome.state }, outcome.readingMs, call)];
            }
            shard = moves === 0 ? pickOther(cache, job, shard) : undefined;
            break;
          case "elsewhere":
            shard = await standInFor(this.#context, cache, shard, call);
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
      const [answer] = await takeTogether(this.#context, [claim], call);
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

  #taken(claim: Claim, cache: BucketCache, outcome: Extract<JobOutcome, { kind: "taken" }>): TakenAnswer {
    const { image, readingMs } = outcome;
    this.#background.watchSize(cache, image.key.shard, readingMs);
    if (readingMs >= this.#sheets.nextDueMs) this.#background.track(this.#sheets.writeDue(), claim.bucket, NO_SHEET);
    const ticket = ticketOfJob({ of: claim, amounts: claim.take }, outcome, this.#context.env);
    return { kind: "taken", state: this.#stateOf(image), ticket };
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
    return { kind: "configSuspect", state: wholeState(this.#context, claim, { images }, nowMs) };
  }

  /** Nobody writes before having heard from the store. */
  async #inContact(claims: readonly Claim[], call: Called): Promise<Called> {
    const { serverTime } = this.#options;
    const wasKnown = serverTime.isKnown();
    const unknown = withoutContact(this.#context, claims);
    // Where the clock may be put by what is heard, nobody can tell afterwards how long that took: half of the time is left.
    const halfMs = wasKnown ? 0 : Math.floor(call.timeoutMs / 2);
    if (unknown.length > 0) await makeContact(this.#context, unknown, { ...call, untilMs: call.untilMs - halfMs });
    if (wasKnown || !serverTime.isKnown()) return call;
    // A reading, and a deadline, from before the server's time was known may be off by any amount.
    return this.#called({ ...call, nowMs: this.#context.clock.now(), timeoutMs: Math.max(1, halfMs) });
  }

  #stateOf(image: Image): BucketState {
    if (image.shardCount === 1) return image.state;
    const images = this.#caches.of(image.key.bucket).images();
    const states = (images.length === 0 ? [image] : images).map(({ state }) => state);
    return wholeOf(states, this.#context.env.calendar);
  }

  /** A write whose outcome was reported as unknown was applied: no caller was granted anything for it, so it is given back. */
  #giveBackLate({ jobs, leaves, overdrafts, intent }: Sent): void {
    const written = { written: leaves, readingMs: intent.readingMs, by: { jobs, overdrafts } };
    for (const job of jobs) {
      // A debit is the price of work that was done, whatever outcome its caller got.
      if (job.kind === "debit") continue;
      const ticket = ticketOfJob(job, written, this.#context.env);
      const { bucket } = job.of;
      const nowMs = this.#context.clock.now();
      const call = { nowMs, timeoutMs: RETRY.giveBack.timeoutMs, undoes: "request" } as const;
      const credited = this.credit({ ...job.of, ticket }, job.amounts, call).then(orFault);
      this.#background.track(
        credited.finally(() => this.#context.returnedLate(bucket)),
        bucket,
        NOT_GIVEN_BACK,
      );
    }
  }
}

function notDebited(outcome: "configSuspect" | "contended" | "elsewhere", { bucket }: Held): Error {
  const why = outcome === "elsewhere" ? "its shards keep being split or joined" : `it is ${outcome}`;
  return new Error(`The debit of ${bucket.entityId} on ${bucket.resource} could not be stored: ${why}.`);
}
