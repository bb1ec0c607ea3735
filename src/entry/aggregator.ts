import { Records } from "../adapters/dynamodb/records.ts";
import { fromEnvironment } from "../adapters/system/environment.ts";
import { jitter, systemRandom } from "../adapters/system/random.ts";
import type { Aggregator } from "../aggregator/aggregator.ts";
import type { ArchivedEvent } from "../aggregator/archive-line.ts";
import type { Follower } from "../aggregator/follow.ts";
import type { AggregatorAnswer, AggregatorContext, AggregatorEvent } from "../aggregator/handler.ts";
import type { LogLevel } from "../aggregator/log.ts";
import type { MetricName } from "../aggregator/metrics.ts";
import { eventsOf, type VerifiedDay, verifyArchive as verifyDays } from "../aggregator/read-archive.ts";
import type { SweepReport } from "../aggregator/sweep.ts";
import { Receipts } from "../aggregator/write-archive.ts";
import { ValidationError } from "../domain/names/errors.ts";
import { requireOption } from "../domain/names/known-names.ts";
import {
  type AggregatorOptions,
  type ArchivePlace,
  connected,
  openAggregator,
  openObjects,
} from "./aggregator-open.ts";
import type { DynamoTable } from "./dynamodb.ts";

export type { ArchivedEvent, ArchiveLine } from "../aggregator/archive-line.ts";
export type { Follower, FollowReport } from "../aggregator/follow.ts";
export type { AggregatorAnswer, AggregatorContext, AggregatorEvent, BatchAnswer } from "../aggregator/handler.ts";
export type { LogLevel } from "../aggregator/log.ts";
export type { MetricName } from "../aggregator/metrics.ts";
export { type ArchiveObject, type ArchivePlan, planArchive } from "../aggregator/plan-archive.ts";
export type { VerifiedDay } from "../aggregator/read-archive.ts";
export type { SnapshotWindow } from "../aggregator/snapshots.ts";
export type { StreamRecord } from "../aggregator/stream-source.ts";
export type { SweepReport } from "../aggregator/sweep.ts";
export type { AggregatorOptions, ArchivePlace } from "./aggregator-open.ts";

/** A function for Lambda. */
export type AggregatorHandler = (event: AggregatorEvent, context?: AggregatorContext) => Promise<AggregatorAnswer>;

/**
 * A Lambda function for both of its events: it archives batches of the table's stream, and it sweeps at each tick of a
 * schedule. It opens the table with the first event.
 *
 * ```ts
 * export const handler = createHandler({ stack: "limits", archive: "s3://my-archive" });
 * ```
 */
export function createHandler(options: AggregatorOptions): AggregatorHandler {
  let opened: Promise<Aggregator> | undefined;
  return async (event, context = {}) => {
    opened ??= openAggregator(options, { runner: undefined, write: toStandardOutput });
    const aggregator = await opened.catch((error: unknown) => {
      // The next event tries again.
      opened = undefined;
      throw error;
    });
    return aggregator.handle(event, context);
  };
}

/**
 * The Lambda function of a stack. These environment variables name its table and archive: `TABLE_NAME`,
 * `ARCHIVE_BUCKET_NAME`, `ARCHIVE_PREFIX`, `SWEEP_AFTER_HOURS`, `LOG_LEVEL`.
 */
export const handler: AggregatorHandler = (event, context) => {
  fromStack ??= createHandler(optionsFromStack());
  return fromStack(event, context);
};

let fromStack: AggregatorHandler | undefined;

function optionsFromStack(): AggregatorOptions {
  const stack = fromEnvironment("TABLE_NAME");
  if (stack === undefined) throw new ValidationError("option_invalid", "TABLE_NAME is not set; set the table's name.");
  const bucket = fromEnvironment("ARCHIVE_BUCKET_NAME");
  const hours = fromEnvironment("SWEEP_AFTER_HOURS");
  const level = fromEnvironment("LOG_LEVEL");
  return {
    stack,
    ...(bucket === undefined ? {} : { archive: `s3://${bucket}/${fromEnvironment("ARCHIVE_PREFIX") ?? ""}` }),
    ...(hours === undefined ? {} : { sweepAfterHours: Number(hours) }),
    ...(level === undefined ? {} : { logLevel: level.toLowerCase() as LogLevel }),
    ...(fromEnvironment("ZAEL_SHARED_TABLE") === "1" ? { sharedTable: true } : {}),
  };
}

/** What a runner does. */
export interface FollowOptions extends AggregatorOptions {
  /** Where in the stream to begin if there is no checkpoint. Default: `"oldest"`. */
  readonly from?: "oldest" | "latest";
  /** Whether to read to the end of the stream, sweep once, and end. Default: `false`. */
  readonly once?: boolean;
  /** Whether to sweep every hour. Default: `true`. */
  readonly sweep?: boolean;
  /** The name of this runner. Each runner needs its own. Default: a new name. */
  readonly runner?: string;
  /** Called with the metrics every minute and at the end. Default: a line like those of the log. */
  readonly onMetrics?: (values: Readonly<Partial<Record<MetricName, number>>>) => void;
}

