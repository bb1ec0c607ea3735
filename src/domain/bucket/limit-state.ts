import { type Balance, divided, type Part, type Terms } from "../../bucket/balance.ts";
import { addMulDiv } from "../../bucket/integers.ts";
import { dripMs, rebase } from "../../bucket/level.ts";
import { NO_MARKS, type QuotaMarks } from "../limits/kinds/kind.ts";
import { kindOf, rulesOf } from "../limits/kinds/table.ts";
import { capacityMaxMilli, type Limit, TOKENS_MAX, termsOf } from "../limits/limit.ts";
import { type Calendar, cutByWindows, effectiveTerms, TZ_DEFAULT } from "../limits/schedule.ts";
import { ended, heldMilli, NO_SLICES, nextEndMs, type Slice } from "./holds.ts";

/** One limit on a bucket, relative to the bucket's epoch. */
export interface LimitState extends Balance {
  readonly name: string;
  readonly limit: Limit;
  /** In force from the epoch to the next boundary; what was topped up is part of the capacity. */
  readonly terms: Terms;
  /** False once configuration no longer names it: it is kept, and time goes on for it, so that re-adding it mints nothing. */
  readonly configured: boolean;
  /** Quotas, and limits on how many are at once. */
  readonly quota: QuotaMarks | undefined;
  /**
   * Slots that are held. What is free and what is held are together what such a limit has. A limit that is another kind meanwhile keeps
   * those that were held before until they end, so that they count when it is concurrent again.
   */
  readonly slices: readonly Slice[];
  /** The part that this is of a bucket that is split up. `limit` is the whole, `terms` are the part's. */
  readonly part: Part | undefined;
  /**
   * A rule that the limit went by earlier would have filled it only at this instant. It is not forgotten before: it would be full again
   * when that rule comes back. 0: there is no such rule.
   */
  readonly rememberUntilMs: number;
  /** The resets that a limit which drips now has counted as a quota before, and counts on from as a quota again. 0: none. */
  readonly resetsBefore: number;
  /** The highest percentage of `notifyAt` that was told: in this period of a quota. Absent: none. */
  readonly told?: number;
}

/** A limit that was never taken from: full at the capacity in force. */
export function fullLimit(
  limit: Limit,
  configured: boolean,
  atMs: number,
  calendar: Calendar,
  part?: Part | undefined,
): LimitState {
  const own = grantedAnew(part);
  const terms =
    limit.schedule === undefined && own === undefined ? baseTerms(limit) : termsAt(limit, 0, atMs, calendar, own);
  const quota = rulesOf(limit).marks;
  const tokensMilli = terms.capacityMilli;
  return {
    name: limit.name,
    limit,
    terms,
    configured,
    tokensMilli,
    remainder: 0,
    quota,
    slices: NO_SLICES,
    part: own,
    rememberUntilMs: 0,
    resetsBefore: 0,
  };
}

/** Terms that all buckets with this limit share: of many ids, each would otherwise hold its own. */
function baseTerms(limit: Limit): Terms {
  let terms = termsByLimit.get(limit);
  if (terms === undefined) {
    terms = termsOf(limit);
    termsByLimit.set(limit, terms);
  }
  return terms;
}

const termsByLimit = new WeakMap<Limit, Terms>();

/** The terms of a limit at an instant: those of its window, of a part its share, with what was topped up on the capacity. */
export function termsAt(
  limit: Limit,
  topUpMilli: number,
  atMs: number,
  calendar: Calendar,
  part?: Part | undefined,
): Terms {
  const { schedule } = limit;
  const base = termsOf(limit);
  const whole =
    schedule === undefined ? base : effectiveTerms(base, schedule, (cron, tz) => calendar.matches(cron, tz, atMs));
  const terms = part === undefined ? whole : sharedOut(whole, part);
  if (topUpMilli === 0) return terms;
  // A window, or a raised limit, may leave no room for all of it among the exact integers.
  return { ...terms, capacityMilli: Math.min(TOKENS_MAX * 1000, terms.capacityMilli + topUpMilli) };
}

/** The next instant after `atMs` at which time does something other than drip; `Infinity` when nothing lies ahead. */
export function boundaryAfter({ limit, quota, slices }: LimitState, atMs: number, calendar: Calendar): number {
  const next = windowChangeAfter(limit, atMs, calendar);
  if (quota === undefined) return next;
  const rules = rulesOf(limit);
  if (rules.holdsSlots) return Math.min(next, nextEndMs(slices));
  return rules.isClosed(quota) ? next : Math.min(next, rules.endMs(limit, quota, atMs, calendar));
}

