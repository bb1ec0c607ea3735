import type { Amount } from "../../domain/amounts.ts";
import type { BucketKey } from "../../domain/bucket-key.ts";
import { resetLimits, toppedUp } from "../../domain/bucket-operations.ts";
import {
  acrossBoundaries,
  type BucketState,
  bornAs,
  bucketFor,
  countFrom,
  debitFrom,
  fits,
  freshBucket,
  isIdle,
  overdrawnOf,
  takeFrom,
  touched,
} from "../../domain/bucket-state.ts";
import type { Calendar } from "../../domain/calendar.ts";
import { giveBack, markOf, PLAIN_MARK, type TakeMark } from "../../domain/give-back.ts";
import type { Page, PageRequest } from "../../domain/paging.ts";
import { bypassOf, HOUR_MS, hourOf, overdraftOf } from "../../domain/usage.ts";
import type {
  Answer,
  BucketStore,
  CallContext,
  Claim,
  Held,
  Operation,
  OperationReply,
  TakeContext,
  TakenAnswer,
  TakeReply,
  WriteReply,
} from "../../ports/bucket-store.ts";
import { requireActive } from "./config.ts";
import { type BucketCell, dataOf, type HourUsage, type MemoryData, type NamespaceData, pageByKey } from "./data.ts";
import { isOwnable, OwnedState } from "./owned-state.ts";

/** Buckets that have been full this long equal missing ones, also for a client whose clock is behind by less. */
const IDLE_MS = HOUR_MS;
/** Memory is not for book-keeping: a quarter of a year is kept. */
const USAGE_KEPT_MS = 90 * 24 * HOUR_MS;
const OPERATIONS_KEPT_MS = 3 * 24 * HOUR_MS;
const SWEEP_EVERY = 256;
const SWEEP_CELLS = 16;

/** Buckets in memory: one thread, so each call is a transaction. */
export class MemoryBuckets implements BucketStore {
  readonly #all: MemoryData;
  readonly #namespaceId: string;
  readonly #data: NamespaceData;
  readonly #calendar: Calendar;
  #takes = 0;
  #sweep: Iterator<BucketCell> | undefined;

  constructor(all: MemoryData, namespaceId: string, calendar: Calendar) {
    this.#all = all;
    this.#namespaceId = namespaceId;
    this.#data = dataOf(all, namespaceId);
    this.#calendar = calendar;
  }

  take(claims: readonly Claim[], context: TakeContext): TakeReply {
    return this.takeSync(claims, context);
  }

