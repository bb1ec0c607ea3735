/** One piece of work that waits for its turn at an item. */
interface Waiting<Job, Outcome> {
  readonly job: Job;
  readonly done: (outcome: Outcome) => void;
  readonly failed: (error: unknown) => void;
}

export interface LaneOptions<Job, Outcome> {
  /** Does some jobs together; an outcome each, in order. */
  readonly run: (jobs: readonly Job[]) => Promise<readonly Outcome[]>;
  /** Whether a job that waits may leave together with the first that waits. */
  readonly mayJoin: (first: Job, next: Job) => boolean;
  readonly waitingMax: number;
  /** The outcome of a job for which there is no room. */
  readonly crowded: (job: Job) => Outcome;
}

/**
 * The way of one process to one item: one write is under way at a time; what comes meanwhile waits, and leaves together in
 * the next. An idle lane lets the first one go at once.
 */
export class Lane<Job, Outcome> {
  readonly #options: LaneOptions<Job, Outcome>;
  #waiting: Waiting<Job, Outcome>[] = [];
  #isBusy = false;

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
      return (await this.#options.run([job]))[0] as Outcome;
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
    });
  }

  #next(): void {
    if (this.#waiting.length === 0) {
      this.#isBusy = false;
      return;
    }
    const [first, ...rest] = this.#waiting as [Waiting<Job, Outcome>, ...Waiting<Job, Outcome>[]];
    const joined = [first];
    const others: Waiting<Job, Outcome>[] = [];
    for (const one of rest) (this.#options.mayJoin(first.job, one.job) ? joined : others).push(one);
    this.#waiting = others;
    this.#options
      .run(joined.map(({ job }) => job))
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
