import type { Amount } from "../../domain/amounts.ts";
import type { BucketKey } from "../../domain/bucket-key.ts";
import {
  type BucketState,
  bringLimits,
  creditTo,
  debitFrom,
  fits,
  freshBucket,
  fullAtMs,
  takeFrom,
} from "../../domain/bucket-state.ts";
import type { Page, PageRequest } from "../../domain/paging.ts";
import { HOUR_MS, hourOf } from "../../domain/usage.ts";
import type {
  Answer,
  BucketStore,
  CallContext,
  Claim,
  Held,
  TakeContext,
  TakeReply,
  Ticket,
  WriteReply,
} from "../../ports/bucket-store.ts";
import { type BucketCell, dataOf, type HourUsage, type MemoryData, type NamespaceData, pageByKey } from "./data.ts";

/** A take of this store can be given back anywhere: nothing about it needs remembering. */
const TICKET: Ticket = Object.freeze({});

/** Buckets that have been full this long equal missing ones, also for a client whose clock is behind by less. */
const IDLE_MS = HOUR_MS;
/** Memory is not for book-keeping: a quarter of a year is kept. */
const USAGE_KEPT_MS = 90 * 24 * HOUR_MS;
const SWEEP_EVERY = 256;
const SWEEP_CELLS = 16;

/** Buckets in memory: one thread, so each call is a transaction. */
export class MemoryBuckets implements BucketStore {
  readonly #all: MemoryData;
  readonly #data: NamespaceData;
  #takes = 0;
  #sweep: Iterator<BucketCell> | undefined;

  constructor(all: MemoryData, namespaceId: string) {
    this.#all = all;
    this.#data = dataOf(all, namespaceId);
  }

  take(claims: readonly Claim[], context: TakeContext): TakeReply {
    return this.takeSync(claims, context);
  }

  takeSync(claims: readonly Claim[], context: TakeContext): TakeReply {
    if (context.generation !== undefined && context.generation !== this.#all.generation) return "stale";
    const { nowMs } = context;
    if (claims.length === 1) return [this.#takeOne(claims[0] as Claim, nowMs)];
    const cells = claims.map(({ bucket }) => this.#cell(bucket));
    const before = claims.map((claim, i) => brought((cells[i] as BucketCell).state, claim, nowMs));
    const after = claims.map((claim, i) => takeFrom(before[i] as BucketState, claim.take, nowMs));
    const refused = after.includes(undefined);
    return claims.map((claim, i) => {
      const cell = cells[i] as BucketCell;
      return refused
        ? refuse(cell, claim, before[i] as BucketState, nowMs)
        : this.#taken(cell, claim, after[i] as BucketState, nowMs);
    });
  }

  debit(held: Held, amounts: readonly Amount[], { nowMs }: CallContext): WriteReply {
    const cell = this.#cell(held.bucket);
    const state = debitFrom(brought(cell.state, held, nowMs), amounts, nowMs);
    cell.state = state;
    count(cell, amounts, 1, nowMs);
    return { kind: "applied", state };
  }

  credit(held: Held, amounts: readonly Amount[], { nowMs }: CallContext): WriteReply {
    const cell = this.#data.buckets.get(held.bucket.id);
    if (cell?.state === undefined) return { kind: "gone" };
    cell.state = creditTo(cell.state, amounts);
    count(cell, amounts, -1, nowMs);
    return { kind: "applied", state: cell.state };
  }

  read(keys: readonly BucketKey[]): readonly (BucketState | undefined)[] {
    return keys.map(({ id }) => this.#data.buckets.get(id)?.state);
  }

  listByResource(resource: string, page: PageRequest): Page<{ key: BucketKey; state: BucketState }> {
    const cells = [...this.#data.buckets.values()].flatMap(({ key, state }) =>
      key.resource === resource && state !== undefined ? [{ key, state }] : [],
    );
    return pageByKey(cells, ({ key }) => key.entityId, page);
  }

  #takeOne(claim: Claim, nowMs: number): Answer {
    const cell = this.#cell(claim.bucket);
    const before = brought(cell.state, claim, nowMs);
    const after = takeFrom(before, claim.take, nowMs);
    return after === undefined ? refuse(cell, claim, before, nowMs) : this.#taken(cell, claim, after, nowMs);
  }

  #taken(cell: BucketCell, { take }: Claim, state: BucketState, nowMs: number): Answer {
    cell.state = state;
    count(cell, take, 1, nowMs).requests++;
    if (++this.#takes % SWEEP_EVERY === 0) this.#sweepSome(nowMs);
    return { kind: "taken", state, ticket: TICKET };
  }

  #cell(key: BucketKey): BucketCell {
    const cell = this.#data.buckets.get(key.id);
    if (cell !== undefined) return cell;
    const made: BucketCell = { key, state: undefined, hours: new Map(), last: undefined };
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
      if (cell.state !== undefined && fullAtMs(cell.state) + IDLE_MS < nowMs) cell.state = undefined;
      for (const hourMs of cell.hours.keys()) if (hourMs + USAGE_KEPT_MS < nowMs) cell.hours.delete(hourMs);
      if (cell.state === undefined && cell.hours.size === 0) this.#data.buckets.delete(cell.key.id);
    }
  }
}

function brought(state: BucketState | undefined, { set, origin }: Claim | Held, nowMs: number): BucketState {
  return state === undefined ? freshBucket(set, origin, nowMs) : bringLimits(state, set, origin, nowMs);
}

function refuse(cell: BucketCell, claim: Claim, state: BucketState, nowMs: number): Answer {
  // Changed limits count from the moment they reach the bucket, granted or refused.
  if (cell.state !== undefined) cell.state = state;
  return { kind: fits(state, claim.take, nowMs) ? "spared" : "short", state };
}

function count(cell: BucketCell, amounts: readonly Amount[], sign: 1 | -1, nowMs: number): HourUsage {
  const hour = hourAt(cell, nowMs);
  for (let a = 0; a < amounts.length; a++) {
    const { limit, milli } = amounts[a] as Amount;
    if (milli !== 0) add(hour, limit, (sign * milli) / 1000);
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
