import { elapsedUntil } from "../../bucket/level.ts";
import { rulesOf } from "../limits/kinds/table.ts";
import { capacityMaxMilli, isHard } from "../limits/limit.ts";
import { neededMilli } from "../limits/limit-numbers.ts";
import type { Calendar } from "../limits/schedule.ts";
import {
  advanceLimit,
  advanceWithin,
  boundaryAfter,
  type LimitState,
  type Steps,
  termsAt,
  windowChangeAfter,
} from "./limit-state.ts";

/**
 * The most boundaries (windows, resets) that one search for a wait passes, of all its limits, levels and shards together: a refusal must
 * not stop the process. Beyond that the answer is when to ask again.
 */
export const SEARCH_STEPS = 2_000;

/** Boundaries are looked for so far ahead: the calendar goes from day to day. A limit that only drips is searched without end. */
const SEARCH_HORIZON_MS = 50 * 365 * 24 * 3_600_000;

/** One search for a wait: its calendar, and the steps that it may still take. */
export class Search implements Steps {
  readonly calendar: Calendar;
  readonly #untilMs: number;
  #left = SEARCH_STEPS;

  constructor(fromMs: number, calendar: Calendar) {
    this.calendar = calendar;
    this.#untilMs = fromMs + SEARCH_HORIZON_MS;
  }

  take(): boolean {
    if (this.#left === 0) return false;
    this.#left--;
    return true;
  }

  /** Whether an instant is too far ahead to go on from there. */
  isBeyond(atMs: number): boolean {
    return atMs > this.#untilMs;
  }

  /** The limit at a later instant; undefined where the steps do not suffice. */
  advance(held: LimitState, fromMs: number, toMs: number): LimitState | undefined {
    if (this.isBeyond(toMs) && boundaryAfter(held, fromMs, this.calendar) <= toMs) return undefined;
    return advanceWithin(held, fromMs, toMs, this.calendar, this);
  }
}

/**
 * An instant that was searched for. `found` is false where it is only known not to lie earlier, and then it is when to ask
 * again: the steps were used up, or nothing but a give-back or a purchase makes room before.
 */
export interface Found {
  readonly atMs: number;
  readonly found: boolean;
}

const NEVER: Found = Object.freeze({ atMs: Number.POSITIVE_INFINITY, found: true });

/** The amount that is wanted of a limit, and the percent of its capacity in force that must be left. */
export interface Demanded {
  readonly milli: number;
  readonly leavePercent: number;
}

/** Whether a limit can never grant the amount, not even if everything taken from it comes back. */
export function isNever({ limit, quota }: LimitState, demanded: Demanded): boolean {
  return isHard(limit) && !hasRoom(capacityMaxMilli(limit) + (quota?.topUpMilli ?? 0), demanded);
}

/** Whether a capacity, full, grants the amount. The larger it is, the more is left above the floor. */
export function hasRoom(capacityMilli: number, { milli, leavePercent }: Demanded): boolean {
  return neededMilli(milli, capacityMilli, leavePercent) <= capacityMilli;
}

/**
 * The answer for an amount that fits only into what was bought: until the period ends give-backs may make room for it, and after that it
 * never fits. Undefined for other amounts.
 */
export function boughtUntil(
  { limit, quota }: LimitState,
  demanded: Demanded,
  atMs: number,
  calendar: Calendar,
): Found | undefined {
  if (quota === undefined || hasRoom(capacityMaxMilli(limit), demanded)) return undefined;
  return { atMs: rulesOf(limit).endMs(limit, quota, atMs, calendar), found: false };
}

/** A limit on its way through time. Each search goes on where the last one stood; until time has come to the last answer, that is the answer. */
export abstract class Walk {
  protected readonly demanded: Demanded;
  protected readonly search: Search;
  #last: Found | undefined;

  constructor(demanded: Demanded, search: Search) {
    this.demanded = demanded;
    this.search = search;
  }

