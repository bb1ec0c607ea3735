import type { BucketStore, MaybePromise } from "./bucket-store.ts";
import type { AuditStore, ConfigStore, EntityStore, ManifestStore, NamespaceStore, PlanStore } from "./config-store.ts";
import type { CopyStore } from "./copy-store.ts";
import type { DegradedKind } from "./events.ts";
import type { LeaseStore } from "./lease-store.ts";
import type { Clock } from "./system.ts";
import type { CallerStore, RefusalLogStore, RefusalStore, UsageStore } from "./usage-store.ts";

/** Everything a limiter asks of one namespace of a store. */
export interface ScopedStore {
  readonly buckets: BucketStore;
  readonly config: ConfigStore;
  readonly entities: EntityStore;
  readonly plans: PlanStore;
  readonly usage: UsageStore;
  readonly refusals: RefusalStore;
  readonly refusalLog: RefusalLogStore;
  /** Absent: usage is what buckets count, and nothing else. */
  readonly callers?: CallerStore;
  readonly audit: AuditStore;
  readonly manifests: ManifestStore;
  readonly leases: LeaseStore;
  /** Absent: the namespace can neither be copied nor be copied to. */
  readonly copy?: CopyStore;
}

/** Work on a bucket that went on without a caller, and failed. */
export interface BackgroundFault {
  /** Whose bucket. */
  readonly entityId: string;
  /** On which resource. */
  readonly resource: string;
  /** What was not done, in a word. Default: `"other"`. */
  readonly kind?: DegradedKind;
  /** What was not done, in words. */
  readonly reason: string;
  /** Why. */
  readonly cause: unknown;
}

/** How much a sweep has removed. */
export interface Swept {
  /** Buckets that were full for an hour: the next one of the same name begins as they would go on. */
  readonly buckets: number;
  /** Rows of usage, refusals, audit events, leases, keys and operations that were too old. */
  readonly rows: number;
}

/** A place for limits and buckets. `RateLimiter.open({ store })` takes one, or the name of one. */
export interface Store {
  /** Its name, for messages: `"memory"`, `"sqlite:FILE"`, `"dynamodb:STACK"`. */
  readonly name: string;
  /** The clock of its buckets, if it has one. A limiter on this store uses it too. */
  readonly clock?: Clock;
  /** The most buckets that a request with `atomic` can take from; `Infinity`: any number. */
  readonly atomicBucketsMax: number;
  /** Whether its buckets keep marks of what was told of a limit (`notifyAt`). Absent: such limits are refused. */
  readonly tellsThresholds?: true;
  /** Its namespaces. */
  readonly namespaces: NamespaceStore;
  /** The data of one namespace, by its id. A limiter asks once. */
  scope(namespaceId: string): ScopedStore;
  /**
   * Calls the listener with failures of work that no caller waits for. The function that it answers removes the
   * listener. A listener must not throw. Absent: the store has no such work.
   */
  onBackgroundFault?(namespaceId: string, listener: (fault: BackgroundFault) => void): () => void;
  /** Removes all that is idle or too old at once, in all namespaces. Absent: there is no more than is removed by the way. */
  sweep?(): Promise<Swept>;
  /** Resolves if the store answers, and rejects if it does not. */
  ping(): MaybePromise<void>;
  /** Closes files and connections. */
  close(): MaybePromise<void>;
}
