import type { BucketKey } from "../domain/bucket/bucket-key.ts";
import type { ToppedUp } from "../domain/bucket/bucket-operations.ts";
import { withoutShadowed } from "../domain/bucket/bucket-questions.ts";
import type { BucketState } from "../domain/bucket/bucket-state.ts";
import { PLAIN_TICKET, unreturnedOf } from "../domain/bucket/give-back.ts";
import { ItemUnreadable } from "../domain/bucket/item-unreadable.ts";
import { type Amount, aboveZero, milliOf } from "../domain/charge/amounts.ts";
import { namespaceNotActive } from "../domain/config/namespace.ts";
import { operatedText } from "../domain/lease/idempotency.ts";
import { MILLI_MAX } from "../domain/limits/limit-numbers.ts";
import { knowsMore, type LimitedBucket, type SetOrigin, type SourcedLimits } from "../domain/limits/limit-set.ts";
import type { Crossed } from "../domain/limits/thresholds.ts";
import { ConflictError, RateLimiterUnavailable } from "../domain/names/errors.ts";
import type { Page, PageRequest } from "../domain/names/paging.ts";
import type { VersionedRow } from "../ports/batch-store.ts";
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
  TakeContext,
  TakeReply,
  WriteReply,
} from "../ports/bucket-store.ts";
import { type BucketRecord, recordAfter } from "../stored/bucket-record.ts";
import {
  limitsIn,
  mayHavePassedEnd,
  OPERATIONS_KEPT_MS,
  passesOverEnd,
  type RuleContext,
  refunded,
  resetState,
  stateForGiveBack,
  topUpState,
} from "../stored/bucket-rules.ts";
import { ANY_PLAN } from "../stored/config-keys.ts";
import { operatedIn } from "../stored/row-damage.ts";
import type { Reply } from "./answers.ts";
import { REQUESTS_MAX } from "./draft.ts";
import type { Lane, LaneParts, LaneScope } from "./lane.ts";
import { StraightMarks } from "./marks.ts";
import type { Call, HeldCall } from "./requests.ts";
import { recordOfRow, rowOf } from "./row-codec.ts";

/** Buckets of one namespace on a store that takes in batches. */
export class StraightBuckets implements BucketStore {
  readonly #scope: LaneScope;
  readonly #parts: LaneParts;
  readonly #lanes: readonly Lane[];
  readonly #requireOpen: () => void;
  readonly #marks: StraightMarks;
  /** Up to which generation buckets have met changes by writes that were no requests. */
  readonly #met = new Map<string, Met>();

  constructor(scope: LaneScope, parts: LaneParts, lanes: readonly Lane[], requireOpen: () => void, id: string) {
    const { store, calendar, clock } = parts;
    const { namespaceId } = scope;
    this.#marks = new StraightMarks({ store, namespaceId, calendar, now: () => clock?.now() ?? 0 }, id);
    this.#scope = scope;
    this.#parts = parts;
    this.#lanes = lanes;
    this.#requireOpen = requireOpen;
  }

  async take(claims: readonly Claim[], context: TakeContext): Promise<TakeReply> {
    const { generation, goesBy, limitsOf, lease } = context;
    const limitsFrom = generation === undefined ? "lease" : (limitsOf ?? "config");
    const names = goesBy === undefined ? [] : goesBy();
    const call = { kind: "take", claims, limitsFrom, generation, goesBy: names, lease } as const;
    const mayHaveEnded = (claim: Claim) =>
      limitsFrom === "lease" && this.#mayHaveEnded(claim, context.nowMs, passesOverEnd);
    let reply: TakeReply | "ended" = "ended";
    for (let meetings = 0; reply === "ended"; meetings++) {
      for (const claim of claims.filter(mayHaveEnded)) await this.#meetEnd(claim, context);
      const mayBeEnded = meetings < READS_MAX && claims.some((claim) => !this.#knowsEnds(claim));
      reply = (await this.#submit({ ...call, mayBeEnded }, context)) as TakeReply | "ended";
    }
    if (reply !== "stale") this.#looked(claims, reply, context.nowMs);
    return reply;
  }

  /**
   * A lease goes on by its limits beyond the end of an override, but does not pass over it: no later write would find it. Nothing is given
   * back, which does not make a bucket that is not there.
   */
  async #meetEnd(claim: Claim, context: CallContext): Promise<void> {
    await this.credit({ ...claim, ticket: PLAIN_TICKET }, [], context);
  }

  #looked(claims: readonly Claim[], answers: readonly Answer[], nowMs: number): void {
    for (let i = 0; i < claims.length; i++) {
      const claim = claims[i] as Claim;
      const answer = answers[i];
      // One take takes all claims or none.
      if (answer?.kind !== "taken" || answer.state.plain) continue;
      const taken = withoutShadowed(claim.take, answer.shadowed);
      this.#marks.look(claim, taken, answer.state, answer.readingMs ?? nowMs);
    }
  }

