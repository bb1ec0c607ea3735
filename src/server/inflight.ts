import { Problem } from "./problem.ts";

/** Deadlines are looked at every so many ms: none is answered early, and none more than this late. */
const TICK_MS = 250;

/** A request under way. */
export interface Underway {
  /** Rejects its answer with this, unless it has one. */
  fail: (problem: Problem) => void;
  /** Aborted when the time is over; made when somebody asks for it. */
  controller: AbortController | undefined;
  /** In ticks. */
  deadline: number;
}

/** The requests under way: how many there may be, and how long each may take. */
export class Inflight {
  readonly #max: number;
  readonly #underway = new Set<Underway>();
  readonly #onIdle: (() => void)[] = [];
  #tick = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(max: number) {
    this.#max = max;
  }

  get isFull(): boolean {
    return this.#underway.size >= this.#max;
  }

  /** Runs a request with at most so many ms for its answer. */
  run<Value>(answerMs: number, work: (underway: Underway) => Promise<Value>): Promise<Value> {
    if (this.isFull) {
      throw new Problem("overloaded", `There are ${this.#max} requests under way; try again in a second.`);
    }
    const underway: Underway = { fail: () => {}, controller: undefined, deadline: this.#in(answerMs) };
    this.#underway.add(underway);
    this.#timer ??= setInterval(() => this.#look(), TICK_MS).unref();
    const ended = () => {
      this.#underway.delete(underway);
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
