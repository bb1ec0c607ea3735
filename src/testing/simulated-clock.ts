import type { Clock, Turns } from "../ports/system.ts";

interface Sleeper {
  readonly wakeAtMs: number;
  wake(): void;
}

/**
 * A clock that stands still until `advance` is called. Sleepers wake when it reaches their instant, earliest first.
 *
 * ```ts
 * const clock = new SimulatedClock(Date.UTC(2026, 0, 1));
 * const limiter = await RateLimiter.open({ store: "memory", clock });
 * const waiting = limiter.acquire({ entityId: "a", resource: "api", consume: { rpm: 1 }, wait: { maxMs: 5_000 } });
 * await clock.advance(5_000);
 * ```
 */
export class SimulatedClock implements Clock {
  #nowMs: number;
  /** Sleepers in the order of waking; those of the same instant in the order in which they fell asleep. */
  #sleepers: Sleeper[] = [];

  constructor(startMs: number) {
    this.#nowMs = startMs;
  }

  /** The time, in ms since 1970. */
  now(): number {
    return this.#nowMs;
  }

  /** The instant at which the next sleeper wakes; undefined when there is none. */
  get nextWakeMs(): number | undefined {
    return this.#sleepers[0]?.wakeAtMs;
  }

  sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) {
        reject(signal.reason);
        return;
      }
      const aborted = () => {
        this.#sleepers = this.#sleepers.filter((other) => other !== sleeper);
        reject(signal?.reason);
      };
      const sleeper: Sleeper = {
        wakeAtMs: this.#nowMs + Math.max(0, ms),
        wake: () => {
          signal?.removeEventListener("abort", aborted);
          resolve();
        },
      };
      signal?.addEventListener("abort", aborted, { once: true });
      const place = this.#sleepers.findIndex(({ wakeAtMs }) => wakeAtMs > sleeper.wakeAtMs);
      this.#sleepers.splice(place < 0 ? this.#sleepers.length : place, 0, sleeper);
    });
  }

  /** Lets time pass. Each sleeper wakes at its instant, and finishes its work before time goes on. */
  async advance(ms: number): Promise<void> {
    const untilMs = this.#nowMs + ms;
    await idle();
    for (let first = this.#sleepers[0]; first !== undefined && first.wakeAtMs <= untilMs; first = this.#sleepers[0]) {
      this.#sleepers.shift();
      this.#nowMs = Math.max(this.#nowMs, first.wakeAtMs);
      first.wake();
      await idle();
    }
    this.#nowMs = untilMs;
  }

  /** Sets the clock, forwards or backwards, as an operator would. Sleepers wake with the next `advance`. */
  set(nowMs: number): void {
    this.#nowMs = nowMs;
  }

  /** The clock of one machine: `offsetMs` ahead of this one and running `ppm` millionths fast. Both may be negative. */
  skewed(offsetMs: number, ppm = 0): SkewedClock {
    return new SkewedClock(this, offsetMs, ppm);
  }
}

/** The clock of one machine on a simulated clock: with an offset, with drift, and with steps forwards or backwards. */
export class SkewedClock implements Clock {
  readonly #base: SimulatedClock;
  readonly #sinceMs: number;
  readonly #ppm: number;
  #offsetMs: number;

  constructor(base: SimulatedClock, offsetMs: number, ppm: number) {
    this.#base = base;
    this.#sinceMs = base.now();
    this.#ppm = ppm;
    this.#offsetMs = offsetMs;
  }

  /** The time that this clock shows, in ms since 1970. */
  now(): number {
    const passedMs = this.#base.now() - this.#sinceMs;
    return this.#base.now() + this.#offsetMs + Math.floor((passedMs * this.#ppm) / 1_000_000);
  }

  /** Waits. Timers drift with the machine and do not notice steps of the clock. */
  sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
    return this.#base.sleep(Math.ceil((ms * 1_000_000) / (1_000_000 + this.#ppm)), signal);
  }

  /** Moves the clock by this many ms; backwards if negative. */
  step(ms: number): void {
    this.#offsetMs += ms;
  }
}

/** A store that joins calls answers a turn later, and the caller may then call it again. */
const TURNS = 8;

/** Runs everything that can run before time passes. */
async function idle(): Promise<void> {
  for (let turn = 0; turn < TURNS; turn++) await new Promise((resolve) => setImmediate(resolve));
}

/** Turns of a world in which nothing else waits for its turn: calls go on at once, and replay exactly. */
export const NO_TURNS: Turns = { next: async () => {} };
