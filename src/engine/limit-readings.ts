import { divCeil, mulDivCeil } from "../bucket/integers.ts";
import { wholeTokens } from "../bucket/level.ts";
import { resetsAtMs } from "../domain/bucket-operations.ts";
import { availableMilli, type BucketState, findLimit, type LimitState } from "../domain/bucket-state.ts";
import type { Calendar } from "../domain/calendar.ts";
import { searchIn } from "../domain/earliest.ts";
import { kindOf } from "../domain/limit.ts";
import type { Status } from "../domain/status.ts";
import type { Lease } from "./lease.ts";
import type { LeasePart } from "./lease-part.ts";
import { decidedBy } from "./refusal.ts";

/** One limit of one level as the store's answer showed it, for header fields: whole tokens and seconds. */
export interface LimitReading {
  readonly entityId: string;
  readonly resource: string;
  readonly limit: string;
  /** The capacity in force. */
  readonly capacity: number;
  /** Negative in debt. */
  readonly available: number;
  /** In how many seconds an empty limit fills up, or how long a session is; absent for a calendar quota. */
  readonly windowSeconds?: number;
  /** Seconds until it is full or resets, rounded up; absent when it is full. */
  readonly fullInSeconds?: number;
}

/** Every limit of every level that was taken from, the entity first; empty where the store was not reached. */
export function readingsOfLease(lease: Lease, calendar: Calendar): LimitReading[] {
  const readings: LimitReading[] = [];
  for (const part of lease.parts) addPart(readings, part, calendar);
  return readings;
}

function addPart(readings: LimitReading[], { demands, taken, takenAtMs }: LeasePart, calendar: Calendar): void {
  let next = 0;
  for (const { bucket, set, take } of demands) {
    const state = take.length === 0 ? undefined : taken[next++]?.state;
    if (state === undefined) continue;
    for (const { name } of set.limits) {
      const held = findLimit(state, name);
      if (held !== undefined) readings.push(readingOf(bucket, state, held, takenAtMs, calendar));
    }
  }
}

/** Every limit of every level that was asked, the entity first. */
export function readingsOfRefusal(
  refusal: { readonly statuses: readonly Status[] },
  calendar: Calendar,
): LimitReading[] {
  const { observed = [], askedMs = 0 } = decidedBy(refusal) ?? {};
  return observed.flatMap(({ bucket, state, taken, take }) =>
    state.limits
      .filter(({ configured }) => configured)
      .map((held) => {
        const reading = readingOf(bucket, state, held, askedMs, calendar);
        // What a level above refused was given back, so the level below has it again.
        const milli = taken ? (take.find(({ limit }) => limit === held.name)?.milli ?? 0) : 0;
        return milli === 0 ? reading : { ...reading, available: reading.available + wholeTokens(milli) };
      }),
  );
}

function readingOf(
  { entityId, resource }: { readonly entityId: string; readonly resource: string },
  state: BucketState,
  held: LimitState,
  nowMs: number,
  calendar: Calendar,
): LimitReading {
  const levelMilli = availableMilli(state, held, nowMs);
  const windowSeconds = windowOf(held);
  const fullInMs = fullIn(state, held, levelMilli, nowMs, calendar);
  return {
    entityId,
    resource,
    limit: held.name,
    capacity: wholeTokens(held.terms.capacityMilli),
    available: wholeTokens(levelMilli),
    ...(windowSeconds === undefined ? {} : { windowSeconds }),
    ...(fullInMs === undefined || !Number.isFinite(fullInMs) ? {} : { fullInSeconds: divCeil(fullInMs, 1000) }),
  };
}

function windowOf({ limit, terms }: LimitState): number | undefined {
  if (limit.resetAfterMs !== undefined) return divCeil(limit.resetAfterMs, 1000);
  if (kindOf(limit) === "calendar") return undefined;
  const { capacityMilli, refillAmountMilli, refillPeriodMs } = terms;
  const ms =
    refillAmountMilli === 0
      ? Number.POSITIVE_INFINITY
      : mulDivCeil(capacityMilli, refillPeriodMs, 0, refillAmountMilli);
  return Number.isFinite(ms) ? divCeil(ms, 1000) : undefined;
}

function fullIn(
  state: BucketState,
  held: LimitState,
  levelMilli: number,
  nowMs: number,
  calendar: Calendar,
): number | undefined {
  const { limit, terms } = held;
  if (levelMilli >= terms.capacityMilli) return undefined;
  if (kindOf(limit) !== "drip") {
    const atMs = resetsAtMs(held, Math.max(nowMs, state.epochMs), calendar);
    return atMs === undefined ? undefined : Math.max(1, atMs - nowMs);
  }
  if (limit.schedule === undefined && state.shards === undefined) {
    return mulDivCeil(terms.capacityMilli - levelMilli, terms.refillPeriodMs, 0, terms.refillAmountMilli);
  }
  // A soft limit grants anything at once; how full it is is another question.
  const { soft: _, ...firm } = limit;
  const full = { state, limit: { ...held, limit: firm }, milli: terms.capacityMilli };
  return Math.max(1, searchIn(full, nowMs, calendar).atMs - nowMs);
}
