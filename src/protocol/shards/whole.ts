import type { BucketKey } from "../../domain/bucket/bucket-key.ts";
import { type BucketState, wholeOf } from "../../domain/bucket/bucket-state.ts";
import type { Calendar } from "../../domain/limits/schedule.ts";
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
import type { Image } from "../item/codec.ts";
import { type Caller, drive } from "../process/drive.ts";
import type { Machine } from "../process/machine.ts";
import { RETRY, type RetryPolicy } from "../process/retry-policy.ts";

export function transactPlan<Result>(
  context: ProtocolContext,
  plan: Plan<Result>,
  from: "guess" | "reading",
  caller?: Caller,
): Promise<Result> {
  const { policy, buckets } = plan;
  const wholes = () => cachedWholes(context, buckets);
  const machine: Machine<TransactProgress<Result>, TransactDo<Result>, Result> = {
    ended: transactEnded,
    next: (progress, turn) =>
      nextTransact(progress, { ...turn, wholes: wholes(), token: context.nonces.token() }, plan),
    on: (progress, action, event) => onTransact(progress, action, event, { wholes: wholes() }, plan),
    untilMs: () => plan.untilMs,
  };
  return context.caches.holding(buckets, () => drive(machine, startTransact(plan, from), { policy, caller }, context));
}

/** The reading, the deadline and the policy of a read of all shards. */
export interface WholeRead {
  readonly readingMs: number;
  readonly untilMs: number;
  readonly policy: RetryPolicy;
  readonly caller?: Caller;
}

/**
 * All shards of buckets, as one read showed them. Later observations of single shards are not mixed in: tokens that were taken
 * from one shard and came back to another would be missing from both. A bucket that is just being split is read again. Throws
 * `RateLimiterUnavailable` if they cannot be read.
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
    unknown: (cause) => {
      throw cause;
    },
  };
  return transactPlan(context, plan, "reading", caller);
}

/** The whole bucket, by the images of its shards. */
export function stateOfShards(images: readonly Image[], calendar: Calendar): BucketState {
  return wholeOf(
    images.map(({ state }) => state),
    calendar,
  );
}

/** A read without a waiting caller: only each call has a timeout. */
export function withoutDeadline(readingMs: number): WholeRead {
  return { readingMs, untilMs: Number.POSITIVE_INFINITY, policy: RETRY.readWhole };
}

function cachedWholes({ caches }: ProtocolContext, buckets: readonly BucketKey[]): Whole[] {
  return buckets.map((bucket) => {
    const cache = caches.of(bucket);
    return { cache, images: cache.images() };
  });
}
