import type { Terms } from "../../bucket/balance.ts";
import { divFloor } from "../../bucket/integers.ts";
import type { BucketKey } from "../bucket/bucket-key.ts";
import { REQUESTS } from "../charge/amounts.ts";
import { lastNumberOf, numberOfInstant } from "../config/change-number.ts";
import { given } from "../names/given.ts";
import { isBeyondRates } from "./beyond-rates.ts";
import type { KindFields } from "./kinds/kind.ts";
import { FORMS, formOf } from "./kinds/table.ts";
import type { Limit } from "./limit.ts";
import type { ScheduleEntry } from "./schedule.ts";

/** The limits of one bucket, with a text to compare two sets by. */
export interface LimitSet {
  readonly limits: readonly Limit[];
  readonly signature: string;
  /**
   * Every limit counts the measure of its own name, and none is called `requests`: amounts by measure are amounts by limit, and
   * nothing is taken that a request does not name.
   */
  readonly isByName: boolean;
  /** One of them says more than rates can; see `isBeyondRates`. */
  readonly isBeyondRates: boolean;
}

/** Limits that are in force from an instant on. */
export interface LimitsFrom {
  readonly fromMs: number;
  /** The number of the change: a later one has a higher number. */
  readonly number: number;
  readonly set: LimitSet;
}

/** The origin of a set of limits, which decides whose set wins when two processes disagree. */
export interface SetOrigin {
  /** Since when this process goes by this set on this bucket. */
  readonly asOfMs: number;
  /** The generation of stored configuration it was read from; null for limits given in a request. */
  readonly generation: number | null;
  /**
   * The reading of configuration that it was, where the store counts them; see `LevelConfig.reading`. 0: one that may have missed
   * changes, and answers no doubt.
   */
  readonly reading?: number;
  /** Given in a request: of configuration only who is let through was read. */
  readonly given?: true;
  /** Limits of the entity's own, or with an end that lies ahead: a store that forgets buckets by themselves keeps this one. */
  readonly own?: true;
  /**
   * The number of the newest change of stored limits that was read; on a bucket, of the newest that it has gone through.
   * Absent: none is known.
   */
  readonly changeNumber?: number;
  /** The changes of stored limits, the oldest first, as far as they are kept. Not on a bucket, nor of limits given in a request. */
  readonly changes?: readonly LimitsFrom[];
  /** The newest change was the end of an override: whoever read of the override knows of it without another read. Not on a bucket. */
  readonly ended?: true;
  /** The ends of overrides that lay ahead when it was read, the first one first. Not on a bucket, nor of limits given in a request. */
  readonly ends?: readonly LimitsEnd[];
}

/** The end of an override, and the limits that are left then. */
export interface LimitsEnd {
  readonly atMs: number;
  readonly limits: readonly Limit[];
}

/** The first end that lies ahead; undefined: none is known. */
export function firstEndMs({ ends }: Pick<SetOrigin, "ends">, nowMs: number): number | undefined {
  return ends?.find(({ atMs }) => atMs > nowMs)?.atMs;
}

export function limitSet(limits: readonly Limit[]): LimitSet {
  const isByName = limits.every((limit) => limit.counts === undefined && limit.name !== REQUESTS);
  return { limits, signature: limits.map(signatureOf).join(";"), isByName, isBeyondRates: limits.some(isBeyondRates) };
}

/** Whether limits of origin `next` replace those of origin `last` on a bucket. */
export function supersedes(next: SetOrigin, last: SetOrigin): boolean {
  if (knowsMore(next, last)) return true;
  const isCounted = next.generation !== null && last.generation !== null;
  const [fewer = 0, more = 0] = [next.changeNumber, last.changeNumber];
  // Counted, fewer changes were read earlier. Not counted, a level that was given up may know fewer and be newer; but a clock by which an
  // override has not ended, although the bucket has gone through its end, is behind.
  if (next.changeNumber !== undefined && fewer < more && (isCounted || hasMetEndOf(next, more))) return false;
  // Two readings of stored configuration are ordered by what was read, not by clocks that may disagree.
  if (isCounted) return Number(next.generation) >= Number(last.generation);
  if (next.asOfMs !== last.asOfMs) return next.asOfMs > last.asOfMs;
  // In one millisecond the origin that knows fewer changes is older: that of a lease which was taken before them.
  return (next.changeNumber ?? Number.POSITIVE_INFINITY) >= more;
}

/** True if one of the ends that lie ahead of `next` comes before a change of that number. */
function hasMetEndOf({ ends = [] }: SetOrigin, number: number): boolean {
  return ends.some(({ atMs }) => numberOfInstant(atMs) <= number);
}

/** Whether `next` has read of a change of stored limits that a bucket of origin `last` has not gone through. */
export function knowsMore(next: SetOrigin, last: SetOrigin): boolean {
  return next.changeNumber !== undefined && next.changeNumber > metNumber(last);
}

/** The changes among those of `next` that a bucket of origin `last` has not gone through, the oldest first. */
export function unmetChanges({ changes }: SetOrigin, last: SetOrigin): readonly LimitsFrom[] {
  if (changes === undefined) return NO_CHANGES;
  const met = metNumber(last);
  return changes.filter(({ number }) => number > met);
}

/** The origin of a bucket that has gone through all changes of `next`, and those of `last` before. */
export function originMet(next: SetOrigin, last: SetOrigin | undefined): SetOrigin {
  const met = last?.changeNumber;
  if (met === undefined || (next.changeNumber !== undefined && next.changeNumber >= met)) return withoutChanges(next);
  const { changes: _, ends: __, ended: ___, ...rest } = next;
  return { ...rest, changeNumber: met };
}

