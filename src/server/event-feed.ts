import type { EventStream } from "./event-stream.ts";
import type { ServiceEvent } from "./service-event.ts";

/** How many events are kept for who comes back with `Last-Event-ID`. */
const KEPT = 1_000;

/** The events of one namespace since somebody first listened, and who listens. */
export class EventFeed {
  readonly streams = new Set<EventStream>();
  readonly #kept: ServiceEvent[] = [];
  /** Every event with a larger number is kept. */
  #completeAfter: number;

  constructor(lastN: number) {
    this.#completeAfter = lastN;
  }

  add(event: ServiceEvent): void {
    this.#kept.push(event);
    // Seldom and many at once: to shift one by one would move all of them every time.
    if (this.#kept.length >= 2 * KEPT) {
      const [last] = this.#kept.splice(0, this.#kept.length - KEPT).slice(-1);
      this.#completeAfter = last?.n ?? this.#completeAfter;
    }
    for (const stream of this.streams) stream.offer(event);
  }

  /** The events after that number; undefined where some of them are gone. */
  after(n: number): readonly ServiceEvent[] | undefined {
    return n < this.#completeAfter ? undefined : this.#kept.filter((event) => event.n > n);
  }
}
