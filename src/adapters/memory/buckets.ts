import { type BucketKey, bucketKey } from "../../domain/bucket/bucket-key.ts";
import type { BucketState } from "../../domain/bucket/bucket-state.ts";
import { ThresholdListeners } from "../../domain/bucket/mark-keeper.ts";
import type { Amount, CountedAmount } from "../../domain/charge/amounts.ts";
import { operated } from "../../domain/lease/idempotency.ts";
import type { Calendar } from "../../domain/limits/schedule.ts";
import type { Crossed } from "../../domain/limits/thresholds.ts";
import type { Page, PageRequest } from "../../domain/names/paging.ts";
import type {
  BucketOwner,
  BucketStore,
  CallContext,
  Claim,
  CreditContext,
  Held,
  InPlaceTakes,
  MaybePromise,
  Operation,
  OperationReply,
  PlacedBucket,
  Refunded,
  RenewReply,
  TakeContext,
  TakenInPlace,
  TakeReply,
  WriteReply,
} from "../../ports/bucket-store.ts";
import {
  CurrentLimits,
  OPERATIONS_KEPT_MS,
  type RuleContext,
  usageOfEnded,
  withStoredLimits,
} from "../../stored/bucket-rules.ts";
import {
  credit,
  debit,
  type OperatedRow,
  type RowChange,
  type Rows,
  refund,
  renew,
  reset,
  takeAll,
  takeOne,
  topUp,
} from "../../stored/row-buckets.ts";
import { levelIn } from "./config.ts";
import { type BucketCell, dataOf, type MemoryData, type NamespaceData, requireActive } from "./data.ts";
import { UsageCounter } from "./hour-usage.ts";
import { MemoryLeases } from "./leases.ts";
import { pageInOrder, sameText } from "./ordered-pages.ts";
import { GivenBackInPlace, isOwnable, mayBeOwned, OwnedState } from "./owned-state.ts";
import { MemorySweep } from "./sweep.ts";

/** Buckets in memory: one thread, so each call is a transaction. */
export class MemoryBuckets implements BucketStore, InPlaceTakes {
  readonly #all: MemoryData;
  readonly #namespaceId: string;
  readonly #data: NamespaceData;
  readonly #calendar: Calendar;
  readonly #sweep: MemorySweep;
  /** Absent if no usage is kept. */
  readonly #usage: UsageCounter | undefined;
  readonly #thresholds = new ThresholdListeners();
  readonly #current: CurrentLimits;
  readonly leases: MemoryLeases;

