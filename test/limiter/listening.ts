import diagnostics from "node:diagnostics_channel";
import type { TestContext } from "node:test";
import type {
  AcquiredEvent,
  AcquireEndedEvent,
  CHANNELS,
  ChargedEvent,
  ConsumedCapacityEvent,
  DegradedEvent,
  DisabledEvent,
  GaveBackEvent,
  LeaseEndedEvent,
  LeaseOpenedEvent,
  LimitsChangedEvent,
  RefusedEvent,
  ThresholdEvent,
  UnavailableEvent,
  WaitBeganEvent,
  WaitEndedEvent,
} from "../../src/entry/index.ts";

type Names = typeof CHANNELS;

interface EventOf extends Record<Names[keyof Names], object> {
  readonly "zae-limiter:acquired": AcquiredEvent;
  readonly "zae-limiter:refused": RefusedEvent;
  readonly "zae-limiter:gave-back": GaveBackEvent;
  readonly "zae-limiter:charged": ChargedEvent;
  readonly "zae-limiter:threshold": ThresholdEvent;
  readonly "zae-limiter:unavailable": UnavailableEvent;
  readonly "zae-limiter:degraded": DegradedEvent;
  readonly "zae-limiter:limits-changed": LimitsChangedEvent;
  readonly "zae-limiter:acquire-ended": AcquireEndedEvent;
  readonly "zae-limiter:disabled": DisabledEvent;
  readonly "zae-limiter:wait-began": WaitBeganEvent;
  readonly "zae-limiter:wait-ended": WaitEndedEvent;
  readonly "zae-limiter:lease-opened": LeaseOpenedEvent;
  readonly "zae-limiter:lease-ended": LeaseEndedEvent;
  readonly "zae-limiter:consumed-capacity": ConsumedCapacityEvent;
}

/** Every event of a channel from now on, until the test ends. */
export function heard<Name extends keyof EventOf>(t: TestContext, channel: Name): EventOf[Name][] {
  const events: EventOf[Name][] = [];
  const listen = (event: unknown) => events.push(event as EventOf[Name]);
  diagnostics.subscribe(channel, listen);
  t.after(() => diagnostics.unsubscribe(channel, listen));
  return events;
}
