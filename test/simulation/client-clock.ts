import type { SeededRandom } from "../../src/testing/random.ts";
import type { SimulatedClock, SkewedClock } from "../../src/testing/simulated-clock.ts";
import type { MachineClock } from "./connection.ts";
import type { Profile } from "./profile.ts";

/** A machine's clock: off, drifting, jumping; it remembers when it showed what. */
export class ClientClock implements MachineClock {
  /** By how much it was put back altogether. */
  steppedBackMs = 0;
  readonly #true: SimulatedClock;
  readonly #shown: SkewedClock;
  readonly #skewMs: number;
  readonly #firstShown = new Map<number, number>();
  #offsetMs: number;

  constructor(clock: SimulatedClock, { skewMs }: Profile, random: SeededRandom) {
    this.#true = clock;
    this.#skewMs = skewMs;
    this.#offsetMs = random.integer(-skewMs, skewMs);
    this.#shown = clock.skewed(this.#offsetMs, random.pick([0, 0, -200, 200]));
  }

  now(): number {
    const nowMs = this.#shown.now();
    if (!this.#firstShown.has(nowMs)) this.#firstShown.set(nowMs, this.#true.now());
    return nowMs;
  }

  sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
    return this.#shown.sleep(ms, signal);
  }

  /** When the clock first showed this. */
  trueMs(shownMs: number): number {
    return this.#firstShown.get(shownMs) ?? Number.NEGATIVE_INFINITY;
  }

  /** The clock is set, within the bounds of the world. */
  jump(random: SeededRandom): number {
    const toMs = random.integer(-this.#skewMs, this.#skewMs);
    const byMs = toMs - this.#offsetMs;
    this.#offsetMs = toMs;
    this.#shown.step(byMs);
    if (byMs < 0) this.steppedBackMs -= byMs;
    return byMs;
  }
}
