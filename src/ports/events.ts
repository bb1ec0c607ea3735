import type { Status } from "../domain/status.ts";

/** Tokens were taken from one entity on one resource: a request has one event for each level and resource it took from. */
export interface AcquiredEvent {
  /** Its name. */
  readonly namespace: string;
  /** Who asked. */
  readonly entityId: string;
  /** For what. */
  readonly resource: string;
  /** Whole tokens per limit. */
  readonly consumed: Readonly<Record<string, number>>;
  /**
   * `entity`: what the request named itself, once for each request. `parent`: a level above. `also`: a further resource. `total`:
   * the limits of a level over all resources, with the resource `"*"`.
   */
  readonly role: "entity" | "parent" | "also" | "total";
  /** Of the role `entity`: how long the request waited for tokens, in ms. Absent where it did not. */
  readonly waitedMs?: number;
  /** As the request had it. */
  readonly requestId?: string;
}

/** A request ended refused: one event for each, none for one that waited and was granted, or was aborted. */
export interface RefusedEvent {
  /** Its name. */
  readonly namespace: string;
  /** Who asked. */
  readonly entityId: string;
  /** For what. */
  readonly resource: string;
  /** Every limit that was asked for. */
  readonly statuses: readonly Status[];
  /** The one of them that must be waited for longest. */
  readonly primary: Status;
  /** When to ask again; `Infinity`: never. */
  readonly retryAfterMs: number;
  /** Whether it was answered from memory, without asking the store. */
  readonly remembered: boolean;
  /** As the request had it. */
  readonly requestId?: string;
}

/** Tokens were given back. */
export interface GaveBackEvent {
  /** Its name. */
  readonly namespace: string;
  /** Who had taken them. */
  readonly entityId: string;
  /** From what. */
  readonly resource: string;
  /** Whole tokens per limit. */
  readonly amounts: Readonly<Record<string, number>>;
  /** Why: the parent refused, the body threw, the caller released, ... */
  readonly reason: "refused" | "rollback" | "release" | "adjust";
  /** False when the store could not confirm it: then it counts as not given back. */
  readonly confirmed: boolean;
}

/** A lease was charged more than it had taken at first. */
export interface ChargedEvent {
  /** Its name. */
  readonly namespace: string;
  /** Whose bucket. */
  readonly entityId: string;
  /** On which resource. */
  readonly resource: string;
  /** Whole tokens per limit. */
  readonly amounts: Readonly<Record<string, number>>;
  /** Why: `adjust` upwards, or `consume` of the lease. */
  readonly reason: "adjust" | "consume";
}

/** An outage of the store that blocked: a request, or a lease that wanted more. */
export interface UnavailableEvent {
  /** Its name. */
  readonly namespace: string;
  /** Who asked. */
  readonly entityId: string;
  /** For what. */
  readonly resource: string;
  /** What was not done. */
  readonly reason: string;
  /** What the store said. */
  readonly cause: unknown;
  /** As the request had it. */
  readonly requestId?: string;
}

/** The store failed, and the limiter went on without it. */
export interface DegradedEvent {
  /** Its name. */
  readonly namespace: string;
  /** Who asked. */
  readonly entityId: string;
  /** For what. */
  readonly resource: string;
  /** What was not done. */
  readonly reason: string;
  /** What the store said. */
  readonly cause: unknown;
}

/** This process changed configuration. */
export interface LimitsChangedEvent {
  /** Its name. */
  readonly namespace: string;
  /** What was done. */
  readonly action: string;
  /** Absent where it concerns no entity. */
  readonly entityId: string;
  /** Absent where it concerns no resource. */
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
