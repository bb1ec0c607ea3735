import type { Balance, Terms } from "../../bucket/balance.ts";
import { levelMilli, rebase } from "../../bucket/level.ts";
import { debit, take, takeAbove } from "../../bucket/take.ts";
import type { Amount } from "../charge/amounts.ts";
import { changedLimit, countFrom, marksAfterUse, withResets } from "../limits/changed-limit.ts";
import { holdMsOf } from "../limits/kinds/concurrent.ts";
import { rulesOf } from "../limits/kinds/table.ts";
import { isHard, type Limit } from "../limits/limit.ts";
import { floorMilli } from "../limits/limit-numbers.ts";
import {
  epochAgeMaxMs,
  knowsMore,
  type LimitSet,
  originMet,
  type SetOrigin,
  type SourcedLimits,
  supersedes,
  unmetChanges,
} from "../limits/limit-set.ts";
import type { Calendar } from "../limits/schedule.ts";
import { endFor, taken } from "./holds.ts";
import { advanceLimit, boundaryAfter, fullLimit, isForgettable, type LimitState, termsAt } from "./limit-state.ts";

export { changedLimit, countFrom } from "../limits/changed-limit.ts";
export type { LimitState } from "./limit-state.ts";

/** A bucket: every limit of one entity on one resource, sharing one epoch. A value; each change makes a new one. */
export interface BucketState {
  readonly epochMs: number;
  readonly limits: readonly LimitState[];
  /** The limit set that was last brought to the bucket. */
  readonly signature: string;
  readonly origin: SetOrigin;
  /** Levels are straight lines from the epoch to this instant; `Infinity` when no limit has a boundary ahead. */
  readonly validUntilMs: number;
  /** A take from this instant on moves the epoch up first: there is a boundary, or numbers grow large. */
  readonly renewAtMs: number;
  /** Nobody has taken from it, and it is not stored: it is full in whatever window it is first used. */
  readonly untouched: boolean;
  /** Every limit drips, is hard and tells nothing, and nothing is held: nothing about a take needs remembering. */
  readonly plain: boolean;
  /**
   * The shards of a bucket that is split up, each from its own epoch. They say what the bucket holds, and when it will hold more; its
   * own limits add them up at its epoch. Absent: the bucket is one.
   */
  readonly shards?: readonly BucketState[];
  /** The instant of the last take, where the store says so and that may be later than the epoch. */
  readonly writtenMs?: number;
}

/** A bucket that was never taken from: full at the capacities in force. */
export function freshBucket(set: LimitSet, origin: SetOrigin, nowMs: number, calendar: Calendar): BucketState {
  const limits = set.limits.map((limit) => fullLimit(limit, true, nowMs, calendar));
  const fresh = {
    ...assembled({ epochMs: nowMs, limits, signature: set.signature, origin: originMet(origin, undefined) }, calendar),
    untouched: true,
  };
  // A bucket that is deleted makes a new generation: the next one of the same millisecond is born with another number.
  return bornAs(fresh, countFrom(nowMs, origin.generation ?? 0));
}

/**
 * A new bucket whose quotas count their resets from a number that no earlier bucket of the same name had: so leases of one
 * that was deleted in the same period give nothing back into this one.
 */
export function bornAs(fresh: BucketState, birth: number): BucketState {
  return fresh.plain ? fresh : { ...fresh, limits: fresh.limits.map((limit) => withResets(limit, birth)) };
}

/**
 * The bucket as it stands for a claim: time has acted on it up to `nowMs`, and it has the claim's limits. It is the same object when
 * nothing of that was due. Stored limits that were changed count from the instant of their change, others from now on. Time before that
 * counts at the old terms; a balance is kept and clipped to the new capacity; a limit that is new starts full.
 */
