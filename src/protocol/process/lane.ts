import type { Clock } from "../../ports/system.ts";

/** One piece of work that waits for its turn at an item. */
interface Waiting<Job, Outcome> {
  readonly job: Job;
  readonly done: (outcome: Outcome) => void;
  readonly failed: (error: unknown) => void;
}

interface LaneOptions<Job, Outcome> {
  /** Does some jobs together; an outcome each, in order. `tell` may be called before that, for a job that is decided earlier. */
  readonly run: (jobs: readonly Job[], tell: (job: Job, outcome: Outcome) => void) => Promise<readonly Outcome[]>;
  /** Whether a job that waits may leave together with the first that waits. */
  readonly mayJoin: (first: Job, next: Job) => boolean;
  readonly waitingMax: number;
  /** The outcome of a job for which there is no room. */
  readonly crowded: (job: Job) => Outcome;
  readonly clock: Clock;
  /** When a job must have its outcome. `run` keeps to it for the jobs that have left. */
  readonly untilMs: (job: Job) => number;
  /** The outcome of a job whose time was over before it left. */
  readonly late: (job: Job) => Outcome;
}

/** When those who wait are looked at next. */
interface Alarm {
  readonly atMs: number;
  /** So long it sleeps. */
  readonly forMs: number;
  readonly off: AbortController;
}

/**
 * The way of one process to one item: one write is under way at a time; what comes meanwhile waits, and leaves together in
 * the next. An idle lane lets the first one go at once.
 */
export class Lane<Job, Outcome> {
  readonly #options: LaneOptions<Job, Outcome>;
  #waiting: Waiting<Job, Outcome>[] = [];
  #isBusy = false;
  /** One for all who wait: it sleeps no longer than any of them has; kept until the lane is idle. */
  #alarm: Alarm | undefined;

  constructor(options: LaneOptions<Job, Outcome>) {
    this.#options = options;
  }

  /** Whether a write is under way. */
  get isBusy(): boolean {
    return this.#isBusy;
  }

  /** The outcome of a job; rejects with the signal's reason when it is aborted before it has left. */
  async add(job: Job, signal: AbortSignal | undefined): Promise<Outcome> {
    if (this.#isBusy) return this.#wait(job, signal);
    this.#isBusy = true;
    try {
      return (await this.#options.run([job], untold))[0] as Outcome;
    } finally {
      this.#next();
    }
  }

  #wait(job: Job, signal: AbortSignal | undefined): Outcome | Promise<Outcome> {
    signal?.throwIfAborted();
    if (this.#waiting.length >= this.#options.waitingMax) return this.#options.crowded(job);
    return new Promise<Outcome>((resolve, reject) => {
      const aborted = () => this.#leave(waiting, signal?.reason);
      const waiting: Waiting<Job, Outcome> = {
        job,
        done: (outcome) => {
          signal?.removeEventListener("abort", aborted);
          resolve(outcome);
        },
        failed: (error) => {
          signal?.removeEventListener("abort", aborted);
          reject(error);
        },
      };
      signal?.addEventListener("abort", aborted, { once: true });
      this.#waiting.push(waiting);
      this.wakeBy(this.#options.untilMs(job));
    });
  }

  /** Whatever the jobs before it do, who waits is answered in its time. */
  protected wakeBy(atMs: number): void {
    if (atMs === Number.POSITIVE_INFINITY) return;
    const { clock } = this.#options;
    const nowMs = clock.now();
    const set = this.#alarm;
    // By how long it sleeps, not by when it should ring: a clock that was put forward meanwhile shows that too early.
    if (set !== undefined && set.forMs <= atMs - nowMs) return;
    set?.off.abort();
    const dueMs = Math.min(atMs, set?.atMs ?? atMs);
    const alarm: Alarm = { atMs: dueMs, forMs: Math.max(1, dueMs - nowMs), off: new AbortController() };
    this.#alarm = alarm;
    clock.sleep(alarm.forMs, alarm.off.signal).then(
      () => {
        if (this.#alarm === alarm) this.#endLate();
      },
      () => {},
    );
  }

  #endLate(): void {
    this.#alarm = undefined;
    const { clock, untilMs, late } = this.#options;
    const nowMs = clock.now();
    const waiting: Waiting<Job, Outcome>[] = [];
    let nextMs = Number.POSITIVE_INFINITY;
    for (const one of this.#waiting) {
      const atMs = untilMs(one.job);
      if (atMs <= nowMs) one.done(late(one.job));
      else {
        waiting.push(one);
        nextMs = Math.min(nextMs, atMs);
      }
    }
    this.#waiting = waiting;
    this.wakeBy(nextMs);
  }

  #next(): void {
    if (this.#waiting.length === 0) {
      this.#isBusy = false;
      this.#alarm?.off.abort();
      this.#alarm = undefined;
      return;
    }
    const [first, ...rest] = this.#waiting as [Waiting<Job, Outcome>, ...Waiting<Job, Outcome>[]];
    const joined = [first];
    const others: Waiting<Job, Outcome>[] = [];
    for (const one of rest) (this.#options.mayJoin(first.job, one.job) ? joined : others).push(one);
    this.#waiting = others;
    this.#options
      .run(
        joined.map(({ job }) => job),
        (job, outcome) => joined.find((one) => one.job === job)?.done(outcome),
      )
      .then(
        (outcomes) => {
          for (const [i, { done }] of joined.entries()) done(outcomes[i] as Outcome);
        },
        (error: unknown) => {
          for (const { failed } of joined) failed(error);
        },
      )
      .finally(() => this.#next());
  }

  #leave(waiting: Waiting<Job, Outcome>, reason: unknown): void {
    const before = this.#waiting.length;
    this.#waiting = this.#waiting.filter((other) => other !== waiting);
    if (this.#waiting.length < before) waiting.failed(reason);
  }
}

/** Who is alone hears of its outcome when there is one. */
function untold(): void {}
