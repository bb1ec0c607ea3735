import diagnostics from "node:diagnostics_channel";
import type { Channel, Events, Published } from "../../ports/events.ts";

/** Names of the channels on `node:diagnostics_channel`. */
export const CHANNELS = {
  acquired: "zae-limiter:acquired",
  refused: "zae-limiter:refused",
  gaveBack: "zae-limiter:gave-back",
  charged: "zae-limiter:charged",
  unavailable: "zae-limiter:unavailable",
  degraded: "zae-limiter:degraded",
  limitsChanged: "zae-limiter:limits-changed",
} as const;

export const systemEvents: Events = {
  acquired: channel(CHANNELS.acquired),
  refused: channel(CHANNELS.refused),
  gaveBack: channel(CHANNELS.gaveBack),
  charged: channel(CHANNELS.charged),
  unavailable: channel(CHANNELS.unavailable),
  degraded: channel(CHANNELS.degraded),
  limitsChanged: channel(CHANNELS.limitsChanged),
};

/** The channels of this process, and listeners that hear only what is published through this very object. */
export function observableEvents(): Events {
  const listeners = new Set<(...published: Published) => void>();
  const observed = <Name extends Published[0]>(name: Name): Events[Name] => {
    const system = systemEvents[name] as Channel<unknown>;
    const publish = (event: unknown) => {
      if (system.active) system.publish(event);
      for (const listener of listeners) listener(...([name, event] as unknown as Published));
    };
    const both: Channel<unknown> = {
      get active() {
        return listeners.size > 0 || system.active;
      },
      publish,
    };
    return both as Events[Name];
  };
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

function channel<Event>(name: string): Channel<Event> {
  const to = diagnostics.channel(name);
  return {
    get active() {
      return to.hasSubscribers;
    },
    publish: (event) => to.publish(event),
  };
}