/**
 * The limit relative to a later epoch: what time did in between. It drips at the terms of each window it passes through, is
 * clipped where a window holds less, is full after a reset or the end of a session.
 */
export function advanceLimit(state: LimitState, fromMs: number, toMs: number, calendar: Calendar): LimitState {
  return advanceWithin(state, fromMs, toMs, calendar, undefined) as LimitState;
}

/** The steps that a search may still take. */
export interface Steps {
  /** False: none is left. */
  take(): boolean;
}

/** Advances a limit for a search, each boundary a step; undefined where the steps do not suffice. */
export function advanceWithin(
  state: LimitState,
  fromMs: number,
  toMs: number,
  calendar: Calendar,
  steps: Steps | undefined,
): LimitState | undefined {
  if (toMs <= fromMs) return state;
  if (state.slices.length > 0) state = withSlices(state, ended(state.slices, toMs));
  const { limit, quota } = state;
  if (quota === undefined) return throughWindows(state, fromMs, toMs, calendar, steps);
  const rules = rulesOf(limit);
  if (rules.holdsSlots) return steps?.take() === false ? undefined : slotsAt(state, toMs, calendar);
  const filledMs = rules.filledMs(limit, quota, toMs, calendar);
  if (filledMs <= fromMs) return throughWindows(state, fromMs, toMs, calendar, steps);
  // Nothing from before it was full again matters any more.
  if (steps?.take() === false) return undefined;
  const full = renewed(state, filledMs, calendar);
  return filledMs === toMs ? full : throughWindows(full, filledMs, toMs, calendar, steps);
}

/** A limit on how many are at once, where it stands: what its window has, without what is held. Never cut: a slot would be lost for good. */
function slotsAt(state: LimitState, atMs: number, calendar: Calendar): LimitState {
  const terms = state.limit.schedule === undefined ? state.terms : termsAt(state.limit, 0, atMs, calendar, state.part);
  const tokensMilli = terms.capacityMilli - heldMilli(state.slices);
  return { ...state, terms, tokensMilli, remainder: 0 };
}

function withSlices(state: LimitState, slices: readonly Slice[]): LimitState {
  return slices === state.slices ? state : { ...state, slices };
}

/** A limit that is full again: top-ups are used up, a session window is closed, nothing of the period before is left. */
export function renewed(state: LimitState, atMs: number, calendar: Calendar): LimitState {
  const part = grantedAnew(state.part);
  const terms = termsAt(state.limit, 0, atMs, calendar, part);
  const quota = state.quota && renewedMarks(state.quota, part);
  // Another period tells anew. A limit that refills has none: the next take that sees how little is used takes its mark back.
  const { told: _, ...untold } = state;
  return {
    ...(quota === undefined ? state : untold),
    part,
    terms,
    tokensMilli: terms.capacityMilli,
    remainder: 0,
    quota,
  };
}

/**
 * The number of its beginning stays: a bucket that was deleted in this period may have had any other, and what was taken from that
 * one is not given back into this. Shards may have begun at different instants and must agree from here on.
 */
function renewedMarks({ resets }: QuotaMarks, part: Part | undefined): QuotaMarks {
  return part === undefined && resets !== 0 ? { ...NO_MARKS, resets } : NO_MARKS;
}

/** Whether a new limit would be the same, also under a rule that it went by earlier: then it need not be remembered. */
export function isForgettable(state: LimitState, atMs: number): boolean {
  return isFull(state) && state.rememberUntilMs <= atMs;
}

function isFull({ limit, tokensMilli, terms, quota, part, slices, told }: LimitState): boolean {
  // A percentage that was told in this period is not told again when all was given back.
  if (told !== undefined && rulesOf(limit).hasPeriods) return false;
  if (slices.length > 0 && heldMilli(slices) > 0) return false;
  // A limit without held slots is like a new one, whatever window it is in.
  if (quota !== undefined && rulesOf(limit).holdsSlots) return true;
  // A limit that nobody has taken from is full in whatever window it is first used, so it takes the fullest to equal it.
  if (tokensMilli < (limit.schedule === undefined ? terms.capacityMilli : fullestMilli(limit, part))) return false;
  return quota === undefined || (quota.windowStartMs === undefined && quota.topUpMilli === 0);
}

