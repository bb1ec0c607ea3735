import type { Records } from "../adapters/dynamodb/records.ts";
import type { Namespace } from "../domain/config/namespace.ts";
import type { Clock } from "../ports/system.ts";
import type { HourCloser } from "../protocol/usage/close-hours.ts";
import type { Log } from "./log.ts";
import type { Metrics } from "./metrics.ts";
import type { SweepLedger } from "./sweep-ledger.ts";

/** One namespace, as the sweep needs it. */
export interface SweepScope {
  /** Undefined: its usage is the original's business. */
  readonly hours: HourCloser | undefined;
  /** To its end, if there is one under way. */
  finishDeletion(entityId: string): Promise<void>;
}

export interface SweepParts {
  readonly records: Records;
  readonly ledger: SweepLedger;
  /** All there are, deleted ones too, by their ids. */
  readonly namespaces: () => AsyncIterable<Namespace>;
  readonly scope: (namespaceId: string) => SweepScope;
  /** Removes what is left of a namespace whose purge was cut off. */
  readonly finishPurge: (namespace: Namespace) => Promise<void>;
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
