import { type UsageWindow, windowEndMs, windowStartMs } from "../../domain/charge/usage.ts";

/**
 * The next window that may have something, noted while another is gone through: so nobody has to look for it, and the cursor of a
 * page takes along what the page has seen.
 */
export class NextWindow {
  readonly #window: UsageWindow;
  readonly #leastMs: number;
  #startMs: number | undefined;

  /** After the window that starts at `startMs`; `notedMs`: what is known already. */
  constructor(window: UsageWindow, startMs: number, notedMs: number | undefined) {
    this.#window = window;
    this.#leastMs = windowEndMs(window, startMs);
    this.#startMs = notedMs;
  }

  get startMs(): number | undefined {
    return this.#startMs;
  }

  /** Something lies at this instant, or not before it. */
  note(atMs: number): void {
    const startMs = windowStartMs(this.#window, atMs);
    if (startMs >= this.#leastMs && startMs < (this.#startMs ?? Number.POSITIVE_INFINITY)) this.#startMs = startMs;
  }

  noteDay(day: string): void {
    this.note(Date.parse(`${day}T00:00:00Z`));
  }
}
