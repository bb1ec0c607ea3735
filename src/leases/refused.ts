import { wholeTokens } from "../bucket/level.ts";
import type { Amount } from "../domain/amounts.ts";
import type { Calendar } from "../domain/calendar.ts";
import type { RateLimitExceeded } from "../domain/errors.ts";
import { observedIn, type Refusal } from "../engine/refusal.ts";
import type { Clock } from "../ports/system.ts";
import { type LimitStanding, standingsOf } from "./standing.ts";

const STANDINGS = new WeakMap<object, readonly LimitStanding[]>();

/** How every limit stood that a refusal, or the error made of it, speaks of: for header fields. */
export function standingsIn(refused: Refusal | RateLimitExceeded): readonly LimitStanding[] {
  return STANDINGS.get(refused) ?? [];
}

export function withStandings<Refused extends Refusal | RateLimitExceeded>(
  refused: Refused,
  refusal: Refusal,
  { clock, calendar }: { readonly clock: Clock; readonly calendar: Calendar },
): Refused {
  const at = { nowMs: clock.now(), calendar };
  const standings = observedIn(refusal).flatMap(({ bucket, state, limits, taken, take, bypass, seen }) => {
    if (seen === "never") return [];
    const level = refusal.levels.indexOf(bucket.entityId);
    const all = standingsOf({ bucket, set: undefined, limits, level }, state, at);
    // What was taken before another level refused is given back: it is there for the next request.
    return taken && !bypass ? all.map((one) => ({ ...one, available: one.available + takenOf(one.limit, take) })) : all;
  });
  STANDINGS.set(refused, standings);
  return refused;
}

function takenOf(limit: string, take: readonly Amount[]): number {
  return wholeTokens(take.find((amount) => amount.limit === limit)?.milli ?? 0);
}
