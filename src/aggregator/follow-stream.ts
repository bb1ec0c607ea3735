import { LimiterError } from "../domain/names/errors.ts";
import type { Checkpoint } from "./checkpoints.ts";
import { type FollowParts, followShard, paused, type ShardOutcome } from "./follow-shard.ts";
import { wholeFault } from "./log.ts";
import type { StreamPosition, StreamShard } from "./stream-source.ts";

export interface StreamFollowerParts extends FollowParts {
  readonly runner: string;
  /** The start of a shard without a checkpoint. */
  readonly from: "oldest" | "latest";
}

/** The pause between two looks at shards and leases; a shard that ends shortens it. */
const LOOK_MS = 10_000;
const LOOK_ONCE_MS = 250;
/** With `once`, the run ends after this many failures to list the shards. */
const LOOKS_FAILED_MAX = 5;

/**
 * Follows a stream together with other runners. Resolves when it is stopped, when the stream was turned off and is read
 * to its end ("over"), and with `once` when it is read to its current end.
 */
export async function followStream(parts: StreamFollowerParts): Promise<"stopped" | "over" | "caughtUp"> {
  return new StreamFollower(parts).run();
}

interface Work {
  readonly release: AbortController;
  readonly ended: Promise<void>;
}

class StreamFollower {
  readonly #parts: StreamFollowerParts;
  readonly #working = new Map<string, Work>();
  /** With `once`: shards that are done for this run. */
  readonly #caughtUp = new Set<string>();
  /** The end of other runners' leases when they were first seen, by shard. */
  readonly #foreign = new Map<string, number>();
  #wake = new AbortController();
  #failure: { readonly cause: unknown } | undefined;

  constructor(parts: StreamFollowerParts) {
    this.#parts = parts;
  }