/** Up to which number a bucket has gone through changes. Where it does not say, it had what was changed before its limits were read. */
export function metNumber({ changeNumber, asOfMs }: SetOrigin): number {
  return changeNumber ?? lastNumberOf(asOfMs);
}

/** One object for all buckets that go by the same origin: of many ids, each would otherwise hold its own. */
function withoutChanges(origin: SetOrigin): SetOrigin {
  if (origin.changes === undefined && origin.ends === undefined && origin.ended === undefined) return origin;
  let bare = bareOrigins.get(origin);
  if (bare === undefined) {
    const { changes: _, ends: __, ended: ___, ...rest } = origin;
    bare = rest;
    bareOrigins.set(origin, bare);
  }
  return bare;
}

const bareOrigins = new WeakMap<SetOrigin, SetOrigin>();
const NO_CHANGES: readonly LimitsFrom[] = Object.freeze([]);

// Checked limits have their fields in one order, so their text is the same for the same limit.
function signatureOf(limit: Limit): string {
  const { name, counts, capacity, refillAmount, refillPeriodMs, soft, shadow, schedule, notifyAt } = limit;
  const measure = counts === undefined ? "" : `:${counts}`;
  const plain = `${name}${measure}=${capacity},${refillAmount},${refillPeriodMs}`;
  const tells = notifyAt === undefined ? "" : `!${notifyAt.join("/")}`;
  const mode = shadow ? "shadow" : soft;
  if (mode === undefined && schedule === undefined && formOf(limit) === undefined) return plain + tells;
  const fields = (Object.keys(FORMS) as (keyof KindFields)[]).map((field) => limit[field] ?? 0);
  // Signatures are stored with buckets: a kind that came later stands only in those of its own limits.
  while (fields.length > FIELDS_FIRST && fields.at(-1) === 0) fields.pop();
  return plain + JSON.stringify([mode ?? 0, schedule ?? 0, ...fields]) + tells;
}

/** The number of kinds with a field of their own when signatures were first stored. */
const FIELDS_FIRST = 2;

/** A bucket is rebased when its epoch is this old, so that products stay small. */
const EPOCH_MAX_MS = 3_600_000;

/** A bucket is rebased before more than this was refilled, so that tokens relative to the epoch stay exact integers even in deep debt. */
const REFILLED_MAX_MILLI = 7_000_000_000_000;

/** The age at which the epoch of a bucket with these limits is moved up. */
export function epochAgeMaxMs(limits: readonly { readonly terms: Terms }[]): number {
  let ageMs = EPOCH_MAX_MS;
  for (const {
    terms: { refillAmountMilli, refillPeriodMs },
  } of limits) {
    if (refillAmountMilli === 0) continue;
    // 7e12 * 1e12 passes 2^53; a double's error of one in 2^53 does not matter here.
    ageMs = Math.min(ageMs, divFloor(REFILLED_MAX_MILLI * refillPeriodMs, refillAmountMilli));
  }
  return ageMs;
}

/** Limits as one process knows them, and where it has them from. */
export interface SourcedLimits {
  readonly set: LimitSet;
  readonly origin: SetOrigin;
}

/** A bucket, and the limits that a request for it goes by; those that the bucket holds may be older or newer. */
export interface LimitedBucket extends SourcedLimits {
  readonly bucket: BucketKey;
}

/**
 * A part of every capacity and rate of some limits. Capacities are rounded down to whole tokens; one below a token is 0. Rates are
 * rounded down to thousandths of a token: a part of a token a second is still a rate.
 */
export function sharedLimits({ limits }: LimitSet, share: number): LimitSet {
  return limitSet(limits.map((limit) => sharedLimit(limit, share)));
}

function sharedLimit(limit: Limit, share: number): Limit {
  const { schedule, capacity, refillAmount, refillPeriodMs } = limit;
  // Thousandths in a period are tokens in a thousand periods. Vast rates would leave the exact numbers by that.
  const periods = ratesOf(limit).every((amount) => amount <= AMOUNT_IN_PARTS_MAX) ? 1_000 : 1;
  const rate = (amount: number) => shareOf(amount * periods, share);
  const entries = schedule?.map((entry): ScheduleEntry => {
    if (entry.scale !== undefined) return entry;
    const { capacity, refillAmount, refillPeriodMs } = entry;
    const shared = {
      capacity: capacity && shareOf(capacity, share),
      refillAmount: refillAmount && rate(refillAmount),
      refillPeriodMs: refillPeriodMs && refillPeriodMs * periods,
    };
    return { ...entry, ...given(shared) };
  });
  // A part is no whole to tell percentages of.
  const { notifyAt: _, ...others } = limit;
  return {
    ...others,
    capacity: shareOf(capacity, share),
    refillAmount: rate(refillAmount),
    refillPeriodMs: refillPeriodMs * periods,
    ...given({ schedule: entries }),
  };
}

const AMOUNT_IN_PARTS_MAX = 1_000_000;

function ratesOf({ refillAmount, schedule = [] }: Limit): readonly number[] {
  return [refillAmount, ...schedule.map((entry) => entry.refillAmount ?? 0)];
}

/** Rounded down. 0.29 of 100 are 29: that 0.29 has no exact double must not take one away. */
function shareOf(amount: number, share: number): number {
  return Math.min(amount, Math.floor(amount * share * (1 + 2 ** -50)));
}
