import type { Terms } from "../../bucket/balance.ts";
import { divFloor } from "../../bucket/integers.ts";
import { REQUESTS } from "../charge/measures.ts";
import { lastNumberOf } from "../config/change-number.ts";
import { isBeyondRates } from "./beyond-rates.ts";
import type { KindFields } from "./kinds/kind.ts";
import { FORMS, formOf } from "./kinds/table.ts";
import type { Limit } from "./limit.ts";

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
  /** Of the change: a later one has a higher number. */
  readonly number: number;
  readonly set: LimitSet;
}

/** Where a set of limits came from, which decides who wins when two processes disagree. */
export interface SetOrigin {
  /** Since when this process goes by this set on this bucket. */
  readonly asOfMs: number;
  /** The generation of stored configuration it was read from; null for limits given in a request. */
  readonly generation: number | null;
  /**
   * Which reading of configuration it was, where the store counts them; see `LevelConfig.reading`. 0: one that may have missed
   * changes, and answers no doubt.
   */
  readonly reading?: number;
  /** Given in a request: of configuration only who is let through was read. */
  readonly given?: true;
  /** Limits of the entity's own: a store that forgets buckets by themselves keeps this one. */
  readonly own?: true;
  /**
   * The number of the newest change of stored limits that was read; on a bucket, of the newest that it has gone through.
   * Absent: none is known.
   */
  readonly changeNumber?: number;
  /** The changes of stored limits, the oldest first, as far as they are kept. Not on a bucket, nor of limits given in a request. */
  readonly changes?: readonly LimitsFrom[];
}

export function limitSet(limits: readonly Limit[]): LimitSet {
  const isByName = limits.every((limit) => limit.counts === undefined && limit.name !== REQUESTS);
  return { limits, signature: limits.map(signatureOf).join(";"), isByName, isBeyondRates: limits.some(isBeyondRates) };
}

/** Whether limits of origin `next` replace those of origin `last` on a bucket. */
export function supersedes(next: SetOrigin, last: SetOrigin): boolean {
  if (knowsMore(next, last)) return true;
  // Two readings of stored configuration are ordered by what was read, not by clocks that may disagree.
  if (next.generation !== null && last.generation !== null) return next.generation >= last.generation;
  if (next.asOfMs !== last.asOfMs) return next.asOfMs > last.asOfMs;
  // Of the same millisecond the one that knows fewer changes is older: a lease that was taken before them.
  return (next.changeNumber ?? Number.POSITIVE_INFINITY) >= (last.changeNumber ?? 0);
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
  const { changes: _, ...rest } = next;
  return { ...rest, changeNumber: met };
}

/** Up to which number a bucket has gone through changes. Where it does not say, it had what was changed before its limits were read. */
export function metNumber({ changeNumber, asOfMs }: SetOrigin): number {
  return changeNumber ?? lastNumberOf(asOfMs);
}

/** One object for all buckets that go by the same origin: of many ids, each would otherwise hold its own. */
function withoutChanges(origin: SetOrigin): SetOrigin {
  if (origin.changes === undefined) return origin;
  let bare = bareOrigins.get(origin);
  if (bare === undefined) {
    const { changes: _, ...rest } = origin;
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

/** So many kinds with a field of their own there were when signatures were first stored. */
const FIELDS_FIRST = 2;

/** A bucket is rebased when its epoch is this old, so that products stay small. */
const EPOCH_MAX_MS = 3_600_000;

/** And before more than this was refilled, so that tokens relative to the epoch stay exact integers even in deep debt. */
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
