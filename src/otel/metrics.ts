import type { Attributes, Counter, Histogram, Meter, UpDownCounter } from "@opentelemetry/api";
import {
  type At,
  LEASE_SECONDS,
  MetricNames,
  REQUEST_SECONDS,
  resultOfRefusal,
} from "../engine/limiter/metric-terms.ts";
import type {
  AcquiredEvent,
  AcquireEndedEvent,
  ChargedEvent,
  ConsumedCapacityEvent,
  DegradedEvent,
  GaveBackEvent,
  LeaseEndedEvent,
  LeaseOpenedEvent,
  RefusedEvent,
  WaitBeganEvent,
  WaitEndedEvent,
} from "../ports/events.ts";

interface About {
  readonly namespace: string;
  readonly entityId: string;
  readonly resource: string;
}

/** The instruments, and what each event adds to them. */
export class LimiterMetrics {
  readonly #withEntityId: boolean;
  readonly #names = new MetricNames();
  readonly #requests: Counter;
  readonly #tokens: Counter;
  readonly #degraded: Counter;
  readonly #leases: OpenLeases;
  readonly #held: Histogram;
  readonly #queued: Level;
  readonly #waited: Histogram;
  readonly #took: Histogram;
  readonly #capacity: Histogram;

  constructor(meter: Meter, { entityId }: { readonly entityId: boolean }) {
    this.#withEntityId = entityId;
    const counter = (name: string, unit: string, description: string) =>
      meter.createCounter(name, { unit, description });
    const level = (name: string, unit: string, description: string) =>
      new Level(meter.createUpDownCounter(name, { unit, description }));
    const seconds = (name: string, description: string, explicitBucketBoundaries: number[]) =>
      meter.createHistogram(name, { unit: "s", description, advice: { explicitBucketBoundaries } });
    this.#requests = counter("zae_limiter.requests", "{request}", "Requests for tokens, by result.");
    this.#tokens = counter("zae_limiter.tokens", "{token}", "Tokens taken and given back, at every level.");
    this.#leases = new OpenLeases(level("zae_limiter.active_leases", "{lease}", "Open leases."));
    this.#held = seconds("zae_limiter.lease.duration", "How long leases were open.", LEASE_SECONDS);
    this.#queued = level("zae_limiter.queued_requests", "{request}", "Requests waiting for tokens.");
    this.#waited = seconds("zae_limiter.request.time_in_queue", "How long requests waited.", REQUEST_SECONDS);
    this.#took = seconds("zae_limiter.acquire.duration", "Duration of an acquire.", REQUEST_SECONDS);
    this.#degraded = counter("zae_limiter.degraded", "{event}", "Faults of the store that the limiter worked around.");
    this.#capacity = meter.createHistogram("aws.dynamodb.consumed_capacity", {
      unit: "{unit}",
      description: "Capacity units that a call to DynamoDB consumed.",
      advice: { explicitBucketBoundaries: CAPACITY_UNITS },
    });
  }

  acquired(event: AcquiredEvent): void {
    this.#moved("taken", event, event.consumed);
  }

  charged(event: ChargedEvent): void {
    this.#moved("taken", event, event.amounts);
  }

  gaveBack(event: GaveBackEvent): void {
    if (event.confirmed) this.#moved("given_back", event, event.amounts);
  }

  refused(event: RefusedEvent): void {
    const at = this.#at(event);
    this.#requests.add(1, { result: resultOfRefusal(event), ...at, ...this.#names.blamed(event, at) });
  }

  acquireEnded(event: AcquireEndedEvent): void {
    const { result, store, durationMs } = event;
    // Refusals are counted with the limit that refused, which the end of the request does not say.
    if (result !== "refused") this.#requests.add(1, { result, ...this.#at(event) });
    this.#took.record(durationMs / 1000, { result, store });
  }

  waitBegan(event: WaitBeganEvent): void {
    this.#queued.add(1, this.#at(event));
  }

  waitEnded(event: WaitEndedEvent): void {
    const at = this.#at(event);
    this.#queued.add(-1, at);
    this.#waited.record(event.waitedMs / 1000, at);
  }

  leaseOpened(event: LeaseOpenedEvent): void {
    this.#leases.opened(event.lease, this.#at(event));
  }

  leaseEnded(event: LeaseEndedEvent): void {
    this.#leases.ended(event.lease);
    this.#held.record(event.heldMs / 1000, { ...this.#at(event), status: event.status });
  }

  degraded({ kind }: DegradedEvent): void {
    this.#degraded.add(1, { reason: kind });
  }

  consumedCapacity({ table, units }: ConsumedCapacityEvent): void {
    this.#capacity.record(units, { "aws.dynamodb.table_names": [table] });
  }

  /** Leases and waits that are open now are not followed any more. */
  end(): void {
    this.#leases.end();
    this.#queued.end();
  }

  #moved(direction: string, event: About, amounts: Readonly<Record<string, number>>): void {
    const at = this.#at(event);
    for (const limit in amounts) {
      this.#tokens.add(amounts[limit] ?? 0, { direction, limit: this.#names.limit(at, limit), ...at });
    }
  }

  #at({ namespace, entityId, resource }: About): Attributes & At {
    const at = this.#names.at(resource, namespace);
    return this.#withEntityId ? { ...at, entity_id: entityId } : at;
  }
}

/** A take is one unit, two with an index or a transaction; lists and sweeps are more. */
const CAPACITY_UNITS = [0.5, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128, 256];

/** An up-down counter whose series can be returned to 0. */
class Level {
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

  /** Returns every series to 0: what is open now is no longer followed, and must not be shown as open for ever. */
  end(): void {
    for (const { attributes, value } of this.#series.values()) {
      if (value !== 0) this.#counter.add(-value, attributes);
    }
    this.#series.clear();
  }
}

/** The open leases. An end is counted with the attributes of the beginning, and only if that was counted. */
class OpenLeases {
  readonly #level: Level;
  readonly #objects = new WeakMap<object, Attributes>();
  readonly #stored = new Map<string, Attributes>();
  /** Ends leases that a program dropped: they can give nothing back any more. */
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