export function bucketFor(
  state: BucketState | undefined,
  of: SourcedLimits,
  nowMs: number,
  calendar: Calendar,
): BucketState {
  const { set, origin } = of;
  if (state === undefined) return freshBucket(set, origin, nowMs, calendar);
  if (state.shards !== undefined) {
    const shards = state.shards.map((shard) => bucketFor(shard, of, nowMs, calendar));
    return wholeOf(shards, calendar);
  }
  if (!bringsLimits(state, of)) {
    const due = nowMs < state.renewAtMs ? state : advanced(state, nowMs, calendar);
    return state.signature === set.signature ? due : withMissing(due, set, nowMs, calendar);
  }
  const now = advanced(throughChanges(state, origin, nowMs, calendar), nowMs, calendar);
  return { ...installed(now, set, calendar, partOf(state)), origin: originMet(origin, state.origin) };
}

/** True if the bucket goes by the limits of the claim from then on, where it went by others or has not heard of a change. */
export function bringsLimits({ origin: last, signature }: BucketState, { set, origin }: SourcedLimits): boolean {
  return knowsMore(origin, last) || (signature !== set.signature && supersedes(origin, last));
}

/** The part of the bucket that a shard is: every limit says the same. */
function partOf({ limits }: Pick<BucketState, "limits">): LimitState["part"] {
  return limits[0]?.part;
}

/**
 * The bucket after the changes of stored limits that it has not gone through, each from its own instant: what applied between
 * two of them applies to that time. None counts before the bucket's last write, which went by older limits, nor after now.
 */
function throughChanges(state: BucketState, origin: SetOrigin, nowMs: number, calendar: Calendar): BucketState {
  const writtenMs = Math.max(state.epochMs, state.writtenMs ?? state.epochMs);
  let then = state;
  for (const { fromMs, set } of unmetChanges(origin, state.origin)) {
    then = installed(
      advanced(then, Math.min(nowMs, Math.max(fromMs, writtenMs)), calendar),
      set,
      calendar,
      partOf(state),
    );
  }
  return then;
}

/**
 * The bucket with other limits from its epoch on. The same object when it goes by them already. `part`: which shard it is; one whose
 * limits were all deleted for a while has no limit left to say so, and is no whole bucket for that.
 */
function installed(state: BucketState, set: LimitSet, calendar: Calendar, part: LimitState["part"]): BucketState {
  if (state.signature === set.signature) return state;
  const { epochMs } = state;
  const limits = set.limits.map((limit) => {
    const old = findLimit(state, limit.name);
    if (old !== undefined) return changedLimit(old, limit, epochMs, calendar);
    const full = fullLimit(limit, true, epochMs, calendar, part);
    return withResets(full, countFrom(epochMs, 0));
  });
  for (const old of state.limits) {
    if (set.limits.some(({ name }) => name === old.name)) continue;
    // A full one need not be remembered: it would start full again. Unless it began this very millisecond: it would begin again
    // by the same number, and leases of the first beginning would give back into the second.
    const isJustBegun = old.quota !== undefined && old.quota.resets >= countFrom(epochMs, 0);
    if (isJustBegun || !isForgettable(old, epochMs)) limits.push({ ...old, configured: false });
  }
  return assembled({ ...state, limits, signature: set.signature }, calendar);
}

/** A state from its stored parts, with what follows from them worked out. */
export function bucketState(parts: Omit<BucketState, "renewAtMs" | "plain" | "untouched">): BucketState {
  const { epochMs, limits, signature, origin, validUntilMs, writtenMs } = parts;
  const renewAtMs = Math.min(validUntilMs, epochMs + epochAgeMaxMs(limits) + 1);
  const plain = limits.every(
    ({ limit, quota, slices }) => quota === undefined && isHard(limit) && !limit.notifyAt && slices.length === 0,
  );
  const state = { epochMs, limits, signature, origin, validUntilMs, renewAtMs, plain, untouched: false };
  return writtenMs === undefined ? state : { ...state, writtenMs };
}

