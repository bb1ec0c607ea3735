import type { AuditStore } from "./audit-store.ts";
import type { BucketStore, Now } from "./bucket-store.ts";
import type { ConfigStore } from "./config-store.ts";
import type { EntityStore } from "./entity-store.ts";
import type { NamespaceStore } from "./namespace-store.ts";
import type { UsageStore } from "./usage-store.ts";

/** Everything a limiter asks of one namespace of a store. */
export interface ScopedStore {
  readonly buckets: BucketStore;
  readonly config: ConfigStore;
  readonly entities: EntityStore;
  readonly usage: UsageStore;
  readonly audit: AuditStore;
}

/** A place that keeps limits and buckets. What `RateLimiter.open({ store })` takes besides a name. */
export interface Store {
  /** For messages: "memory", "sqlite:FILE". */
  readonly name: string;
  readonly namespaces: NamespaceStore;
  /** The ports of one namespace, by id. Cheap; asked once per limiter. */
  scope(namespaceId: string): ScopedStore;
  /** Resolves when the store answers; rejects when it does not. */
  ping(): Now<void>;
  close(): Now<void>;
}
