import type { BucketKey } from "../../domain/bucket/bucket-key.ts";
import type { ProtocolContext } from "../context.ts";
import {
  isWhole,
  nextTransact,
  onTransact,
  type Plan,
  startTransact,
  type TransactDo,
  type TransactProgress,
  transactEnded,
  type Whole,
} from "../decide/transact.ts";
import { type Caller, drive } from "../process/drive.ts";
import type { Ended, Event, Machine, Turn } from "../process/machine.ts";
import { RETRY, type RetryPolicy } from "../process/retry-policy.ts";

/** Does what a plan wants of all shards of its buckets at once. */
export function transactPlan<Result>(
  context: ProtocolContext,
  plan: Plan<Result>,
  from: "guess" | "reading",
  caller?: Caller,
): Promise<Result> {
  const { policy } = plan;
  const budget = { policy, attemptsMax: policy.attempts, caller };
  return context.caches.holding(plan.buckets, () =>
    drive(new PlannedTransaction(context, plan), startTransact(plan, from), budget, context),
  );
}

/** By which reading, until when and how often all shards are read. */
export interface WholeRead {
  readonly readingMs: number;
  readonly untilMs: number;
  readonly policy: RetryPolicy;
  readonly caller?: Caller;
}

/**
 * All shards of buckets, as one read showed them: what this process has seen of single shards since is not mixed in, as tokens
 * that were taken from one shard and came back to another would be missing from both. A bucket that is just being split is read
 * again. Throws `RateLimiterUnavailable` where they cannot be read.
 */
export function readWhole(
  context: ProtocolContext,
  buckets: readonly BucketKey[],
  { readingMs, untilMs, policy, caller }: WholeRead,
): Promise<readonly Whole[]> {
  const plan: Plan<readonly Whole[]> = {
    buckets,
    readingMs,
    untilMs,
    policy,
    record: undefined,
    draw: (wholes, shown) => {
      const result = wholes.map((whole, i) => (shown[i] !== undefined && isWhole(shown[i]) ? shown[i] : whole));
      return { kind: "result", result, installs: [] };
    },
    gaveUp: (_, cause) => {
      if (cause !== undefined) throw cause;
      return cachedWholes(context, buckets);
    },
    unknown: rethrown,
    unread: rethrown,
  };
  return transactPlan(context, plan, "reading", caller);
}

/** A read for work that no caller waits for: each call has its own time. */
export function withoutDeadline(readingMs: number): WholeRead {
  return { readingMs, untilMs: Number.POSITIVE_INFINITY, policy: RETRY.readWhole };
}

function cachedWholes({ caches }: ProtocolContext, buckets: readonly BucketKey[]): Whole[] {
  return buckets.map((bucket) => {
    const cache = caches.of(bucket);
    return { cache, images: cache.images() };
  });
}

export function rethrown(cause: unknown): never {
  throw cause;
}

/** The machine of transactions, with the caches of its buckets for its facts. */
class PlannedTransaction<Result> implements Machine<TransactProgress<Result>, TransactDo<Result>, Result> {
  readonly #context: ProtocolContext;
  readonly #plan: Plan<Result>;

  constructor(context: ProtocolContext, plan: Plan<Result>) {
    this.#context = context;
    this.#plan = plan;
  }

  ended(progress: TransactProgress<Result>): Ended<Result> | undefined {
    return transactEnded(progress);
  }

  next(progress: TransactProgress<Result>, { nowMs, over }: Turn): TransactDo<Result> {
    const token = `t${this.#context.nonces.next().toString(36)}`;
    const wholes = cachedWholes(this.#context, this.#plan.buckets);
    return nextTransact(progress, { nowMs, over, wholes, token }, this.#plan);
  }

  on(progress: TransactProgress<Result>, action: TransactDo<Result>, event: Event): TransactProgress<Result> {
    const wholes = cachedWholes(this.#context, this.#plan.buckets);
    return onTransact(progress, action, event, { wholes }, this.#plan);
  }

  untilMs(): number {
    return this.#plan.untilMs;
  }

  throttled(): void {}
}
