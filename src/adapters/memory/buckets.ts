import type { Amount } from "../../domain/amounts.ts";
import { type BucketKey, bucketKey } from "../../domain/bucket-key.ts";
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
import { type BucketCell, dataOf, type MemoryData, type NamespaceData, pageByKey, type UsageCell } from "./data.ts";

/** A take of this store can be given back anywhere: nothing about it needs remembering. */
const TICKET: Ticket = Object.freeze({});

/** Buckets that have been full this long equal missing ones, also for a client whose clock is behind by less. */
const IDLE_MS = HOUR_MS;
const SWEEP_EVERY = 256;
const SWEEP_CELLS = 16;

/** Buckets in memory: one thread, so each call is a transaction. */
export class MemoryBuckets implements BucketStore {
  readonly #all: MemoryData;
  readonly #data: NamespaceData;
  #writes = 0;
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
    const before: BucketState[] = [];
    const after: BucketState[] = [];
    for (const claim of claims) {
      const state = this.#brought(claim, nowMs);
      before.push(state);
      const taken = takeFrom(state, claim.take, nowMs);
      if (taken !== undefined) after.push(taken);
    }
    if (after.length < claims.length) return claims.map((claim, i) => this.#refused(claim, before[i]!, nowMs));
    return claims.map((claim, i): Answer => {
      const state = after[i]!;
      this.#put(claim.bucket, state, nowMs);
      this.#count(claim.bucket, claim.take, 1, 1, nowMs);
      return { kind: "taken", state, ticket: TICKET };
    });
  }

  debit(held: Held, amounts: readonly Amount[], { nowMs }: CallContext): WriteReply {
    const state = debitFrom(this.#brought(held, nowMs), amounts, nowMs);
    this.#put(held.bucket, state, nowMs);
    this.#count(held.bucket, amounts, 1, 0, nowMs);
    return { kind: "applied", state };
  }

  credit(held: Held, amounts: readonly Amount[], { nowMs }: CallContext): WriteReply {
    const cell = this.#data.buckets.get(held.bucket.id);
    if (cell === undefined) return { kind: "gone" };
    cell.state = creditTo(cell.state, amounts);
    this.#count(held.bucket, amounts, -1, 0, nowMs);
    return { kind: "applied", state: cell.state };
  }

  read(keys: readonly BucketKey[]): readonly (BucketState | undefined)[] {
    return keys.map(({ id }) => this.#data.buckets.get(id)?.state);
  }

  listByResource(resource: string, page: PageRequest): Page<{ key: BucketKey; state: BucketState }> {
    const cells = [...this.#data.buckets.values()].filter(({ key }) => key.resource === resource);
    const { items, cursor } = pageByKey(cells, ({ key }) => key.entityId, page);
    return {
      items: items.map(({ key, state }) => ({ key, state })),
      ...(cursor === undefined ? {} : { cursor }),
    };
  }

  #brought({ bucket, set, origin }: Claim | Held, nowMs: number): BucketState {
    const cell = this.#data.buckets.get(bucket.id);
    return cell === undefined ? freshBucket(set, origin, nowMs) : bringLimits(cell.state, set, origin, nowMs);
  }

  #refused(claim: Claim, state: BucketState, nowMs: number): Answer {
    // Changed limits count from the moment they reach the bucket, granted or refused.
    const cell = this.#data.buckets.get(claim.bucket.id);
    if (cell !== undefined) cell.state = state;
    return { kind: fits(state, claim.take, nowMs) ? "spared" : "short", state };
  }

  #put(key: BucketKey, state: BucketState, nowMs: number): void {
    const cell = this.#data.buckets.get(key.id);
    if (cell === undefined) this.#data.buckets.set(key.id, { key: bucketKey(key.entityId, key.resource), state });
    else cell.state = state;
    if (++this.#writes % SWEEP_EVERY === 0) this.#sweepSome(nowMs);
  }

  #count(key: BucketKey, amounts: readonly Amount[], sign: 1 | -1, requests: number, nowMs: number): void {
    let cell = this.#data.usage.get(key.id);
    if (cell === undefined) {
      cell = { key: bucketKey(key.entityId, key.resource), hours: new Map(), last: undefined };
      this.#data.usage.set(key.id, cell);
    }
    const hour = hourAt(cell, nowMs);
    hour.requests += requests;
    for (const { limit, milli } of amounts) {
      if (milli !== 0) hour.tokens.set(limit, (hour.tokens.get(limit) ?? 0) + (sign * milli) / 1000);
    }
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
      if (fullAtMs(cell.state) + IDLE_MS < nowMs) this.#data.buckets.delete(cell.key.id);
    }
  }
}

function hourAt(cell: UsageCell, nowMs: number) {
  const { last } = cell;
  if (last !== undefined && nowMs >= last.hourMs && nowMs < last.hourMs + HOUR_MS) return last;
  const hourMs = hourOf(nowMs);
  let hour = cell.hours.get(hourMs);
  if (hour === undefined) {
    hour = { hourMs, tokens: new Map(), requests: 0 };
    cell.hours.set(hourMs, hour);
  }
  cell.last = hour;
  return hour;
}
