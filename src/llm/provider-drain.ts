import type { Tokens } from "../domain/charge/amounts.ts";
import { measureOf } from "../domain/charge/measures.ts";
import type { Limit } from "../domain/limits/limit.ts";
import { BoundedMap } from "../domain/names/bounded-map.ts";
import { resourceOf } from "../domain/names/text-names.ts";
import type { Acquiring } from "../engine/acquire/acquiring.ts";
import type { Lease } from "../engine/lease/lease.ts";

/** Where a provider's own budget is kept. */
export interface ProviderBucket {
  readonly entityId: string;
  readonly resource: string;
}

/** What a provider is waited for without a `retry-after`, at first, in ms; doubled each time. */
const BACKOFF_FIRST_MS = 1_000;
const BUCKETS_MAX = 1_000;

/** Waits that are not twice as long as another are drained for once in this time, whichever process comes first. */
const ONCE: readonly Limit[] = [
  // As a value: the makers would be a fifth of an adapter.
  { name: "drains", capacity: 1, refillAmount: 0, refillPeriodMs: 1_000, resetAfterMs: 1_000 },
];

/**
 * Empties the bucket of a provider that answers 429, so far that it holds nothing until the time has passed. Every process on the
 * store sees it, it refills by itself, and a bucket that is emptier stays as it is.
 */
export class ProviderDrain {
  readonly #clampMaxMs: number;
  readonly #backoffMs = new BoundedMap<number>(BUCKETS_MAX);
  /** One at a time for each bucket: each looks at what the one before has left. */
  readonly #underWay = new Map<string, Promise<void>>();

  constructor(clampMaxMs: number) {
    this.#clampMaxMs = clampMaxMs;
  }

  /** The provider has answered: the next 429 without a time begins anew. */
  answered(bucket: ProviderBucket): void {
    if (this.#backoffMs.get(keyOf(bucket)) !== undefined) this.#backoffMs.set(keyOf(bucket), 0);
  }

  /**
   * Closes the lease of a call that the provider refused: what it held is given back, and what empties the bucket is kept.
   * `toldMs` is what the provider said, or undefined.
   */
  close(limiter: Acquiring, bucket: ProviderBucket, lease: Lease, toldMs: number | undefined): Promise<void> {
    const key = keyOf(bucket);
    const waitMs = Math.min(this.#clampMaxMs, toldMs ?? this.#nextBackoffMs(key));
    const before = this.#underWay.get(key) ?? Promise.resolve();
    const closed = before.then(async () => {
      const isFirst = await comesFirst(limiter, bucket, waitMs);
      const drained = await drainTotals(limiter, bucket, lease, { waitMs, isFirst }).catch(() => undefined);
      await (drained === undefined ? lease.rollback() : lease.settle(drained));
    });
    const over = closed
      .catch(() => {})
      .finally(() => {
        if (this.#underWay.get(key) === over) this.#underWay.delete(key);
      });
    this.#underWay.set(key, over);
    return closed;
  }

  #nextBackoffMs(key: string): number {
    const last = this.#backoffMs.get(key) ?? 0;
    const next = last === 0 ? BACKOFF_FIRST_MS : Math.min(this.#clampMaxMs, last * 2);
    this.#backoffMs.set(key, next);
    return next;
  }
}

/**
 * Whether this process is the one that drains. Several that meet a 429 at the same time would each take what they all saw, and the
 * bucket would be empty for as many times as long. So they take one token between them, of a bucket beside the provider's.
 */
async function comesFirst(
  limiter: Acquiring,
  { entityId, resource }: ProviderBucket,
  waitMs: number,
): Promise<boolean> {
  try {
    // One for waits of 1 to 2 s, one for 2 to 4 s, and so on: a longer one is not kept from it by a shorter.
    const longest = 2 ** Math.ceil(Math.log2(Math.max(1, waitMs / 1_000)));
    const outcome = await limiter.tryAcquire({
      ...{ entityId, resource: resourceOf(`drain:${longest}s:${resource}`), limits: ONCE },
      consume: { drains: 1, requests: 0 },
    });
    if (outcome.ok) await outcome.lease.settle();
    return outcome.ok;
  } catch {
    // A client whose token may not bring limits, say: too long a wait is better than calls that the provider refuses.
    return true;
  }
}

interface Draining {
  readonly waitMs: number;
  /** Otherwise another drains, and this lease only keeps what the other has seen as taken. */
  readonly isFirst: boolean;
}

/** What the lease is to come to by measure, so that the bucket is empty for so long. Undefined: there is nothing that drips. */
async function drainTotals(
  limiter: Acquiring,
  { entityId, resource }: ProviderBucket,
  lease: Lease,
  { waitMs, isFirst }: Draining,
): Promise<Tokens | undefined> {
  const held = lease.consumed;
  const { limits } = await limiter.resolveLimits(entityId, resource);
  const nothing = Object.fromEntries(Object.keys(held).map((measure) => [measure, 0]));
  // What it holds now: others have taken from it since the call was sent.
  const outcome = await limiter.tryAcquire({ entityId, resource, consume: { requests: 0, ...nothing } });
  const levels: readonly Level[] = outcome.ok ? outcome.lease.remaining : outcome.statuses;
  if (outcome.ok) await outcome.lease.rollback();
  const totals: Record<string, number> = { ...nothing };
  let isDrained = false;
  for (const [measure, amount] of Object.entries(held)) {
    const short = shortage(limits, levels, { entityId, resource, measure, amount, waitMs });
    if (short === undefined) continue;
    totals[measure] = isFirst ? short : Math.min(short, amount);
    isDrained = true;
  }
  return isDrained ? totals : undefined;
}

interface Level {
  readonly entityId: string;
  readonly resource: string;
  readonly limit: string;
  readonly counts: string;
  readonly available: number;
}

interface Drained extends ProviderBucket {
  readonly measure: string;
  /** What the lease holds of it, and would give back. */
  readonly amount: number;
  readonly waitMs: number;
}

/**
 * What must be taken of a measure so that its limit holds nothing until the time has passed. Undefined where a quota, or another
 * level, counts it as well: that would be charged for good.
 */
function shortage(
  limits: readonly Limit[],
  levels: readonly Level[],
  { entityId, resource, measure, amount, waitMs }: Drained,
): number | undefined {
  const counting = levels.filter(({ counts }) => counts === measure);
  let least: number | undefined;
  for (const level of counting) {
    const limit = limits.find(({ name }) => name === level.limit);
    const isOwn = level.entityId === entityId && level.resource === resource;
    if (!isOwn || limit === undefined || measureOf(limit) !== measure || limit.refillAmount === 0) return undefined;
    const refilled = Math.ceil((limit.refillAmount * waitMs) / limit.refillPeriodMs);
    const short = Math.max(0, level.available + amount + refilled);
    least = least === undefined ? short : Math.min(least, short);
  }
  return least;
}

function keyOf({ entityId, resource }: ProviderBucket): string {
  return JSON.stringify([entityId, resource]);
}
