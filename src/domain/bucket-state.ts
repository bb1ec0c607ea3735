import type { Balance, Terms } from "../bucket/balance.ts";
import { addMulDiv } from "../bucket/integers.ts";
import { levelMilli, rebase } from "../bucket/level.ts";
import { elapsedUntil } from "../bucket/retry-after.ts";
import { credit, debit, take } from "../bucket/take.ts";
import type { Amount } from "./amounts.ts";
import { epochAgeMaxMs, type LimitSet, type SetOrigin, supersedes } from "./limit-set.ts";

/** One limit on a bucket, told from the bucket's epoch. */
export interface LimitState extends Balance {
  readonly name: string;
  readonly terms: Terms;
  /** False once configuration no longer names it: it is kept, and keeps dripping, so that re-adding it mints nothing. */
  readonly configured: boolean;
}

/** A bucket: every limit of one entity on one resource, sharing one epoch. A value; each change makes a new one. */
export interface BucketState {
  readonly epochMs: number;
  readonly limits: readonly LimitState[];
  /** The limit set that was last brought to the bucket. */
  readonly signature: string;
  readonly origin: SetOrigin;
  /** The age at which the epoch is moved up; follows from the terms. */
  readonly epochAgeMaxMs: number;
}

/** A bucket nobody has taken from: full. */
export function freshBucket(set: LimitSet, origin: SetOrigin, nowMs: number): BucketState {
  const limits = set.limits.map(({ name }, i) => fullLimit(name, set.terms[i] as Terms, true));
  return bucketState({ epochMs: nowMs, limits, signature: set.signature, origin });
}

/**
 * The bucket with the limits of a claim brought to it, or the same object when it has them already. What time did before
 * counts at the old terms; the balance is kept and clipped to the new capacity; a limit that is new starts full.
 */
export function bringLimits(state: BucketState, set: LimitSet, origin: SetOrigin, nowMs: number): BucketState {
  if (state.signature === set.signature) return state;
  if (!supersedes(origin, state.origin)) return withMissing(state, set);
  const { epochMs, limits: before } = rebased(state, nowMs);
  const limits = set.limits.map(({ name }, i) => {
    const terms = set.terms[i] as Terms;
    const old = before.find((limit) => limit.name === name);
    return old === undefined ? fullLimit(name, terms, true) : changed(old, terms);
  });
  for (const old of before) {
    if (set.limits.some(({ name }) => name === old.name)) continue;
    // A full one need not be remembered: it would start full again.
    if (old.tokensMilli < old.terms.capacityMilli) limits.push({ ...old, configured: false });
  }
  return bucketState({ epochMs, limits, signature: set.signature, origin });
}

/** A state from its stored parts, with what follows from them worked out. */
export function bucketState(parts: Omit<BucketState, "epochAgeMaxMs">): BucketState {
  return { ...parts, epochAgeMaxMs: epochAgeMaxMs(parts.limits) };
}

/** The bucket after taking every amount, or undefined when one of them does not fit; then nothing is taken. */
export function takeFrom(state: BucketState, amounts: readonly Amount[], nowMs: number): BucketState | undefined {
  return changeTokens(young(state, nowMs), amounts, nowMs, take);
}

/** The bucket after taking every amount, fitting or not: it may go into debt. */
export function debitFrom(state: BucketState, amounts: readonly Amount[], nowMs: number): BucketState {
  return changeTokens(young(state, nowMs), amounts, nowMs, debit) as BucketState;
}

/** The bucket with the amounts given back. Limits it no longer holds are left out. */
export function creditTo(state: BucketState, amounts: readonly Amount[]): BucketState {
  return changeTokens(state, amounts, state.epochMs, creditAnytime) as BucketState;
}

/** Whether every amount could be taken at `nowMs`. */
export function fits(state: BucketState, amounts: readonly Amount[], nowMs: number): boolean {
  const elapsedMs = nowMs - state.epochMs;
  return amounts.every(({ limit, milli }) => {
    const held = findLimit(state, limit);
    return held === undefined || levelMilli(held, held.terms, elapsedMs) >= milli;
  });
}

