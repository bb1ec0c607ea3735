import { type BucketKey, bucketKey } from "../../domain/bucket/bucket-key.ts";
import { resetLimits, type ToppedUp, toppedUp } from "../../domain/bucket/bucket-operations.ts";
import type { BucketState } from "../../domain/bucket/bucket-state.ts";
import { ThresholdListeners } from "../../domain/bucket/mark-keeper.ts";
import type { Amount } from "../../domain/charge/amounts.ts";
import { operated } from "../../domain/lease/stored-amounts.ts";
import type { Calendar } from "../../domain/limits/calendar.ts";
import type { Crossed } from "../../domain/limits/thresholds.ts";
import type { Page, PageRequest } from "../../domain/names/paging.ts";
import type {
  Answer,
  BucketOwner,
  BucketStore,
  CallContext,
  Claim,
  CreditContext,
  Held,
  MaybePromise,
  Operation,
  OperationReply,
  RenewReply,
  TakeContext,
  TakenAnswer,
  TakeReply,
  WriteReply,
} from "../../ports/bucket-store.ts";
import type { InPlaceTakes, PlacedBucket, TakenInPlace } from "../../ports/in-place-takes.ts";
import {
  atWrite,
  countedOfTake,
  countedOfTime,
  type Decided,
  decided,
  earlierOnSame,
  met,
  type Planner,
  type RuleContext,
  standing,
  standingOfLease,
  taken,
  takenAnswer,
  toldBy,
} from "../../stored/bucket-rules.ts";
import { CurrentLimits } from "../../stored/current-limits.ts";
import { mayForget, OPERATIONS_KEPT_MS } from "../../stored/keeping.ts";
import { BucketDraft, type DraftedBuckets } from "./bucket-draft.ts";
import { levelIn } from "./config.ts";
import { type BucketCell, dataOf, type MemoryData, type NamespaceData, requireActive } from "./data.ts";
import { UsageCounter } from "./hour-usage.ts";
import { LeaseRecords } from "./lease-records.ts";
import { sameText } from "./list-orders.ts";
import { GivenBackInPlace, isOwnable, mayBeOwned, OwnedState } from "./owned-state.ts";
import { MemorySweep } from "./sweep.ts";

/** Buckets in memory: one thread, so each call is a transaction. */
export class MemoryBuckets implements BucketStore, InPlaceTakes {
  readonly #all: MemoryData;
  readonly #namespaceId: string;
  readonly #data: NamespaceData;
  readonly #calendar: Calendar;
  readonly #sweep: MemorySweep;
  /** Undefined where no usage is kept. */
  readonly #usage: UsageCounter | undefined;
  readonly #drafted: DraftedBuckets;
  readonly #leases: LeaseRecords;
  readonly #thresholds = new ThresholdListeners();
  readonly #current: CurrentLimits;

