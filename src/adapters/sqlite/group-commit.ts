import type { CallContext } from "../../ports/bucket-store.ts";
import type { BucketRows } from "./bucket-rows.ts";
import {
  BLOCKING_RETRIES_LATER_MAX,
  BLOCKING_RETRIES_MAX,
  blockBriefly,
  type Connection,
  retryDelayMs,
} from "./connection.ts";
import { faultOf, isSqliteError, thrownFor } from "./faults.ts";
import type { Sweep } from "./sweep.ts";
import type { Watch } from "./watch.ts";

/** One call on buckets, to be done in whatever transaction it falls into. */
export interface Call<Reply> {
  readonly context: CallContext;
  /** Runs inside the transaction; throws before it has put any row. */
  work(): Reply;
  /** The answer when there was no transaction, or no telling whether it was committed. */
  unavailable(applied: "no" | "unknown", cause: unknown): Reply;
}

interface Job {
  readonly call: Call<unknown>;
  readonly queuedAtMs: number;
  readonly resolve: (reply: unknown) => void;
  readonly reject: (error: unknown) => void;
}

/** In place of a reply: what the call failed with. */
class CallError {
  readonly error: unknown;

  constructor(error: unknown) {
    this.error = error;
  }
}

type Outcome = unknown | CallError;

/** A lone caller has at most this many calls flushed in one turn of the event loop: then others have theirs. */
const FOLLOWERS_MAX = 16;

const RESOLVED = Promise.resolve();

/**
 * Joins calls that are under way together into one transaction. They are flushed with `setImmediate`: after all that is
 * ready to run has run, also the callbacks of other sockets. A flush by microtask, measured on a server with 64 sockets, commits
 * each request by itself, where this joins five.
 *
 * A caller that is alone and goes round and round has nobody to be joined with, and a turn of the event loop is a sixth of its take. Its
 * next call comes in the microtasks right after the answer to the one before: such a call, a follower, is flushed by microtask.
 */
export class GroupCommit {
  readonly #connection: Connection;
  readonly #watch: Watch;
  readonly #rows: BucketRows;
  readonly #sweep: Sweep;
  readonly #coalesce: boolean;
  #queue: Job[] = [];
  #scheduled = false;
  /** The microtasks that run now may still flush this many followers; undefined: they follow no flush of one call. */
  #followersLeft: number | undefined;
  #refusal: unknown;
  /** The last call that was queued for the next flush: what its caller's clock showed, and the steady one. */
  #lastQueued: { readonly nowMs: number; readonly steadyMs: number } | undefined;
  #onDrained: (() => void) | undefined;

  constructor(parts: {
    readonly connection: Connection;
    readonly watch: Watch;
    readonly rows: BucketRows;
    readonly sweep: Sweep;
    readonly coalesce: boolean;
  }) {
    this.#connection = parts.connection;
    this.#watch = parts.watch;
    this.#rows = parts.rows;
    this.#sweep = parts.sweep;
    this.#coalesce = parts.coalesce;
  }

