import type { Clock } from "../src/ports/system.ts";

interface Event {
  readonly atMs: number;
  readonly order: number;
  readonly happen: () => void;
}

/** Time that passes from event to event, as fast as the machine can: delays of a network, arrivals of requests. */
export class VirtualTime implements Clock {
  readonly #events: Event[] = [];
  #nowMs: number;
  #order = 0;

  constructor(startMs: number) {
    this.#nowMs = startMs;
  }

  /** Whole milliseconds, as a clock shows them. */
  now(): number {
    return Math.floor(this.#nowMs);
  }

  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => this.at(this.#nowMs + ms, resolve));
  }

  /** Lets something happen at an instant; fractions of a millisecond count. */
  at(atMs: number, happen: () => void): void {
    const event = { atMs: Math.max(atMs, this.#nowMs), order: this.#order++, happen };
    let place = this.#events.length;
    this.#events.push(event);
    while (place > 0) {
      const parent = (place - 1) >> 1;
      if (!isBefore(event, this.#events[parent] as Event)) break;
      this.#events[place] = this.#events[parent] as Event;
      place = parent;
    }
    this.#events[place] = event;
  }

  /** Runs until nothing is left to happen. */
  async run(): Promise<void> {
    for (let event = this.#next(); event !== undefined; event = this.#next()) {
      this.#nowMs = event.atMs;
      event.happen();
      // Everything that follows from it without time passing.
      await new Promise((resolve) => setImmediate(resolve));
    }
  }

  #next(): Event | undefined {
    const [first] = this.#events;
    const last = this.#events.pop();
    if (first === undefined || last === undefined || this.#events.length === 0) return first;
    let place = 0;
    for (;;) {
      let child = 2 * place + 1;
      if (child >= this.#events.length) break;
      const right = this.#events[child + 1];
      if (right !== undefined && isBefore(right, this.#events[child] as Event)) child++;
      if (!isBefore(this.#events[child] as Event, last)) break;
      this.#events[place] = this.#events[child] as Event;
      place = child;
    }
    this.#events[place] = last;
    return first;
  }
}

function isBefore(a: Event, b: Event): boolean {
  return a.atMs < b.atMs || (a.atMs === b.atMs && a.order < b.order);
}
