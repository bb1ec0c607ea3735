import type { Clock } from "../ports/system.ts";
import { type Log, wholeFault } from "./log.ts";
import { emfLine, type Metrics } from "./metrics.ts";
import { planArchive } from "./plan-archive.ts";
import { createdAtMs, type StreamRecord, sequenceOf } from "./stream-source.ts";
import type { SweepReport } from "./sweep.ts";
import { type Archive, archiveBatch } from "./write-archive.ts";

/** The event of an invocation: a batch of the stream, or the tick of a schedule. */
export interface AggregatorEvent {
  /** The batch. Absent: the event is a tick. */
  readonly Records?: readonly StreamRecord[];
}

/** The part of Lambda's context that the function uses. */
export interface AggregatorContext {
  /** The time left for the invocation, in ms. */
  getRemainingTimeInMillis?(): number;
}

/** The answer to a batch, or the report of a sweep. */
export type AggregatorAnswer = BatchAnswer | SweepReport;

/** The answer to a batch, by Lambda's protocol for partial failures. */
export interface BatchAnswer {
  /** The sequence number from which Lambda sends the batch again; empty: all is done. */
  readonly batchItemFailures: readonly { readonly itemIdentifier: string }[];
}

export interface HandlerParts {
  readonly stack: string;
  /** Undefined: nothing is archived. */
  readonly archive: Archive | undefined;
  /** Sweeps until then; the next call continues. */
  readonly sweep: (untilMs: number) => Promise<SweepReport>;
  readonly metrics: Metrics;
  readonly log: Log;
  /** Receives a line of metrics. */
  readonly write: (line: string) => void;
  readonly clock: Clock;
}

/**
 * An invocation stops this long before its end, and reports its work. The margin is at least a quarter of its time, so
 * that a sweep of a large table, which uses all of it, stays below the duration of the alarm.
 */
const END_MARGIN_MS = 10_000;
/** The time without a context. */
const TIME_DEFAULT_MS = 60_000;

/** Handles both kinds of events. It never reports something as archived that is not. */
export async function handle(
  event: AggregatorEvent,
  context: AggregatorContext,
  parts: HandlerParts,
): Promise<AggregatorAnswer> {
  const { stack, metrics, log, write, clock } = parts;
  try {
    if (Array.isArray(event.Records)) return await handleBatch(event.Records, parts);
    const leftMs = context.getRemainingTimeInMillis?.() ?? TIME_DEFAULT_MS;
    const marginMs = Math.max(END_MARGIN_MS, Math.ceil(leftMs / 4));
    return await parts.sweep(clock.now() + Math.max(0, leftMs - marginMs));
  } catch (error) {
    metrics.add("Errors", 1);
    log.error("failed", wholeFault(error));
    throw error;
  } finally {
    write(emfLine(metrics.take(), { stack, nowMs: clock.now() }));
  }
}

async function handleBatch(
  records: readonly StreamRecord[],
  { archive, metrics, log, clock }: HandlerParts,
): Promise<AggregatorAnswer> {
  metrics.add("Records", records.length);
  const oldestMs = records[0] === undefined ? undefined : createdAtMs(records[0]);
  if (oldestMs !== undefined) metrics.measure("StreamAgeMs", Math.max(0, clock.now() - oldestMs));
  if (archive === undefined) {
    const { objects } = planArchive(records);
    const events = objects.reduce((sum, { lines }) => sum + lines.length, 0);
    if (events > 0) log.warn("audit events expired, and no archive is set", { events });
    return { batchItemFailures: [] };
  }
  const { failedAt } = await archiveBatch(records, undefined, archive);
  if (failedAt === undefined) return { batchItemFailures: [] };
  // Lambda repeats the batch from the lowest reported sequence number, so one is enough.
  return { batchItemFailures: [{ itemIdentifier: sequenceOf(records[failedAt]!) }] };
}