/** Moves the epoch of a bucket forward, every limit advanced and cut. The epoch never moves back. */
export function advanced(state: BucketState, nowMs: number, calendar: Calendar): BucketState {
  const { epochMs, limits: before, shards } = state;
  if (shards !== undefined) {
    const all = shards.map((shard) => advanced(shard, nowMs, calendar));
    return wholeOf(all, calendar);
  }
  // An end that a clock behind the epoch has set as a boundary is over with that instant.
  if (nowMs <= epochMs) return nowMs < state.validUntilMs ? state : assembled(state, calendar);
  const limits = before.map((limit) => {
    const then =
      limit.limit.schedule === undefined && limit.quota === undefined && limit.slices.length === 0
        ? dripped(limit, nowMs - epochMs)
        : advanceLimit(limit, epochMs, nowMs, calendar);
    const isOver = then.rememberUntilMs !== 0 && then.rememberUntilMs <= nowMs;
    return isOver ? { ...then, rememberUntilMs: 0, resetsBefore: 0 } : then;
  });
  // A boundary that was not passed stays: also the end of an override, which no limit says.
  const boundaryMs = nowMs < state.validUntilMs ? state.validUntilMs : Number.POSITIVE_INFINITY;
  return boundedBy(assembled({ ...state, epochMs: nowMs, limits }, calendar), boundaryMs);
}

/** The bucket as it stands at `nowMs`, by the limits it has: the same object when no boundary of theirs was passed. */
export function acrossBoundaries(state: BucketState, nowMs: number, calendar: Calendar): BucketState {
  return nowMs < state.validUntilMs ? state : advanced(state, nowMs, calendar);
}

/**
 * The bucket after taking every amount, or undefined when one of them does not fit; then nothing is taken. The bucket must
 * be as it stands at that time (`bucketFor`).
 */
export function takeFrom(state: BucketState, amounts: readonly Amount[], nowMs: number): BucketState | undefined {
  return takeBy(state, amounts, nowMs, ANY_TAKE);
}

/** The terms of a take besides its amounts. */
interface TakeTerms {
  /** Percent of every hard limit that it takes from that must be left; absent: none. */
  readonly leavePercent?: number;
  /** The ms for which it holds the slots that it takes; absent, or above a limit's own: as long as the limit says. */
  readonly holdMs?: number;
}

const ANY_TAKE: TakeTerms = Object.freeze({});

/** Takes for a request with a floor, or with a hold of its own; otherwise like `takeFrom`. */
export function takeBy(
  state: BucketState,
  amounts: readonly Amount[],
  nowMs: number,
  terms: TakeTerms,
): BucketState | undefined {
  if (state.shards !== undefined)
    throw new TypeError("Tokens are taken from one shard at a time, not from all shards together.");
  return changeTokens(state, amounts, nowMs, "refuse", terms);
}

/**
 * The bucket after taking every amount, fitting or not: it may go into debt. Undefined where a limit would owe more than can be
 * counted exactly; then nothing is taken.
 */
export function debitFrom(state: BucketState, amounts: readonly Amount[], nowMs: number): BucketState | undefined {
  return changeTokens(state, amounts, nowMs, "owe", ANY_TAKE);
}

/** The bucket as it is stored by somebody who takes nothing from it: from then on it exists. */
export function touched(state: BucketState): BucketState {
  return state.untouched ? { ...state, untouched: false } : state;
}

/** The balance of a limit at `nowMs`, at most its capacity, negative in debt. */
export function availableMilli(state: BucketState, limit: LimitState, nowMs: number): number {
  if (state.shards !== undefined) {
    // Shards that have not heard of lowered limits yet may hold more together than the whole may.
    return Math.min(limit.terms.capacityMilli, heldByAll(state.shards, limit.name, nowMs));
  }
  return levelMilli(limit, limit.terms, nowMs - state.epochMs);
}

/**
 * The whole of a bucket that is split up: what its shards hold together. A limit that one of them has never seen is full
 * there; where they disagree about the limits, the shard counts that heard of them last.
 */
