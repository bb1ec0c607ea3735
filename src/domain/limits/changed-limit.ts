import { debtMaxMilli } from "../../bucket/share.ts";
import { ended, heldMilli } from "../bucket/holds.ts";
import { fullLimit, type LimitState, renewed, sameRule, termsAt, underTerms } from "../bucket/limit-state.ts";
import { rememberedUntilMs } from "../bucket/remembered.ts";
import type { Calendar } from "./calendar.ts";
import { NO_MARKS, type QuotaMarks } from "./kinds/kind.ts";
import { rulesOf } from "./kinds/table.ts";
import type { Limit } from "./limit.ts";
import { sameSchedule } from "./schedule-grammar.ts";

/**
 * A limit that is another one from `atMs` on, where it stands then. A quota keeps what was used in its period: what is left goes with the
 * amount, below zero too. Of anything else what it holds stays, as far as there is room in both.
 */
export function changedLimit(old: LimitState, limit: Limit, atMs: number, calendar: Calendar): LimitState {
  const rules = rulesOf(limit);
  const rememberUntilMs = rememberedUntilMs(old, atMs, calendar);
  const marks = old.quota ?? { ...NO_MARKS, resets: old.resetsBefore };
  if (rules.holdsSlots || rulesOf(old.limit).holdsSlots) return ofOtherSlots(old, limit, atMs, calendar);
  // What is closed is full, whatever it holds from now on; unless an earlier rule has something to say to that.
  if (rules.opensWindow && rulesOf(old.limit).isClosed(marks) && rememberUntilMs === 0) {
    const full = withResets(fullLimit(limit, true, atMs, calendar, old.part), marks.resets);
    // What was held while it was a limit on how many are at once stays held until it ends.
    return old.slices.length === 0 ? full : { ...full, slices: old.slices };
  }
  // Meanwhile another rule may have filled it. Were it known by its end alone, what was taken before would be given back
  // on top of that when the first rule returns.
  const ruled = sameRule(old.limit, limit)
    ? marks
    : { ...marks, resets: Math.max(countFrom(atMs, 0), marks.resets + 1) };
  const quota = rules.marks === undefined ? undefined : ruled;
  const terms = termsAt(limit, quota?.topUpMilli ?? 0, atMs, calendar, old.part);
  const isSameAmount = sameAmount(old.limit, limit);
  // What drips keeps its balance, and so does what drips from now on.
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
    // Under another rule another period begins.
    ...(old.told === undefined || !sameRule(old.limit, limit) ? {} : { told: old.told }),
  };
}

/** What a quota has more of what is left, or less, by another amount: all but what was used of it. */
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
 * ends, and nothing is cut. Of another kind than before it begins anew: what was taken before is not given back after.
 */
function ofOtherSlots(old: LimitState, limit: Limit, atMs: number, calendar: Calendar): LimitState {
  const rules = rulesOf(limit);
  const marks = old.quota ?? { ...NO_MARKS, resets: old.resetsBefore };
  const resets = sameRule(old.limit, limit) ? marks.resets : Math.max(countFrom(atMs, 0), marks.resets + 1);
  const slices = ended(old.slices, atMs);
  const rememberUntilMs = rememberedUntilMs(old, atMs, calendar);
  const full = { ...fullLimit(limit, true, atMs, calendar, old.part), slices, rememberUntilMs };
  if (rules.holdsSlots) {
    const tokensMilli = full.terms.capacityMilli - heldMilli(slices);
    // What was told of slots stays told, whatever their number is.
    const told = old.told === undefined || !sameRule(old.limit, limit) ? {} : { told: old.told };
    return { ...full, tokensMilli, quota: { ...NO_MARKS, resets }, ...told };
  }
  // It was spent before it became concurrent, and no earlier rule has filled it since.
  const tokensMilli = rememberUntilMs > atMs ? 0 : full.tokensMilli;
  if (rules.marks === undefined) return { ...full, tokensMilli, resetsBefore: resets };
  const windowStartMs = rules.opensWindow && rememberUntilMs > atMs ? atMs : undefined;
  return { ...full, tokensMilli, quota: { ...NO_MARKS, windowStartMs, resets } };
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
