import type { Terms } from "../../src/bucket/balance.ts";
import type { LimitState } from "../../src/domain/bucket/limit-state.ts";
import type { Limit } from "../../src/domain/limits/limit.ts";
import type { Calendar } from "../../src/domain/limits/schedule.ts";
import { floorDiv, lesser } from "./exact-bucket.ts";

const MINUTE_MS = 60_000;

/**
 * The slow, obvious limit that `advanceLimit` is compared with. It walks from minute to minute, asks the calendar at each
 * of them whether a window is open and whether a reset has just happened, and never jumps, folds or rounds: one millitoken
 * is `unitsPerMilli` units. It knows nothing of boundaries ahead.
 */
export class SlowLimit {
  atMs: number;
  readonly #limit: Limit;
  readonly #calendar: Calendar;
  readonly #unitsPerMilli: bigint;
  #terms: Terms;
  #units: bigint;
  #topUpMilli: number;
  #windowStartMs: number | undefined;

  constructor(state: LimitState, atMs: number, calendar: Calendar) {
    const { limit, terms, tokensMilli, remainder, quota } = state;
    this.atMs = atMs;
    this.#limit = limit;
    this.#calendar = calendar;
    this.#terms = terms;
    const periods = [limit.refillPeriodMs, ...(limit.schedule ?? []).flatMap((entry) => entry.refillPeriodMs ?? [])];
    this.#unitsPerMilli = [...new Set(periods)].reduce((product, ms) => product * BigInt(ms), 1n);
    this.#units =
      BigInt(tokensMilli) * this.#unitsPerMilli +
      (BigInt(remainder) * this.#unitsPerMilli) / BigInt(terms.refillPeriodMs);
    this.#topUpMilli = quota?.topUpMilli ?? 0;
    this.#windowStartMs = quota?.windowStartMs;
  }

  /** Rounded down. */
  get levelMilli(): bigint {
    return floorDiv(this.#units, this.#unitsPerMilli);
  }

  get terms(): Terms {
    return this.#terms;
  }

  get marks(): { readonly windowStartMs: number | undefined; readonly topUpMilli: number } {
    return { windowStartMs: this.#windowStartMs, topUpMilli: this.#topUpMilli };
  }

  /** Lets time act up to and including `toMs`. */
  walk(toMs: number): void {
    while (this.atMs < toMs) {
      const markMs = Math.min(this.#nextMark(), toMs);
      this.#drip(markMs - this.atMs);
      this.atMs = markMs;
      this.#arrive();
    }
  }

  /** The first instant from now up to `untilMs` at which there are so many millitokens; undefined when there is none. */
  firstWith(milli: number, untilMs: number): number | undefined {
    const wanted = BigInt(milli) * this.#unitsPerMilli;
    while (this.#units < wanted) {
      if (this.atMs >= untilMs) return undefined;
      const markMs = this.#nextMark();
      const perMs = this.#unitsPerMs();
      if (wanted <= this.#brim() && perMs > 0n) {
        const neededMs = (wanted - this.#units + perMs - 1n) / perMs;
        if (BigInt(this.atMs) + neededMs < BigInt(markMs)) return this.atMs + Number(neededMs);
      }
      this.walk(markMs);
    }
    return this.atMs;
  }

  // Offsets of zones are whole minutes since 1972, so that nothing of the calendar happens within a minute of UTC.
  #nextMark(): number {
    const minuteMs = (Math.floor(this.atMs / MINUTE_MS) + 1) * MINUTE_MS;
    if (this.#windowStartMs === undefined || this.#limit.resetAfterMs === undefined) return minuteMs;
    return Math.min(minuteMs, this.#windowStartMs + this.#limit.resetAfterMs);
  }

  #arrive(): void {
    const { reset, resetAfterMs } = this.#limit;
    const isReset =
      reset !== undefined &&
      this.#calendar.previousReset(reset.cron, reset.tz ?? "UTC", this.atMs) === this.atMs &&
      this.atMs % MINUTE_MS === 0;
    const opened = this.#windowStartMs;
    const isOver = resetAfterMs !== undefined && opened !== undefined && opened + resetAfterMs === this.atMs;
    const isClosed = resetAfterMs !== undefined && opened === undefined;
    if (isReset || isOver) {
      this.#topUpMilli = 0;
      this.#windowStartMs = undefined;
    }
    this.#terms = this.#termsNow();
    this.#units = isReset || isOver || isClosed ? this.#brim() : lesser(this.#brim(), this.#units);
  }

  #drip(ms: number): void {
    this.#units = lesser(this.#brim(), this.#units + this.#unitsPerMs() * BigInt(ms));
  }

  #unitsPerMs(): bigint {
    return (BigInt(this.#terms.refillAmountMilli) * this.#unitsPerMilli) / BigInt(this.#terms.refillPeriodMs);
  }

  #brim(): bigint {
    return BigInt(this.#terms.capacityMilli) * this.#unitsPerMilli;
  }

  #termsNow(): Terms {
    const { capacity, refillAmount, refillPeriodMs, schedule = [] } = this.#limit;
    const open = schedule.find(({ cron, tz }) => this.#calendar.matches(cron, tz ?? "UTC", this.atMs));
    const perMille = open?.scale === undefined ? 1000n : BigInt(Math.round(open.scale * 1000));
    const scaled = (tokens: number) =>
      tokens === 0 ? 0 : Math.max(1, Number((BigInt(tokens) * 1000n * perMille) / 1000n));
    return {
      capacityMilli: scaled(open?.capacity ?? capacity) + this.#topUpMilli,
      refillAmountMilli: scaled(open?.refillAmount ?? refillAmount),
      refillPeriodMs: open?.refillPeriodMs ?? refillPeriodMs,
    };
  }
}
