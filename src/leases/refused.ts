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
  const standings = observedIn(refusal).flatMap(({ bucket, state }) =>
    standingsOf({ bucket, set: undefined, level: refusal.levels.indexOf(bucket.entityId) }, state, at),
  );
  STANDINGS.set(refused, standings);
  return refused;
}
