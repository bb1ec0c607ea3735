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
  /** A `ThresholdEvent` for each percentage of a limit that was reached. */
  threshold: "zae-limiter:threshold",
  /** An `UnavailableEvent` when an outage of the store blocked a request. */
  unavailable: "zae-limiter:unavailable",
  /** A `DegradedEvent` when the store failed and the limiter went on without it. */
  degraded: "zae-limiter:degraded",
  /** A `LimitsChangedEvent` when this process changed the configuration. */
  limitsChanged: "zae-limiter:limits-changed",
  /** An `AcquireEndedEvent` for each request: what became of it, and how long it took. */
  acquireEnded: "zae-limiter:acquire-ended",
  /** A `DisabledEvent` for each request that met a resource that is switched off. */
  disabled: "zae-limiter:disabled",
  /** A `WaitBeganEvent` when a request begins to wait for tokens. */
  waitBegan: "zae-limiter:wait-began",
  /** A `WaitEndedEvent` when it no longer waits. */
  waitEnded: "zae-limiter:wait-ended",
  /** A `LeaseOpenedEvent` for each lease. */
  leaseOpened: "zae-limiter:lease-opened",
  /** A `LeaseEndedEvent` when a lease was closed. */
  leaseEnded: "zae-limiter:lease-ended",
  /** A `ConsumedCapacityEvent` for each call to DynamoDB that returns its cost; requested while the channel has subscribers. */
  consumedCapacity: "zae-limiter:consumed-capacity",
} as const;

type Listener = (...published: Published) => void;

/** The channels of this process, and listeners to events that are published through this object only. */
export function observableEvents(): Events {
  const listeners = {} as Record<Published[0], Set<Listener>>;
  const observed = <Name extends Published[0]>(name: Name): Events[Name] => {
    listeners[name] = new Set();
    return new ObservedChannel(name, listeners[name]) as unknown as Events[Name];
  };
  return {
    acquired: observed("acquired"),
    refused: observed("refused"),
    gaveBack: observed("gaveBack"),
    charged: observed("charged"),
    threshold: observed("threshold"),
    unavailable: observed("unavailable"),
    degraded: observed("degraded"),
    limitsChanged: observed("limitsChanged"),
    acquireEnded: observed("acquireEnded"),
    disabled: observed("disabled"),
    waitBegan: observed("waitBegan"),
    waitEnded: observed("waitEnded"),
    leaseOpened: observed("leaseOpened"),
    leaseEnded: observed("leaseEnded"),
    listen: (channels, listener) => {
      for (const name of channels) listeners[name].add(listener);
      return () => {
        for (const name of channels) listeners[name].delete(listener);
      };
    },
  };
}

/** A channel of this process for events outside limiters. */
export function systemChannel<Event>(name: keyof typeof CHANNELS): Channel<Event> {
  const system = diagnostics.channel(CHANNELS[name]);
  return {
    get active() {
      return system.hasSubscribers;
    },
    publish: (event) => system.publish(event),
  };
}

// A class, not an object with a getter: every take reads `active`, and V8 does not inline such objects.
class ObservedChannel implements Channel<unknown> {
  readonly #name: Published[0];
  readonly #system: diagnostics.Channel;
  readonly #listeners: ReadonlySet<Listener>;

  constructor(name: Published[0], listeners: ReadonlySet<Listener>) {
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
