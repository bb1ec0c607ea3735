import { debtMaxMilli } from "../../bucket/balance.ts";
import { dripMs, refilledMilli } from "../../bucket/level.ts";
import { ended, heldMilli, pulledIn } from "../bucket/holds.ts";
import {
  countedOn,
  fullestMilli,
  fullLimit,
  type LimitState,
  renewed,
  sameRule,
  termsAt,
  underTerms,
} from "../bucket/limit-state.ts";
import { searchFor } from "../bucket/search.ts";
import { given } from "../names/given.ts";
import { holdMsOf } from "./kinds/concurrent.ts";
import { NO_MARKS, type QuotaMarks } from "./kinds/kind.ts";
import { rulesOf } from "./kinds/table.ts";
import type { Limit } from "./limit.ts";
import type { Calendar } from "./schedule.ts";
import { sameSchedule } from "./schedule-grammar.ts";

/**
 * The instant until which a limit whose rule is replaced at `atMs` must be remembered: its rule, or an earlier one, would have filled it
 * only then. It counts as empty, whatever it holds: on a store of conditional writes others may take until the change is written. 0: it
 * need not be remembered.
 */
function rememberedUntilMs(state: LimitState, atMs: number, calendar: Calendar): number {
  const untilMs = Math.min(FOREVER_MS, Math.max(filledMs(state, atMs, calendar), state.rememberUntilMs));
  return untilMs > atMs ? untilMs : 0;
}

/** The instant at which a limit is as full as it can ever be, if nobody takes meanwhile: with windows, in the largest of them. */
export function fullestAtMs(state: LimitState, atMs: number, calendar: Calendar): number {
  // A soft limit and a shadow let anything through at once; how full they are is another question.
  const { soft: _, shadow: __, ...limit } = state.limit;
  const then = { ...state, limit, terms: termsAt(limit, 0, atMs, calendar, state.part) };
  const { atMs: fullMs, found } = searchFor(then, atMs, fullestMilli(limit, state.part), atMs, calendar);
  return found ? fullMs : Number.POSITIVE_INFINITY;
}

function filledMs(state: LimitState, atMs: number, calendar: Calendar): number {
  const { limit, terms, quota } = state;
  // Nothing is promised of a soft limit.
  if (limit.soft) return 0;
  if (quota === undefined) {
    const tokensMilli = Math.min(0, state.tokensMilli);
    if (limit.schedule !== undefined) return fullestAtMs({ ...state, tokensMilli, remainder: 0 }, atMs, calendar);
    return atMs + dripMs(terms.capacityMilli - tokensMilli, terms);
  }
  const rules = rulesOf(limit);
  // Slots that are held are kept as such, until they end.
  if (rules.holdsSlots) return 0;
  return rules.isClosed(quota) ? 0 : rules.endMs(limit, quota, atMs, calendar);
}

/** The end of the year 9999: no instant that is stored lies later. */
const FOREVER_MS = 253_402_300_799_000;

/**
 * A limit that is another one from `atMs` on, where it stands then. A quota keeps what was used in its period: what is left goes with the
 * amount, below zero too. Any other limit keeps its balance, as far as there is room in both.
 */