export function wholeOf(shards: readonly BucketState[], calendar: Calendar): BucketState {
  const [first] = shards;
  if (first === undefined) throw new RangeError("A bucket without shards has no state; check that it has one first.");
  if (shards.length === 1 && first.limits.every(({ part }) => part === undefined)) return first;
  const newest = shards.reduce((a, b) => (b.origin.asOfMs > a.origin.asOfMs ? b : a));
  const known = new Map<string, LimitState>();
  for (const { limits } of [...shards, newest]) for (const held of limits) known.set(held.name, held);
  const epochMs = Math.max(...shards.map((shard) => shard.epochMs));
  const alike = shards.map((shard) => withLimits(shard, known, calendar));
  const limits = Array.from(known.values(), (held): LimitState => {
    const { quota } = held;
    const topUpMilli = alike.reduce((sum, shard) => sum + (findLimit(shard, held.name)?.quota?.topUpMilli ?? 0), 0);
    const told = findLimit(first, held.name)?.told;
    return {
      ...(told === undefined ? held : { ...held, told }),
      terms: termsAt(held.limit, topUpMilli, epochMs, calendar),
      tokensMilli: heldByAll(alike, held.name, epochMs),
      remainder: 0,
      quota: quota && { ...quota, topUpMilli },
      part: undefined,
    };
  });
  const { signature, origin } = newest;
  const whole = assembled({ epochMs, limits, signature, origin }, calendar);
  const validUntilMs = Math.min(...alike.map((shard) => shard.validUntilMs));
  const renewAtMs = Math.min(...alike.map((shard) => shard.renewAtMs));
  return { ...whole, validUntilMs, renewAtMs, shards: alike };
}

export function findLimit(state: BucketState, name: string): LimitState | undefined {
  for (const limit of state.limits) if (limit.name === name) return limit;
  return undefined;
}

/** The state with other limits at the same epoch, what follows from them worked out. */
export function assembled(
  parts: Omit<BucketState, "validUntilMs" | "renewAtMs" | "plain" | "untouched">,
  calendar: Calendar,
): BucketState {
  const { epochMs, limits } = parts;
  let validUntilMs = Number.POSITIVE_INFINITY;
  for (const limit of limits) {
    if (limit.limit.schedule === undefined && limit.quota === undefined) continue;
    validUntilMs = Math.min(validUntilMs, boundaryAfter(limit, epochMs, calendar));
  }
  return bucketState({ ...parts, validUntilMs });
}

function heldByAll(shards: readonly BucketState[], name: string, nowMs: number): number {
  let sumMilli = 0;
  for (const shard of shards) {
    const held = findLimit(shard, name);
    if (held !== undefined) sumMilli += availableMilli(shard, held, nowMs);
  }
  return sumMilli;
}

/** The shard with the limits that other shards of its bucket know and it does not: full. */
function withLimits(shard: BucketState, known: ReadonlyMap<string, LimitState>, calendar: Calendar): BucketState {
  const part = partOf(shard);
  const missing = [...known.values()].filter(({ name }) => findLimit(shard, name) === undefined);
  if (missing.length === 0) return shard;
  const full = missing.map(({ limit, configured }) => fullLimit(limit, configured, shard.epochMs, calendar, part));
  return assembled({ ...shard, limits: [...shard.limits, ...full] }, calendar);
}

function dripped(limit: LimitState, elapsedMs: number): LimitState {
  const { tokensMilli, remainder } = rebase(limit, limit.terms, elapsedMs);
  return { ...limit, tokensMilli, remainder };
}

