import { isRunnerItem } from "../adapters/dynamodb/schema-leases.ts";
import type { Clock } from "../ports/system.ts";
import { type CheckpointStore, LEASE_MS } from "./checkpoints.ts";
import { type Log, wholeFault } from "./log.ts";
import type { Metrics } from "./metrics.ts";
import {
  createdAtMs,
  keyOfRecord,
  type StreamPosition,
  type StreamRecord,
  type StreamSource,
  sequenceOf,
} from "./stream-source.ts";
import type { Archived } from "./write-archive.ts";

export interface FollowParts {
  readonly source: StreamSource;
  readonly checkpoints: CheckpointStore;
  readonly archive: (records: readonly StreamRecord[], shardId: string) => Promise<Archived>;
  /** Reads to the current end of the stream, and stops at a batch that cannot be archived. */
  readonly once: boolean;
  readonly startedAtMs: number;
  readonly metrics: Metrics;
  readonly log: Log;
  readonly clock: Clock;
  /** Aborted when the runner is to end. */
  readonly stopping: AbortSignal;
}

/** The result of following a shard. */
export type ShardOutcome =
  /** The shard is read to its end. */
  | { readonly kind: "finished" }
  /** With `once`: the shard is read to its current end. */
  | { readonly kind: "caughtUp" }
  /** Another runner has it now. */
  | { readonly kind: "lost" }
  | { readonly kind: "stopped" }
  | { readonly kind: "failed"; readonly cause: unknown };

/** The pause between two reads of an empty shard. */
const POLL_MS = 1_000;
const BUSY_MAX_MS = 10_000;
const RENEW_MS = LEASE_MS / 3;
/** With `once`, a shard is at its end after this many reads without a record; on AWS a single empty read means nothing. */
const EMPTY_READS = 5;
const EMPTY_PAUSE_MS = 200;
/** With `once`, records this much younger than the start end the run too: a busy table never has an empty read. */
const YOUNGER_MS = 60_000;

/** Follows one shard whose lease is held, until it ends or is stopped. */
export async function followShard(
  shardId: string,
  start: StreamPosition,
  parts: FollowParts,
  released: AbortSignal,
): Promise<ShardOutcome> {
  const { source, checkpoints, archive, once, metrics, log, clock, stopping } = parts;
  const ends = () => stopping.aborted || released.aborted;
  let position = start;
  let iterator: string | undefined;
  let sequence = start.kind === "after" ? start.sequence : undefined;
  let renewedAtMs = clock.now();
  let failures = 0;
  let emptyReads = 0;
  const gap = () => {
    metrics.add("Gap", 1);
    log.warn("records expired before they were read", { shard: shardId });
    position = { kind: "oldest" };
    iterator = undefined;
  };
  const save = async (): Promise<boolean> => {
    renewedAtMs = clock.now();
    return checkpoints.save(shardId, sequence);
  };
  const pause = (ms: number) => paused(clock, ms, [stopping, released]);
  while (!ends()) {
    if (clock.now() - renewedAtMs >= RENEW_MS && !(await save())) return { kind: "lost" };
    const step = iterator === undefined ? await source.open(shardId, position) : await source.read(iterator);
    switch (step.kind) {
      case "opened":
        iterator = step.iterator;
        continue;
      case "expired":
        position = sequence === undefined ? position : { kind: "after", sequence };
        iterator = undefined;
        continue;
      case "trimmed":
        gap();
        continue;
      case "busy":
        log.warn("the stream does not respond", { shard: shardId, ...wholeFault(step.cause) });
        if (once && ++failures > EMPTY_READS) return { kind: "failed", cause: step.cause };
        await pause(backOffMs(failures++));
        continue;
    }
    const { records, next } = step;
    // Checkpoints and leases appear in the stream themselves. If they caused another checkpoint, it would never end.
    const isEmpty = records.every((record) => isRunnerItem(keyOfRecord(record)));
    if (records.length > 0) {
      metrics.add("Records", records.length);
      const atMs = createdAtMs(records.at(-1)!);
      if (atMs !== undefined) metrics.measure("StreamAgeMs", Math.max(0, clock.now() - atMs));
      for (;;) {
        const { failedAt, cause } = await archive(records, shardId);
        if (failedAt === undefined) break;
        // The checkpoint is not moved until the whole batch is in the archive.
        if (once) return { kind: "failed", cause };
        await pause(backOffMs(failures++));
        if (ends()) return { kind: "stopped" };
        if (!(await save())) return { kind: "lost" };
      }
      sequence = sequenceOf(records.at(-1)!);
      if (!isEmpty && !(await save())) return { kind: "lost" };
    }
    failures = 0;
    if (next === undefined) {
      return (await checkpoints.finish(shardId, sequence)) ? { kind: "finished" } : { kind: "lost" };
    }
    iterator = next;
    emptyReads = isEmpty ? emptyReads + 1 : 0;
    if (once && (emptyReads >= EMPTY_READS || isYounger(records, parts))) return { kind: "caughtUp" };
    if (isEmpty) await pause(once ? EMPTY_PAUSE_MS : POLL_MS);
  }
  return { kind: "stopped" };
}

function isYounger(records: readonly StreamRecord[], { startedAtMs }: FollowParts): boolean {
  const last = records.at(-1);
  return last !== undefined && (createdAtMs(last) ?? 0) > startedAtMs + YOUNGER_MS;
}

function backOffMs(failures: number): number {
  return Math.min(BUSY_MAX_MS, POLL_MS * 2 ** Math.min(failures, 10));
}

/** Waits, at most until one of the signals. */
export async function paused(clock: Clock, ms: number, signals: readonly AbortSignal[]): Promise<void> {
  await clock.sleep(ms, AbortSignal.any([...signals])).catch(() => {});
}
