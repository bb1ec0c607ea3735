import type { Clock } from "../ports/system.ts";
import { type Log, wholeFault } from "./log.ts";
import { emfLine, type Metrics } from "./metrics.ts";
import { planArchive } from "./plan-archive.ts";
import { createdAtMs, type StreamRecord, sequenceOf } from "./stream-record.ts";
import type { SweepReport } from "./sweep.ts";
import { type Archive, archiveBatch } from "./write-archive.ts";

/** What Lambda hands over: a batch of the stream, or the tick of a schedule. */
export interface AggregatorEvent {
  /** The batch; absent: it is a tick. */
  readonly Records?: readonly StreamRecord[];
}

/** As much of Lambda's context as is used. */
export interface AggregatorContext {
  /** How long the invocation may still take, in ms. */
  getRemainingTimeInMillis?(): number;
}

/** Of a batch: from which record on Lambda shall come again; none: all is done. Of a tick: what was swept. */
export type AggregatorAnswer = BatchAnswer | SweepReport;

/** The answer to a batch, by Lambda's protocol for partial ones. */
export interface BatchAnswer {
  /** The sequence number from which on the batch is to come again. */
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
