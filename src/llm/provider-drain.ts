import { measureOf, type Tokens } from "../domain/charge/amounts.ts";
import type { Limit } from "../domain/limits/limit.ts";
import { BoundedMap } from "../domain/names/bounded-map.ts";
import { resourceOf } from "../domain/names/text-names.ts";
import type { Acquiring } from "../engine/acquire/acquiring.ts";
import type { Lease } from "../engine/lease/lease.ts";

/** The bucket of a provider's own budget. */
export interface ProviderBucket {
  readonly entityId: string;
  readonly resource: string;
}

/** The first wait for a provider that sends no `retry-after`, in ms; it doubles each time. */
const BACKOFF_FIRST_MS = 1_000;
const BUCKETS_MAX = 1_000;

/** One process drains a bucket in this time; a wait that is twice as long is drained for again. */
const ONCE: readonly Limit[] = [
  // Written as a value: the makers of limits would be a fifth of an adapter's bundle.
  { name: "drains", capacity: 1, refillAmount: 0, refillPeriodMs: 1_000, resetAfterMs: 1_000 },
];

/**
 * Empties the bucket of a provider that answers 429, so far that it holds nothing until the wait is over. Every process on the store
 * sees it, the bucket refills by itself, and one that is emptier stays as it is.
 */
export class ProviderDrain {
  readonly #clampMaxMs: number;
  readonly #backoffMs = new BoundedMap<number>(BUCKETS_MAX);
  /** One drain at a time for each bucket, because each reads what the one before has left. */
  readonly #underWay = new Map<string, Promise<void>>();

  constructor(clampMaxMs: number) {
    this.#clampMaxMs = clampMaxMs;
  }

  /** The provider has answered, so the next 429 without a time starts at the first wait. */
  answered(bucket: ProviderBucket): void {
    if (this.#backoffMs.get(keyOf(bucket)) !== undefined) this.#backoffMs.set(keyOf(bucket), 0);
  }

  /**
   * Closes the lease of a call that the provider refused. Its part of the provider keeps the tokens that empty the bucket; the rest is
   * given back.
   * `toldMs`: the wait that the provider asked for, or undefined.
   */
  close(limiter: Acquiring, bucket: ProviderBucket, lease: Lease, toldMs: number | undefined): Promise<void> {
    const key = keyOf(bucket);
    const waitMs = Math.min(this.#clampMaxMs, toldMs ?? this.#nextBackoffMs(key));
    const before = this.#underWay.get(key) ?? Promise.resolve();
    const closed = before.then(async () => {
      const isFirst = await winsDrain(limiter, bucket, waitMs);
      const drained = await drainTotals(limiter, bucket, lease, { waitMs, isFirst }).catch(() => undefined);
      if (drained === undefined) return lease.rollback();
      const { entityId, resource } = bucket;
      await lease.settle(nothingOf(lease), { also: [{ entityId, resource, consume: drained }] });
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
 * Decides whether this process drains. Several processes that get a 429 at the same time would each take what they all saw, and the bucket
 * would be empty for as many times as long. So they compete for one token of a bucket beside the provider's.
 */
async function winsDrain(limiter: Acquiring, { entityId, resource }: ProviderBucket, waitMs: number): Promise<boolean> {
  try {
    // One token for waits of 1 to 2 s, one for 2 to 4 s, and so on: a shorter wait does not prevent a longer one.
    const longest = 2 ** Math.ceil(Math.log2(Math.max(1, waitMs / 1_000)));
    const outcome = await limiter.tryAcquire({
      entityId,
      resource: resourceOf(`drain:${longest}s:${resource}`),
      limits: ONCE,
      consume: { drains: 1, requests: 0 },
    });
    if (outcome.ok) await outcome.lease.settle();
    return outcome.ok;
  } catch {
    // A client's token may not be allowed to bring limits. A wait that is too long is better than calls that the provider refuses.
    return true;
  }
}

interface Draining {
  readonly waitMs: number;
  /** False: another process drains, and this lease keeps only what the other has seen as taken. */
  readonly isFirst: boolean;
}

/** Computes the totals of the lease that keep the bucket empty for the wait. Undefined: no limit drips. */
async function drainTotals(
  limiter: Acquiring,
  { entityId, resource }: ProviderBucket,
  lease: Lease,
  { waitMs, isFirst }: Draining,
): Promise<Tokens | undefined> {
  const held = lease.part({ entityId, resource }).consumed;
  const { limits } = await limiter.resolveLimits(entityId, resource);
  const nothing = nothingOf({ consumed: held });
  // Read the level again: others have taken from the bucket since the call was sent.
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

/** Totals of 0 of everything that was charged. */
function nothingOf({ consumed }: Pick<Lease, "consumed">): Readonly<Record<string, number>> {
  return Object.fromEntries(Object.keys(consumed).map((measure) => [measure, 0]));
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
  /** The lease holds this much of the measure, and would give it back. */
  readonly amount: number;
  readonly waitMs: number;
}

/**
 * Computes how much of a measure must be taken so that its limit holds nothing until the wait is over. Undefined if a quota or another
 * level counts it as well: that one would be charged for good.
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
