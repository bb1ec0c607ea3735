import type { DynamoClient } from "../adapters/dynamodb/client.ts";
import { namespaceOf } from "../adapters/dynamodb/namespaces-record.ts";
import { type Records, tablePartition } from "../adapters/dynamodb/records.ts";
import { REGISTRY, systemPk } from "../adapters/dynamodb/schema.ts";
import type { DynamoStore } from "../adapters/dynamodb/store.ts";
import type { AuditEvent } from "../domain/config/audit.ts";
import { DEFAULT_NAMESPACE, type Namespace } from "../domain/config/namespace.ts";
import type { Clock, Random } from "../ports/system.ts";
import { Checkpoints } from "./checkpoints.ts";
import { openDynamoStream } from "./dynamo-stream.ts";
import { type Follower, type FollowerParts, startFollower } from "./follow.ts";
import { type AggregatorAnswer, type AggregatorContext, type AggregatorEvent, handle } from "./handler.ts";
import { createLog, type Log, type LogLevel } from "./log.ts";
import { type MetricName, Metrics } from "./metrics.ts";
import type { ObjectStore } from "./objects.ts";
import type { SdkLocation } from "./sdk-clients.ts";
import { type SnapshotWindow, snapshotCopier } from "./snapshots.ts";
import { type SweepReport, type SweepScope, sweepAll } from "./sweep.ts";
import { SweepLedger } from "./sweep-ledger.ts";
import { type Archive, Receipts } from "./write-archive.ts";

interface AggregatorParts {
  /** The name of the table. */
  readonly stack: string;
  readonly client: DynamoClient;
  readonly records: Records;
  readonly store: DynamoStore;
  /** Undefined: nothing is archived. */
  readonly objects: ObjectStore | undefined;
  /** The location of the streams; undefined parts are found by the AWS SDK. */
  readonly place: SdkLocation;
  readonly runner: string;
  readonly sweepAfterHours: number;
  /** Windows to copy for the original's readers. */
  readonly snapshots: readonly SnapshotWindow[];
  readonly logLevel: LogLevel;
  /** Receives a line of logs or metrics. */
  readonly write: (line: string) => void;
  readonly clock: Clock;
  /** A number in [0, 1). */
  readonly random: () => number;
  readonly ids: Random;
}

/** The aggregator of one table, for a Lambda function, a runner or a single sweep. */
export class Aggregator {
  readonly #parts: AggregatorParts & {
    readonly metrics: Metrics;
    readonly log: Log;
    readonly archive: Archive | undefined;
  };

  constructor(parts: AggregatorParts) {
    const { clock, objects, records, write } = parts;
    const metrics = new Metrics();
    const log = createLog({ level: parts.logLevel, write, now: () => clock.now() });
    const archive = objects && { objects, receipts: new Receipts(records), metrics, log };
    this.#parts = { ...parts, metrics, log, archive };
  }

  handle(event: AggregatorEvent, context: AggregatorContext): Promise<AggregatorAnswer> {
    const sweep = (untilMs: number) => this.sweep({ untilMs, all: false, stopping: new AbortController().signal });
    return handle(event, context, { ...this.#parts, sweep });
  }

  follow(options: {
    readonly once: boolean;
    readonly from: "oldest" | "latest";
    readonly sweeps: boolean;
    readonly onMetrics: (values: Readonly<Partial<Record<MetricName, number>>>) => void;
  }): Follower {
    const { stack, client, place, records, archive, clock } = this.#parts;
    const stream = archive && {
      archive,
      open: () => openDynamoStream({ table: stack, client, ...place }),
      checkpoints: (label: string, runner: string) => new Checkpoints({ records, label, runner, clock }),
    };
    const sweep: FollowerParts["sweep"] = ({ once, stopping }) =>
      this.sweep({ untilMs: Number.POSITIVE_INFINITY, all: once, stopping });
    return startFollower({ ...this.#parts, ...options, stream, sweep: options.sweeps ? sweep : undefined });
  }

  /** `all`: closes every hour that is over in a new pass, whatever another sweep is doing. */
  sweep(options: {
    readonly untilMs: number;
    readonly all: boolean;
    readonly stopping: AbortSignal;
  }): Promise<SweepReport> {
    const { records, store, runner, clock, ids, sweepAfterHours, snapshots } = this.#parts;
    const usage = (namespaceId: string) => store.scope(namespaceId).usage;
    return sweepAll({
      ...this.#parts,
      ...options,
      ledger: new SweepLedger(records, `${runner}/${ids.id()}`, clock),
      namespaces: () => this.#namespaces(),
      scope: (namespaceId) => this.#scope(namespaceId),
      finishPurge: (namespace) => this.#finishPurge(namespace),
      copySnapshots: snapshots.length === 0 ? undefined : snapshotCopier({ records, usage, windows: snapshots }),
      afterHours: options.all ? 0 : sweepAfterHours,
      anew: options.all,
    });
  }

  now(): number {
    return this.#parts.clock.now();
  }

  async close(): Promise<void> {
    this.#parts.objects?.close();
    await this.#parts.store.close();
  }

  #scope(namespaceId: string): SweepScope {
    const scope = this.#parts.store.scope(namespaceId);
    return { hours: scope.hours, finishDeletion: (entityId) => scope.finishDeletion(entityId) };
  }

  async *#namespaces(): AsyncGenerator<Namespace> {
    const items = this.#parts.records.query(tablePartition(systemPk(REGISTRY), { prefix: "#NSID#" }));
    for await (const item of items) yield namespaceOf(item);
  }

  async #finishPurge({ id }: Namespace): Promise<void> {
    const { store, clock, ids } = this.#parts;
    // The process that began the purge did not log it. Without a default namespace the event is lost.
    const auditIn = (await store.namespaces.get(DEFAULT_NAMESPACE))?.id ?? id;
    const event: AuditEvent = {
      eventId: ids.id(),
      atMs: clock.now(),
      action: "namespace_purged",
      entityId: `$NAMESPACE:${id}`,
      principal: "zae-limiter-aggregator",
      details: {},
    };
    await store.namespaces.purge(id, event, auditIn, () => {});
  }
}