  constructor(all: MemoryData, namespaceId: string, calendar: Calendar) {
    this.#all = all;
    this.#leases = new LeaseRecords(all, namespaceId);
    this.#namespaceId = namespaceId;
    this.#data = dataOf(all, namespaceId);
    this.#calendar = calendar;
    this.#current = new CurrentLimits((entityId, resource) => levelIn(all, namespaceId, entityId, resource));
    const { usageKeepMs } = all.retention;
    this.#usage = usageKeepMs === undefined ? undefined : new UsageCounter(this.#data.countedHours);
    this.#sweep = new MemorySweep(this.#data, usageKeepMs, this.#countTime, (cell, nowMs) =>
      this.#mayForget(cell, nowMs),
    );
    this.#drafted = {
      usage: this.#usage,
      find: (key) => this.#data.buckets.get(key.id),
      cellOf: (key) => this.#cell(key),
      contextAt: (nowMs) => this.#at(nowMs),
      thresholds: this.#thresholds,
    };
  }

  take(claims: readonly Claim[], context: TakeContext): TakeReply {
    return this.takeSync(claims, context);
  }

  takeSync(claims: readonly Claim[], context: TakeContext): TakeReply {
    if (context.generation !== undefined && context.generation !== this.#all.generation) return "stale";
    const { nowMs, lease } = context;
    this.#sweep.run(nowMs);
    const by = context.generation === undefined ? "lease" : "plan";
    if (lease === undefined) return this.takeAll(claims, by, nowMs, undefined);
    this.#leases.requireOurs(lease.key);
    return this.takeAll(claims, by, nowMs, (taken) => this.#leases.create(lease.writeOf(taken), nowMs));
  }

  /**
   * All claims or none. `write` is called with what is taken before it is: when it throws, nothing is. Those of a lease go by its
   * limits, which may have been changed since: the change counts from this write on at the earliest.
   */
  takeAll(
    claims: readonly Claim[],
    by: Planner,
    nowMs: number,
    write: ((taken: readonly TakenAnswer[]) => void) | undefined,
  ): readonly Answer[] {
    const context = this.#at(nowMs);
    if (claims.length === 1 && write === undefined && by === "plan")
      return [this.#takeOne(claims[0] as Claim, context)];
    const before = claims.map((claim) => standing(this.#stateOf(claim), claim, context));
    const after: (BucketState | undefined)[] = [];
    const met: BucketState[] = [];
    const dues: Decided[] = [];
    for (let i = 0; i < claims.length; i++) {
      const claim = claims[i] as Claim;
      const earlier = earlierOnSame(claims, i);
      const state = earlier < 0 ? (before[i] as BucketState) : standing(after[earlier] ?? met[earlier], claim, context);
      const written = by === "plan" ? state : atWrite(state, context);
      const due = decided(written, claim, nowMs);
      met.push(written);
      dues.push(due);
      after.push(taken(written, due, nowMs));
    }
    if (after.includes(undefined)) {
      return claims.map((claim, i) => this.#refuse(claim, before[i] as BucketState, after[i] !== undefined, nowMs));
    }
    const answers = dues.map((claim, i) => takenAnswer(after[i] as BucketState, claim, context));
    write?.(answers);
    for (const [i, claim] of dues.entries()) this.#store(claim, after[i] as BucketState, nowMs);
    for (const [i, claim] of dues.entries()) {
      this.#tell(claim, met[i] as BucketState, after[i] as BucketState, context);
    }
    return answers;
  }

  takeOne(
    of: PlacedBucket,
    take: readonly Amount[],
    nowMs: number,
    generation: number | undefined,
  ): TakenInPlace | undefined {
    if (generation !== undefined && generation !== this.#all.generation) return undefined;
    this.#sweep.run(nowMs);
    const found = this.#found(of);
    if (found?.state !== undefined && isOwnable(found.state, of, nowMs)) {
      const owned = found.owned ?? this.#ownedOf(found, found.state);
      if (owned !== undefined) {
        const answer = owned.take(take, nowMs);
        if (answer === undefined) return undefined;
        if (this.#usage !== undefined) this.#usage.count(found, take, 1, nowMs).requests++;
        return answer;
      }
    }
    const { bucket, set, origin } = of;
    const claim = { bucket, set, origin, take, bypass: false };
    const context = this.#at(nowMs);
    const before = standing(this.#stateOf(claim), claim, context);
    const due = decided(before, claim, nowMs);
    const after = taken(before, due, nowMs);
    return after === undefined ? undefined : this.#taken(due, before, after, context);
  }

  debit(held: Held, amounts: readonly Amount[], { nowMs }: CallContext): WriteReply {
    const draft = this.draftAt(nowMs);
    const reply = draft.debit(held, amounts);
    draft.commit();
    return reply;
  }

  credit(held: Held, amounts: readonly Amount[], context: CreditContext): WriteReply {
    if (context.slotsUsed && context.undoes === undefined && !held.bypass) {
      const reply = this.#slotsBack(held, amounts, context.nowMs);
      if (reply !== undefined) return reply;
    }
    const draft = this.draftAt(context.nowMs);
    const reply = draft.credit(held, amounts, context);
    draft.commit();
    return reply;
  }

  renew(held: Held, amounts: readonly Amount[], { nowMs }: CallContext): RenewReply {
    const draft = this.draftAt(nowMs);
    const reply = draft.renew(held, amounts);
    draft.commit();
    return reply;
  }

  /** Debits and credits that are made together. */
  draftAt(nowMs: number): BucketDraft {
    return new BucketDraft(this.#drafted, nowMs);
  }

  watchThresholds(listener: (crossed: Crossed) => void): () => void {
    return this.#thresholds.watch(listener);
  }

  topUp(operation: Operation, amounts: readonly Amount[]): OperationReply {
    return this.#operate(operation, (state) => toppedUp(state, amounts, operation.nowMs, this.#calendar));
  }

  reset(operation: Operation, limits: readonly string[] | undefined): OperationReply {
    return this.#operate(operation, (state) => ({
      kind: "toppedUp",
      state: resetLimits(state, limits, operation.nowMs, this.#calendar),
      gained: [],
    }));
  }

  read(keys: readonly BucketKey[]): readonly (BucketState | undefined)[] {
    return keys.map(({ id }) => seenState(this.#data.buckets.get(id)));
  }

  // A line break comes before every character of a name: so ids of buckets sort by entity id, then by resource.
  listKeys({ entityId: wanted }: BucketOwner, page: PageRequest): MaybePromise<Page<BucketKey>> {
    const { buckets, orders } = this.#data;
    const from = wanted === undefined ? "" : `${wanted}\n`;
    const itemOf = (id: string) => {
      const cell = buckets.get(id);
      if (wanted !== undefined && cell?.key.entityId !== wanted) return "end";
      return seenState(cell) === undefined ? undefined : cell?.key;
    };
    const keysAfter = (id: string, max: number) => buckets.keysAfter(id, max);
    return orders.pageInOrder({ keysAfter, from, itemOf, textOf: sameText, keyOf: sameText }, page);
  }

  listByResource(resource: string, page: PageRequest): MaybePromise<Page<{ key: BucketKey; state: BucketState }>> {
    const { buckets, orders } = this.#data;
    const itemOf = (id: string) => {
      const cell = buckets.get(id);
      if (cell?.key.resource !== resource) return undefined;
      const state = seenState(cell);
      return state === undefined ? undefined : { key: cell.key, state };
    };
    const keysAfter = (id: string, max: number) => buckets.keysAfter(id, max);
    const textOf = (id: string) => id.slice(0, id.indexOf("\n"));
    const keyOf = (entityId: string) => bucketKey(entityId, resource).id;
    return orders.pageInOrder({ keysAfter, from: "", itemOf, textOf, keyOf }, page);
  }

  #operate(operation: Operation, change: (state: BucketState) => ToppedUp): OperationReply {
    const { bucket, nowMs, idempotencyKey, event } = operation;
    requireActive(this.#all, this.#namespaceId);
    const { operations } = this.#data;
    const id = `${bucket.id}\n${idempotencyKey}`;
    // Oldest first.
    for (const [old, { atMs }] of operations) {
      if (atMs + OPERATIONS_KEPT_MS > nowMs) break;
      operations.delete(old);
    }
    const done = operations.get(id);
    if (done !== undefined) return { kind: "done", repeated: true, ...operated(done.amounts, done.asks) };
    const cell = this.#cell(bucket);
    const context = this.#at(nowMs);
    const changed = change(atWrite(standingOfLease(cell.state, operation, context), context));
    if (changed.kind === "tooLarge") return changed;
    const { state, gained } = changed;
    this.#countTime(cell, state, nowMs);
    cell.state = state;
    operations.set(id, { entityId: bucket.entityId, atMs: nowMs, amounts: gained, asks: operation.asks });
    this.#all.records.log(this.#namespaceId, event);
    return { kind: "done", repeated: false, amounts: gained };
  }

  /** The cell of a bucket, which is not looked up again while it must still be there: of many ids, that is half of a take. */
  #found(of: PlacedBucket): BucketCell | undefined {
    const { buckets } = this.#data;
    const known = of.place as BucketCell | undefined;
    if (known !== undefined && known.foundAt === buckets.removals) return known;
    const cell = buckets.get(of.bucket.id);
    of.place = cell;
    if (cell !== undefined) cell.foundAt = buckets.removals;
    return cell;
  }

  #takeOne(claim: Claim, context: RuleContext): Answer {
    const before = standing(this.#stateOf(claim), claim, context);
    const due = decided(before, claim, context.nowMs);
    const after = taken(before, due, context.nowMs);
    if (after === undefined) return this.#refuse(claim, before, false, context.nowMs);
    return this.#taken(due, before, after, context);
  }

  #taken(claim: Decided, before: BucketState, state: BucketState, context: RuleContext): TakenAnswer {
    this.#store(claim, state, context.nowMs);
    this.#tell(claim, before, state, context);
    return takenAnswer(state, claim, context);
  }

  #tell(claim: Claim, before: BucketState, after: BucketState, context: RuleContext): void {
    if (!after.plain) this.#thresholds.tell(toldBy({ before, after, amounts: claim.take }, claim, context));
  }

  #store(claim: Decided, state: BucketState, nowMs: number): void {
    const cell = this.#cell(claim.bucket);
    this.#countTime(cell, state, nowMs);
    cell.state = state;
    if (this.#usage === undefined) return;
    this.#usage.count(cell, countedOfTake(state, claim, nowMs), 1, nowMs).requests++;
  }

  /** Counts holds that ended by themselves before the next state of a cell. */
  readonly #countTime = (cell: BucketCell, next: Pick<BucketState, "epochMs">, nowMs: number): void => {
    if (this.#usage === undefined || cell.state === undefined || cell.state.plain) return;
    const times = countedOfTime(cell.state, next);
    if (times.length > 0) this.#usage.count(cell, times, 1, nowMs);
  };

  /** A bucket that has not met a change goes by it first: it may not be full by that. */
  #mayForget({ state, key }: BucketCell, nowMs: number): boolean {
    if (state === undefined || !mayForget(state, nowMs, this.#calendar)) return false;
    return mayForget(met(state, key, this.#at(nowMs)), nowMs, this.#calendar);
  }

  // A bucket that was never taken from gets no cell by being asked for too much: nobody may fill the memory that way.
  #refuse({ bucket }: Claim, state: BucketState, isFitting: boolean, nowMs: number): Answer {
    const cell = this.#data.buckets.get(bucket.id);
    // Changed limits count from the moment they reach the bucket, granted or refused.
    if (cell?.state !== undefined) {
      this.#countTime(cell, state, nowMs);
      cell.state = state;
    }
    return { kind: isFitting ? "skipped" : "short", state };
  }

  /** The state that a claim goes by, which may be handed out. */
  #stateOf({ bucket }: Claim): BucketState | undefined {
    return seenState(this.#data.buckets.get(bucket.id));
  }

  #at(nowMs: number): RuleContext {
    return { nowMs, calendar: this.#calendar, generation: this.#all.generation, current: this.#current };
  }

  /** Gives back slots that were used, in place; undefined where that needs more: nothing has changed then. */
  #slotsBack(held: Held, amounts: readonly Amount[], nowMs: number): WriteReply | undefined {
    const cell = this.#found(held);
    if (cell?.state === undefined || nowMs >= cell.state.validUntilMs) return undefined;
    if (met(cell.state, held.bucket, this.#at(nowMs)) !== cell.state) return undefined;
    const owned = cell.owned ?? this.#ownedOf(cell, cell.state);
    const times = owned?.giveBack(amounts, held.ticket, nowMs);
    if (owned === undefined || times === undefined) return undefined;
    if (this.#usage !== undefined && times.length > 0) this.#usage.count(cell, times, 1, nowMs);
    return new GivenBackInPlace(owned);
  }

  /** Undefined where calls on the state change more than can be written in place. */
  #ownedOf(cell: BucketCell, state: BucketState): OwnedState | undefined {
    if (!mayBeOwned(state)) return undefined;
    const owned = new OwnedState(cell, state, this.#calendar);
    // Looking at its state ends the ownership, so it begins after that.
    cell.state = owned.state;
    cell.owned = owned;
    return owned;
  }

  /** The cell of a bucket, for a call that may hand its state out. */
  #cell(key: BucketKey): BucketCell {
    const cell = this.#data.buckets.get(key.id);
    if (cell !== undefined) {
      cell.owned = undefined;
      return cell;
    }
    const made: BucketCell = {
      key,
      state: undefined,
      owned: undefined,
      hours: undefined,
      last: undefined,
      foundAt: -1,
    };
    this.#data.buckets.set(key.id, made);
    return made;
  }
}

/** The state of a cell, for somebody outside: from now on it stays as it is. */
function seenState(cell: BucketCell | undefined): BucketState | undefined {
  if (cell !== undefined) cell.owned = undefined;
  return cell?.state;
}
