import { type Amount, checkAmounts, type Tokens } from "../domain/amounts.ts";
import { ValidationError } from "../domain/errors.ts";
import type { Limit } from "../domain/limit.ts";
import { shown } from "../domain/names.ts";
import type { Claim } from "../ports/bucket-store.ts";
import type { Level } from "./levels.ts";

/** What to take, from whom. Limit names are inferred from `limits`, so that a misspelled one does not compile. */
export interface AcquireRequest<Name extends string = string> {
  readonly entityId: string;
  readonly resource: string;
  /** Whole tokens per limit. A limit named with 0 takes nothing, but refuses while it is in debt. */
  readonly consume: Tokens<NoInfer<Name>>;
  /** In place of the stored limits of `entityId`, for this request. */
  readonly limits?: readonly Limit<Name>[];
  /** Wait in this process, first come first served, for up to so many ms, before refusing. */
  readonly wait?: { readonly maxMs: number };
  /** Take from all levels in one transaction, where the store would not do so by itself. */
  readonly atomic?: boolean;
  /** Carried into events. */
  readonly requestId?: string;
  readonly signal?: AbortSignal;
}

/** What a request wants of one level: a claim that remembers where it came from. */
export interface Demand extends Claim {
  readonly level: Level;
}

export function demandOf(level: Level, take: readonly Amount[]): Demand {
  return { level, bucket: level.bucket, set: level.set, origin: level.origin, take };
}

/** Checks the request against the limits of the chain, once, and turns tokens into millitokens, level by level. */
export function demandsOf(request: { readonly consume: Tokens }, chain: readonly Level[]): Demand[] {
  const entity = chain[0] as Level;
  const { bucket, set } = entity;
  if (set.limits.length === 0) throw noLimits(bucket.entityId, bucket.resource);
  const take = checkAmounts(request.consume, "consume", bucket, set.limits);
  const demands = [demandOf(entity, take)];
  for (let i = 1; i < chain.length; i++) {
    const level = chain[i] as Level;
    const shared = sharedWith(level, take);
    for (const { limit, milli } of shared) {
      const capacity = level.set.limits.find(({ name }) => name === limit)?.capacity ?? 0;
      if (milli > capacity * 1000)
        throw aboveParent(level.bucket.entityId, bucket.entityId, limit, milli / 1000, capacity);
    }
    if (level.set.limits.length > 0) demands.push(demandOf(level, shared));
  }
  return demands;
}

/** Limits that a parent does not have are not charged there. */
export function sharedWith(level: Level, amounts: readonly Amount[]): readonly Amount[] {
  const { limits } = level.set;
  return amounts.every((amount) => limits.some(({ name }) => name === amount.limit))
    ? amounts
    : amounts.filter((amount) => limits.some(({ name }) => name === amount.limit));
}

export function checkRequest(request: unknown): void {
  if (typeof request === "object" && request !== null) return;
  throw new ValidationError(
    "request_invalid",
    `The request is ${shown(request)}; give { entityId, resource, consume }.`,
  );
}

export function checkWait(wait: { readonly maxMs: number } | undefined): number {
  if (wait === undefined) return 0;
  const { maxMs } = wait;
  if (typeof maxMs !== "number" || !(maxMs >= 0)) {
    throw new ValidationError("wait_invalid", `wait.maxMs is ${shown(maxMs)}; give milliseconds, 0 or more.`);
  }
  return maxMs;
}

export function noLimits(entityId: string, resource: string): ValidationError {
  return new ValidationError(
    "limits_missing",
    `No limits apply to ${entityId} on ${resource}. Set some with setLimits, setResourceDefaults or setSystemDefaults, ` +
      "or pass them in `limits`.",
  );
}

function aboveParent(
  parentId: string,
  entityId: string,
  limit: string,
  tokens: number,
  capacity: number,
): ValidationError {
  return new ValidationError(
    "amount_above_capacity",
    `${tokens} of "${limit}" for ${entityId} can never be granted: its parent ${parentId} has a capacity of ${capacity}. ` +
      "Ask for less, or raise the parent's limit.",
  );
}
