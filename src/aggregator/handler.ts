import type { Clock } from "../ports/system.ts";
import { type Log, wholeFault } from "./log.ts";
import { emfLine, type Metrics } from "./metrics.ts";
import { createdAtMs, type StreamRecord, sequenceOf } from "./stream-record.ts";
import type { SweepReport } from "./sweep.ts";
import { type Archive, archiveBatch } from "./write-archive.ts";

/** What Lambda hands over: a batch of the stream, or the tick of a schedule. */
export interface AggregatorEvent {
  readonly Records?: readonly StreamRecord[];
}

/** As much of Lambda's context as is used. */
export interface AggregatorContext {
  getRemainingTimeInMillis?(): number;
}

/** Of a batch: from which record on Lambda shall come again; none: all is done. Of a tick: what was swept. */
export type AggregatorAnswer =
  | { readonly batchItemFailures: readonly { readonly itemIdentifier: string }[] }
  | SweepReport;

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

/** So long before its end an invocation stops: what was done is then told. */
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
    return await parts.sweep(clock.now() + Math.max(0, leftMs - END_MARGIN_MS));
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
    log.debug("no archive is set; the batch is passed over", { records: records.length });
    return { batchItemFailures: [] };
  }
  const { failedAt } = await archiveBatch(records, undefined, archive);
  if (failedAt === undefined) return { batchItemFailures: [] };
  // Lambda comes again from the lowest sequence number that it is told: one says it all.
  return { batchItemFailures: [{ itemIdentifier: sequenceOf(records[failedAt]!) }] };
}
