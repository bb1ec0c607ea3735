import type { Attributes, UpDownCounter } from "@opentelemetry/api";

/** An up-down counter that can be brought back to where it began, series by series. */
export class Level {
  readonly #counter: UpDownCounter;
  readonly #series = new Map<string, { readonly attributes: Attributes; value: number }>();

  constructor(counter: UpDownCounter) {
    this.#counter = counter;
  }

  add(by: 1 | -1, attributes: Attributes): void {
    this.#counter.add(by, attributes);
    const key = Object.values(attributes).join("\n");
    const series = this.#series.get(key) ?? { attributes, value: 0 };
    this.#series.set(key, series);
    series.value += by;
  }

  /** What is open now is not followed any more: it must not be shown as open for ever. */
  end(): void {
    for (const { attributes, value } of this.#series.values()) {
      if (value !== 0) this.#counter.add(-value, attributes);
    }
    this.#series.clear();
  }
}

/** The leases that are open, by their own attributes: an end is counted only where the beginning was. */
export class OpenLeases {
  readonly #level: Level;
  readonly #objects = new WeakMap<object, Attributes>();
  readonly #stored = new Map<string, Attributes>();
  /** Many programs take tokens and drop the lease. It holds nothing that could be given back, so it is open no longer. */
  readonly #dropped: FinalizationRegistry<Attributes>;
  #isEnded = false;

  constructor(level: Level) {
    this.#level = level;
    this.#dropped = new FinalizationRegistry((attributes) => {
      if (!this.#isEnded) level.add(-1, attributes);
    });
  }

  opened(lease: object | string, attributes: Attributes): void {
    this.#level.add(1, attributes);
    if (typeof lease === "string") {
      this.#stored.set(lease, attributes);
      return;
    }
    this.#objects.set(lease, attributes);
    this.#dropped.register(lease, attributes, lease);
  }

  ended(lease: object | string): void {
    const attributes = typeof lease === "string" ? this.#stored.get(lease) : this.#objects.get(lease);
    if (attributes === undefined) return;
    if (typeof lease === "string") this.#stored.delete(lease);
    else {
      this.#objects.delete(lease);
      this.#dropped.unregister(lease);
    }
    this.#level.add(-1, attributes);
  }

  end(): void {
    this.#isEnded = true;
    this.#level.end();
  }
}
