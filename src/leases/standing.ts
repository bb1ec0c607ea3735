import { wholeTokens } from "../bucket/level.ts";
import { dripMs } from "../bucket/retry-after.ts";
import type { BucketKey } from "../domain/bucket-key.ts";
import { availableMilli, type BucketState, findLimit, type LimitState } from "../domain/bucket-state.ts";
import type { Calendar } from "../domain/calendar.ts";
import { kindOf } from "../domain/limit.ts";
import type { LimitSet } from "../domain/limit-set.ts";
import { periodEndMs } from "../domain/limit-state.ts";

/** How one limit of one level stands: what header fields for clients are made of. JSON-safe. */
export interface LimitStanding {
  readonly entityId: string;
  readonly resource: string;
  /** The limit's name. */
  readonly limit: string;
  /** 0 the entity that asked, 1 the first parent that counts the request, and so on. */
  readonly level: number;
  /** Whole tokens, negative in debt. */
  readonly available: number;
  /** Whole tokens in force. */
  readonly capacity: number;
  /** In which time an empty limit fills up by dripping, or how long a session lasts; null for a calendar quota. */
  readonly windowMs: number | null;
  /** Until it is full or resets; null when it is full. */
  readonly fullInMs: number | null;
}

/** The standings of all limits of one level by a state that stands for `nowMs`. */
export function standingsOf(
  { bucket, set, level }: { readonly bucket: BucketKey; readonly set: LimitSet | undefined; readonly level: number },
  state: BucketState,
  { nowMs, calendar }: { readonly nowMs: number; readonly calendar: Calendar },
): readonly LimitStanding[] {
  const names = set?.limits.map(({ name }) => name) ?? configured(state);
  return names.flatMap((name) => {
    const held = findLimit(state, name);
    if (held === undefined) return [];
    const availableNowMilli = availableMilli(state, held, nowMs);
    const { entityId, resource } = bucket;
    return [
      {
        ...{ entityId, resource, limit: name, level },
        available: wholeTokens(availableNowMilli),
        capacity: wholeTokens(held.terms.capacityMilli),
        windowMs: windowOf(held),
        fullInMs: fullIn(held, { availableNowMilli, nowMs: Math.max(nowMs, state.epochMs), calendar }),
      },
    ];
  });
}

function configured({ limits }: BucketState): readonly string[] {
  return limits.flatMap((limit) => (limit.configured ? [limit.name] : []));
}

function windowOf({ limit, terms }: LimitState): number | null {
  switch (kindOf(limit)) {
    case "drip":
      return terms.refillAmountMilli === 0 ? null : dripMs(terms.capacityMilli, terms);
    case "session":
      return limit.resetAfterMs ?? null;
    default:
      return null;
  }
}

function fullIn(
  { limit, terms, quota }: LimitState,
  at: { readonly availableNowMilli: number; readonly nowMs: number; readonly calendar: Calendar },
): number | null {
  const missing = terms.capacityMilli - at.availableNowMilli;
  if (missing <= 0) return null;
  if (kindOf(limit) === "drip") return terms.refillAmountMilli === 0 ? null : dripMs(missing, terms);
  const endMs =
    limit.resetAfterMs === undefined
      ? periodEndMs(limit, at.nowMs, at.calendar)
      : (quota?.windowStartMs ?? at.nowMs) + limit.resetAfterMs;
  return Number.isFinite(endMs) ? Math.max(0, endMs - at.nowMs) : null;
}