/** What a limit holds at `nowMs`, at most its capacity, negative in debt. */
export function availableMilli(state: BucketState, limit: LimitState, nowMs: number): number {
  return levelMilli(limit, limit.terms, nowMs - state.epochMs);
}

/** The first instant, not before `fromMs`, at which one limit grants the amount; `Infinity` if it never will. */
export function earliestMs(state: BucketState, limit: LimitState, milli: number, fromMs: number): number {
  // A clock behind the epoch sees no time pass until it has caught up with it.
  if (levelMilli(limit, limit.terms, fromMs - state.epochMs) >= milli) return fromMs;
  return state.epochMs + elapsedUntil(limit, limit.terms, fromMs - state.epochMs, milli);
}

/** The instant from which on the bucket, left alone, is full in every limit: then it equals one that does not exist. */
export function fullAtMs(state: BucketState): number {
  let elapsedMs = 0;
  for (const limit of state.limits) {
    elapsedMs = Math.max(elapsedMs, elapsedUntil(limit, limit.terms, 0, limit.terms.capacityMilli));
  }
  return state.epochMs + elapsedMs;
}

export function findLimit(state: BucketState, name: string): LimitState | undefined {
  for (const limit of state.limits) if (limit.name === name) return limit;
  return undefined;
}

function fullLimit(name: string, terms: Terms, configured: boolean): LimitState {
  return { name, terms, configured, tokensMilli: terms.capacityMilli, remainder: 0 };
}

function changed(old: LimitState, terms: Terms): LimitState {
  // The old brim counts too: what was given back over it has flowed off, and a raised capacity does not bring it back.
  const tokensMilli = Math.min(old.tokensMilli, old.terms.capacityMilli, terms.capacityMilli);
  // The remainder counts in fractions of the old period. Were it dropped, a limit that is changed often would starve.
  const { remainder: left, terms: before } = old;
  const remainder = addMulDiv(0, left, terms.refillPeriodMs, 0, before.refillPeriodMs, Number.MAX_SAFE_INTEGER);
  return { name: old.name, terms, configured: true, tokensMilli, remainder };
}

// An older claim goes by the limits on the bucket, but one that the bucket has never seen must still count somewhere.
function withMissing(state: BucketState, set: LimitSet): BucketState {
  const missing = set.limits.flatMap(({ name }, i) =>
    findLimit(state, name) === undefined ? [fullLimit(name, set.terms[i] as Terms, false)] : [],
  );
  return missing.length === 0 ? state : bucketState({ ...state, limits: [...state.limits, ...missing] });
}

function young(state: BucketState, nowMs: number): BucketState {
  return nowMs - state.epochMs > state.epochAgeMaxMs ? rebased(state, nowMs) : state;
}

/** The same bucket told from a later epoch, every limit advanced and cut. The epoch never moves back. */
function rebased(state: BucketState, nowMs: number): BucketState {
  const elapsedMs = nowMs - state.epochMs;
  if (elapsedMs <= 0) return state;
  const limits = state.limits.map((limit) => ({ ...limit, ...rebase(limit, limit.terms, elapsedMs) }));
  return { ...state, epochMs: nowMs, limits };
}

type Change = (limit: Balance, terms: Terms, elapsedMs: number, milli: number) => number | undefined;

const creditAnytime: Change = (limit, _terms, _elapsedMs, milli) => credit(limit, milli);

// The hottest loop of the embedded stores: plain indices and whole literals, so that one take makes few objects.
function changeTokens(
  state: BucketState,
  amounts: readonly Amount[],
  nowMs: number,
  change: Change,
): BucketState | undefined {
  const { epochMs, signature, origin, epochAgeMaxMs } = state;
  const limits = state.limits.slice();
  for (let a = 0; a < amounts.length; a++) {
    const { limit: name, milli } = amounts[a] as Amount;
    for (let i = 0; i < limits.length; i++) {
      const limit = limits[i] as LimitState;
      if (limit.name !== name) continue;
      const tokensMilli = change(limit, limit.terms, nowMs - epochMs, milli);
      if (tokensMilli === undefined) return undefined;
      const { terms, configured, remainder } = limit;
      limits[i] = { name, terms, configured, tokensMilli, remainder };
      break;
    }
  }
  return { epochMs, limits, signature, origin, epochAgeMaxMs };
}
