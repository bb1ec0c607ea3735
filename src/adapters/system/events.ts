import diagnostics from "node:diagnostics_channel";
import type { Channel, Events, Published } from "../../ports/events.ts";

/** Names of the channels on `node:diagnostics_channel`. */
export const CHANNELS = {
  /** An `AcquiredEvent` for each level and resource that a request took from. */
  acquired: "zae-limiter:acquired",
  /** A `RefusedEvent` for each request that ended refused. */
  refused: "zae-limiter:refused",
  /** A `GaveBackEvent` when tokens were given back. */
  gaveBack: "zae-limiter:gave-back",
  /** A `ChargedEvent` when a lease was charged more than it took at first. */
  charged: "zae-limiter:charged",
  /** An `UnavailableEvent` when an outage of the store blocked a request. */
  unavailable: "zae-limiter:unavailable",
  /** A `DegradedEvent` when the store failed and the limiter went on without it. */
  degraded: "zae-limiter:degraded",
  /** A `LimitsChangedEvent` when this process changed the configuration. */
  limitsChanged: "zae-limiter:limits-changed",
} as const;

/** The channels of this process, and listeners that hear only what is published through this very object. */
export function observableEvents(): Events {
  const listeners = new Set<(...published: Published) => void>();
  const observed = <Name extends Published[0]>(name: Name): Events[Name] =>
    new ObservedChannel(name, listeners) as unknown as Events[Name];
  return {
    acquired: observed("acquired"),
    refused: observed("refused"),
    gaveBack: observed("gaveBack"),
    charged: observed("charged"),
    unavailable: observed("unavailable"),
    degraded: observed("degraded"),
    limitsChanged: observed("limitsChanged"),
    listen: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

// A class, not an object with a getter: every take asks whether somebody listens, and of such objects V8 inlines nothing.
class ObservedChannel implements Channel<unknown> {
  readonly #name: Published[0];
  readonly #system: diagnostics.Channel;
  readonly #listeners: ReadonlySet<(...published: Published) => void>;

  constructor(name: Published[0], listeners: ReadonlySet<(...published: Published) => void>) {
    this.#name = name;
    this.#system = diagnostics.channel(CHANNELS[name]);
    this.#listeners = listeners;
  }

  get active(): boolean {
    return this.#listeners.size > 0 || this.#system.hasSubscribers;
  }

  publish(event: unknown): void {
    if (this.#system.hasSubscribers) this.#system.publish(event);
    for (const listener of this.#listeners) listener(...([this.#name, event] as unknown as Published));
  }
}
