import type { Also, Tokens } from "../domain/charge/amounts.ts";
import type { Status } from "../domain/charge/status.ts";

/** The further parts of a request, as it named them: resources with their tokens by measure, or a list. */
export type AskedBesides =
  | Readonly<Record<string, Tokens>>
  | readonly { readonly entityId?: string; readonly resource: string; readonly consume?: Tokens }[];

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
  /** For the role `entity`: whole tokens by measure, as the request named them, or `{ requests: 1 }` if it named none. */
  readonly asked?: Tokens;
  /** For the role `entity`: the further parts that the request named, as it named them. Absent: none. */
  readonly also?: Also;
  /** Names of the shadow limits that would have refused it: `consumed` has nothing of them. Absent: none. */
  readonly shadowed?: readonly string[];
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
  /** Whole tokens by measure, as the request named them, or `{ requests: 1 }` if it named none. */
  readonly asked: Tokens;
  /** The further parts that the request named, as it named them. Absent: none. */
  readonly also?: Also;
  /** Every limit that the request asked for. */
  readonly statuses: readonly Status[];
  /** The limit with the longest wait. */
  readonly primary: Status;
  /** Milliseconds until the request would fit; `Infinity`: never. */
  readonly retryAfterMs: number;
  /** Whether it was answered from memory, without asking the store. */
  readonly remembered: boolean;
  /** True: a middleware in shadow mode asked, and the request went on all the same. */
  readonly shadow?: true;
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
  /**
   * Why: a parent refused, the function threw or the lease was rolled back, the caller released or adjusted. `settle`: slots, which
   * come back when the work is done; usage keeps them. `refund`: `giveBack` was called, without a lease.
   */
  readonly reason: "refused" | "rollback" | "release" | "adjust" | "settle" | "refund";
  /** False: the store could not confirm it, so it counts as not given back. */
  readonly confirmed: boolean;
}

/** A lease was charged more than it took at first, or `charge` was called without one. What passed by a shadow limit was not charged, and is not among it. */
export interface ChargedEvent {
  /** The name of the namespace. */
  readonly namespace: string;
  /** The entity that was charged. */
  readonly entityId: string;
  /** The resource. */
  readonly resource: string;
  /** Whole tokens by limit. */
  readonly amounts: Readonly<Record<string, number>>;
  /** The call of the lease: `adjust` upwards, or `consume`. `charge`: without a lease. */
  readonly reason: "adjust" | "consume" | "charge";
}

/**
 * A percentage of a limit was reached (`notifyAt`). Each is told at most once a period of a quota, by one process; of a limit that
 * refills, once each time that it is reached anew.
 */
