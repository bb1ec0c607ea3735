import { AsyncLocalStorage } from "node:async_hooks";
import { type BucketKey, TOTAL_RESOURCE } from "../../src/domain/bucket/bucket-key.ts";
import { isSlotPin, type Ticket } from "../../src/domain/bucket/give-back.ts";
import type { Amount } from "../../src/domain/charge/amounts.ts";
import type { Limit } from "../../src/domain/limits/limit.ts";
import type { AcquireRequest } from "../../src/engine/acquire/request.ts";
import type { Lease } from "../../src/engine/lease/lease.ts";
import type { Claim } from "../../src/ports/bucket-store.ts";
import type { MachineClock } from "./connection.ts";
import type { SentCorrection } from "./correction-checks.ts";
import { PassedBy } from "./passed-by.ts";

/** What one operation really moved on one limit of one bucket, in millitokens; sums of the largest amounts are exact too. */
interface Moved {
  readonly bucket: BucketKey;
  in: bigint;
  back: bigint;
}

/** What was asked of a bucket, and the limits that the bucket had. */
interface Sighted {
  readonly limits: readonly Limit[];
  readonly take: readonly Amount[];
  readonly bypass: boolean;
}

/** How often usage counts one claim of a request, and how often that was undone. */
export interface CountedClaim {
  readonly of: Claim;
  /** The soft limits that it left below zero, and the shadows that it passed by, each time it was counted. */
  readonly overdrafts: (readonly string[])[];
  /** Nobody knows of one of its writes whether it was applied: it may be told to have passed by more than it did. */
  isLost?: boolean;
  undone: number;
  /** All claims of its call were taken: the request was granted, whatever its caller made of it. */
  isGranted: boolean;
}

/** One thing a client does, from asking to settling, and what the store really did for it. */
export class Operation {
  readonly name: string;
  readonly clientId: string;
  readonly #moved = new Map<string, Map<string, Moved>>();
  readonly #told = new Map<string, number | undefined>();
  /** Shadows that would have refused it. */
  readonly passed = new PassedBy();
  readonly #slots = new Map<string, bigint>();
  /** Faults that hit a call of this operation. */
  faults = 0;
  /** Buckets where a write was answered as lost or as not applied: more may be charged there than it knows. */
  readonly uncertain = new Set<string>();
  /** Takes and debits of its own. */
  disturbances = 0;
  /** Buckets that were gone when something was to be given back. */
  readonly gone = new Set<string>();
  /** When it began, by the true clock. */
  beganMs = Number.NEGATIVE_INFINITY;
  /** When it last began to ask for a lease, by the true clock. */
  askedFromMs = Number.NEGATIVE_INFINITY;
  /** By how much its machine's clock had been put back by then. */
  #backMs = 0;
  /** The same by its client's clock. */
  beganShownMs = Number.NEGATIVE_INFINITY;
  /** What it asks for, while or after it asks. */
  request: AcquireRequest | undefined;
  /** Takes more under a lease: by the limits of the lease, whatever configuration says. */
  underLease = false;
  /** The claims of its last take, as the engine sent them, and how often it sent any. */
  claims: readonly Claim[] = [];
  asked = 0;
  /** The reading of its clock with which it last asked the store, and how many changes of configuration had been made by then. */
  readingMs = Number.NEGATIVE_INFINITY;
  plannedAfter = 0;
  /** Whether it waited for configuration since it last asked the store, or was refused from memory. */
  hasRead = false;
  /** How often it read or wrote items. */
  itemCalls = 0;
  /** Those of its last claims that were too much for their buckets, as the store answered. */
  short: readonly Claim[] = [];
  /** The limits that its last refusal went by, bucket by bucket, and what it asked of them. */
  sights: readonly Sighted[] = [];
  lease: Lease | undefined;
  /** Its lease is being closed: what cannot be stored now never will be. */
  isClosing = false;
  /** Everything that it asked its store to debit, or to give back without a lease. */
  readonly sent: SentCorrection[] = [];
  /** What was really given back to it without a lease, in millitokens by bucket and limit. */
  readonly refunded = new Map<string, number>();
  /** Every claim that was sent for it, of a request that was granted or not. */
  readonly counted: CountedClaim[] = [];

  constructor(name: string, clientId: string) {
    this.name = name;
    this.clientId = clientId;
  }

  /** It asks for a lease, or for more under one. */
  asks(trueMs: number, clock: MachineClock): void {
    clock.now();
    this.askedFromMs = trueMs;
    this.#backMs = clock.steppedBackMs;
  }

