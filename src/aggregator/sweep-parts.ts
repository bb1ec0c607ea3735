import type { Records } from "../adapters/dynamodb/records.ts";
import type { BucketKey } from "../domain/bucket-key.ts";
import type { Namespace } from "../domain/namespace.ts";
import type { Clock } from "../ports/system.ts";
import type { Log } from "./log.ts";
import type { Metrics } from "./metrics.ts";
import type { SweepLedger } from "./sweep-ledger.ts";

export interface ShardPlace {
  readonly bucket: BucketKey;
  readonly shard: number;
}

/** What became of one shard whose hours were to be closed. */
export type ShardClosed =
  | { readonly kind: "closed"; readonly hours: number; readonly shardCount: number }
  | { readonly kind: "open"; readonly hours: number; readonly shardCount: number; readonly openHour: number }
  | { readonly kind: "gone" }
  | { readonly kind: "failed"; readonly cause: unknown };

/** Closes hours of buckets that nobody uses any more, and joins their shards: the protocol's side of the sweep. */
export interface HourCloser {
  close(
    shards: readonly ShardPlace[],
    options: { readonly nowMs: number; readonly afterHours: number },
  ): Promise<readonly ShardClosed[]>;
  joinIdle(bucket: BucketKey, nowMs: number): Promise<boolean>;
}

/** One namespace, as the sweep needs it. */
export interface SweepScope {
  /** Undefined: its usage is the original's business. */
  readonly hours: HourCloser | undefined;
  /** To its end, if there is one under way. */
  finishDeletion(entityId: string): Promise<void>;
}

/** Up to where all hours of a namespace are on sheets. */
export interface ClosedUntil {
  read(namespaceId: string): Promise<number | undefined>;
  /** It only grows. */
  write(namespaceId: string, closedUntilMs: number): Promise<void>;
}

export interface SweepParts {
  readonly records: Records;
  readonly ledger: SweepLedger;
  /** All there are, deleted ones too, by their ids. */
  readonly namespaces: () => AsyncIterable<Namespace>;
  readonly scope: (namespaceId: string) => SweepScope;
  /** Removes what is left of a namespace whose purge was cut off. */
  readonly finishPurge: (namespace: Namespace) => Promise<void>;
  readonly closedUntil: ClosedUntil;
  /** Copies closed hours for the original's readers; undefined: nobody wants that. */
  readonly copySnapshots: ((namespaceId: string, closedUntilMs: number) => Promise<void>) | undefined;
  /** An open hour is closed when it has been over for so many hours. */
  readonly afterHours: number;
  /** Begins anew wherever another sweep is, and minds nobody. */
  readonly anew: boolean;
  /** Ends in time, and goes on next time. */
  readonly untilMs: number;
  readonly stopping: AbortSignal;
  readonly metrics: Metrics;
  readonly log: Log;
  readonly clock: Clock;
}
