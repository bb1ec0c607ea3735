import { given } from "../domain/names/given.ts";
import type { Clock } from "../ports/system.ts";
import type { CheckpointStore } from "./checkpoints.ts";
import { paused } from "./follow-shard.ts";
import { followStream } from "./follow-stream.ts";
import { type Log, wholeFault } from "./log.ts";
import type { MetricName, Metrics } from "./metrics.ts";
import type { StreamSource } from "./stream-source.ts";
import type { SweepReport } from "./sweep.ts";
import { type Archive, archiveBatch } from "./write-archive.ts";

/** The work of a runner. */
export interface FollowReport {
  /** Records of the stream that were read. */
  readonly records: number;
  /** Audit events that were put into the archive. */
  readonly archived: number;
  /** Objects that could not be put into the archive; they were tried again. */
  readonly archiveFailures: number;
  /** The number of times that records of the stream expired before they were read. */
  readonly gaps: number;
  /** Other failures; the log has them. */
  readonly errors: number;
  /** The report of the last sweep. */
  readonly sweep?: SweepReport;
}

/** A runner at work. */
export interface Follower {
  /** Resolves with its report when it has ended; rejects with an error that it cannot go on after. */
  readonly done: Promise<FollowReport>;
  /** Ends it after the current batch. Resolves when it has ended. */
  stop(): Promise<void>;
}

export interface FollowerParts {
  readonly runner: string;
  readonly once: boolean;
  readonly from: "oldest" | "latest";
  /** Undefined: the stream is not read. A moving checkpoint would hide its events from an archive that is added later. */
  readonly stream:
    | {
        readonly archive: Archive;
        /** The stream that the table has now. */
        readonly open: () => Promise<StreamSource & { close(): void }>;
        readonly checkpoints: (label: string, runner: string) => CheckpointStore;
      }
    | undefined;
  /** Undefined: no sweeps. With `once`, all hours that are over are closed. */
  readonly sweep:
    | ((options: { readonly once: boolean; readonly stopping: AbortSignal }) => Promise<SweepReport>)
    | undefined;
  readonly metrics: Metrics;
  readonly log: Log;
  /** Called once a minute, and at the end. */
  readonly onMetrics: (values: Readonly<Partial<Record<MetricName, number>>>) => void;
  readonly clock: Clock;
  /** A number in [0, 1). */
  readonly random: () => number;
}

const METRICS_MS = 60_000;
const SWEEP_MS = 3_600_000;
/** Random delay, so that several runners do not sweep at the same time. */
const SWEEP_SPREAD_MS = 300_000;

/** Follows the stream and sweeps every hour, until it is stopped; with `once`, does both once. */
export function startFollower(parts: FollowerParts): Follower {
  const stop = new AbortController();
  const run = new FollowerLoop(parts, stop);
  const done = run.run();
  return {
    done,
    stop: async () => {
      stop.abort();
      await done.catch(() => {});
    },
  };
}

class FollowerLoop {
  readonly #parts: FollowerParts;
  readonly #stop: AbortController;
  readonly #totals = new Map<MetricName, number>();
  #sweep: SweepReport | undefined;

  constructor(parts: FollowerParts, stop: AbortController) {
    this.#parts = parts;
    this.#stop = stop;
  }

  async run(): Promise<FollowReport> {
    const { once } = this.#parts;
    const telling = this.#tellMetrics();
    try {
      if (once) {
        await this.#follow();
        if (!this.#stop.signal.aborted) await this.#sweepNow();
      } else await this.#both();
    } finally {
      this.#stop.abort();
      await telling;
    }
    return this.#report();
  }

  /** Runs the stream and the sweeps in parallel; when one fails, both end. */
  async #both(): Promise<void> {
    const loops = [this.#follow(), this.#sweepHourly()].map((loop) =>
      loop.catch((error: unknown) => {
        this.#stop.abort();
        throw error;
      }),
    );
    for (const result of await Promise.allSettled(loops)) if (result.status === "rejected") throw result.reason;
  }

  async #follow(): Promise<void> {
    const { stream, runner, once, log, clock } = this.#parts;
    if (stream === undefined) {
      // Only sweeps run.
      if (!once) await paused(clock, Number.MAX_SAFE_INTEGER, [this.#stop.signal]);
      return;
    }
    const { archive } = stream;
    for (let state = "over"; state === "over"; ) {
      const source = await stream.open();
      try {
        state = await followStream({
          ...this.#parts,
          source,
          checkpoints: stream.checkpoints(source.label, runner),
          archive: (records, shardId) => archiveBatch(records, shardId, archive),
          startedAtMs: clock.now(),
          stopping: this.#stop.signal,
        });
      } finally {
        source.close();
      }
      if (state === "over")
        log.info("the stream was turned off and has been read to its end; looking for a new one", {});
    }
  }

  async #sweepHourly(): Promise<void> {
    const { sweep, clock, random, metrics, log } = this.#parts;
    const { signal } = this.#stop;
    while (sweep !== undefined && !signal.aborted) {
      try {
        await this.#sweepNow();
      } catch (error) {
        metrics.add("Errors", 1);
        log.error("the sweep failed; the next one continues", wholeFault(error));
      }
      await paused(clock, SWEEP_MS + Math.floor(random() * SWEEP_SPREAD_MS), [signal]);
    }
    // Without sweeps this returns at once, and the stream continues.
  }

  async #sweepNow(): Promise<void> {
    const { sweep, once } = this.#parts;
    if (sweep !== undefined) this.#sweep = await sweep({ once, stopping: this.#stop.signal });
  }

  async #tellMetrics(): Promise<void> {
    const { clock } = this.#parts;
    while (!this.#stop.signal.aborted) {
      await paused(clock, METRICS_MS, [this.#stop.signal]);
      this.#tell();
    }
  }

  #tell(): void {
    const values = this.#parts.metrics.take();
    for (const [name, value] of Object.entries(values) as [MetricName, number][]) {
      this.#totals.set(name, (this.#totals.get(name) ?? 0) + value);
    }
    this.#parts.onMetrics(values);
  }

  #report(): FollowReport {
    const total = (name: MetricName) => this.#totals.get(name) ?? 0;
    return given({
      records: total("Records"),
      archived: total("Archived"),
      archiveFailures: total("ArchiveFailures"),
      gaps: total("Gap"),
      errors: total("Errors"),
      sweep: this.#sweep,
    });
  }
}
