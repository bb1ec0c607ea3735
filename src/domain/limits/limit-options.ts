import type { ScheduleEntry } from "./schedule.ts";

/** Options of every maker of limits. */
export interface KindOptions<Measure extends string = string> {
  /** The measure that it counts. Default: the limit's own name. */
  readonly counts?: Measure;
  /** Whether it only measures and never refuses. Default: `false`. */
  readonly soft?: boolean;
  /**
   * Whether it decides like a hard limit and never refuses: usage counts what it would have refused (`wouldRefuse`), and none of that is
   * taken. Not together with `soft`. Default: `false`.
   */
  readonly shadow?: boolean;
  /** Windows with another capacity or rate. The first window that matches counts. Default: none. */
  readonly schedule?: readonly ScheduleEntry[];
  /**
   * One to four rising whole percentages from 1 to 100. When so much of the capacity in force is used, a
   * `ThresholdEvent` tells it: once a period of a quota, and of a limit that refills each time that it is reached anew.
   * Default: none.
   */
  readonly notifyAt?: readonly number[];
}

/** Options of `Limit.perSecond`, `perMinute`, `perHour` and `perDay`. */
export interface RateOptions<Measure extends string = string> extends KindOptions<Measure> {
  /** The capacity: how much can be taken at once after a quiet time. Default: the rate. */
  readonly burst?: number;
}

/** What `Limit.custom` takes. */
export interface CustomTerms<Measure extends string = string> extends KindOptions<Measure> {
  /** The most it holds, in whole tokens. */
  readonly capacity: number;
  /** Whole tokens that drip in over a period. */
  readonly refillAmount: number;
  /** The period, in ms: whole seconds. */
  readonly refillPeriodMs: number;
}

/** Options of `Limit.concurrent`. */
export interface ConcurrentOptions<Measure extends string = string> extends KindOptions<Measure> {
  /**
   * How long a slot is held, in ms: whole seconds from 1,000 to a day, unless it is given back or renewed before. Who dies holding
   * one has it for at most a quarter longer. Default: 60,000.
   */
  readonly holdMs?: number;
}
