import type { Status } from "../domain/status.ts";

/** Tokens were taken from one entity on one resource: a request has one event for each level and resource it took from. */
export interface AcquiredEvent {
  readonly namespace: string;
  readonly entityId: string;
  readonly resource: string;
  readonly consumed: Readonly<Record<string, number>>;
  /** `entity`: what the request named itself, once for each request. `parent`: a level above. `also`: a further resource. */
  readonly role: "entity" | "parent" | "also";
  readonly requestId?: string;
}

export interface RefusedEvent {
  readonly namespace: string;
  readonly entityId: string;
  readonly resource: string;
  readonly statuses: readonly Status[];
  readonly retryAfterMs: number;
  /** Whether it was answered from memory, without asking the store. */
  readonly remembered: boolean;
  readonly requestId?: string;
}

export interface GaveBackEvent {
  readonly namespace: string;
  readonly entityId: string;
  readonly resource: string;
  readonly amounts: Readonly<Record<string, number>>;
  /** Why: the parent refused, the body threw, the caller released, ... */
  readonly reason: "refused" | "rollback" | "release" | "adjust";
  /** False when the store could not confirm it: then it counts as not given back. */
  readonly confirmed: boolean;
}

/** A lease was charged more than it had taken at first. */
export interface ChargedEvent {
  readonly namespace: string;
  readonly entityId: string;
  readonly resource: string;
  readonly amounts: Readonly<Record<string, number>>;
  /** Why: `adjust` upwards, or `consume` of the lease. */
  readonly reason: "adjust" | "consume";
}

/** An outage of the store that blocked: a request, or a lease that wanted more. */
export interface UnavailableEvent {
  readonly namespace: string;
  readonly entityId: string;
  readonly resource: string;
  readonly reason: string;
  readonly cause: unknown;
  readonly requestId?: string;
}

export interface DegradedEvent {
  readonly namespace: string;
  readonly entityId: string;
  readonly resource: string;
  readonly reason: string;
  readonly cause: unknown;
}

export interface LimitsChangedEvent {
  readonly namespace: string;
  readonly action: string;
  readonly entityId: string;
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
}
