import type { Clock } from "../../ports/system.ts";
import type { DynamoAnswer } from "./client.ts";
import { unavailable } from "./errors.ts";
import { RETRY } from "./retry-policy.ts";
import { hadItsTime } from "./unreachable.ts";

interface DeadlineOptions {
  readonly tableName: string;
  readonly clock: Clock;
  /** A number in [0, 1), for jitter. */
  readonly random: () => number;
  /** In ms, for all attempts and the pauses between them. */
  readonly timeoutMs: number;
}

/**
 * Until when a call is tried again. It goes by the clock, and by the time that was waited: a clock that the caller has given
 * may stand still, and a call must end even then.
 */
export class Deadline {
  readonly #tableName: string;
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #untilMs: number;
  /** What is left of the time, were the clock to stand still. */
  #unspentMs: number;

  constructor({ tableName, clock, random, timeoutMs }: DeadlineOptions) {
    this.#tableName = tableName;
    this.#clock = clock;
    this.#random = random;
    this.#untilMs = clock.now() + timeoutMs;
    this.#unspentMs = timeoutMs;
  }

  /** For the next attempt, at least 1 ms. */
  get leftMs(): number {
    return Math.max(1, Math.min(this.#untilMs - this.#clock.now(), this.#unspentMs));
  }

  /** Notes the answer to an attempt that was given `timeoutMs`. */
  attempted(answer: DynamoAnswer, timeoutMs: number): void {
    // Only an attempt that used up its time can be answered later.
    const isUsedUp =
      (answer.kind === "lost" && answer.later !== undefined) || (answer.kind === "unsent" && hadItsTime(answer.cause));
    if (isUsedUp) this.#unspentMs -= timeoutMs;
  }

  /** Waits before the next attempt, longer after more failures in a row. Throws when there is no time for that. */
  async backOff(failures: number, what: string, cause: unknown): Promise<void> {
    const mostMs = RETRY.pauseMs * 2 ** Math.min(failures, RETRY.pauseDoublingsMax);
    const waitMs = Math.ceil((0.5 + this.#random() / 2) * mostMs);
    this.#unspentMs -= waitMs;
    if (this.#unspentMs <= 0 || this.#clock.now() + waitMs >= this.#untilMs) {
      throw unavailable(what, this.#tableName, cause);
    }
    await this.#clock.sleep(waitMs, undefined);
  }
}
