import { Problem } from "./problem.ts";

/** Deadlines are looked at every so many ms: none is answered early, and none more than this late. */
const TICK_MS = 250;

/** A request that has begun; under way once its body is there. */
export interface Underway {
  isCounted: boolean;
  /** Rejects its answer with this, unless it has one. */
  fail: (problem: Problem) => void;
  /** Aborted when the time is over; made when somebody asks for it. */
  controller: AbortController | undefined;
  /** In ticks. */
  deadline: number;
}

/**
 * The requests under way: how many there may be, and how long each may take. One whose body has not come yet only waits: bodies
 * that are never sent to their end must not keep out those that are.
 */
export class Inflight {
  readonly #max: number;
  readonly #underway = new Set<Underway>();
  readonly #onIdle: (() => void)[] = [];
  #count = 0;
  #tick = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(max: number) {
    this.#max = max;
  }

  get isFull(): boolean {
    return this.#count >= this.#max;
  }

  /** Runs a request with at most so many ms for its body. */
  run<Value>(bodyMs: number, work: (underway: Underway) => Promise<Value>): Promise<Value> {
    const underway: Underway = {
      isCounted: false,
      fail: () => {},
      controller: undefined,
      deadline: this.#in(bodyMs),
    };
    this.#underway.add(underway);
    this.#timer ??= setInterval(() => this.#look(), TICK_MS).unref();
    const ended = () => {
      this.#underway.delete(underway);
      if (underway.isCounted) this.#count -= 1;
      if (this.#underway.size === 0) for (const wake of this.#onIdle.splice(0)) wake();
    };
    return new Promise<Value>((resolve, reject) => {
      underway.fail = (problem) => {
        reject(problem);
        underway.controller?.abort(problem);
      };
      work(underway).then(
        (value) => {
          ended();
          resolve(value);
        },
        (error) => {
          ended();
          reject(error);
        },
      );
    });
  }

  /** The body is there: from here on it is under way, and its answer may take so many ms. */
  begin(underway: Underway, answerMs: number): void {
    if (this.isFull) {
      throw new Problem("overloaded", `There are ${this.#max} requests under way; try again in a second.`);
    }
    underway.isCounted = true;
    this.#count += 1;
    this.extend(underway, answerMs);
  }

  /** The answer may take so many ms from now. */
  extend(underway: Underway, answerMs: number): void {
    underway.deadline = this.#in(answerMs);
  }

  /** Answers all that are still under way with this. */
  failAll(problem: Problem): void {
    for (const underway of [...this.#underway]) underway.fail(problem);
  }

  /** Resolves when none is under way. */
  idle(): Promise<void> {
    return this.#underway.size === 0 ? Promise.resolve() : new Promise((resolve) => this.#onIdle.push(resolve));
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #in(ms: number): number {
    return this.#tick + Math.ceil(ms / TICK_MS) + 1;
  }

  #look(): void {
    this.#tick += 1;
    for (const underway of [...this.#underway]) {
      if (underway.deadline > this.#tick) continue;
      underway.fail(new Problem("overloaded", "The answer took too long; what was asked for may have been done."));
    }
  }
}