  watchThresholds(listener: (crossed: Crossed) => void): () => void {
    return this.#marks.keeper.listeners.watch(listener);
  }

  thresholdsTold(): Promise<void> {
    return this.#marks.keeper.told();
  }

  async debit(held: Held, amounts: readonly Amount[], context: CallContext): Promise<WriteReply> {
    const reply = (await this.#submitMet({ kind: "debit", held, amounts }, context)) as WriteReply;
    if (reply.kind === "applied") this.#marks.look(held, amounts, reply.state, context.nowMs);
    return reply;
  }

  // Not an async function: give-backs are answered in the order of their batch, with the takes beside them.
  credit(held: Held, amounts: readonly Amount[], context: CreditContext): Promise<WriteReply> {
    const isVast = amounts.some(({ milli }) => milli > MILLI_MAX);
    return isVast ? this.#creditInParts(held, amounts, context) : this.#credit(held, amounts, context);
  }

  // A lease that took more often than once may give back more than a row can count at once.
  async #creditInParts(held: Held, amounts: readonly Amount[], context: CreditContext): Promise<WriteReply> {
    let left = amounts;
    for (let given = 0; ; given++) {
      const share = left.map(({ limit, milli }) => ({ limit, milli: Math.min(milli, MILLI_MAX) }));
      const reply = await this.#credit(held, share, context);
      // The shares that were given back already must not be given back again.
      if (reply.kind === "unavailable" && given > 0) return { ...reply, applied: "unknown" };
      left = left.map(({ limit, milli }) => ({ limit, milli: Math.max(0, milli - MILLI_MAX) }));
      if (reply.kind === "unavailable" || left.every(({ milli }) => milli === 0)) return reply;
    }
  }

  async #credit(held: Held, amounts: readonly Amount[], context: CreditContext): Promise<WriteReply> {
    const call = { kind: "credit", held, amounts, slots: context, undone: [] } as const;
    return (await this.#submitMet(call, context)) as WriteReply;
  }

