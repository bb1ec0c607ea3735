import { elapsedUntil, wholeTokens } from "../../bucket/level.ts";
import type { BucketKey } from "../../domain/bucket/bucket-key.ts";
import { availableMilli, type BucketState, findLimit, type LimitState } from "../../domain/bucket/bucket-state.ts";
import type { LimitStanding } from "../../domain/charge/rate-limit-headers.ts";
import { NO_MARKS } from "../../domain/limits/kinds/kind.ts";
import { rulesOf } from "../../domain/limits/kinds/table.ts";
import type { Limit } from "../../domain/limits/limit.ts";
import type { LimitSet } from "../../domain/limits/limit-set.ts";
import type { Calendar } from "../../domain/limits/schedule.ts";
import { answersOf, type BucketPosition, type LeasePart, positionsOf } from "../lease/lease-part.ts";

/** A level, and its limits to show; absent: all of the set, or of the bucket. */
interface StandingLevel {
  readonly bucket: BucketKey;
  readonly set: LimitSet | undefined;
  readonly limits?: readonly Limit[] | undefined;
  readonly level: number;
}

/** Without `calendar`, `fullInMs` is not computed. */
interface StandingTime {
  readonly nowMs: number;
  readonly calendar: Calendar | undefined;
}

/** The standings of all limits of one level by a state that stands for `nowMs`. */
export function standingsOf(
  { bucket, set, limits = set?.limits, level }: StandingLevel,
  state: BucketState,
  { nowMs, calendar }: StandingTime,
): readonly LimitStanding[] {
  const standings: LimitStanding[] = [];
  const at = { nowMs, calendar };
  for (const { name } of limits ?? configured(state)) {
    const held = findLimit(state, name);
    if (held !== undefined) standings.push(standingOf(held, bucket, level, state, at));
  }
  return standings;
}

/** The standing of one limit that the state has. */
export function standingOf(
  held: LimitState,
  bucket: BucketKey,
  level: number,
  state: BucketState,
  { nowMs, calendar }: StandingTime,
): LimitStanding {
  const availableNowMilli = availableMilli(state, held, nowMs);
  return {
    entityId: bucket.entityId,
    resource: bucket.resource,
    limit: held.name,
    level,
    available: wholeTokens(availableNowMilli),
    capacity: wholeTokens(held.terms.capacityMilli),
    windowMs: finite(rulesOf(held.limit).lengthMs(held.limit, held.terms)),
    fullInMs:
      calendar === undefined
        ? null
        : fullIn(held, {
            missingMilli: held.terms.capacityMilli - availableNowMilli,
            epochMs: state.epochMs,
            nowMs: Math.max(nowMs, state.epochMs),
            calendar,
          }),
  };
}

function configured({ limits }: BucketState): readonly LimitState[] {
  return limits.filter((limit) => limit.configured);
}

function fullIn(
  held: LimitState,
  at: { readonly missingMilli: number; readonly epochMs: number; readonly nowMs: number; readonly calendar: Calendar },
): number | null {
  if (at.missingMilli <= 0) return null;
  const { limit, terms, quota = NO_MARKS } = held;
  const rules = rulesOf(limit);
  // Computed from the epoch: the current level is rounded, and a wait by it could be a millisecond too long.
  if (rules.refillsSteadily) {
    const elapsedMs = at.nowMs - at.epochMs;
    return finite(elapsedUntil(held, terms, elapsedMs, terms.capacityMilli) - elapsedMs);
  }
  return finite(Math.max(0, rules.endMs(limit, quota, at.nowMs, at.calendar) - at.nowMs));
}

// JSON has no Infinity: a wait without end, or beyond exact integers, is null.
function finite(ms: number): number | null {
  return Number.isSafeInteger(ms) ? ms : null;
}

interface StandingPart extends Pick<LeasePart, "taken" | "takenAtMs"> {
  readonly demands: readonly Pick<LeasePart["demands"][number], "bucket" | "set" | "limits" | "take">[];
}

/** A standing of a part of another entity than the one that asked. */
export function ofOther(standing: LimitStanding): LimitStanding {
  return { ...standing, ofOther: true };
}

/** The standing of every limit of a lease; a bucket that its parts share is listed once. */
export function standingsOfParts(parts: readonly StandingPart[], calendar: Calendar): readonly LimitStanding[] {
  const [only] = parts;
  // Nearly every lease has one bucket. The general path below costs as much as the take.
  if (parts.length === 1 && only !== undefined) {
    const { demands, taken, takenAtMs } = only;
    const [demand] = demands;
    const state = demand === undefined || demand.take.length === 0 ? undefined : taken[0]?.state;
    if (demands.length === 1 && demand !== undefined && state !== undefined) {
      const { bucket, set, limits } = demand;
      return standingsOf({ bucket, set, limits, level: 0 }, state, { nowMs: takenAtMs, calendar });
    }
  }
  const seen = new Set<string>();
  const asker = parts[0]?.demands[0]?.bucket.entityId;
  return parts.flatMap((part) => {
    const { demands, takenAtMs } = part;
    const isOther = demands[0]?.bucket.entityId !== asker;
    const positions = positionsOf(demands.map(({ bucket }) => bucket));
    const answers = answersOf(part);
    return demands.flatMap(({ bucket, set, limits }, i) => {
      const state = answers[i]?.state;
      if (state === undefined || seen.has(bucket.id)) return [];
      seen.add(bucket.id);
      const { level } = positions[i] as BucketPosition;
      const standings = standingsOf({ bucket, set, limits, level }, state, { nowMs: takenAtMs, calendar });
      return isOther ? standings.map(ofOther) : standings;
    });
  });
}