  async run(): Promise<"stopped" | "over" | "caughtUp"> {
    const { checkpoints, clock, once, stopping } = this.#parts;
    try {
      for (let failures = 0; !stopping.aborted; ) {
        if (this.#failure !== undefined) throw this.#failure.cause;
        this.#wake = new AbortController();
        const ended = await this.#look().then(
          (state) => {
            failures = 0;
            return state;
          },
          (error: unknown) => {
            if (this.#isHopeless(error) || (once && ++failures >= LOOKS_FAILED_MAX)) throw error;
            this.#parts.metrics.add("Errors", 1);
            this.#parts.log.error("shards and leases could not be read", wholeFault(error));
            return undefined;
          },
        );
        if (ended !== undefined) return ended;
        await paused(clock, once ? LOOK_ONCE_MS : LOOK_MS, [stopping, this.#wake.signal]);
      }
      return "stopped";
    } finally {
      for (const { release } of this.#working.values()) release.abort();
      await Promise.all([...this.#working.values()].map(({ ended }) => ended));
      await checkpoints.leave().catch(() => {});
    }
  }

  /** Looks at shards and leases, and begins or ends following shards. An answer ends the run. */
  async #look(): Promise<"over" | "caughtUp" | undefined> {
    const { source, checkpoints, clock, once, runner } = this.#parts;
    const { shards, isOver } = await source.shards();
    const runners = await checkpoints.attend();
    const known = await checkpoints.list();
    const mine = new Set(this.#working.keys());
    const done = this.#caughtUp;
    const view: StreamView = { shards, checkpoints: known, mine, done, runner, runners, nowMs: clock.now() };
    const plan = planShards(view);
    for (const id of plan.lost) await this.#giveUp(id);
    for (const id of plan.release) this.#working.get(id)?.release.abort();
    for (const id of plan.take) {
      const shard = shards.find((each) => each.id === id);
      if (shard !== undefined && (await checkpoints.take(id))) await this.#begin(shard, view);
    }
    if (isOver && plan.ready.length === 0) return "over";
    if (once && plan.ready.every((id) => this.#caughtUp.has(id) || this.#isFollowed(id, known.get(id))))
      return "caughtUp";
    return undefined;
  }

  async #begin(shard: StreamShard, view: StreamView): Promise<void> {
    const { checkpoints, metrics, log, from } = this.#parts;
    const start = startOf(shard, from, view);
    if (start.kind === "skip") {
      await checkpoints.finish(shard.id, undefined);
      return;
    }
    if (start.gap) {
      metrics.add("Gap", 1);
      log.warn("the stream was read before, but all of those records have expired; some may have been missed", {});
    }
    log.debug("following", { shard: shard.id, position: start.position.kind });
    const release = new AbortController();
    const ended = followShard(shard.id, start.position, this.#parts, release.signal)
      .catch((cause: unknown): ShardOutcome => ({ kind: "failed", cause }))
      .then((outcome) => this.#ended(shard.id, outcome));
    this.#working.set(shard.id, { release, ended });
  }

  async #ended(id: string, outcome: ShardOutcome): Promise<void> {
    const { checkpoints, metrics, log, once } = this.#parts;
    log.debug("ended", { shard: id, outcome: outcome.kind });
    if (outcome.kind === "caughtUp") this.#caughtUp.add(id);
    if (outcome.kind === "failed") {
      metrics.add("Errors", 1);
      if (once || this.#isHopeless(outcome.cause)) this.#failure ??= { cause: outcome.cause };
      log.error("a shard could not be followed", { shard: id, ...wholeFault(outcome.cause) });
    }
    if (outcome.kind !== "finished" && outcome.kind !== "lost") await checkpoints.release(id).catch(() => {});
    this.#working.delete(id);
    this.#wake.abort();
  }

  /** Gives up a shard that is gone with unread records. One runner reports it. */
  async #giveUp(id: string): Promise<void> {
    const { checkpoints, metrics, log } = this.#parts;
    if (this.#working.has(id) || !(await checkpoints.giveUp(id))) return;
    metrics.add("Gap", 1);
    log.warn("a shard expired before it was read to its end", { shard: id });
  }

  /** True if a live runner has the shard: it has renewed its lease since it was first seen. */
  #isFollowed(id: string, checkpoint: Checkpoint | undefined): boolean {
    const { runner, clock } = this.#parts;
    if (checkpoint?.owner === undefined || checkpoint.owner === runner) return false;
    if (checkpoint.untilMs < clock.now()) return false;
    const seenMs = this.#foreign.get(id) ?? checkpoint.untilMs;
    this.#foreign.set(id, seenMs);
    return checkpoint.untilMs > seenMs;
  }

  #isHopeless(error: unknown): boolean {
    return error instanceof LimiterError && error.code !== "unavailable" && error.code !== "archive_unavailable";
  }
}

/** A runner's view of a stream at one instant. */
interface StreamView {
  readonly shards: readonly StreamShard[];
  readonly checkpoints: ReadonlyMap<string, Checkpoint>;
  /** Shards that this runner reads now. */
  readonly mine: ReadonlySet<string>;
  /** Shards that it is done with, though they continue. */
  readonly done: ReadonlySet<string>;
  readonly runner: string;
  readonly runners: number;
  readonly nowMs: number;
}

interface ShardPlan {
  /** Shards that may be read: not done yet, and their parents are done or gone. */
  readonly ready: readonly string[];
  /** Shards to begin with. */
  readonly take: readonly string[];
  /** Shards to leave to others. */
  readonly release: readonly string[];
  /** Shards with a checkpoint that are gone with unread records. */
  readonly lost: readonly string[];
}

/** Distributes shards over runners: parents before their children, and at most a fair share for each runner. */
function planShards(view: StreamView): ShardPlan {
  const { shards, checkpoints, mine, done, runner, runners, nowMs } = view;
  const known = new Set(shards.map(({ id }) => id));
  const isDone = (id: string) => checkpoints.get(id)?.isFinished === true;
  const ready = shards
    .filter(({ id, parentId }) => !isDone(id) && (parentId === undefined || !known.has(parentId) || isDone(parentId)))
    .map(({ id }) => id);
  const fair = Math.ceil(ready.length / Math.max(1, runners));
  const own = ready.filter((id) => mine.has(id));
  const free = ready.filter((id) => {
    if (mine.has(id) || done.has(id)) return false;
    const { owner, untilMs = 0 } = checkpoints.get(id) ?? {};
    return owner === undefined || owner === runner || untilMs < nowMs;
  });
  return {
    ready,
    take: free.slice(0, Math.max(0, fair - own.length)),
    release: own.slice(fair),
    lost: [...checkpoints].filter(([id, { isFinished }]) => !isFinished && !known.has(id)).map(([id]) => id),
  };
}

type ShardStart =
  | { readonly kind: "read"; readonly position: StreamPosition; readonly gap: boolean }
  /** Nothing in the shard is wanted. */
  | { readonly kind: "skip" };

/**
 * The position to begin at in a shard. `from` applies without a checkpoint; a child of a shard that was read is read
 * from its beginning. A gap: the stream was read before, and all of those records are gone, so others may have been
 * missed.
 */
function startOf(shard: StreamShard, from: "oldest" | "latest", view: StreamView): ShardStart {
  const { checkpoints, shards } = view;
  const sequence = checkpoints.get(shard.id)?.sequence;
  if (sequence !== undefined) return { kind: "read", position: { kind: "after", sequence }, gap: false };
  const parent = shard.parentId === undefined ? undefined : checkpoints.get(shard.parentId);
  if (from === "latest" && parent?.isFinished !== true) {
    return shard.isClosed ? { kind: "skip" } : { kind: "read", position: { kind: "latest" }, gap: false };
  }
  // A shard in common with earlier reads means no gap: its reader has seen the shards after it. Shards lost before
  // their end are reported already.
  const isStrange =
    checkpoints.size > 0 &&
    [...checkpoints.values()].every(({ isFinished }) => isFinished) &&
    !shards.some(({ id }) => checkpoints.has(id));
  return { kind: "read", position: { kind: "oldest" }, gap: isStrange };
}
