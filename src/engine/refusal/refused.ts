import { wholeTokens } from "../../bucket/level.ts";
import type { Amount } from "../../domain/charge/amounts.ts";
import type { LimitStanding } from "../../domain/charge/rate-limit-headers.ts";
import { RateLimitExceeded } from "../../domain/names/errors.ts";
import { basisOf, type Refusal } from "./refusal.ts";
import { ofOther, standingsOf } from "./standing.ts";

// Not on the error itself: its members are the public interface.
const REFUSALS = new WeakMap<RateLimitExceeded, Refusal>();

/** The error of a refusal. It keeps the refusal, for header fields. */
export function exceededBy(refusal: Refusal): RateLimitExceeded {
  const error = new RateLimitExceeded(refusal);
  REFUSALS.set(error, refusal);
  return error;
}

/** The refusal of an error; undefined if the error came over the network. */
export function refusalIn(refused: Refusal | RateLimitExceeded): Refusal | undefined {
  return refused instanceof RateLimitExceeded ? REFUSALS.get(refused) : refused;
}

/** The standing of every limit of a refusal or its error, for header fields. */
export function standingsIn(refused: Refusal | RateLimitExceeded): readonly LimitStanding[] {
  const refusal = refusalIn(refused);
  if (refusal === undefined) return [];
  const { by, toldMs: nowMs } = basisOf(refusal);
  return by.flatMap(({ bucket, state, limits, taken, take, bypass, seen }) => {
    if (seen === "never") return [];
    const place = refusal.levels.indexOf(bucket.entityId);
    const of = { bucket, set: undefined, limits, level: Math.max(0, place) };
    const found = standingsOf(of, state, { nowMs, calendar: undefined });
    const all = place < 0 ? found.map(ofOther) : found;
    // A take at one level is given back when another level refuses: the tokens are there for the next request.
    return taken && !bypass ? all.map((one) => ({ ...one, available: one.available + takenOf(one.limit, take) })) : all;
  });
}

function takenOf(limit: string, take: readonly Amount[]): number {
  return wholeTokens(take.find((amount) => amount.limit === limit)?.milli ?? 0);
}

/** A symbol, so that no caller can set it. */
const IN_SHADOW: unique symbol = Symbol("in shadow");

/** Marks a request whose refusal is only published: it goes on all the same. */
export function inShadow<Request extends object>(request: Request): Request {
  return { ...request, [IN_SHADOW]: true };
}

export function isInShadow(request: object): boolean {
  return IN_SHADOW in request;
}