  submit<Reply>(call: Call<Reply>): Promise<Reply> {
    this.#connection.requireOpen();
    return new Promise<Reply>((resolve, reject) => {
      const queuedAtMs = this.#queuedAtMs(call.context);
      this.#queue.push({ call, queuedAtMs, resolve: resolve as Job["resolve"], reject });
      if (this.#scheduled) return;
      this.#scheduled = true;
      this.#watch.openTurn();
      this.#schedule();
    });
  }

  /** In a transaction of its own, at once; blocks the thread while another process writes. */
  submitSync<Reply>(call: Call<Reply>): Reply {
    this.#connection.requireOpen();
    call.context.signal?.throwIfAborted();
    const untilMs = this.#connection.steadyMs() + call.context.timeoutMs;
    for (;;) {
      const begun = this.#connection.begin(0);
      if (begun.kind === "begun") break;
      if (this.#connection.steadyMs() > untilMs) return call.unavailable("no", begun.cause);
      blockBriefly(this.#connection.random);
    }
    const [outcome] = this.#transact([{ call }]);
    if (outcome instanceof CallError) throw outcome.error;
    return outcome as Reply;
  }

  /** Resolves when everything queued was answered. */
  drained(): Promise<void> {
    if (this.#queue.length === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#onDrained = resolve;
    });
  }

  readonly #flush = (): void => {
    this.#scheduled = false;
    this.#lastQueued = undefined;
    this.#watch.closeTurn();
    const jobs = this.#due();
    const size = this.#coalesce ? jobs.length : 1;
    for (let from = 0; from < jobs.length; from += size) {
      const cause = this.#commit(jobs.slice(from, from + size));
      this.#refusal = cause;
      if (cause === undefined) continue;
      this.#again(jobs.slice(from));
      break;
    }
    if (jobs.length === 1) this.#awaitFollower();
    else this.#followersLeft = undefined;
    if (this.#queue.length === 0) this.#onDrained?.();
  };

  // A look at the clock is a fortieth of a take: calls of one turn that were planned in the same millisecond share it.
  #queuedAtMs({ nowMs }: CallContext): number {
    const last = this.#lastQueued;
    if (last?.nowMs === nowMs) return last.steadyMs;
    const steadyMs = this.#connection.steadyMs();
    // Calls that wait for a lock wait for longer than a turn.
    this.#lastQueued = this.#refusal === undefined ? { nowMs, steadyMs } : undefined;
    return steadyMs;
  }

  #schedule(): void {
    if (this.#followersLeft === undefined || this.#followersLeft === 0) setImmediate(this.#flush);
    else {
      this.#followersLeft--;
      RESOLVED.then(this.#flush);
    }
  }

  #awaitFollower(): void {
    if (this.#followersLeft !== undefined) return;
    this.#followersLeft = FOLLOWERS_MAX;
    // Microtasks end where the next tick begins; scheduled by this function itself, it would come before them.
    RESOLVED.then(this.#endWithMicrotasks);
  }

  readonly #endWithMicrotasks = (): void => process.nextTick(this.#noFollowers);

  readonly #noFollowers = (): void => {
    this.#followersLeft = undefined;
  };

  /** Answers why the lock could not be had, if so. */
  #commit(jobs: readonly Job[]): unknown {
    let outcomes: readonly Outcome[];
    try {
      const retriesMax = this.#refusal === undefined ? BLOCKING_RETRIES_MAX : BLOCKING_RETRIES_LATER_MAX;
      const begun = this.#connection.begin(retriesMax);
      if (begun.kind === "refused") return begun.cause;
      outcomes = this.#transact(jobs);
    } catch (error) {
      outcomes = jobs.map(() => new CallError(error));
    }
    for (let i = 0; i < jobs.length; i++) settle(jobs[i] as Job, outcomes[i]);
    return undefined;
  }

  // Meanwhile the event loop goes on; calls that come join these.
  #again(jobs: Job[]): void {
    this.#queue = jobs;
    this.#scheduled = true;
    setTimeout(this.#flush, retryDelayMs(this.#connection.random));
  }

  // Calls that were aborted or have waited too long are answered here; nothing was done for them.
  #due(): Job[] {
    const queue = this.#queue;
    this.#queue = [];
    const nowMs = this.#connection.steadyMs();
    return queue.filter((job) => {
      const { signal, timeoutMs } = job.call.context;
      if (signal?.aborted) job.reject(signal.reason);
      else if (nowMs - job.queuedAtMs > timeoutMs)
        job.resolve(job.call.unavailable("no", this.#refusal ?? tooSlow(job, nowMs)));
      else return true;
      return false;
    });
  }

  #transact(jobs: readonly Pick<Job, "call">[]): readonly Outcome[] {
    let committing = false;
    try {
      this.#watch.refresh();
      const outcomes = jobs.map(({ call }) => attempt(call, this.#connection.file));
      const inserted = this.#rows.write();
      this.#sweep.run(inserted, (jobs[0] as Job).call.context.nowMs);
      committing = true;
      this.#connection.commit();
      this.#rows.committed();
      return outcomes;
    } catch (error) {
      this.#connection.rollback();
      this.#rows.rolledBack();
      if (faultOf(error) === "other") return jobs.map(() => new CallError(thrownFor(error, this.#connection.file)));
      // A commit that fails on the disk may yet be found in the log after a crash.
      return jobs.map(({ call }) => call.unavailable(committing ? "unknown" : "no", error));
    }
  }
}

// A call that is wrong fails alone; a fault of the file fails the transaction and all its calls.
function attempt(call: Call<unknown>, file: string): Outcome {
  try {
    return call.work();
  } catch (error) {
    if (isSqliteError(error)) throw error;
    return new CallError(thrownFor(error, file));
  }
}

function settle(job: Job, outcome: Outcome): void {
  if (outcome instanceof CallError) job.reject(outcome.error);
  else job.resolve(outcome);
}

function tooSlow(job: Job, nowMs: number): Error {
  const waitedMs = nowMs - job.queuedAtMs;
  return new Error(
    `The event loop was blocked for ${waitedMs} ms, longer than the timeout of ${job.call.context.timeoutMs} ms.`,
  );
}
