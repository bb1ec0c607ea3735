import type { Clock } from "../../ports/system.ts";
import type { DynamoAnswer } from "./client.ts";
import { unavailable } from "./errors.ts";
import { RETRY } from "./retry-policy.ts";

export interface PatienceOptions {
  readonly clock: Clock;
  /** A number in [0, 1), for jitter. */
  readonly random: () => number;
  /** In ms, for all attempts and the pauses between them. */
  readonly timeoutMs: number;
}

/**
 * How long something may be asked for again. By the clock; and by what was waited for, since a clock that was given may stand
 * still, and nobody should wait for ever by it.
 */
export class Patience {
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #untilMs: number;
  /** What is left of the time, were the clock to stand still. */
  #unspentMs: number;

  constructor({ clock, random, timeoutMs }: PatienceOptions) {
    this.#clock = clock;
    this.#random = random;
    this.#untilMs = clock.now() + timeoutMs;
    this.#unspentMs = timeoutMs;
  }

  /** For the next attempt, at least a moment. */
  get leftMs(): number {
    return Math.max(1, Math.min(this.#untilMs - this.#clock.now(), this.#unspentMs));
  }

  /** An attempt that was given so many ms has been answered, or not. */
  attempted(answer: DynamoAnswer, timeoutMs: number): void {
    // Only what ran out of time may still be answered later.
    if (answer.kind === "lost" && answer.later !== undefined) this.#unspentMs -= timeoutMs;
  }

  /** Waits before the next attempt: longer after more of them in vain. Throws when there is no time for that. */
  async pause(inVain: number, what: string, cause: unknown): Promise<void> {
    const mostMs = RETRY.pauseMs * 2 ** Math.min(inVain, RETRY.pauseDoublingsMax);
    const waitMs = Math.ceil((0.5 + this.#random() / 2) * mostMs);
    this.#unspentMs -= waitMs;
    if (this.#unspentMs <= 0 || this.#clock.now() + waitMs >= this.#untilMs) throw unavailable(what, cause);
    await this.#clock.sleep(waitMs, undefined);
  }
}
