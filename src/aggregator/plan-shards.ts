import type { Checkpoint } from "./checkpoints.ts";
import type { StreamPosition, StreamShard } from "./stream-source.ts";

/** A runner's view of a stream at one instant. */
export interface StreamView {
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
export function planShards(view: StreamView): ShardPlan {
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
export function startOf(shard: StreamShard, from: "oldest" | "latest", view: StreamView): ShardStart {
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
