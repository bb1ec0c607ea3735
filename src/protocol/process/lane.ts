import type { Clock } from "../../ports/system.ts";

interface Waiting<Job, Outcome> {
  readonly job: Job;
  readonly done: (outcome: Outcome) => void;
  readonly failed: (error: unknown) => void;
}

interface LaneOptions<Job, Outcome> {
  /** Runs some jobs together and returns their outcomes in order. `tell` may report a job that is decided earlier. */
  readonly run: (jobs: readonly Job[], tell: (job: Job, outcome: Outcome) => void) => Promise<readonly Outcome[]>;
  readonly mayJoin: (first: Job, next: Job) => boolean;
  readonly waitingMax: number;
  readonly crowded: (job: Job) => Outcome;
  readonly clock: Clock;
  /** The deadline of a job. `run` keeps it for the jobs that have left. */
  readonly untilMs: (job: Job) => number;
  /** The outcome of a job whose deadline passed before it left. */
  readonly late: (job: Job) => Outcome;
}

/** The next check of the waiting jobs' deadlines. */
interface Alarm {
  readonly atMs: number;
  readonly sleepMs: number;
  readonly off: AbortController;
}

/**
 * The queue of one process for one item: one write is under way at a time; jobs that come meanwhile wait, and leave together in
 * the next. An idle lane runs the first job at once.
 */
export class Lane<Job, Outcome> {
  readonly #options: LaneOptions<Job, Outcome>;
  #waiting: Waiting<Job, Outcome>[] = [];
  #isBusy = false;
  /** One alarm for all waiting jobs: it sleeps no longer than any of them has, and stays until the lane is idle. */
  #alarm: Alarm | undefined;

  constructor(options: LaneOptions<Job, Outcome>) {
    this.#options = options;
  }

  get isBusy(): boolean {
    return this.#isBusy;
  }

  /** The outcome of a job; rejects with the signal's reason if it is aborted before it has left. */
  async add(job: Job, signal: AbortSignal | undefined): Promise<Outcome> {
    if (this.#isBusy) return this.#wait(job, signal);
    this.#isBusy = true;
    try {
      return (await this.#options.run([job], noReport))[0] as Outcome;
    } finally {
      this.#next();
    }
  }

  #wait(job: Job, signal: AbortSignal | undefined): Outcome | Promise<Outcome> {
    signal?.throwIfAborted();
    if (this.#waiting.length >= this.#options.waitingMax) return this.#options.crowded(job);
    return new Promise<Outcome>((resolve, reject) => {
      const aborted = () => this.#leave(waiting, signal?.reason);
      const unheard =
        <Value>(end: (value: Value) => void) =>
        (value: Value) => {
          signal?.removeEventListener("abort", aborted);
          end(value);
        };
      const waiting: Waiting<Job, Outcome> = { job, done: unheard(resolve), failed: unheard(reject) };
      signal?.addEventListener("abort", aborted, { once: true });
      this.#waiting.push(waiting);
      this.wakeBy(this.#options.untilMs(job));
    });
  }

  /** A waiting job gets its outcome in time, whatever the jobs before it do. */
  protected wakeBy(atMs: number): void {
    if (atMs === Number.POSITIVE_INFINITY) return;
    const { clock } = this.#options;
    const nowMs = clock.now();
    const set = this.#alarm;
    // Compare the sleep, not the alarm time: a clock that was set forward meanwhile would ring too early.
    if (set !== undefined && set.sleepMs <= atMs - nowMs) return;
    set?.off.abort();
    const dueMs = Math.min(atMs, set?.atMs ?? atMs);
    const alarm: Alarm = { atMs: dueMs, sleepMs: Math.max(1, dueMs - nowMs), off: new AbortController() };
    this.#alarm = alarm;
    clock.sleep(alarm.sleepMs, alarm.off.signal).then(
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

/** A lone job gets its outcome from `run` itself. */
function noReport(): void {}