/**
 * Does in this process what the Lambda function does: follows the stream of the table and sweeps every hour. Any
 * number of processes can do so at once; they share the work.
 *
 * ```ts
 * const runner = follow({ stack: "limits", archive: "s3://my-archive" });
 * process.once("SIGTERM", () => runner.stop());
 * await runner.done;
 * ```
 */
export function follow(options: FollowOptions): Follower {
  const { once = false, from = "oldest", sweep: sweeps = true, runner, archive, stack } = options;
  if (archive === undefined && !sweeps) {
    throw new ValidationError("option_invalid", "Nothing to do: give `archive`, or leave `sweep` on.");
  }
  requireOption("from", from, from === "oldest" || from === "latest", '"oldest" or "latest"');
  const write = options.write ?? toStandardError;
  const onMetrics =
    options.onMetrics ??
    ((values: Readonly<Partial<Record<MetricName, number>>>) =>
      write(JSON.stringify({ message: "metrics", stack, ...values })));
  const stop = new AbortController();
  let follower: Follower | undefined;
  const run = async () => {
    const aggregator = await openAggregator(options, { runner, write });
    try {
      follower = aggregator.follow({ once, from, sweeps, onMetrics });
      if (stop.signal.aborted) void follower.stop();
      return await follower.done;
    } finally {
      await aggregator.close();
    }
  };
  const done = run();
  return {
    done,
    stop: async () => {
      stop.abort();
      await follower?.stop();
      await done.catch(() => {});
    },
  };
}

/** How far a sweep goes. */
export interface SweepOptions extends AggregatorOptions {
  /** Whether to close every hour that is over, whatever `sweepAfterHours` says, in a pass of its own. Default: `false`. */
  readonly all?: boolean;
  /** How long it may take, in ms; the next sweep goes on where this one ended. Default: as long as it takes. */
  readonly timeoutMs?: number;
  /** Ends it after the current step when it is aborted. Default: none. */
  readonly signal?: AbortSignal;
}

/**
 * Closes hours of buckets that are no longer used, joins idle shards, and finishes deletions and purges that were
 * interrupted.
 *
 * ```ts
 * const { hoursClosed } = await sweep({ stack: "limits" });
 * ```
 */
export async function sweep(options: SweepOptions): Promise<SweepReport> {
  const { all = false, timeoutMs, signal } = options;
  const aggregator = await openAggregator(options, { runner: undefined, write: toStandardError });
  const untilMs = timeoutMs === undefined ? Number.POSITIVE_INFINITY : aggregator.now() + timeoutMs;
  try {
    return await aggregator.sweep({ all, untilMs, stopping: signal ?? new AbortController().signal });
  } finally {
    await aggregator.close();
  }
}

/** Which events of an archive. */
export interface ReadArchiveOptions extends ArchivePlace {
  /** Events of the namespace with this id. Default: of all. */
  readonly namespaceId?: string;
  /** Events at or after this instant. Default: from the beginning. */
  readonly fromMs?: number;
  /** Events before this instant. Default: to the end. */
  readonly toMs?: number;
}

/**
 * The events of an archive, newest first. Each is shown once, however often it was put.
 *
 * ```ts
 * for await (const event of readArchive({ archive: "s3://my-archive" })) console.log(event.action, event.entityId);
 * ```
 */
export async function* readArchive(options: ReadArchiveOptions): AsyncGenerator<ArchivedEvent, void, undefined> {
  const { namespaceId, fromMs = 0, toMs = Number.POSITIVE_INFINITY } = options;
  const objects = await openObjects(options);
  try {
    yield* eventsOf(objects, { namespaceId, fromMs, toMs });
  } finally {
    objects.close();
  }
}

/** Which archive, and the table that has its receipts. */
export interface VerifyArchiveOptions extends DynamoTable {
  /** `s3://BUCKET` or `s3://BUCKET/PREFIX`. */
  readonly archive: string;
  /** Another address for S3. Default: the address of the region. */
  readonly s3Endpoint?: string;
  /** A clock for tests, used as it is. Default: the system clock. */
  readonly clock?: { now(): number };
}

/** Compares an archive, day by day, newest first, with the receipts in the table. It reads every object. */
export async function* verifyArchive(options: VerifyArchiveOptions): AsyncGenerator<VerifiedDay, void, undefined> {
  const objects = await openObjects(options);
  try {
    const { client, clock } = await connected(options);
    try {
      const records = new Records({
        ...{ client, clock, tableName: options.stack, random: jitter, ids: systemRandom, timeoutMs: 10_000 },
      });
      yield* verifyDays(objects, new Receipts(records));
    } finally {
      await client.close();
    }
  } finally {
    objects.close();
  }
}

function toStandardOutput(line: string): void {
  process.stdout.write(`${line}\n`);
}

function toStandardError(line: string): void {
  process.stderr.write(`${line}\n`);
}
