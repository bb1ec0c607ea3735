import diagnostics from "node:diagnostics_channel";
import type { Channel, Events } from "../../ports/events.ts";

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

function channel<Event>(name: string): Channel<Event> {
  const to = diagnostics.channel(name);
  return {
    get active() {
      return to.hasSubscribers;
    },
    publish: (event) => to.publish(event),
  };
}
