import type { Status } from "../domain/status.ts";

/**
 * Tokens were taken from one entity on one resource. A request has one event for each level and resource that it took
 * from.
 */
export interface AcquiredEvent {
  /** The name of the namespace. */
  readonly namespace: string;
  /** The entity that was charged. */
  readonly entityId: string;
  /** The resource. */
  readonly resource: string;
  /** Whole tokens by limit. */
  readonly consumed: Readonly<Record<string, number>>;
  /**
   * `entity`: the entity and the resource that the request names, once for each request. `parent`: a level above.
   * `also`: a further resource. `total`: the limits of a level over all resources, with the resource `"*"`.
   */
  readonly role: "entity" | "parent" | "also" | "total";
  /** For the role `entity`: how long the request waited for tokens, in ms. Absent: it did not wait. */
  readonly waitedMs?: number;
  /** The `requestId` of the request. */
  readonly requestId?: string;
}

/** A request ended refused. There is one event for each; none for a request that waited and was granted, or was aborted. */
export interface RefusedEvent {
  /** The name of the namespace. */
  readonly namespace: string;
  /** The entity that asked. */
  readonly entityId: string;
  /** The resource that it asked for. */
  readonly resource: string;
  /** Every limit that the request asked for. */
  readonly statuses: readonly Status[];
  /** The limit with the longest wait. */
  readonly primary: Status;
  /** Milliseconds until the request would fit; `Infinity`: never. */
  readonly retryAfterMs: number;
  /** Whether it was answered from memory, without asking the store. */
  readonly remembered: boolean;
  /** The `requestId` of the request. */
  readonly requestId?: string;
}

/** Tokens were given back. */
export interface GaveBackEvent {
  /** The name of the namespace. */
  readonly namespace: string;
  /** The entity that had taken them. */
  readonly entityId: string;
  /** The resource. */
  readonly resource: string;
  /** Whole tokens by limit. */
  readonly amounts: Readonly<Record<string, number>>;
  /** Why: a parent refused, the function threw or the lease was rolled back, the caller released or adjusted. */
  readonly reason: "refused" | "rollback" | "release" | "adjust";
  /** False: the store could not confirm it, so it counts as not given back. */
  readonly confirmed: boolean;
}

/** A lease was charged more than it took at first. */
export interface ChargedEvent {
  /** The name of the namespace. */
  readonly namespace: string;
  /** The entity that was charged. */
  readonly entityId: string;
  /** The resource. */
  readonly resource: string;
  /** Whole tokens by limit. */
  readonly amounts: Readonly<Record<string, number>>;
  /** The call of the lease: `adjust` upwards, or `consume`. */
  readonly reason: "adjust" | "consume";
}

/** An outage of the store blocked a request, or a lease that wanted more. */
export interface UnavailableEvent {
  /** The name of the namespace. */
  readonly namespace: string;
  /** The entity that asked. */
  readonly entityId: string;
  /** The resource that it asked for. */
  readonly resource: string;
  /** What the limiter could not do. */
  readonly reason: string;
  /** The error of the store. */
  readonly cause: unknown;
  /** The `requestId` of the request. */
  readonly requestId?: string;
}

/** The store failed, and the limiter went on without it. */
export interface DegradedEvent {
  /** The name of the namespace. */
  readonly namespace: string;
  /** The entity that asked. */
  readonly entityId: string;
  /** The resource that it asked for. */
  readonly resource: string;
  /** What the limiter could not do. */
  readonly reason: string;
  /** The error of the store. */
  readonly cause: unknown;
}

/** This process changed the configuration. */
export interface LimitsChangedEvent {
  /** The name of the namespace. */
  readonly namespace: string;
  /** What the change did. */
  readonly action: string;
  /** The entity that was changed, or `$SYSTEM`, `$RESOURCE:name`, `$PLAN:id`, `$NAMESPACE:name`. */
  readonly entityId: string;
  /** The resource that was changed. Absent: the change concerns none. */
  readonly resource?: string;
}

/** Where the engine publishes what happened. A channel without listeners costs one look at `active`. */
export interface Channel<Event> {
  readonly active: boolean;
  publish(event: Event): void;
}

export interface Events {
  readonly acquired: Channel<AcquiredEvent>;
  readonly refused: Channel<RefusedEvent>;
  readonly gaveBack: Channel<GaveBackEvent>;
  readonly charged: Channel<ChargedEvent>;
  readonly unavailable: Channel<UnavailableEvent>;
  readonly degraded: Channel<DegradedEvent>;
  readonly limitsChanged: Channel<LimitsChangedEvent>;
  /**
   * Calls back with every event that is published through this very object: those of other limiters in this process are not
   * among them. The answer takes that back. A listener must not throw.
   */
  listen?(listener: (...published: Published) => void): () => void;
}

type EventOf<Of> = Of extends Channel<infer Event> ? Event : never;

type Named = Omit<Events, "listen">;

/** One event, after the name of the channel it was published on. */
export type Published = { [Name in keyof Named]: readonly [Name, EventOf<Named[Name]>] }[keyof Named];
