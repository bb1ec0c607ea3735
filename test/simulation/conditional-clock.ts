import { DisciplinedClock, type Stamp } from "../../src/protocol/disciplined-clock.ts";
import type { SeededRandom } from "../../src/testing/random.ts";
import type { SimulatedClock, SkewedClock } from "../../src/testing/simulated-clock.ts";
import type { MachineClock } from "./connection.ts";

const HOUR_MS = 3_600_000;
const LATENCY_MAX_MS = 2_000;

/** A machine's clock that is off by up to an hour, and kept to the store's time by the store's answers. */
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
  #offsetMs: number;
  #aheadMs = Number.NEGATIVE_INFINITY;

  constructor(clock: SimulatedClock, random: SeededRandom) {
    this.#true = clock;
    this.bornMs = clock.now();
    this.#offsetMs = random.integer(-HOUR_MS, HOUR_MS);
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

  observe(seen: { readonly dateMs: number; readonly sent: Stamp }): void {
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

  /** By how much it may be off: the store's seconds, the time that answers take, and drift. */
  get errorMaxMs(): number {
    const driftMs = Math.ceil((this.#true.now() - this.bornMs) * 0.0004);
    return 1_003 + this.latencyMaxMs + driftMs;
  }
}