  /** The first instant, not before `fromMs`, at which the amount is granted, if nothing is taken meanwhile. `fromMs` never falls. */
  next(fromMs: number): Found {
    if (this.#last === undefined) this.begin(fromMs);
    if (this.#last === undefined || fromMs > this.#last.atMs) this.#last = this.find(fromMs);
    return this.#last;
  }

  /** Brings the limit to where the search begins. Time until then takes no steps. */
  protected abstract begin(fromMs: number): void;

  protected abstract find(fromMs: number): Found;
}

/** One limit, relative to an epoch. */
export class LimitWalk extends Walk {
  #at: LimitState;
  #atMs: number;

  constructor(state: LimitState, epochMs: number, demanded: Demanded, search: Search) {
    super(demanded, search);
    this.#at = state;
    this.#atMs = epochMs;
  }

  protected begin(fromMs: number): void {
    this.#at = advanceLimit(this.#at, this.#atMs, fromMs, this.search.calendar);
    this.#atMs = Math.max(this.#atMs, fromMs);
  }

  protected find(fromMs: number): Found {
    const { calendar } = this.search;
    if (!isHard(this.#at.limit)) return { atMs: fromMs, found: true };
    if (!this.#advance(fromMs)) return { atMs: fromMs, found: false };
    // A clock behind the epoch sees no time pass until it has caught up with it.
    if (this.#elapsedMs() === 0) return { atMs: fromMs, found: true };
    if (isNever(this.#at, this.demanded)) return NEVER;
    const bought = boughtUntil(this.#at, this.demanded, this.#atMs, calendar);
    if (bought !== undefined) return bought;
    for (;;) {
      const fitsMs = this.#atMs + this.#elapsedMs();
      const nextMs = boundaryAfter(this.#at, this.#atMs, calendar);
      if (fitsMs < nextMs || nextMs === Number.POSITIVE_INFINITY) return this.#reached(fitsMs);
      if (!this.#advance(nextMs)) return { atMs: nextMs, found: false };
    }
  }

  #reached(fitsMs: number): Found {
    const { capacityMilli, refillAmountMilli } = this.#at.terms;
    const isFillable = refillAmountMilli > 0 && hasRoom(capacityMilli, this.demanded);
    if (fitsMs < Number.POSITIVE_INFINITY || !isFillable) return { atMs: fitsMs, found: true };
    return { atMs: this.#atMs + SPAN_MAX_MS, found: false };
  }

  /** Ms from the epoch on, by the terms in force, whose capacity says what must be left. */
  #elapsedMs(): number {
    const { terms } = this.#at;
    const { milli, leavePercent } = this.demanded;
    return elapsedUntil(this.#at, terms, 0, neededMilli(milli, terms.capacityMilli, leavePercent));
  }

  /** False where the steps do not suffice. */
  #advance(toMs: number): boolean {
    if (toMs <= this.#atMs) return true;
    const then = this.search.advance(this.#at, this.#atMs, toMs);
    if (then === undefined) return false;
    this.#at = then;
    this.#atMs = toMs;
    return true;
  }
}

/** Some 1,100 years. The largest limits take longer to fill, longer even than numbers go: their waits are when to ask again. */
export const SPAN_MAX_MS = 2 ** 45;

/** A limit that was never taken from: it is full in every window, so one that holds enough will do. */
export class UntouchedWalk extends Walk {
  readonly #limit: LimitState;

  constructor(limit: LimitState, demanded: Demanded, search: Search) {
    super(demanded, search);
    this.#limit = limit;
  }

  protected begin(): void {}

  protected find(fromMs: number): Found {
    const { limit } = this.#limit;
    const { calendar } = this.search;
    if (!isHard(limit)) return { atMs: fromMs, found: true };
    if (isNever(this.#limit, this.demanded)) return NEVER;
    for (let atMs = fromMs; ; ) {
      if (hasRoom(termsAt(limit, 0, atMs, calendar).capacityMilli, this.demanded)) return { atMs, found: true };
      const nextMs = windowChangeAfter(limit, atMs, calendar);
      if (nextMs === Number.POSITIVE_INFINITY) return NEVER;
      if (this.search.isBeyond(nextMs) || !this.search.take()) return { atMs: nextMs, found: false };
      atMs = nextMs;
    }
  }
}

/** The first instant, not before `fromMs`, at which a limit grants the amount, if nothing is taken meanwhile; or when to ask again. */
export function searchFor(
  state: LimitState,
  epochMs: number,
  milli: number,
  fromMs: number,
  calendar: Calendar,
): Found {
  const demanded = { milli, leavePercent: 0 };
  return new LimitWalk(state, epochMs, demanded, new Search(fromMs, calendar)).next(fromMs);
}
