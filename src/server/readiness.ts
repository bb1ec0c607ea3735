import type { Clock } from "../ports/system.ts";

/** For so long an answer of the store counts. */
const GOOD_FOR_MS = 1_000;

/** Whether the store answers. Everybody may ask the service for it, so the store is asked once at a time and once a second. */
export class Readiness {
  readonly #ask: () => Promise<boolean>;
  readonly #clock: Clock;
  #known: { readonly isReady: boolean; readonly untilMs: number } | undefined;
  #asking: Promise<boolean> | undefined;

  constructor(ask: () => Promise<boolean>, clock: Clock) {
    this.#ask = ask;
    this.#clock = clock;
  }

  get(): Promise<boolean> {
    if (this.#known !== undefined && this.#clock.now() < this.#known.untilMs) {
      return Promise.resolve(this.#known.isReady);
    }
    this.#asking ??= this.#asked().finally(() => {
      this.#asking = undefined;
    });
    return this.#asking;
  }

  /** A request has just found that the store does not answer: what is known counts no longer. */
  doubted(): void {
    this.#known = undefined;
  }

  async #asked(): Promise<boolean> {
    const isReady = await this.#ask();
    this.#known = { isReady, untilMs: this.#clock.now() + GOOD_FOR_MS };
    return isReady;
  }
}
