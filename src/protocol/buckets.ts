import type { Amount } from "../domain/amounts.ts";
import type { BucketKey } from "../domain/bucket-key.ts";
import { type BucketState, fits } from "../domain/bucket-state.ts";
import type { Access } from "../domain/config.ts";
import { RateLimiterUnavailable } from "../domain/errors.ts";
import { markOf, PLAIN_MARK } from "../domain/give-back.ts";
import type { LimitSet, SetOrigin } from "../domain/limit-set.ts";
import type { Page, PageRequest } from "../domain/paging.ts";
import type {
  Answer,
  BucketStore,
  CallContext,
  Claim,
  Held,
  Operation,
  OperationReply,
  TakeContext,
  TakeReply,
  WriteReply,
} from "../ports/bucket-store.ts";
import type { Item, ItemAnswer, ItemKey } from "../ports/item-store.ts";
import { announce, bringTo, stampAccess } from "./apply.ts";
import { Beside } from "./beside.ts";
import { type ChainOps, takeChain } from "./chain.ts";
import { type Image, SOFT_FOREVER_MS } from "./codec.ts";
import { Crediting, notRead } from "./crediting.ts";
import { readWhole, takeTogether, wholeState } from "./gather.ts";
import { type Job, type JobOutcome, walk } from "./job.ts";
import { Lane } from "./lane.ts";
import { type BucketMemory, Memories } from "./memory.ts";
import { Nonces } from "./nonces.ts";
import { resetAll, topUpAll } from "./operate.ts";
import type { ProtocolOptions } from "./options.ts";
import { pickOther, pickShard } from "./pick.ts";
import { makeShard, resize } from "./resize.ts";
import { doRounds, mayJoin, type RoundsContext } from "./rounds.ts";
import { checkShared, sharedTopUp } from "./shared-limits.ts";
import { mergedState } from "./split.ts";
import { isPlainTicket, ticketOf, ticketOn } from "./ticket.ts";

const WAITING_MAX = 1_000;
const MOVES_MAX = 6;
const LISTED_TIMEOUT_MS = 5_000;

/** Buckets made of single-item conditional writes: exact without a lock. See docs/protocol.md. */
export class ProtocolBuckets implements BucketStore {
  readonly #options: ProtocolOptions;
  readonly #context: RoundsContext;
  readonly #memories: Memories;
  readonly #crediting: Crediting;
  readonly #beside: Beside;

