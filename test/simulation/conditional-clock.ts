import { DisciplinedClock, type Stamp } from "../../src/clock/disciplined-clock.ts";
import type { SeededRandom } from "../../src/testing/random.ts";
import type { SimulatedClock, SkewedClock } from "../../src/testing/simulated-clock.ts";
import type { MachineClock } from "./connection.ts";

const HOUR_MS = 3_600_000;
const LATENCY_MAX_MS = 2_000;

/** By how much a clock runs fast or slow, at most. */
const DRIFT = 0.0002;

/** How far ahead a clock may be that nothing corrects, at most: buckets must come right again before a world ends. */
const WRONG_MAX_MS = 480_000;

/**
 * A machine's clock that is off by up to an hour, and kept to the store's time by the store's answers. A wrong one is some
 * minutes ahead, and hears nothing of the store's time until it is corrected.
 */
export class CorrectedClock implements MachineClock {
  steppedBackMs = 0;
  /** The longest that an answer took which it went by. */
  latencyMaxMs = 0;
  readonly bornMs: number;
  readonly #true: SimulatedClock;
  readonly #local: SkewedClock;
  readonly #corrected: DisciplinedClock;
  readonly #sentMs = new WeakMap<Stamp, number>();
  readonly #firstShown = new Map<number, number>();
  readonly #wrongMs: number;
  #offsetMs: number;
  #aheadMs = Number.NEGATIVE_INFINITY;
  #hears: boolean;

  constructor(clock: SimulatedClock, random: SeededRandom, isWrong: boolean) {
    this.#true = clock;
    this.bornMs = clock.now();
    this.#hears = !isWrong;
    this.#offsetMs = isWrong ? random.integer(10_000, WRONG_MAX_MS) : random.integer(-HOUR_MS, HOUR_MS);
    this.#wrongMs = isWrong ? this.#offsetMs : 0;
    const ppm = random.pick([0, 0, -200, 200]);
    this.#local = clock.skewed(this.#offsetMs, ppm);
    const steady = clock.skewed(random.integer(-1e9, 1e9), ppm);
    this.#corrected = new DisciplinedClock(this.#local, () => steady.now());
  }

  now(): number {
    const [shownMs, trueMs] = [this.#corrected.now(), this.#true.now()];
    const aheadMs = shownMs - trueMs;
    if (aheadMs < this.#aheadMs) this.steppedBackMs += this.#aheadMs - aheadMs;
    this.#aheadMs = aheadMs;
    if (!this.#firstShown.has(shownMs)) this.#firstShown.set(shownMs, trueMs);
    return shownMs;
  }

  sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
    return this.#corrected.sleep(ms, signal);
  }

  trueMs(shownMs: number): number {
    return this.#firstShown.get(shownMs) ?? Number.NEGATIVE_INFINITY;
  }

  jump(random: SeededRandom): number {
    // Nobody puts a clock of which nobody knows that it is wrong.
    if (!this.#hears) return 0;
    const toMs = random.integer(-HOUR_MS, HOUR_MS);
    const byMs = toMs - this.#offsetMs;
    this.#offsetMs = toMs;
    this.#local.step(byMs);
    return byMs;
  }

  stamp(): Stamp {
    const stamp = this.#corrected.stamp();
    this.#sentMs.set(stamp, this.#true.now());
    return stamp;
  }

  /** Nobody has told it the store's time yet. */
  get isWrong(): boolean {
    return !this.#hears;
  }

  /** It hears of the store's time, and goes by that from now on. */
  correct(dateMs: number): void {
    this.#hears = true;
    this.observe({ dateMs, sent: this.stamp() });
    this.now();
  }

  observe(seen: { readonly dateMs: number; readonly sent: Stamp }): void {
    if (!this.#hears) return;
    const tookMs = this.#true.now() - (this.#sentMs.get(seen.sent) ?? this.bornMs);
    // Nobody waits that long for an answer.
    if (tookMs > LATENCY_MAX_MS) return;
    this.latencyMaxMs = Math.max(this.latencyMaxMs, tookMs);
    this.#corrected.observe(seen);
  }

  get isTimeKnown(): boolean {
    return this.#corrected.isFresh;
  }

  latestServerMs(): number {
    return this.#corrected.latestServerMs();
  }

  /** By how much a reading may be off: the store's seconds, the time that answers take, drift, and what was wrong before. */
  get errorMaxMs(): number {
    const trueMs = this.#true.now() - this.bornMs;
    // It runs fast by so much, and allows for as much of what it counts itself.
    const driftMs = Math.ceil(trueMs * DRIFT + trueMs * (1 + DRIFT) * DRIFT);
    return 1_003 + this.latencyMaxMs + driftMs + this.#wrongMs;
  }
}
