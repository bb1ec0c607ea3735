import type { Clock } from "../ports/system.ts";
import { type Log, wholeFault } from "./log.ts";
import { emfLine, type Metrics } from "./metrics.ts";
import { planArchive } from "./plan-archive.ts";
import { createdAtMs, type StreamRecord, sequenceOf } from "./stream-record.ts";
import type { SweepReport } from "./sweep.ts";
import { type Archive, archiveBatch } from "./write-archive.ts";

/** The event of an invocation: a batch of the stream, or the tick of a schedule. */
export interface AggregatorEvent {
  /** The batch. Absent: the event is a tick. */
  readonly Records?: readonly StreamRecord[];
}

/** The part of Lambda's context that the function uses. */
export interface AggregatorContext {
  /** How long the invocation may still take, in ms. */
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
  /** Sweeps until then, and goes on next time. */
  readonly sweep: (untilMs: number) => Promise<SweepReport>;
  readonly metrics: Metrics;
  readonly log: Log;
  /** Takes a line of metrics. */
  readonly write: (line: string) => void;
  readonly clock: Clock;
}

/**
 * So long before its end an invocation stops: what was done is then told. A quarter of its time at least, so that a sweep of a large table, which
 * uses what it may, stays below the duration that is worth an alarm.
 */
const END_MARGIN_MS = 10_000;
/** Where no context says how long there is. */
const TIME_DEFAULT_MS = 60_000;

/** One function for both of its events. It never answers that something is archived which is not. */
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
  // Lambda comes again from the lowest sequence number that it is told: one says it all.
  return { batchItemFailures: [{ itemIdentifier: sequenceOf(records[failedAt]!) }] };
}