  constructor(options: ProtocolOptions) {
    const { items, calendar, shared, rules, clock, random, readings, exact, latestServerMs } = options;
    const softUntilMs = (atMs: number) =>
      shared ? atMs + Math.floor(STAMP_MS * (0.8 + random() / 5)) : SOFT_FOREVER_MS;
    this.#options = options;
    this.#memories = new Memories(calendar, shared);
    this.#context = {
      items,
      env: { calendar, shared, rules, latestServerMs, softUntilMs },
      clock,
      random,
      memories: this.#memories,
      nonces: new Nonces(random),
      readings,
      exact,
      landedLate: (key, jobs, answer, readingMs) => this.#giveBackLate(key, jobs, answer, readingMs),
      throttled: (memory) => this.#beside.resize(memory, "more", clock.now()),
    };
    this.#crediting = new Crediting(this.#context);
    this.#beside = new Beside(this.#context);
  }

  async take(claims: readonly Claim[], asked: TakeContext): Promise<TakeReply> {
    const given = this.#plausible(asked);
    if (this.#options.shared) for (const { set } of claims) checkShared(set);
    const known = this.#recalled(claims, given);
    if (known !== undefined) return known;
    const strangers = this.#strangers(claims);
    const context = strangers.length === 0 ? given : await this.#met(strangers, given);
    for (const claim of claims) if (this.#mustJoin(claim)) await this.#joinShards(claim.bucket, context.nowMs);
    if (claims.length === 1) return [await this.#takeOne(claims[0] as Claim, context)];
    if (context.atomic) return takeTogether(this.#context, claims, context);
    return takeChain(claims, this.#chainOps(context), {
      clock: this.#context.clock,
      random: this.#context.random,
      timeoutMs: context.timeoutMs,
      signal: context.signal,
    });
  }

  async debit(held: Held, amounts: readonly Amount[], asked: CallContext): Promise<WriteReply> {
    const context = this.#plausible(asked);
    const { env } = this.#context;
    const job: Job = {
      of: held,
      kind: "debit",
      amounts,
      readingMs: context.nowMs,
      timeoutMs: context.timeoutMs,
    };
    const before = ticketOn(held.ticket);
    const memory = this.#memories.of(held.bucket);
    let shard = (before.parts[0]?.shard ?? 0) % memory.shardCount;
    for (let moves = 0; moves < MOVES_MAX; moves++) {
      const outcome = await this.#enqueue(memory, shard, job, context.signal);
      if (outcome.kind === "elsewhere") {
        const there = await this.#elsewhere(memory, shard, context).catch(notRead);
        if (typeof there !== "number") return there;
        shard = there;
        continue;
      }
      if (outcome.kind === "unavailable") return outcome;
      if (outcome.kind !== "taken") return { kind: "unavailable", applied: "no", cause: new Error(outcome.kind) };
      const { image, written } = outcome;
      const mark = held.bypass ? PLAIN_MARK : markOf(written, amounts, outcome.readingMs, env.calendar);
      const ticket = ticketOf(image.key.shard, image.shardCount, mark);
      const state = this.#stateOf(image);
      return isPlainTicket(ticket) && isPlainTicket(before)
        ? { kind: "applied", state }
        : { kind: "applied", state, ticket };
    }
    return { kind: "unavailable", applied: "no", cause: new Error("the bucket is being split all the time") };
  }

  credit(held: Held, amounts: readonly Amount[], context: CallContext): Promise<WriteReply> {
    return this.#crediting.credit(held, amounts, this.#plausible(context));
  }

  async topUp(operation: Operation, amounts: readonly Amount[]): Promise<OperationReply> {
    if (this.#options.shared) throw sharedTopUp(operation.bucket);
    return topUpAll(this.#context, operation, amounts);
  }

  reset(operation: Operation, limits: readonly string[] | undefined): Promise<OperationReply> {
    return resetAll(this.#context, operation, limits);
  }

  async read(keys: readonly BucketKey[]): Promise<readonly (BucketState | undefined)[]> {
    const at = { readingMs: this.#context.clock.now(), timeoutMs: LISTED_TIMEOUT_MS };
    const wholes = await readWhole(this.#context, keys, at);
    return wholes.map(({ images }) =>
      images.length === 0 ? undefined : mergedState(images, this.#context.env.calendar, undefined),
    );
  }

  async listByResource(
    resource: string,
    page: PageRequest,
  ): Promise<Page<{ readonly key: BucketKey; readonly state: BucketState }>> {
    const { items: keys, ...rest } = await this.#context.items.listBuckets(resource, page);
    const states = await this.read(keys);
    return { ...rest, items: keys.flatMap((key, i) => (states[i] === undefined ? [] : [{ key, state: states[i] }])) };
  }

  /** Doubles, halves or joins the shards of a bucket now, whatever it is used. True when it was done. */
  resize(bucket: BucketKey, to: "more" | "fewer" | 1, readingMs: number): Promise<boolean> {
    return resize(this.#context, bucket, to, readingMs);
  }

  /** Says on a bucket that its configuration changed; how many shards were told. */
  announce(bucket: BucketKey, readingMs: number): Promise<number> {
    return announce(this.#context, bucket, readingMs);
  }

  /** Stamps what is allowed on a bucket; how many shards were told. */
  stampAccess(bucket: BucketKey, access: Access, readingMs: number): Promise<number> {
    return stampAccess(this.#context, bucket, access, readingMs);
  }

  /** Brings limits to every shard of a bucket that exists. True when all go by them. */
  bringTo(
    bucket: BucketKey,
    limits: { readonly set: LimitSet; readonly origin: SetOrigin },
    readingMs: number,
  ): Promise<boolean> {
    return bringTo(this.#context, bucket, limits, readingMs, true);
  }

  /** Of a bucket that nothing is known of: takes in its first item, from somebody who reads anyway. */
  stranger(bucket: BucketKey): ((item: Item | undefined, atMs: number) => void) | undefined {
    if (this.#memories.of(bucket).shards.length > 0) return undefined;
    const about = { hearsay: true, set: undefined, own: 0, asked: this.#memories.learnt };
    return (item, atMs) => this.#memories.learn({ bucket, shard: 0 }, item, { ...about, atMs });
  }

  /** What is remembered of a bucket is over: it was deleted, or written by somebody else. */
  forget(bucket: BucketKey): void {
    const memory = this.#memories.of(bucket);
    memory.forget();
    memory.shardCount = 1;
  }

  /** Resolves when nothing goes on any more that nobody waits for. */
  settled(): Promise<void> {
    return this.#beside.settled();
  }

  /** The window of a session opens with the first use of the whole bucket. */
  #mustJoin({ bucket, set }: Claim): boolean {
    if (this.#memories.of(bucket).shardCount === 1) return false;
    return set.limits.some(({ resetAfterMs }) => resetAfterMs !== undefined);
  }

  async #joinShards(bucket: BucketKey, readingMs: number): Promise<void> {
    await resize(this.#context, bucket, 1, readingMs).catch(() => false);
  }

  // A reading from before the clock was corrected may lie ahead of what the server can show.
  #plausible<Context extends CallContext>(context: Context): Context {
    const latestMs = this.#options.latestServerMs();
    return context.nowMs <= latestMs ? context : { ...context, nowMs: latestMs };
  }

  #chainOps(context: TakeContext): ChainOps {
    const { nowMs } = context;
    const memoryOf = ({ bucket }: Claim) => this.#memories.of(bucket);
    return {
      take: (claim, timeoutMs) => this.#takeOne(claim, { ...context, timeoutMs }),
      giveBack: async (claim, { ticket }) => {
        const reply = await this.credit({ ...claim, ticket }, claim.take, context);
        return reply.kind !== "unavailable" || reply.applied === "unknown";
      },
      isScarce: (claim) => memoryOf(claim).isScarce(nowMs),
      noteScarce: (claim) => {
        memoryOf(claim).scarceAtMs = nowMs;
      },
      hasOthers: (claim) => memoryOf(claim).hasCompany(nowMs),
      skipped: (claim) => ({ kind: "skipped", state: this.#seenState(claim, nowMs) }),
    };
  }

  /** Whatever happens to one claim is an answer: others of the same call may have been taken, and must be told of. */
  async #takeOne(claim: Claim, context: TakeContext): Promise<Answer> {
    try {
      return await this.#takeFrom(claim, context);
    } catch (error) {
      if (error instanceof RateLimiterUnavailable) return { kind: "unavailable", cause: error };
      // Whoever left the queue was not taken; the engine hears of the abort by itself.
      if (context.signal?.aborted) return { kind: "skipped", state: this.#seenState(claim, context.nowMs) };
      throw error;
    }
  }

  async #takeFrom(claim: Claim, context: TakeContext): Promise<Answer> {
    const { env, random } = this.#context;
    const { bucket } = claim;
    const { timeoutMs } = context;
    const job: Job = { of: claim, kind: "take", amounts: claim.take, readingMs: context.nowMs, timeoutMs };
    const memory = this.#memories.of(bucket);
    let shard = pickShard(memory, job, random);
    for (let moves = 0; shard !== undefined && moves < MOVES_MAX; moves++) {
      const outcome = await this.#enqueue(memory, shard, job, context.signal);
      switch (outcome.kind) {
        case "taken": {
          const { image, written, readingMs } = outcome;
          this.#beside.watchSize(memory, image.key.shard, readingMs);
          const mark = claim.bypass ? PLAIN_MARK : markOf(written, claim.take, readingMs, env.calendar);
          return {
            kind: "taken",
            state: this.#stateOf(image),
            ticket: ticketOf(image.key.shard, image.shardCount, mark),
          };
        }
        case "short":
          if (memory.shardCount === 1) return outcome;
          shard = moves === 0 ? pickOther(memory, job, shard) : undefined;
          break;
        case "elsewhere":
          shard = await this.#elsewhere(memory, shard, context);
          break;
        case "unavailable":
          return { kind: "unavailable", cause: outcome.cause };
        default: {
          // What one shard holds at most says nothing of when the whole bucket has it.
          const isWhole = memory.shardCount === 1;
          return { kind: outcome.kind, state: isWhole ? outcome.state : this.#seenState(claim, context.nowMs) };
        }
      }
    }
    // No single shard has it; all together may.
    const [answer] = await takeTogether(this.#context, [claim], context);
    return answer as Answer;
  }

  #enqueue(memory: BucketMemory, shard: number, job: Job, signal: AbortSignal | undefined): Promise<JobOutcome> {
    const lane = memory.lanes[shard] ?? this.#laneTo(memory, shard);
    return lane.add(job, signal);
  }

  #laneTo(memory: BucketMemory, shard: number): Lane<Job, JobOutcome> {
    const key = { bucket: memory.key, shard };
    const lane = new Lane<Job, JobOutcome>({
      run: (jobs, follows) => doRounds(this.#context, memory, key, jobs, follows),
      mayJoin,
      isJoining: this.#options.coalesce,
      waitingMax: WAITING_MAX,
      crowded: (one) => ({ kind: "contended", state: this.#seenState(one.of, one.readingMs) }),
    });
    memory.lanes[shard] = lane;
    return lane;
  }

  /** A bucket that was just seen to have too little need not be asked again: an image refuses, it never admits. */
  #recalled(claims: readonly Claim[], { nowMs }: TakeContext): readonly Answer[] | undefined {
    const { denyMemoryMs } = this.#options;
    if (denyMemoryMs === 0) return undefined;
    let isShort = false;
    for (const claim of claims) isShort ||= this.#surelyShort(claim, nowMs);
    if (!isShort) return undefined;
    return claims.map((claim) => ({
      kind: this.#surelyShort(claim, nowMs) ? "short" : "skipped",
      state: this.#seenState(claim, nowMs),
    }));
  }

  #surelyShort({ bucket, set, take, bypass }: Claim, nowMs: number): boolean {
    const memory = this.#memories.of(bucket);
    if (memory.refusedAtMs === Number.NEGATIVE_INFINITY) return false;
    const seen = memory.seen(0);
    if (bypass || memory.shardCount !== 1 || seen?.image === undefined || seen.hearsay) return false;
    const ageMs = nowMs - seen.atMs;
    const { state } = seen.image;
    if (ageMs < 0 || ageMs >= this.#options.denyMemoryMs || nowMs >= state.renewAtMs) return false;
    if (state.signature !== set.signature) return false;
    return memory.refusedAtMs >= seen.atMs && !fits(state, take, nowMs);
  }

  #strangers(claims: readonly Claim[]): readonly Claim[] {
    if (!this.#options.isTimeKnown()) return claims;
    let strangers: Claim[] | undefined;
    for (const claim of claims) {
      if (this.#memories.of(claim.bucket).shards.length > 0) continue;
      strangers ??= [];
      strangers.push(claim);
    }
    return strangers ?? NOBODY;
  }

  /** First contact: one read for all buckets that nothing is known of. So nobody writes who has not heard from the store. */
  async #met(strangers: readonly Claim[], context: TakeContext): Promise<TakeContext> {
    const { nowMs, timeoutMs } = context;
    const wasKnown = this.#options.isTimeKnown();
    const keys = strangers.map(({ bucket }) => ({ bucket, shard: 0 }));
    const asked = this.#memories.learnt;
    const found = await this.#context.items.read(keys, { consistent: false }, { timeoutMs });
    for (const [i, key] of keys.entries()) {
      const { set } = strangers[i] as Claim;
      this.#memories.learn(key, found[i], { atMs: nowMs, hearsay: true, set, own: 0, asked });
    }
    // A reading from before the server's time was known may be off by any amount.
    return !wasKnown && this.#options.isTimeKnown() ? { ...context, nowMs: this.#context.clock.now() } : context;
  }

  /** The shard that stands for one that is gone. */
  async #elsewhere(memory: BucketMemory, shard: number, { nowMs, timeoutMs }: CallContext): Promise<number> {
    await readWhole(this.#context, [memory.key], { readingMs: nowMs, timeoutMs });
    const standIn = shard % memory.shardCount;
    if (!this.#options.shared || memory.seen(standIn)?.image !== undefined) return standIn;
    // The original makes shards when it first comes to them.
    if (await makeShard(this.#context, memory.key, standIn, nowMs)) return standIn;
    return memory.images()[0]?.key.shard ?? 0;
  }

  #stateOf(image: Image): BucketState {
    if (image.shardCount === 1) return image.state;
    const images = this.#memories.of(image.key.bucket).images();
    return mergedState(images.length === 0 ? [image] : images, this.#context.env.calendar, undefined);
  }

  #seenState(of: Claim | Held, nowMs: number): BucketState {
    const images = this.#memories.of(of.bucket).images();
    const claim: Claim = "take" in of ? of : { ...of, take: [] };
    if (images.length > 0) return wholeState(this.#context, claim, { images }, nowMs);
    const job: Job = { of, kind: "take", amounts: [], readingMs: nowMs, timeoutMs: 0 };
    return walk(undefined, [job], nowMs, false, this.#context.env).state;
  }

  // It landed after all, and nobody was granted anything for it: it is given back.
  #giveBackLate(key: ItemKey, jobs: readonly Job[], answer: ItemAnswer, readingMs: number): void {
    if (answer.kind !== "applied") return;
    const { clock, env } = this.#context;
    const about = { atMs: readingMs, hearsay: true, set: undefined, own: 1, asked: 0 };
    const seen = this.#memories.learn(key, answer.item, about);
    for (const { of, kind, amounts } of jobs) {
      const { image } = seen;
      // A debit is the price of work that has been done: whoever was told that it may not be stored did not get it for that.
      if (image === undefined || kind === "debit") continue;
      const mark = of.bypass ? PLAIN_MARK : markOf(image.state, amounts, readingMs, env.calendar);
      const ticket = ticketOf(key.shard, image.shardCount, mark);
      this.#beside.goOn(this.credit({ ...of, ticket }, amounts, { nowMs: clock.now(), timeoutMs: LISTED_TIMEOUT_MS }));
    }
  }
}

const NOBODY: readonly Claim[] = Object.freeze([]);
/** How long the original believes a stamp. */
const STAMP_MS = 60_000;