  /** No reading that it asked with is later, also where the clock was put back since. */
  latestReadingMs(clock: MachineClock): number {
    return clock.now() + clock.steppedBackMs - this.#backMs;
  }

  /** Those of the claims that concern the entity itself, one a resource; none over all of them. */
  ownClaims(): readonly Claim[] {
    return this.claims.filter(
      ({ bucket }) => bucket.entityId === this.request?.entityId && bucket.resource !== TOTAL_RESOURCE,
    );
  }

  moved(kind: "in" | "back", bucket: BucketKey, amounts: readonly Amount[]): void {
    let limits = this.#moved.get(bucket.id);
    if (limits === undefined) {
      limits = new Map();
      this.#moved.set(bucket.id, limits);
    }
    for (const { limit, milli } of amounts) {
      const moved = limits.get(limit) ?? { bucket, in: 0n, back: 0n };
      moved[kind] += BigInt(milli);
      limits.set(limit, moved);
    }
  }

  /** Something was given back without a lease. */
  gaveBack({ id }: BucketKey, amounts: readonly Amount[]): void {
    for (const { limit, milli } of amounts) {
      const place = `${id}\t${limit}`;
      this.refunded.set(place, (this.refunded.get(place) ?? 0) + milli);
    }
  }

  /** It was told with a ticket which of what it took are slots. */
  ticketed({ id }: BucketKey, amounts: readonly Amount[], { pins }: Ticket): void {
    for (const { limit, milli } of amounts) {
      if (milli === 0 || !pins.some((pin) => pin.limit === limit && isSlotPin(pin))) continue;
      const key = `${id}\n${limit}`;
      this.#slots.set(key, (this.#slots.get(key) ?? 0n) + BigInt(milli));
    }
  }

  /** Whether what it took of a limit are slots: all of it, some, or none. */
  slotsOf(bucketId: string, limit: string): "all" | "some" | "none" {
    const slots = this.#slots.get(`${bucketId}\n${limit}`);
    if (slots === undefined) return "none";
    return slots === this.#moved.get(bucketId)?.get(limit)?.in ? "all" : "some";
  }

  /** Taken and debited, less what was given back. */
  net(bucketId: string, limit: string): number {
    const moved = this.#moved.get(bucketId)?.get(limit);
    return moved === undefined ? 0 : Number(moved.in - moved.back);
  }

  /** Every limit of every bucket that it touched, with what is net taken there. */
  nets(): { readonly bucketId: string; readonly resource: string; readonly limit: string; readonly net: number }[] {
    return [...this.#moved].flatMap(([bucketId, limits]) =>
      [...limits].map(([limit, moved]) => ({
        bucketId,
        resource: moved.bucket.resource,
        limit,
        net: Number(moved.in - moved.back),
      })),
    );
  }

  /** More was charged for its lease, as far as its caller was told: by resource and limit, in tokens; `undefined`: no sum is known. */
  charged(resource: string, tokens: Readonly<Record<string, number | undefined>>, isKnown: boolean): void {
    for (const [limit, more] of Object.entries(tokens)) {
      const key = `${resource}\n${limit}`;
      const before = this.#told.has(key) ? this.#told.get(key) : 0;
      this.#told.set(key, isKnown && before !== undefined ? before + (more ?? 0) : undefined);
    }
  }

  /** What its caller was told to have been charged beside what it took at first; undefined where no sum is known. */
  toldMore(resource: string, limit: string): number | undefined {
    const key = `${resource}\n${limit}`;
    return this.#told.has(key) ? this.#told.get(key) : 0;
  }

  /** Claims that usage counts, although no request that was granted made them. */
  countedInVain(): readonly CountedClaim[] {
    return this.counted.filter(({ overdrafts, undone, isGranted }) => overdrafts.length > undone && !isGranted);
  }

  /** What is wrong with its give-backs: only what was taken may be given back. */
  overReturned(): string | undefined {
    const over = this.nets().find(({ net }) => net < 0);
    return over === undefined
      ? undefined
      : `${this.name} gave back ${-over.net} of ${over.limit} more than it took on ${shownKey(over.bucketId)}`;
  }
}

export function shownKey(bucketId: string): string {
  return bucketId.replace("\n", "/");
}

const running = new AsyncLocalStorage<Operation>();

/** Runs the work of an operation; calls of the store made from it are known to be its own. */
export function runAs<Value>(operation: Operation, work: () => Value): Value {
  return running.run(operation, work);
}

export function currentOperation(): Operation | undefined {
  return running.getStore();
}