  /**
   * The row is read first, and what it has no room for is left out. The server gives back without a bound: if somebody else has filled the
   * row since, or brought other limits to it, that came to nothing, and usage counts it again.
   */
  async refund(of: Refunded, amounts: readonly Amount[], context: CallContext): Promise<WriteReply> {
    this.#requireOpen();
    const { store, calendar } = this.#parts;
    const { nowMs } = context;
    let row: VersionedRow | undefined;
    try {
      [row] = await store.read(this.#scope.namespaceId, [of.bucket]);
    } catch (cause) {
      if (!(cause instanceof RateLimiterUnavailable)) throw cause;
      return { kind: "unavailable", applied: "no", cause };
    }
    if (row === undefined) return { kind: "gone" };
    const { state } = recordOfRow(row, of.bucket, calendar);
    // By the origin of the row, so that the write meets the changes that the row has not met: what is missing is decided after those.
    const plain: Held = { ...of, origin: state.origin, ticket: PLAIN_TICKET, bypass: false };
    const generation = this.#scope.config.generation() ?? 0;
    const isMet = this.#metBy(plain) === generation && nowMs < state.validUntilMs;
    const stored = isMet ? undefined : await this.#storedOf(of.bucket, generation, nowMs);
    const current = stored && { of: () => stored };
    const rules = { nowMs, calendar, generation, countsUsage: false, current };
    const standing = stateForGiveBack(state, plain, rules);
    const { given, ticket } = refunded(standing, amounts, rules);
    if (given.length === 0) return { kind: "applied", state: standing, given };
    const held = { ...plain, ticket };
    const reply = await this.credit(held, given, context);
    if (reply.kind !== "applied") return reply;
    const over = unreturnedOf(reply.state, given, ticket, nowMs);
    if (over.length === 0) return { ...reply, given };
    await this.#submitMet({ kind: "credit", held, amounts: [], slots: {}, undone: over }, context);
    const kept = given.map(({ limit, milli }) => ({ limit, milli: milli - milliOf(over, limit) }));
    return { ...reply, given: aboveZero(kept) };
  }

  async renew(held: Held, amounts: readonly Amount[], context: CallContext): Promise<RenewReply> {
    return (await this.#submitMet({ kind: "renew", held, amounts }, context)) as RenewReply;
  }

  topUp(operation: Operation, amounts: readonly Amount[]): Promise<OperationReply> {
    return this.#operate(operation, "readable", (state, context) => topUpState(state, operation, amounts, context));
  }

  reset(operation: Operation, limits: readonly string[] | undefined): Promise<OperationReply> {
    // A reset of everything does not depend on what the bucket held, nor on whether that can be read.
    const needs = limits === undefined ? "replaced" : "readable";
    return this.#operate(operation, needs, (state, context) => resetState(state, operation, limits, context));
  }

  async read(keys: readonly BucketKey[]): Promise<readonly (BucketState | undefined)[]> {
    this.#requireOpen();
    const rows = await this.#parts.store.read(this.#scope.namespaceId, keys);
    return rows.map((row, i) =>
      row === undefined ? undefined : recordOfRow(row, keys[i] as BucketKey, this.#parts.calendar).state,
    );
  }

  listKeys(owner: BucketOwner, page: PageRequest): Promise<Page<BucketKey>> {
    this.#requireOpen();
    return this.#parts.store.listKeys(this.#scope.namespaceId, owner, page);
  }

  async listByResource(resource: string, page: PageRequest): Promise<Page<ListedBucket>> {
    this.#requireOpen();
    const { items, ...rest } = await this.#parts.store.listByResource(this.#scope.namespaceId, resource, page);
    return {
      ...rest,
      items: items.map(({ key, row }) => ({ key, state: recordOfRow(row, key, this.#parts.calendar).state })),
    };
  }

  /**
   * A write that is no take meets the changes of stored limits that its bucket has not met. Whether there may be any is compared in the
   * store: only where configuration has changed since the bucket was last known to have met all of it, it is read.
   */
  async #submitMet(call: UnmetCall, context: CallContext): Promise<Reply> {
    this.#requireOpen();
    const { waiting } = this.#parts;
    const { config } = this.#scope;
    const untilMs = waiting.steadyMs() + context.timeoutMs;
    let stored: SourcedLimits | undefined;
    let generation = this.#metBy(call.held);
    if (generation !== undefined && this.#mayHaveEnded(call.held, context.nowMs, mayHavePassedEnd)) {
      stored = await this.#storedOf(call.held.bucket, generation, context.nowMs);
    }
    const mayBeEnded = !this.#knowsEnds(call.held);
    for (let reads = 0; ; reads++) {
      const left = { ...context, timeoutMs: Math.max(1, untilMs - waiting.steadyMs()) };
      // Answered in as many steps as a take: what was one batch is heard in its order.
      const reply = await this.#laneOf(call).submit(this.#scope, { ...call, generation, stored, mayBeEnded }, left);
      if (reply !== "stale") {
        if (stored !== undefined && generation !== undefined) {
          this.#noteMet(call.held, stored, { generation, atMs: context.nowMs });
        }
        return reply;
      }
      // It is read after the number: a change in between is found once more, and met already.
      generation = config.generation() ?? 0;
      stored = await this.#storedOf(call.held.bucket, generation, context.nowMs);
      // If that cannot be told, or is always overtaken, the write goes by what the bucket has and what was read last.
      if (stored === undefined || reads === READS_MAX) generation = undefined;
    }
  }

  async #storedOf(
    { entityId, resource }: BucketKey,
    generation: number,
    nowMs: number,
  ): Promise<SourcedLimits | undefined> {
    try {
      return limitsIn(await this.#scope.config.resolve(entityId, resource), resource, generation, nowMs);
    } catch {
      return undefined;
    }
  }

  /** Up to which generation a bucket is known to have met changes; undefined where it goes by limits of a request, as far as is known. */
  #metBy({ bucket: { id, entityId, resource }, origin }: Held): number | undefined {
    const generations = [origin.generation, this.#originOf(id)?.generation, this.#met.get(id)?.generation];
    const known = generations.filter((one) => typeof one === "number");
    if (known.length === 0) return undefined;
    const { config } = this.#scope;
    const met = Math.max(...known);
    // Changes that did not touch the bucket have been met.
    return config.isUnchanged?.({ entityId, resource, planId: ANY_PLAN }, met) ? config.generation() : met;
  }

  /** A bucket that a debit has made goes by the limits of its lease: it has met nothing yet. */
  #noteMet({ bucket: { id } }: Held, stored: SourcedLimits, met: Met): void {
    const origin = this.#originOf(id);
    if (origin === undefined || (origin.generation !== null && knowsMore(stored.origin, origin))) return;
    if (this.#met.size >= MET_MAX) this.#met.clear();
    this.#met.set(id, met);
  }

  /** An override may have ended that the bucket has not met: the generation does not say so. */
  #mayHaveEnded(of: LimitedBucket, nowMs: number, hasPassed: typeof passesOverEnd): boolean {
    const { id } = of.bucket;
    const metMs = this.#met.get(id)?.atMs ?? Number.NEGATIVE_INFINITY;
    if (of.origin.ends?.some(({ atMs }) => atMs <= nowMs && atMs > metMs)) return true;
    const state = this.#scope.known.get(id)?.record.state;
    return hasPassed(state, nowMs, of) && !this.#knowsEnds(of);
  }

  /** The ends that a request has read are all there are: nothing of its limits was changed since. */
  #knowsEnds({ bucket: { entityId, resource }, origin: { changes, generation } }: LimitedBucket): boolean {
    if (changes === undefined || generation === null) return false;
    const { config } = this.#scope;
    if (generation === config.generation()) return true;
    return config.isUnchanged?.({ entityId, resource, planId: ANY_PLAN }, generation) === true;
  }

  #originOf(id: string): SetOrigin | undefined {
    return this.#scope.known.get(id)?.record.state.origin;
  }

  async #submit(call: Call, context: CallContext): Promise<Reply> {
    this.#requireOpen();
    return this.#laneOf(call).submit(this.#scope, call, context);
  }

  /**
   * By the uppermost level: calls that would wait for each other's rows in the store are in one batch instead. Nobody waits for a bucket that is
   * new: takes of all such buckets fill one batch before the next lane is used.
   */
  #laneOf(call: Call | UnmetCall): Lane {
    const uppermost = call.kind === "take" ? call.claims.at(-1)?.bucket : call.held.bucket;
    if (call.kind === "take" && uppermost !== undefined && this.#scope.known.get(uppermost.id) === undefined) {
      const lanes = this.#lanes.filter(({ waiting }) => waiting < REQUESTS_MAX);
      const lane = lanes.find(({ isUnderWay }) => !isUnderWay) ?? lanes[0];
      if (lane !== undefined) return lane;
    }
    const entityId = uppermost?.entityId ?? "";
    let hash = 0;
    for (let i = 0; i < entityId.length; i++) hash = (Math.imul(hash, 31) + entityId.charCodeAt(i)) >>> 0;
    return this.#lanes[hash % this.#lanes.length] as Lane;
  }

  async #operate(
    operation: Operation,
    needs: "readable" | "replaced",
    work: (state: BucketState | undefined, context: RuleContext) => ToppedUp,
  ): Promise<OperationReply> {
    this.#requireOpen();
    const { store, calendar, countsUsage, signatureOf } = this.#parts;
    const { namespaceId } = this.#scope;
    const { bucket, idempotencyKey, nowMs, event } = operation;
    const key = { namespaceId, bucket, idempotencyKey, forgottenMs: nowMs - OPERATIONS_KEPT_MS };
    for (let tries = 0; tries < OPERATIONS_TRIED_MAX; tries++) {
      const known = await store.operated(key);
      if (known !== undefined) return { kind: "done", repeated: true, ...operatedIn(known, operation) };
      const [row] = await store.read(namespaceId, [bucket]);
      const record = row === undefined ? undefined : readable(() => recordOfRow(row, bucket, calendar), needs);
      const context = {
        nowMs,
        calendar,
        generation: this.#scope.config.generation() ?? 0,
        countsUsage,
        current: undefined,
      };
      const operated = work(record?.state, context);
      if (operated.kind === "tooLarge") return operated;
      const { gained: amounts, state } = operated;
      const next = recordAfter(record, state, undefined, context);
      const brought = { version: row?.version ?? 0, row: rowOf(next, signatureOf), left: next.left };
      const amountsText = operatedText({ asks: operation.asks, amounts });
      const reply = await store.operate({ ...key, nowMs, amountsText, event, brought });
      if (reply.kind === "done") return { kind: "done", repeated: false, amounts };
      if (reply.kind === "namespaceGone") throw namespaceNotActive(namespaceId);
      if (reply.kind === "known") return { kind: "done", repeated: true, ...operatedIn(reply.amountsText, operation) };
    }
    throw new ConflictError(
      "contended",
      `The bucket of ${bucket.entityId} on ${bucket.resource} was changed by others ${OPERATIONS_TRIED_MAX} times in a row; nothing was done. Try again.`,
    );
  }
}

/** A process remembers of at most this many buckets what they have met. */
const MET_MAX = 10_000;

/** A bucket has met the changes up to a generation, and the ends up to an instant. */
interface Met {
  readonly generation: number;
  readonly atMs: number;
}

/** Configuration is read again this often for one write. */
const READS_MAX = 4;

/** A call before it is known what its bucket has met. */
type UnmetCall = WithoutMet<HeldCall>;
type WithoutMet<One> = One extends unknown ? Omit<One, "generation" | "stored" | "mayBeEnded"> : never;

/** A hot bucket is written a thousand times a second; a read and a write of it take milliseconds. */
const OPERATIONS_TRIED_MAX = 200;

function readable(read: () => BucketRecord, needs: "readable" | "replaced"): BucketRecord | undefined {
  try {
    return read();
  } catch (error) {
    if (needs === "replaced" && error instanceof ItemUnreadable) return undefined;
    throw error;
  }
}