  constructor(all: MemoryData, namespaceId: string, calendar: Calendar) {
    this.#all = all;
    this.#namespaceId = namespaceId;
    this.#data = dataOf(all, namespaceId);
    this.#calendar = calendar;
    this.#current = new CurrentLimits((entityId, resource) => levelIn(all, namespaceId, entityId, resource));
    const { usageKeepMs } = all.retention;
    this.#usage = usageKeepMs === undefined ? undefined : new UsageCounter(this.#data.countedHours);
    this.leases = new MemoryLeases(all, namespaceId, (nowMs) => this.#rowsAt(nowMs));
    this.#sweep = new MemorySweep(this.#data, usageKeepMs, (nowMs) => this.#rowsAt(nowMs));
  }

  take(claims: readonly Claim[], context: TakeContext): TakeReply {
    return this.takeSync(claims, context);
  }

  takeSync(claims: readonly Claim[], { generation, limitsOf, nowMs, lease }: TakeContext): TakeReply {
    if (generation !== undefined && generation !== this.#all.generation) return "stale";
    this.#sweep.run(nowMs);
    const limitsFrom = generation === undefined ? "lease" : (limitsOf ?? "config");
    const rows = this.#rowsAt(nowMs);
    return lease === undefined ? takeAll(rows, claims, limitsFrom) : this.leases.take(rows, claims, limitsFrom, lease);
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
    return takeOne(this.#rowsAt(nowMs), { bucket, set, origin, take, bypass: false }, "config");
  }

  debit(held: Held, amounts: readonly Amount[], { nowMs }: CallContext): WriteReply {
    return debit(this.#rowsAt(nowMs), held, amounts);
  }

  credit(held: Held, amounts: readonly Amount[], context: CreditContext): WriteReply {
    if (context.slotsUsed && context.undoes === undefined && !held.bypass) {
      const reply = this.#slotsBack(held, amounts, context.nowMs);
      if (reply !== undefined) return reply;
    }
    return credit(this.#rowsAt(context.nowMs), held, amounts, context);
  }

  refund(of: Refunded, amounts: readonly Amount[], { nowMs }: CallContext): WriteReply {
    return refund(this.#rowsAt(nowMs), of, amounts);
  }

  renew(held: Held, amounts: readonly Amount[], { nowMs }: CallContext): RenewReply {
    return renew(this.#rowsAt(nowMs), held, amounts);
  }

  watchThresholds(listener: (crossed: Crossed) => void): () => void {
    return this.#thresholds.watch(listener);
  }

  topUp(operation: Operation, amounts: readonly Amount[]): OperationReply {
    return this.#operate(operation, (rows) => topUp(rows, operation, amounts));
  }

  reset(operation: Operation, limits: readonly string[] | undefined): OperationReply {
    return this.#operate(operation, (rows) => reset(rows, operation, limits));
  }

  read(keys: readonly BucketKey[]): readonly (BucketState | undefined)[] {
    return keys.map(({ id }) => seenState(this.#data.buckets.get(id)));
  }

  // A line break comes before every character of a name: so ids of buckets sort by entity id, then by resource.
  listKeys({ entityId: wanted }: BucketOwner, page: PageRequest): MaybePromise<Page<BucketKey>> {
    const { buckets } = this.#data;
    const from = wanted === undefined ? "" : `${wanted}\n`;
    const itemOf = (id: string) => {
      const cell = buckets.get(id);
      if (wanted !== undefined && cell?.key.entityId !== wanted) return "end";
      return seenState(cell) === undefined ? undefined : cell?.key;
    };
    const keysAfter = (id: string, max: number) => buckets.keysAfter(id, max);
    return pageInOrder(this.#all.turns, { keysAfter, from, itemOf, textOf: sameText, keyOf: sameText }, page);
  }

  listByResource(resource: string, page: PageRequest): MaybePromise<Page<{ key: BucketKey; state: BucketState }>> {
    const { buckets } = this.#data;
    const itemOf = (id: string) => {
      const cell = buckets.get(id);
      if (cell?.key.resource !== resource) return undefined;
      const state = seenState(cell);
      return state === undefined ? undefined : { key: cell.key, state };
    };
    const keysAfter = (id: string, max: number) => buckets.keysAfter(id, max);
    const textOf = (id: string) => id.slice(0, id.indexOf("\n"));
    const keyOf = (entityId: string) => bucketKey(entityId, resource).id;
    return pageInOrder(this.#all.turns, { keysAfter, from: "", itemOf, textOf, keyOf }, page);
  }

  #operate(operation: Operation, work: (rows: CellRows) => OperatedRow): OperationReply {
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
    const reply = work(this.#rowsAt(nowMs));
    if (reply.kind === "tooLarge") return reply;
    const { amounts } = reply;
    operations.set(id, { entityId: bucket.entityId, atMs: nowMs, amounts, asks: operation.asks });
    this.#all.records.log(this.#namespaceId, event);
    return { kind: "done", repeated: false, amounts };
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

  /** Gives back slots that were used, in place; undefined where that needs more: nothing has changed then. */
  #slotsBack(held: Held, amounts: readonly Amount[], nowMs: number): WriteReply | undefined {
    const cell = this.#found(held);
    if (cell?.state === undefined || nowMs >= cell.state.validUntilMs) return undefined;
    if (withStoredLimits(cell.state, held.bucket, this.#rowsAt(nowMs).context) !== cell.state) return undefined;
    const owned = cell.owned ?? this.#ownedOf(cell, cell.state);
    const times = owned?.giveBack(amounts, held.ticket, nowMs);
    if (owned === undefined || times === undefined) return undefined;
    if (this.#usage !== undefined && times.length > 0) this.#usage.count(cell, times, 1, nowMs);
    return new GivenBackInPlace(owned);
  }

  /** Answers undefined if calls on the state change more than can be written in place. */
  #ownedOf(cell: BucketCell, state: BucketState): OwnedState | undefined {
    if (!mayBeOwned(state)) return undefined;
    const owned = new OwnedState(cell, state, this.#calendar);
    // Looking at its state ends the ownership, so it begins after that.
    cell.state = owned.state;
    cell.owned = owned;
    return owned;
  }

  #rowsAt(nowMs: number): CellRows {
    const { generation } = this.#all;
    const context = {
      nowMs,
      calendar: this.#calendar,
      generation,
      current: this.#current,
      countsUsage: this.#usage !== undefined,
    };
    return new CellRows(context, this.#data, this.#usage, this.#thresholds);
  }
}

/** The cells of one call. A cell that it puts to is the latest state at once. */
class CellRows implements Rows<BucketKey> {
  readonly context: RuleContext;
  readonly #data: NamespaceData;
  readonly #usage: UsageCounter | undefined;
  readonly #thresholds: ThresholdListeners;

  constructor(
    context: RuleContext,
    data: NamespaceData,
    usage: UsageCounter | undefined,
    thresholds: ThresholdListeners,
  ) {
    this.context = context;
    this.#data = data;
    this.#usage = usage;
    this.#thresholds = thresholds;
  }

  place({ bucket }: Pick<Claim, "bucket">): BucketKey {
    return bucket;
  }

  state({ id }: BucketKey): BucketState | undefined {
    return seenState(this.#data.buckets.get(id));
  }

  put(key: BucketKey, standing: BucketState, change?: RowChange): void {
    const cell = this.#cell(key);
    this.countEnded(cell, standing);
    cell.state = change?.state ?? standing;
    if (change !== undefined) this.#count(cell, change);
  }

  countForgotten({ id }: BucketKey, amounts: readonly CountedAmount[]): void {
    const cell = this.#data.buckets.get(id);
    if (cell !== undefined) this.#count(cell, { amounts, sign: -1, requests: 0 });
  }

  tell(crossed: readonly Crossed[]): void {
    this.#thresholds.tell(crossed);
  }

  /** Counts holds that ended by themselves before the next state of a cell. */
  countEnded(cell: BucketCell, next: Pick<BucketState, "epochMs">): void {
    if (this.#usage === undefined || cell.state === undefined || cell.state.plain) return;
    this.#count(cell, { amounts: usageOfEnded(cell.state, next), sign: 1, requests: 0 });
  }

  #count(cell: BucketCell, { amounts, sign, requests }: Omit<RowChange, "state">): void {
    // Nothing makes no entry in the usage of an hour.
    if (this.#usage === undefined || (requests === 0 && amounts.every(({ milli }) => milli === 0))) return;
    this.#usage.count(cell, amounts, sign, this.context.nowMs).requests += requests;
  }

  /** The cell of a bucket, for a call that may hand its state out. */
  #cell(key: BucketKey): BucketCell {
    const cell = this.#data.buckets.get(key.id);
    if (cell !== undefined) {
      cell.owned = undefined;
      return cell;
    }
    const made = { key, state: undefined, owned: undefined, hours: undefined, last: undefined, foundAt: -1 };
    this.#data.buckets.set(key.id, made);
    return made;
  }
}

/** The state of a cell, for callers outside: from now on it stays as it is. */
function seenState(cell: BucketCell | undefined): BucketState | undefined {
  if (cell !== undefined) cell.owned = undefined;
  return cell?.state;
}