export function changedLimit(old: LimitState, limit: Limit, atMs: number, calendar: Calendar): LimitState {
  const rules = rulesOf(limit);
  const rememberUntilMs = rememberedUntilMs(old, atMs, calendar);
  const marks = old.quota ?? { ...NO_MARKS, resets: old.resetsBefore };
  const isSameRule = sameRule(old.limit, limit);
  // Meanwhile another rule may have filled it. Were it known by its end alone, what was taken before would be given back on top of that
  // when the first rule returns.
  const resets = isSameRule ? marks.resets : Math.max(countFrom(atMs, 0), marks.resets + 1);
  // Under another rule another period begins.
  const told = given({ told: isSameRule ? old.told : undefined });
  if (rules.holdsSlots || rulesOf(old.limit).holdsSlots) {
    return changedSlots(
      { ...fullLimit(limit, true, atMs, calendar, old.part), rememberUntilMs, ...told },
      old,
      resets,
      atMs,
    );
  }
  // A closed session is full, whatever it holds from now on, unless an earlier rule has yet to fill it.
  if (rules.opensWindow && rulesOf(old.limit).isClosed(marks) && rememberUntilMs === 0) {
    const full = withResets(fullLimit(limit, true, atMs, calendar, old.part), marks.resets);
    // Slots that were held under another rule stay held until they end.
    return old.slices.length === 0 ? full : { ...full, slices: old.slices };
  }
  const quota = rules.marks === undefined ? undefined : { ...marks, resets };
  const terms = termsAt(limit, quota?.topUpMilli ?? 0, atMs, calendar, old.part);
  const isSameAmount = sameAmount(old.limit, limit);
  // A limit that drips keeps its balance, and so does one that drips from now on.
  const gainMilli = quota === undefined || isSameAmount ? 0 : gainedBy(old, limit, atMs, calendar);
  const kept = underTerms(old, old.terms, terms, gainMilli);
  // Debt of a soft limit was never a reason to refuse; made hard, it must not shut its owner out for it.
  const leastMilli =
    old.limit.soft && !limit.soft ? 0 : gainMilli < 0 ? -debtMaxMilli(old.part) : Number.NEGATIVE_INFINITY;
  const [tokensMilli, remainder] = [Math.max(leastMilli, kept.tokensMilli), kept.remainder];
  // Its window may be over under the new length.
  if (quota?.windowStartMs !== undefined && rules.windowEndMs(limit, quota) <= atMs) {
    return renewed({ ...old, limit, configured: true, quota, rememberUntilMs }, atMs, calendar);
  }
  // A closed session is full, nothing was bought for it, and no earlier rule counts still; any other must have begun.
  const closed = tokensMilli >= terms.capacityMilli && quota?.topUpMilli === 0 && rememberUntilMs === 0;
  const begun = closed ? quota?.windowStartMs : (quota?.windowStartMs ?? atMs);
  return {
    name: limit.name,
    limit,
    terms,
    configured: true,
    tokensMilli,
    remainder,
    quota: quota && withCount({ ...quota, windowStartMs: rules.opensWindow ? begun : undefined }, isSameAmount),
    slices: old.slices,
    part: old.part,
    rememberUntilMs,
    resetsBefore: quota === undefined ? marks.resets : 0,
    ...told,
  };
}

/** The gain of a quota that gets another amount, or its loss: what was used of it stays used. */
function gainedBy({ quota, limit: before, part }: LimitState, limit: Limit, atMs: number, calendar: Calendar): number {
  if (quota === undefined) return 0;
  const capacityMilli = (of: Limit) => termsAt(of, 0, atMs, calendar, part).capacityMilli;
  return capacityMilli(limit) - (quota.countedFromMilli ?? capacityMilli(before));
}

/** The marks of a quota; of another amount what was used is counted from the capacity in force. */
function withCount({ countedFromMilli, ...marks }: QuotaMarks, isSameAmount: boolean): QuotaMarks {
  return isSameAmount && countedFromMilli !== undefined ? { ...marks, countedFromMilli } : marks;
}

/** Whether two limits have the same amounts at every instant. */
export function sameAmount(a: Limit, b: Limit): boolean {
  return a.capacity === b.capacity && sameSchedule(a.schedule, b.schedule);
}

/**
 * A limit on how many are at once that gets other numbers, becomes such a limit, or stops being one. What is held stays held until it
 * ends, and nothing is cut. `full`: the limit as it is from now on, as if nothing was held or taken before. What was told of slots stays
 * told, whatever their number is. Of another kind than before it begins anew: what was taken before is not given back after.
 */
function changedSlots(full: LimitState, old: LimitState, resets: number, atMs: number): LimitState {
  const { limit, rememberUntilMs } = full;
  const rules = rulesOf(limit);
  const slices = ended(old.slices, atMs);
  if (rules.holdsSlots) {
    const tokensMilli = full.terms.capacityMilli - heldMilli(slices);
    return { ...full, slices, tokensMilli, quota: { ...NO_MARKS, resets } };
  }
  // The limit was spent before it became concurrent, and no earlier rule has filled it since.
  const tokensMilli = rememberUntilMs > atMs ? 0 : full.tokensMilli;
  if (rules.marks === undefined) return { ...full, slices, tokensMilli, resetsBefore: resets };
  const windowStartMs = rules.opensWindow && rememberUntilMs > atMs ? atMs : undefined;
  return { ...full, slices, tokensMilli, quota: { ...NO_MARKS, windowStartMs, resets } };
}

