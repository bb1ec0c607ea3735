import type { DynamoClient } from "../adapters/dynamodb/client.ts";
import type { Credentials, CredentialsProvider } from "../adapters/dynamodb/credentials.ts";
import { namespaceOf } from "../adapters/dynamodb/namespaces-record.ts";
import type { Records } from "../adapters/dynamodb/records.ts";
import { PK, REGISTRY, SK, systemPk } from "../adapters/dynamodb/schema.ts";
import type { DynamoStore } from "../adapters/dynamodb/store.ts";
import type { AuditEvent } from "../domain/config/audit.ts";
import { DEFAULT_NAMESPACE, type Namespace } from "../domain/config/namespace.ts";
import type { Clock, Random } from "../ports/system.ts";
import { Checkpoints } from "./checkpoints.ts";
import { openDynamoStream } from "./dynamo-stream.ts";
import { type Follower, startFollower } from "./follow.ts";
import { type AggregatorAnswer, type AggregatorContext, type AggregatorEvent, handle } from "./handler.ts";
import { createLog, type Log, type LogLevel } from "./log.ts";
import { type MetricName, Metrics } from "./metrics.ts";
import type { ObjectStore } from "./objects.ts";
import { Receipts } from "./receipts.ts";
import { type SnapshotWindow, snapshotCopier } from "./snapshots.ts";
import { type SweepReport, sweepAll } from "./sweep.ts";
import { SweepLedger } from "./sweep-ledger.ts";
import type { SweepScope } from "./sweep-parts.ts";
import type { Archive } from "./write-archive.ts";

/** A table with all that the aggregator needs of it. */
interface AggregatorParts {
  /** The name of the table. */
  readonly stack: string;
  readonly client: DynamoClient;
  readonly records: Records;
  readonly store: DynamoStore;
  /** Undefined: nothing is archived. */
  readonly objects: ObjectStore | undefined;
  /** Where the streams are: as the AWS SDK finds it where undefined. */
  readonly place: {
    readonly region: string | undefined;
    readonly endpoint: string | undefined;
    readonly credentials: Credentials | CredentialsProvider | undefined;
  };
  readonly runner: string;
  readonly sweepAfterHours: number;
  /** Copied for the original's readers; empty: none. */
  readonly snapshots: readonly SnapshotWindow[];
  readonly logLevel: LogLevel;
  /** Takes a line of logs or metrics. */
  readonly write: (line: string) => void;
  readonly clock: Clock;
  /** A number in [0, 1). */
  readonly random: () => number;
  readonly ids: Random;
}

/** The work of the aggregator on one table: of a Lambda, of a runner, or of whoever wants one sweep. */
export class Aggregator {
  readonly #parts: AggregatorParts;
  readonly #metrics = new Metrics();
  readonly #log: Log;
  readonly #archive: Archive | undefined;

  constructor(parts: AggregatorParts) {
    const { clock, objects, records } = parts;
    this.#parts = parts;
    this.#log = createLog({ level: parts.logLevel, write: parts.write, now: () => clock.now() });
    this.#archive =
      objects === undefined
        ? undefined
        : { objects, receipts: new Receipts(records), metrics: this.#metrics, log: this.#log };
  }

  handle(event: AggregatorEvent, context: AggregatorContext): Promise<AggregatorAnswer> {
    const { stack, write, clock } = this.#parts;
    const sweep = (untilMs: number) => this.sweep({ untilMs, all: false, stopping: new AbortController().signal });
    return handle(event, context, {
      ...{ stack, archive: this.#archive, sweep, metrics: this.#metrics, log: this.#log, write, clock },
    });
  }

  follow(options: {
    readonly once: boolean;
    readonly from: "oldest" | "latest";
    readonly sweeps: boolean;
    readonly onMetrics: (values: Readonly<Partial<Record<MetricName, number>>>) => void;
  }): Follower {
    const { stack, client, place, records, runner, clock, random } = this.#parts;
    const archive = this.#archive;
    return startFollower({
      ...{ runner, once: options.once, from: options.from, onMetrics: options.onMetrics, clock, random },
      ...{ metrics: this.#metrics, log: this.#log },
      stream:
        archive === undefined
          ? undefined
          : {
              archive,
              open: () => openDynamoStream({ table: stack, client, ...place }),
              checkpoints: (label, owner) => new Checkpoints({ records, label, runner: owner, clock }),
            },
      sweep: options.sweeps
        ? ({ once, stopping }) => this.sweep({ untilMs: Number.POSITIVE_INFINITY, all: once, stopping })
        : undefined,
    });
  }

  /** `all`: every hour that is over, in a pass of its own, wherever another sweep is. */
  sweep(options: {
    readonly untilMs: number;
    readonly all: boolean;
    readonly stopping: AbortSignal;
  }): Promise<SweepReport> {
    const { records, store, runner, clock, ids, sweepAfterHours, snapshots } = this.#parts;
    const usage = (namespaceId: string) => store.scope(namespaceId).usage;
    return sweepAll({
      records,
      ledger: new SweepLedger(records, `${runner}/${ids.id()}`, clock),
      namespaces: () => this.#namespaces(),
      scope: (namespaceId) => this.#scope(namespaceId),
      finishPurge: (namespace) => this.#finishPurge(namespace),
      copySnapshots: snapshots.length === 0 ? undefined : snapshotCopier({ records, usage, windows: snapshots }),
      afterHours: options.all ? 0 : sweepAfterHours,
      ...{ anew: options.all, untilMs: options.untilMs, stopping: options.stopping },
      ...{ metrics: this.#metrics, log: this.#log, clock },
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
    const items = this.#parts.records.query({
      partition: [PK, systemPk(REGISTRY)],
      range: { name: SK, prefix: "#NSID#" },
      consistent: true,
    });
    for await (const item of items) yield namespaceOf(item);
  }

  async #finishPurge({ id }: Namespace): Promise<void> {
    const { store, clock, ids } = this.#parts;
    // Whoever began did not live to tell it; without a default namespace nobody keeps such events.
    const auditIn = (await store.namespaces.get(DEFAULT_NAMESPACE))?.id ?? id;
    const event: AuditEvent = {
      ...{ eventId: ids.id(), atMs: clock.now(), action: "namespace_purged", entityId: `$NAMESPACE:${id}` },
      ...{ principal: "zae-limiter-aggregator", details: {} },
    };
    await store.namespaces.purge(id, event, auditIn, () => {});
  }
}