/** The most a limit, or a part of it, holds in any of its windows. */
export function fullestMilli(limit: Limit, part: Part | undefined): number {
  return part === undefined ? capacityMaxMilli(limit) : divided(capacityMaxMilli(limit), part);
}

function grantedAnew(part: Part | undefined): Part | undefined {
  return part?.grantedAmong === undefined ? part : { ...part, grantedAmong: part.count };
}

function sharedOut({ capacityMilli, refillAmountMilli, refillPeriodMs }: Terms, part: Part): Terms {
  return {
    capacityMilli: divided(capacityMilli, part),
    refillAmountMilli: divided(refillAmountMilli, part),
    refillPeriodMs,
  };
}

/** Whether two limits are full again by the same rule: then what was taken under the one is given back under the other. */
export function sameRule(a: Limit, b: Limit): boolean {
  return kindOf(a) === kindOf(b) && rulesOf(a).isSameRule(a, b);
}

/** A balance under other terms: with what it gains by them, clipped, and its fraction converted to the new period. */
export function underTerms(balance: Balance, before: Terms, terms: Terms, gainMilli: number): Balance {
  // The old brim counts too: what was given back over it has flowed off, and a raised capacity does not bring it back.
  const brimMilli = Math.min(before.capacityMilli + gainMilli, terms.capacityMilli);
  const tokensMilli = Math.min(balance.tokensMilli + gainMilli, brimMilli);
  // The remainder counts in fractions of the old period. Were it dropped, a limit that is changed often would starve. It
  // stays at the brim too, as in `rebase`: terms that stay the same must change nothing.
  const { remainder: left } = balance;
  // A full limit that no longer drips has no past: were the fraction kept, it would come on top of a full limit later.
  const isFull = tokensMilli === brimMilli;
  if (terms.refillAmountMilli === 0 && isFull) return { tokensMilli, remainder: 0 };
  const remainder = addMulDiv(0, left, terms.refillPeriodMs, 0, before.refillPeriodMs, Number.MAX_SAFE_INTEGER);
  return { tokensMilli, remainder };
}

/** The next instant after `atMs` at which a window opens or ends. */
export function windowChangeAfter({ schedule }: Limit, atMs: number, calendar: Calendar): number {
  let next = Number.POSITIVE_INFINITY;
  if (schedule === undefined) return next;
  for (const { cron, tz } of schedule) next = Math.min(next, calendar.nextChange(cron, tz ?? TZ_DEFAULT, atMs));
  return next;
}

/** The number of windows after which it is worth asking whether the rest of the time makes a difference. */
const WINDOWS_FEW = 8;

/** The most windows that are walked through for the time a bucket was left alone; see `throughWindows`. */
const WINDOWS_WALKED = 10_000;

/** The limit after all windows up to an instant; undefined where the steps do not suffice. */
function throughWindows(
  state: LimitState,
  fromMs: number,
  toMs: number,
  calendar: Calendar,
  steps: Steps | undefined,
): LimitState | undefined {
  if (state.limit.schedule === undefined) return { ...state, ...rebase(state, state.terms, toMs - fromMs) };
  let { terms } = state;
  let balance: Balance = state;
  let atMs = fromMs;
  let beganMs = fromMs;
  for (let walked = 0; ; walked++) {
    if (walked === WINDOWS_FEW) {
      const at = { ...state, ...balance, terms };
      const later =
        state.quota === undefined ? filledSince(at, atMs, toMs, calendar) : quotaCut(at, atMs, toMs, calendar, steps);
      if (later === "no steps left") return undefined;
      if (later !== undefined) ({ balance, terms, atMs } = later);
      beganMs = atMs;
    }
    const nextMs = windowChangeAfter(state.limit, atMs, calendar);
    if (nextMs > toMs) break;
    if (steps !== undefined && !steps.take()) return undefined;
    balance = rebase(balance, terms, nextMs - atMs);
    atMs = nextMs;
    // A schedule that changes every minute, on a limit that takes weeks to fill, and a bucket left alone for that long: what
    // would have dripped in between the first days and the last ones is not credited. The alternative is to stop the process.
    const skippedToMs =
      walked === WINDOWS_WALKED ? toMs - (atMs - beganMs) : walked === 2 * WINDOWS_WALKED ? toMs : atMs;
    if (skippedToMs > atMs) {
      atMs = skippedToMs;
      // One of the windows that are skipped may hold less than all others, and cut off what has dripped in. A quota comes here only with
      // windows that hold less and stood behind others a thousand times.
      if (state.quota === undefined) balance = clippedToLeast(state, balance);
    }
    const then = termsAt(state.limit, state.quota?.topUpMilli ?? 0, atMs, calendar, state.part);
    const wasFull = balance.tokensMilli >= terms.capacityMilli;
    balance = underTerms(balance, terms, then, 0);
    // A limit that is full has no past: fractions over the brim have flowed off, of the window that ends as of the next.
    const isFull = wasFull || balance.tokensMilli === then.capacityMilli;
    if (isFull) balance = { tokensMilli: balance.tokensMilli, remainder: 0 };
    terms = then;
  }
  const { tokensMilli, remainder } = rebase(balance, terms, toMs - atMs);
  return { ...state, terms, tokensMilli, remainder, quota: countedOn(state, terms) };
}