/**
 * The number from which resets are counted that begin at an instant. It leaves room to count on within the millisecond, so
 * that two beginnings of one name do not meet: a thousand in a millisecond, of them thirty in a generation.
 */
export function countFrom(atMs: number, generation: number): number {
  return atMs * 1024 + (generation % 32) * 32;
}

/** A quota that counts its resets from this number; anything else as it is. */
export function withResets(state: LimitState, resets: number): LimitState {
  return state.quota === undefined ? state : { ...state, quota: { ...state.quota, resets } };
}

/**
 * Whether a bucket with this limit is in one piece: by its kind, or because it is a shadow, which decides by all that there is.
 */
export function isWhole(limit: Limit): boolean {
  return rulesOf(limit).isWhole || limit.shadow === true;
}

/** Whether a use of so much opens the window of a limit. */
export function opensWindow({ limit, quota }: LimitState, milli: number): boolean {
  return milli > 0 && quota?.windowStartMs === undefined && rulesOf(limit).opensWindow;
}

/** The marks of a limit after a use of so much at an instant. */
export function marksAfterUse(held: LimitState, milli: number, atMs: number): QuotaMarks | undefined {
  return opensWindow(held, milli) ? { ...NO_MARKS, ...held.quota, windowStartMs: atMs } : held.quota;
}

/** A limit as it was earlier, and what it loses by that: some millitokens, or all that it has. */
interface Rewound {
  readonly limit: LimitState;
  readonly lostMilli: number | "all";
}

/**
 * A limit whose epoch is moved back from `fromMs` to `toMs`. What was refilled in between is taken off again, at most a
 * capacity. A quota that the end of a period in between filled is empty until that end comes: windows of a schedule fill nothing.
 */
export function rewound(
  held: LimitState,
  { fromMs, toMs }: { readonly fromMs: number; readonly toMs: number },
  calendar: Calendar,
): Rewound {
  const { limit, quota } = held;
  const terms = termsAt(limit, quota?.topUpMilli ?? 0, toMs, calendar, held.part);
  const rules = rulesOf(limit);
  if (rules.refillsSteadily) {
    const lostMilli = Math.min(terms.capacityMilli, refilledMilli(0, terms, fromMs - toMs));
    return { limit: { ...held, terms, tokensMilli: held.tokensMilli - lostMilli, remainder: 0 }, lostMilli };
  }
  if (rules.holdsSlots) {
    // Slices that ended in between were free all along. Only those end earlier that no right clock can have made.
    const slices = pulledIn(held.slices, toMs, holdMsOf(limit));
    const tokensMilli = terms.capacityMilli - heldMilli(slices);
    return { limit: { ...held, terms, tokensMilli, remainder: 0, slices }, lostMilli: 0 };
  }
  const windowStartMs = windowBefore(held, { fromMs, toMs });
  const isFilled = rules.opensWindow
    ? windowStartMs !== quota?.windowStartMs
    : rules.endMs(limit, quota ?? NO_MARKS, toMs, calendar) <= fromMs;
  if (!isFilled) return { limit: { ...held, terms, remainder: 0, quota: countedOn(held, terms) }, lostMilli: 0 };
  const tokensMilli = Math.min(held.tokensMilli, 0);
  const marks = countedOn(held, terms);
  return {
    limit: { ...held, terms, tokensMilli, remainder: 0, quota: marks && { ...marks, windowStartMs } },
    lostMilli: "all",
  };
}

/**
 * The start of the window of a session that counts at `toMs`. One that is closed at `fromMs`, or opened since, says nothing of the window
 * before it, which may have ended in between: it counts as open until then, as long as a window can have been.
 */
function windowBefore(
  { limit, terms, quota }: LimitState,
  { fromMs, toMs }: { readonly fromMs: number; readonly toMs: number },
): number | undefined {
  const rules = rulesOf(limit);
  if (!rules.opensWindow || (quota?.windowStartMs ?? fromMs) <= toMs) return quota?.windowStartMs;
  const lengthMs = rules.lengthMs(limit, terms);
  return Math.min(fromMs, toMs + lengthMs) - lengthMs;
}