  takeSync(claims: readonly Claim[], context: TakeContext): TakeReply {
    if (context.generation !== undefined && context.generation !== this.#all.generation) return "stale";
    const { nowMs } = context;
    if (claims.length === 1) return [this.#takeOne(claims[0] as Claim, nowMs)];
    const cells = claims.map(({ bucket }) => this.#cell(bucket));
    const before = claims.map((claim, i) => this.#standing((cells[i] as BucketCell).state, claim, nowMs));
    const after = claims.map((claim, i) => taking(before[i] as BucketState, claim, nowMs));
    const refused = after.includes(undefined);
    return claims.map((claim, i) => {
      const cell = cells[i] as BucketCell;
      return refused
        ? refuse(cell, claim, before[i] as BucketState, nowMs)
        : this.#taken(cell, claim, after[i] as BucketState, nowMs);
    });
  }

  takeOne(claim: Claim, nowMs: number, generation: number | undefined): TakenAnswer | undefined {
    if (generation !== undefined && generation !== this.#all.generation) return undefined;
    const found = this.#data.buckets.get(claim.bucket.id);
    if (found?.state !== undefined && isOwnable(found.state, claim, nowMs)) {
      const owned = found.owned ?? this.#own(found, found.state);
      if (!owned.take(claim.take, nowMs)) return undefined;
      this.#countTake(found, claim, nowMs);
      return owned;
    }
    const cell = this.#cell(claim.bucket);
    const after = taking(this.#standing(cell.state, claim, nowMs), claim, nowMs);
    return after === undefined ? undefined : this.#taken(cell, claim, after, nowMs);
  }

  debit(held: Held, amounts: readonly Amount[], { nowMs }: CallContext): WriteReply {
    const cell = this.#cell(held.bucket);
    const before = this.#standing(cell.state, held, nowMs);
    const { bypass } = held;
    const state = bypass ? touched(before) : debitFrom(before, amounts, nowMs);
    cell.state = state;
    if (amounts.some(isSome)) count(cell, amounts, 1, bypass, nowMs);
    if (bypass) return { kind: "applied", state };
    const ticket = markOf(state, amounts, nowMs, this.#calendar);
    return ticket === PLAIN_MARK ? { kind: "applied", state } : { kind: "applied", state, ticket };
  }

  credit(held: Held, amounts: readonly Amount[], { nowMs }: CallContext): WriteReply {
    if (this.#data.buckets.get(held.bucket.id)?.state === undefined) return { kind: "gone" };
    const cell = this.#cell(held.bucket) as BucketCell & { state: BucketState };
    if (!held.bypass) {
      const mark = (held.ticket ?? PLAIN_MARK) as TakeMark;
      cell.state = giveBack(acrossBoundaries(cell.state, nowMs, this.#calendar), amounts, mark, nowMs);
    }
    // Also what comes too late for its period: it was not used.
    if (amounts.some(isSome)) count(cell, amounts, -1, held.bypass, nowMs);
    return { kind: "applied", state: cell.state };
  }

  topUp(operation: Operation, amounts: readonly Amount[]): OperationReply {
    return this.#operate(operation, (state) => toppedUp(state, amounts, operation.nowMs, this.#calendar));
  }

  reset(operation: Operation, limits: readonly string[] | undefined): OperationReply {
    return this.#operate(operation, (state) => ({
      state: resetLimits(state, limits, operation.nowMs, this.#calendar),
      gained: [],
    }));
  }

  read(keys: readonly BucketKey[]): readonly (BucketState | undefined)[] {
    return keys.map(({ id }) => seenState(this.#data.buckets.get(id)));
  }

  listByResource(resource: string, page: PageRequest): Page<{ key: BucketKey; state: BucketState }> {
    const cells = [...this.#data.buckets.values()].flatMap((cell) => {
      const state = cell.key.resource === resource ? seenState(cell) : undefined;
      return state === undefined ? [] : [{ key: cell.key, state }];
    });
    return pageByKey(cells, ({ key }) => key.entityId, page);
  }

  #operate(
    { bucket, set, origin, nowMs, idempotencyKey, event }: Operation,
    change: (state: BucketState) => { readonly state: BucketState; readonly gained: readonly Amount[] },
  ): OperationReply {
    requireActive(this.#all, this.#namespaceId);
    const { operations, audit } = this.#data;
    const id = `${bucket.id}\n${idempotencyKey}`;
    for (const [old, { atMs }] of operations) if (atMs + OPERATIONS_KEPT_MS <= nowMs) operations.delete(old);
    const done = operations.get(id);
    if (done !== undefined) return { repeated: true, amounts: done.amounts };
    const cell = this.#cell(bucket);
    const { state, gained } = change(this.#standing(cell.state, { set, origin }, nowMs));
    cell.state = state;
    operations.set(id, { entityId: bucket.entityId, atMs: nowMs, amounts: gained });
    audit.push(event);
    return { repeated: false, amounts: gained };
  }

  #takeOne(claim: Claim, nowMs: number): Answer {
    const cell = this.#cell(claim.bucket);
    const before = this.#standing(cell.state, claim, nowMs);
    const after = taking(before, claim, nowMs);
    return after === undefined ? refuse(cell, claim, before, nowMs) : this.#taken(cell, claim, after, nowMs);
  }

  #taken(cell: BucketCell, claim: Claim, state: BucketState, nowMs: number): TakenAnswer {
    const { take, bypass } = claim;
    cell.state = state;
    const hour = this.#countTake(cell, claim, nowMs);
    if (!bypass) for (const limit of overdrawnOf(state, take, nowMs)) add(hour, overdraftOf(limit), 1);
    return { kind: "taken", state, ticket: bypass ? PLAIN_MARK : markOf(state, take, nowMs, this.#calendar) };
  }

  #countTake(cell: BucketCell, { take, bypass }: Claim, nowMs: number): HourUsage {
    const hour = count(cell, take, 1, bypass, nowMs);
    hour.requests++;
    if (++this.#takes % SWEEP_EVERY === 0) this.#sweepSome(nowMs);
    return hour;
  }

  /** The bucket as it stands for a claim. A new one is numbered by the store: the claim may be older than a deletion. */
  #standing(state: BucketState | undefined, claim: Pick<Claim, "set" | "origin">, nowMs: number): BucketState {
    if (state !== undefined) return bucketFor(state, claim, nowMs, this.#calendar);
    const fresh = freshBucket(claim.set, claim.origin, nowMs, this.#calendar);
    return bornAs(fresh, countFrom(nowMs, this.#all.generation));
  }

  #own(cell: BucketCell, state: BucketState): OwnedState {
    const owned = new OwnedState(cell, state);
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
    const made: BucketCell = { key, state: undefined, owned: undefined, hours: new Map(), last: undefined };
    this.#data.buckets.set(key.id, made);
    return made;
  }

  // A few cells now and then, so that entities that never come back do not stay for ever.
  #sweepSome(nowMs: number): void {
    for (let i = 0; i < SWEEP_CELLS; i++) {
      this.#sweep ??= this.#data.buckets.values();
      const { value: cell, done } = this.#sweep.next();
      if (done) {
        this.#sweep = undefined;
        return;
      }
      if (cell.state !== undefined && isIdle(cell.state, IDLE_MS, nowMs, this.#calendar)) {
        cell.state = undefined;
        cell.owned = undefined;
      }
      for (const hourMs of cell.hours.keys()) if (hourMs + USAGE_KEPT_MS < nowMs) cell.hours.delete(hourMs);
      if (cell.state === undefined && cell.hours.size === 0) this.#data.buckets.delete(cell.key.id);
    }
  }
}

/** The state of a cell, for somebody outside: from now on it stays as it is. */
function seenState(cell: BucketCell | undefined): BucketState | undefined {
  if (cell !== undefined) cell.owned = undefined;
  return cell?.state;
}

/** Nothing makes no entry in the usage of an hour. */
function isSome({ milli }: Amount): boolean {
  return milli !== 0;
}

function taking(state: BucketState, { take, bypass }: Claim, nowMs: number): BucketState | undefined {
  return bypass ? touched(state) : takeFrom(state, take, nowMs);
}

function refuse(cell: BucketCell, claim: Claim, state: BucketState, nowMs: number): Answer {
  // Changed limits count from the moment they reach the bucket, granted or refused.
  if (cell.state !== undefined) cell.state = state;
  return { kind: claim.bypass || fits(state, claim.take, nowMs) ? "skipped" : "short", state };
}

function count(cell: BucketCell, amounts: readonly Amount[], sign: 1 | -1, bypass: boolean, nowMs: number): HourUsage {
  const hour = hourAt(cell, nowMs);
  for (let a = 0; a < amounts.length; a++) {
    const { limit, milli } = amounts[a] as Amount;
    if (milli === 0) continue;
    add(hour, limit, (sign * milli) / 1000);
    if (bypass) add(hour, bypassOf(limit), (sign * milli) / 1000);
  }
  return hour;
}

function hourAt(cell: BucketCell, nowMs: number): HourUsage {
  const { last } = cell;
  if (last !== undefined && nowMs >= last.hourMs && nowMs < last.hourMs + HOUR_MS) return last;
  const hourMs = hourOf(nowMs);
  let hour = cell.hours.get(hourMs);
  if (hour === undefined) {
    hour = { hourMs, limits: [], tokens: [], requests: 0 };
    cell.hours.set(hourMs, hour);
  }
  cell.last = hour;
  return hour;
}

function add({ limits, tokens }: HourUsage, limit: string, count: number): void {
  for (let i = 0; i < limits.length; i++) {
    if (limits[i] === limit) {
      tokens[i] = (tokens[i] as number) + count;
      return;
    }
  }
  limits.push(limit);
  tokens.push(count);
}