/** The marks of a quota whose terms a window changes within its period: what was used is counted from the capacity of before. */
export function countedOn({ quota, terms: before }: LimitState, terms: Terms): QuotaMarks | undefined {
  if (quota === undefined) return undefined;
  const { countedFromMilli = before.capacityMilli - quota.topUpMilli, ...marks } = quota;
  return countedFromMilli === terms.capacityMilli - quota.topUpMilli ? marks : { ...marks, countedFromMilli };
}

/** The balance that a limit which drips holds for certain after any of its windows. */
function clippedToLeast({ limit, part }: LimitState, { tokensMilli, remainder }: Balance): Balance {
  const leastMilli = Math.min(...allTerms(limit, part).map(({ capacityMilli }) => capacityMilli));
  return tokensMilli < leastMilli ? { tokensMilli, remainder } : { tokensMilli: leastMilli, remainder: 0 };
}

/** A balance at a later instant from which a walk may go on: the time before makes no difference. */
interface Later {
  readonly balance: Balance;
  readonly terms: Terms;
  readonly atMs: number;
}

/** A quota after all windows up to an instant: nothing drips into it, so only those count that hold less than it has. */
function quotaCut(
  state: LimitState,
  fromMs: number,
  toMs: number,
  calendar: Calendar,
  steps: Steps | undefined,
): Later | "no steps left" | undefined {
  const { limit, quota, part } = state;
  const topUpMilli = quota?.topUpMilli ?? 0;
  const capacitiesMilli = allTerms(limit, part).map(({ capacityMilli }) => capacityMilli + topUpMilli);
  const windows = { entries: limit.schedule ?? [], capacitiesMilli };
  const balance = cutByWindows(state, windows, { fromMs, toMs }, calendar, steps);
  if (balance === undefined || balance === "no steps left") return balance;
  return { balance, terms: termsAt(limit, topUpMilli, toMs, calendar, part), atMs: toMs };
}

/**
 * A limit that drips has been at its brim once it had the time to fill, at the slowest of its rates, from the least that it can
 * have held; and a limit that is full at the end of a window has no past. So it counts as full at an instant that lies so far
 * back that, by the end of a window after that time, it would have been full either way.
 */
function filledSince(state: LimitState, sinceMs: number, toMs: number, calendar: Calendar): Later | undefined {
  const { limit, quota, part, tokensMilli } = state;
  if (quota !== undefined) return undefined;
  const all = allTerms(limit, part);
  const leastMilli = Math.min(tokensMilli, ...all.map(({ capacityMilli }) => capacityMilli));
  const missingMilli = Math.max(...all.map(({ capacityMilli }) => capacityMilli)) - leastMilli;
  // Twice as long, as each window may lose a fraction when it ends.
  const fillMs = 2 * Math.max(...all.map((terms) => dripMs(missingMilli, terms))) + MINUTE_MS;
  for (let backMs = fillMs; ; backMs *= 2) {
    const atMs = toMs - fillMs - backMs;
    if (!(atMs > sinceMs)) return undefined;
    if (windowChangeAfter(limit, atMs + fillMs, calendar) > toMs) continue;
    const terms = termsAt(limit, 0, atMs, calendar, part);
    return { balance: { tokensMilli: terms.capacityMilli, remainder: 0 }, terms, atMs };
  }
}

const MINUTE_MS = 60_000;

/** The terms of all windows, and those outside of them. */
function allTerms(limit: Limit, part: Part | undefined): readonly Terms[] {
  const base = termsOf(limit);
  const windows = (limit.schedule ?? []).map((entry) => effectiveTerms(base, [entry], () => true));
  const all = [base, ...windows];
  return part === undefined ? all : all.map((terms) => sharedOut(terms, part));
}
