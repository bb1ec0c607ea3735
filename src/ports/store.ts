import type { AuditStore } from "./audit-store.ts";
import type { BucketStore, MaybePromise } from "./bucket-store.ts";
import type { ConfigStore } from "./config-store.ts";
import type { EntityStore } from "./entity-store.ts";
import type { LeaseStore } from "./lease-store.ts";
import type { ManifestStore } from "./manifest-store.ts";
import type { NamespaceStore } from "./namespace-store.ts";
import type { PlanStore } from "./plan-store.ts";
import type { RefusalStore } from "./refusal-store.ts";
import type { Clock } from "./system.ts";
import type { UsageStore } from "./usage-store.ts";

/** Everything a limiter asks of one namespace of a store. */
export interface ScopedStore {
  readonly buckets: BucketStore;
  readonly config: ConfigStore;
  readonly entities: EntityStore;
  readonly plans: PlanStore;
  readonly usage: UsageStore;
  readonly refusals: RefusalStore;
  readonly audit: AuditStore;
  readonly manifests: ManifestStore;
  readonly leases: LeaseStore;
}

/** Work on a bucket that went on without a caller, and failed. */
export interface BackgroundFault {
  /** Whose bucket. */
  readonly entityId: string;
  /** On which resource. */
  readonly resource: string;
  /** What was not done, in words. */
  readonly reason: string;
  /** Why. */
  readonly cause: unknown;
}

/** Keeps limits and buckets. `RateLimiter.open({ store })` takes one, or the name of one. */
export interface Store {
  /** For messages: "memory", "sqlite:FILE", "dynamodb:STACK". */
  readonly name: string;
  /** The clock of its buckets, where it has one: a limiter on this store must use it too. */
  readonly clock?: Clock;
  /** The most buckets that a request with `atomic` may take from; `Infinity`: as many as it names. */
  readonly atomicBucketsMax: number;
  /** The namespaces there are. */
  readonly namespaces: NamespaceStore;
  /** The ports of one namespace, by id. Cheap; asked once per limiter. */
  scope(namespaceId: string): ScopedStore;
  /**
   * Calls back with what failed of work that no caller waits for; the answer takes that back. Absent: there is no such work. A
   * listener must not throw.
   */
  onBackgroundFault?(namespaceId: string, listener: (fault: BackgroundFault) => void): () => void;
  /** Resolves when the store answers; rejects when it does not. */
  ping(): MaybePromise<void>;
  /** Lets go of files and connections. */
  close(): MaybePromise<void>;
}
