import { rulesOf } from "../limits/kinds/table.ts";
import type { Limit } from "../limits/limit.ts";
import type { Calendar } from "../limits/schedule.ts";
import { type Crossed, type Crossing, crossing, type UseMade } from "../limits/thresholds.ts";
import { resetsAtMs } from "./bucket-operations.ts";
import { availableMilli, type BucketState, findLimit } from "./bucket-state.ts";
import type { LimitState } from "./limit-state.ts";

/** The highest percentage that was told of a limit, and in which of its periods. */
interface Mark {
  readonly percent: number;
  readonly period: string;
}

const MARK = /^(\d{1,3})@(\S+)$/;

/** A mark as an item has it, `80@PERIOD`. By its period a mark of a period that is over counts for nothing: no write has to take it away. */
export function markText({ percent, period }: Mark): string {
  return `${percent}@${period}`;
}

/** The mark that a stored value says; undefined where it is none. */
export function markIn(value: unknown): Mark | undefined {
  const [, percent, period] = (typeof value === "string" && MARK.exec(value)) || [];
  if (percent === undefined || period === undefined || Number(percent) > 100) return undefined;
  return { percent: Number(percent), period };
}

/**
 * The period that a use of a limit at an instant falls into: by the end of a calendar period or the beginning of a session, and by
 * the number that tells beginnings within it apart. What refills has none but that it was a quota before.
 */
export function periodOf({ limit, quota, resetsBefore }: LimitState, atMs: number, calendar: Calendar): string {
  if (quota === undefined) return String(resetsBefore);
  const at = quota.windowStartMs ?? rulesOf(limit).pin(limit, atMs, calendar).untilMs;
  return `${at}.${quota.resets}`;
}

/** The limit with what its item says was told of it in the period of the epoch. */
export function withMark(held: LimitState, value: unknown, atMs: number, calendar: Calendar): LimitState {
  const mark = markIn(value);
  if (mark === undefined || mark.percent === 0 || mark.period !== periodOf(held, atMs, calendar)) return held;
  return { ...held, told: mark.percent };
}

/** A use of one limit of a bucket, and what its thresholds go by. */
export interface Use extends UseMade {
  /** The limit as it was then: its percentages are told, whatever becomes of it. */
  readonly rule: Limit;
  /** The period that it was taken in. */
  readonly period: string;
}

/** The use of one limit when a state was left, with an amount taken last. */
export function useOf(
  held: LimitState,
  state: BucketState,
  { milli, readingMs }: { readonly milli: number; readonly readingMs: number },
  calendar: Calendar,
): Use {
  const capacity = held.terms.capacityMilli;
  const after = capacity - availableMilli(state, held, readingMs);
  const before = Math.max(0, after - milli);
  const atMs = Math.max(readingMs, state.epochMs);
  // The first shard of a bucket has the marks, and its periods count.
  const first = (state.shards?.[0] && findLimit(state.shards[0], held.name)) ?? held;
  return {
    limit: held.name,
    rule: held.limit,
    used: { before, after, capacity },
    period: periodOf(first, atMs, calendar),
    readingMs,
    resetsAtMs: resetsAtMs(held, atMs, calendar),
  };
}

/** The text of the mark that a state has; undefined: none. */
export function toldText({ told }: LimitState, { period }: Use): string | undefined {
  return told === undefined ? undefined : markText({ percent: told, period });
}

/** The marks that a process with a use to tell finds on the item of shard 0. */
interface MarksMet {
  readonly now: unknown;
  /** The mark as the use itself met it. */
  readonly seen: unknown;
  /** The period that was last taken from. Absent: not known, or not asked. */
  readonly last?: string | undefined;
}

/**
 * Decides what to tell of a use; undefined: nothing, and the mark stays. A mark of another period that has come since may be of a later
 * one: that of this use is over then, and no mark is taken back for it. Or a process was late with a mark of an earlier one.
 */
export function dueOf({ rule, used, period }: Use, { now, seen, last }: MarksMet): Crossing | undefined {
  const mark = markIn(now);
  const isOfPeriod = mark?.period === period;
  const isReplaced = isOfPeriod || now === seen || (mark !== undefined && isEarlier(mark, period, last));
  if (!isReplaced) return undefined;
  const told = isOfPeriod ? mark.percent : 0;
  const due = crossing(rule.notifyAt ?? NONE, told, used, rulesOf(rule));
  // A mark is only taken back for a percentage that can be told again.
  const isRearmed = rule.notifyAt?.some((percent) => percent <= told && percent > due.told) ?? false;
  return due.tell.length === 0 && !isRearmed ? undefined : due;
}

/** Whether a mark is of an earlier period. Nothing is told of a period that was not taken from: while one lasts, other marks are of earlier ones. */
function isEarlier(mark: Mark, period: string, last: string | undefined): boolean {
  if (period === last) return true;
  const [its, itsResets] = mark.period.split(".");
  const [at, resets] = period.split(".");
  return resets !== undefined && itsResets === resets && Number(its) < Number(at);
}

const NONE: readonly number[] = Object.freeze([]);

/**
 * Work on thresholds (`notifyAt`) that no caller waits for. A take knows nothing of them: its answer shows what was used before and after.
 * A process that has something to tell swaps a mark in by a second write, and tells when that was applied. What is not told because a process
 * died, or the store was down, the next take tells: it goes by levels.
 */
export class MarkKeeper<Looked extends { readonly use: Use }> {
  readonly listeners = new ThresholdListeners();
  /** The work under way by key, and the uses that it has to look at next, by their limits and periods. */
  readonly #running = new Map<string, { readonly next: Map<string, Looked>; readonly done: Promise<void> }>();

  /** Resolves when what was looked at so far is told, or never will be. */
  async told(): Promise<void> {
    while (this.#running.size > 0) await Promise.allSettled([...this.#running.values()].map(({ done }) => done));
  }

  /**
   * Looks at a use, one at a time for each key. Of several uses of a limit in a period that wait, the one that reached most is looked at.
   * Undefined: the work that is under way does it.
   */
  begin(
    key: string,
    looked: Looked,
    run: (looked: Looked) => Promise<void>,
    holding: (work: () => Promise<void>) => Promise<void>,
  ): Promise<void> | undefined {
    const id = `${looked.use.limit}\n${looked.use.period}`;
    const running = this.#running.get(key);
    if (running !== undefined) {
      const waiting = running.next.get(id);
      if (waiting === undefined || waiting.use.used.after <= looked.use.used.after) running.next.set(id, looked);
      return undefined;
    }
    const next = new Map([[id, looked]]);
    const done = holding(() => runAll(next, run)).finally(() => this.#running.delete(key));
    this.#running.set(key, { next, done });
    return done;
  }
}

async function runAll<Looked>(waiting: Map<string, Looked>, run: (looked: Looked) => Promise<void>): Promise<void> {
  // The loop comes to those that are added meanwhile, too.
  for (const [id, looked] of waiting) {
    waiting.delete(id);
    await run(looked);
  }
}

/** Listeners to percentages that takes of one namespace have reached. */
export class ThresholdListeners {
  readonly #listeners = new Set<(crossed: Crossed) => void>();

  watch(listener: (crossed: Crossed) => void): () => void {
    this.#listeners.add(listener);
    return () => {
      this.#listeners.delete(listener);
    };
  }

  /** Tells what was crossed, once the take is stored; undefined: there is nothing to tell. */
  tell(all: readonly Crossed[] | undefined): void {
    if (all === undefined) return;
    // Each is told once, however many listen.
    const [first] = this.#listeners;
    if (first !== undefined) for (const crossed of all) first(crossed);
  }
}