export interface ThresholdEvent {
  /** The name of the namespace. */
  readonly namespace: string;
  /** Whose limit it is. */
  readonly entityId: string;
  /** On which resource; `"*"`: a total over all resources. */
  readonly resource: string;
  /** The name of the limit. */
  readonly limit: string;
  /** The percentage that was reached, one of `notifyAt`. */
  readonly percent: number;
  /** Whole tokens that are used, rounded up. */
  readonly used: number;
  /** Whole tokens: the capacity in force, with what was topped up. */
  readonly capacity: number;
  /** When, in ms since the Unix epoch. */
  readonly atMs: number;
  /** When the quota resets, in ms since the Unix epoch. Absent: it refills, or is a limit of what runs at once. */
  readonly resetsAtMs?: number;
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

/** What the limiter could not do, in a word: the label of metrics. */
export type DegradedKind =
  | "store_unavailable"
  | "refusals_not_stored"
  | "usage_not_stored"
  | "adjustment_not_stored"
  | "give_back_not_stored"
  | "lease_not_stored"
  | "writes_lost"
  | "other";

/** The store failed, and the limiter went on without it. */
export interface DegradedEvent {
  /** The name of the namespace. */
  readonly namespace: string;
  /** The entity that asked. */
  readonly entityId: string;
  /** The resource that it asked for. */
  readonly resource: string;
  /** What the limiter could not do, in a word. */
  readonly kind: DegradedKind;
  /** What the limiter could not do, in a sentence. */
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

/** A request for tokens has ended. There is one event for each; none for a request that was not valid or came after `close`. */
export interface AcquireEndedEvent {
  /** The name of the namespace. */
  readonly namespace: string;
  /** The entity that asked. */
  readonly entityId: string;
  /** The resource that it asked for. */
  readonly resource: string;
  /**
   * `acquired`: it got a lease, also one that an outage let through. `refused`: a limit was short. `disabled`: the
   * resource is switched off. `unavailable`: an outage blocked it. `canceled`: its signal was aborted.
   */
  readonly result: "acquired" | "refused" | "disabled" | "unavailable" | "canceled";
  /** From the call to its answer in ms, with fractions; waiting for tokens is part of it. */
  readonly durationMs: number;
  /** The name of the store: `memory`, `sqlite:FILE`, `dynamodb:TABLE`. */
  readonly store: string;
  /** Of the results `disabled` and `unavailable`: what was thrown. */
  readonly error?: unknown;
  /** The `requestId` of the request. */
  readonly requestId?: string;
}

/** A request met a resource that is switched off, for its entity or for a parent that is charged with it. */
export interface DisabledEvent {
  /** The name of the namespace. */
  readonly namespace: string;
  /** The entity that asked. */
  readonly entityId: string;
  /** The resource that it asked for. */
  readonly resource: string;
  /** The scope at which it was disabled, as `ResourceDisabled` has it. */
  readonly level: string;
  /** The `requestId` of the request. */
  readonly requestId?: string;
}

/** A request begins to wait for tokens. A `WaitEndedEvent` follows, whatever becomes of it. */
export interface WaitBeganEvent {
  /** The name of the namespace. */
  readonly namespace: string;
  /** The entity that asked. */
  readonly entityId: string;
  /** The resource that it asked for. */
  readonly resource: string;
  /** The `requestId` of the request. */
  readonly requestId?: string;
}

/** A request no longer waits for tokens: it was granted, refused or canceled, or it failed. */
export interface WaitEndedEvent extends WaitBeganEvent {
  /** How long it waited, in ms. */
  readonly waitedMs: number;
}

/** A lease was given out. */
export interface LeaseOpenedEvent {
  /** The name of the namespace. */
  readonly namespace: string;
  /** The entity that it was taken for. */
  readonly entityId: string;
  /** The first resource that it was taken for. */
  readonly resource: string;
  /** The lease, or the id of one that a service keeps in the store. */
  readonly lease: object | string;
}

/** A lease was closed. There is none for a lease that was dropped without being closed. */
export interface LeaseEndedEvent extends LeaseOpenedEvent {
  /** How it was closed. `expired` is the end of a lease in the store whose time was up. */
  readonly status: "settled" | "rolledBack" | "expired";
  /** How long it was open, in ms. */
  readonly heldMs: number;
}

/** DynamoDB said what a call has cost. It is asked for it only while this channel has subscribers. */
export interface ConsumedCapacityEvent {
  /** The operation, such as `UpdateItem`. */
  readonly operation: string;
  /** The name of the table. */
  readonly table: string;
  /** Capacity units of the table and its indexes together, reads or writes as the operation is. */
  readonly units: number;
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
  readonly threshold: Channel<ThresholdEvent>;
  readonly unavailable: Channel<UnavailableEvent>;
  readonly degraded: Channel<DegradedEvent>;
  readonly limitsChanged: Channel<LimitsChangedEvent>;
  readonly acquireEnded: Channel<AcquireEndedEvent>;
  readonly disabled: Channel<DisabledEvent>;
  readonly waitBegan: Channel<WaitBeganEvent>;
  readonly waitEnded: Channel<WaitEndedEvent>;
  readonly leaseOpened: Channel<LeaseOpenedEvent>;
  readonly leaseEnded: Channel<LeaseEndedEvent>;
  /**
   * Calls back with every event of these channels that is published through this very object: those of other limiters in this
   * process are not among them. The answer takes that back. A listener must not throw.
   */
  listen?(channels: readonly Published[0][], listener: (...published: Published) => void): () => void;
}

type EventOf<Of> = Of extends Channel<infer Event> ? Event : never;

type Named = Omit<Events, "listen">;

/** One event, after the name of the channel it was published on. */
export type Published = { [Name in keyof Named]: readonly [Name, EventOf<Named[Name]>] }[keyof Named];