// An older claim goes by the limits on the bucket, but one that the bucket has never seen must still count somewhere.
function withMissing(state: BucketState, set: LimitSet, nowMs: number, calendar: Calendar): BucketState {
  const missing = set.limits.filter(({ name }) => findLimit(state, name) === undefined);
  if (missing.length === 0) return state;
  // A limit that is new begins now: windows of its own may have passed since the epoch.
  const now = advanced(state, nowMs, calendar);
  const part = partOf(now);
  // A limit that was here before and was forgotten gets nothing back of what was taken then.
  const added = missing.map((limit) =>
    withResets(fullLimit(limit, false, now.epochMs, calendar, part), countFrom(now.epochMs, 0)),
  );
  return boundedBy(assembled({ ...now, limits: [...now.limits, ...added] }, calendar), now.validUntilMs);
}

/** The bucket with a boundary at an instant at the latest. */
export function boundedBy(state: BucketState, untilMs: number): BucketState {
  if (state.validUntilMs <= untilMs) return state;
  return { ...state, validUntilMs: untilMs, renewAtMs: Math.min(state.renewAtMs, untilMs) };
}

// The hottest loop of the embedded stores: plain indices and whole literals, so that one take makes few objects.
function changeTokens(
  state: BucketState,
  amounts: readonly Amount[],
  nowMs: number,
  whenShort: "refuse" | "owe",
  { leavePercent = 0, holdMs }: TakeTerms,
): BucketState | undefined {
  const { epochMs, signature, origin, plain } = state;
  let { validUntilMs, renewAtMs } = state;
  const limits = state.limits.slice();
  for (let a = 0; a < amounts.length; a++) {
    const { limit: name, milli } = amounts[a] as Amount;
    for (let i = 0; i < limits.length; i++) {
      const held = limits[i] as LimitState;
      if (held.name !== name) continue;
      const { limit, terms, configured, remainder, part, rememberUntilMs, resetsBefore } = held;
      // These are called by name, not handed in, so that the compiler can inline them.
      const tokensMilli = limit.soft
        ? overdraw(held, terms, nowMs - epochMs, milli)
        : whenShort === "owe"
          ? debit(held, terms, nowMs - epochMs, milli)
          : leavePercent === 0
            ? take(held, terms, nowMs - epochMs, milli)
            : takeAbove(floorMilli(terms.capacityMilli, leavePercent), held, terms, nowMs - epochMs, milli);
      if (tokensMilli === undefined) return undefined;
      // A clock behind the epoch uses it at the epoch.
      const quota = held.quota === undefined ? undefined : marksAfterUse(held, milli, Math.max(nowMs, epochMs));
      if (quota !== undefined && quota !== held.quota) {
        validUntilMs = Math.min(validUntilMs, rulesOf(limit).windowEndMs(limit, quota));
        renewAtMs = Math.min(renewAtMs, validUntilMs);
      }
      let { slices } = held;
      if (quota !== undefined && milli > 0 && rulesOf(limit).holdsSlots) {
        const endMs = holdEndMs(limit, holdMs, Math.max(nowMs, epochMs));
        slices = taken(slices, milli, endMs);
        validUntilMs = Math.min(validUntilMs, endMs);
        renewAtMs = Math.min(renewAtMs, validUntilMs);
      }
      const next: LimitState = {
        name,
        limit,
        terms,
        configured,
        tokensMilli,
        remainder,
        quota,
        slices,
        part,
        rememberUntilMs,
        resetsBefore,
      };
      limits[i] = held.told === undefined ? next : { ...next, told: held.told };
      break;
    }
  }
  return { epochMs, limits, signature, origin, validUntilMs, renewAtMs, plain, untouched: false };
}

/** The end of slots that a request takes at an instant. `ownMs`: how long it holds them; undefined: as long as the limit says. */
export function holdEndMs(limit: Limit, ownMs: number | undefined, atMs: number): number {
  const holdMs = holdMsOf(limit);
  return endFor(atMs, ownMs ?? holdMs, holdMs);
}

// A soft limit is measured as deep as numbers stay exact; there it stops, for it must never be a reason to fail.
function overdraw(limit: Balance, terms: Terms, elapsedMs: number, milli: number): number {
  return debit(limit, terms, elapsedMs, milli) ?? limit.tokensMilli;
}
