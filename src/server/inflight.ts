import { Problem } from "./problem.ts";
import { type Holder, type PoolSlot, SharedPool, type TokenCount } from "./shared-pool.ts";

/** Deadlines are looked at every so many ms: none is answered early, and none more than this late. */
const TICK_MS = 250;

/** What a request does to capacity: one that ends a lease, or keeps it from ending, frees it or guards what is there. */
type RequestKind = "plain" | "ending";

/** A request that has begun; under way once its body is there. */
export class Underway {
  /** Undefined until its body is there. */
  slot: PoolSlot | undefined;
  holder: Holder | undefined;
  /** Aborted when the time is over; made when somebody asks for it. */
  controller: AbortController | undefined;
  /** In ticks. */
  deadline: number;
  /** Its index in the list of all. */
  index: number;
  /** Rejects its answer, unless it has one. */
  reject: ((problem: Problem) => void) | undefined;

  constructor(deadline: number, index: number) {
    this.deadline = deadline;
    this.index = index;
  }

  /** Answers it with this, unless it has an answer. */
  fail(problem: Problem): void {
    this.reject?.(problem);
    this.controller?.abort(problem);
  }
}

interface InflightBounds {
  /** Requests that are worked on. */
  readonly inflightMax: number;
  /** Requests that wait for tokens: they only sleep, and are not worked on meanwhile. */
  readonly waitingMax: number;
}

/** Of the bound on requests, so much more stands ready for those that end leases. */
const ENDING_PART = 4;

/**
 * The requests under way: how many there may be, whose, and how long each may take. One whose body has not come yet only waits:
 * bodies that are never sent to their end must not keep out those that are. Nor does one that waits for tokens.
 */
export class Inflight {
  readonly #plain: SharedPool;
  readonly #ending: SharedPool;
  readonly #waiting: SharedPool;
  /** In no order. Not a set: one that changes with every request is made anew again and again. */
  readonly #underway: Underway[] = [];
  readonly #onIdle: (() => void)[] = [];
  /** Answers that are still sent. */
  #streams = 0;
  #tick = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor({ inflightMax, waitingMax }: InflightBounds, tokenCount: TokenCount) {
    this.#plain = new SharedPool(inflightMax, tokenCount);
    this.#ending = new SharedPool(Math.ceil(inflightMax / ENDING_PART), tokenCount);
    this.#waiting = new SharedPool(waitingMax, tokenCount);
  }

  /** How many are worked on, and how many wait for tokens. */
  get counts(): { readonly working: number; readonly waiting: number } {
    return { working: this.#plain.count + this.#ending.count, waiting: this.#waiting.count };
  }

  /** Runs a request with at most so many ms for its body. */
  run<Value>(bodyMs: number, work: (underway: Underway) => Promise<Value>): Promise<Value> {
    const underway = new Underway(this.#in(bodyMs), this.#underway.length);
    // The work is begun outside the executor: begun inside, what it makes outlives collections, and requests cost a fifth more.
    const working = work(underway);
    this.#underway.push(underway);
    this.#timer ??= setInterval(() => this.#look(), TICK_MS).unref();
    let resolve: ((value: Value) => void) | undefined;
    const answer = new Promise<Value>((resolved, rejected) => {
      resolve = resolved;
      underway.reject = rejected;
    });
    working.then(
      (value) => {
        this.#ended(underway);
        resolve?.(value);
      },
      (error) => {
        this.#ended(underway);
        underway.reject?.(error);
      },
    );
    return answer;
  }

  /** The body is there: from here on it is under way, and its answer may take so many ms. */
  begin(underway: Underway, holder: Holder, kind: RequestKind, answerMs: number): void {
    const slot = this.#plain.take(holder) ?? (kind === "ending" ? this.#ending.take(holder) : undefined);
    if (slot === undefined) throw overloaded("running requests", this.#plain, holder);
    underway.holder = holder;
    underway.slot = slot;
    this.extend(underway, answerMs);
  }

  /** It waits for tokens from here on, so long at most: it gives up its place among those that are worked on. */
  wait(underway: Underway, waitMs: number): void {
    const { holder = { token: undefined, namespace: "" } } = underway;
    const slot = this.#waiting.take(holder);
    if (slot === undefined) throw overloaded("waiting requests", this.#waiting, holder);
    underway.slot?.release();
    underway.slot = slot;
    this.extend(underway, waitMs);
  }

  /** The answer may take so many ms from now. */
  extend(underway: Underway, answerMs: number): void {
    underway.deadline = this.#in(answerMs);
  }

  /** Its answer is a stream, which keeps its place until the function that is answered is called. */
  outlive(underway: Underway): () => void {
    let { slot } = underway;
    underway.slot = undefined;
    this.#streams += 1;
    return () => {
      if (slot === undefined) return;
      slot.release();
      slot = undefined;
      this.#streams -= 1;
      this.#wakeIfIdle();
    };
  }

  /** Answers all that are still under way with this. */
  failAll(problem: Problem): void {
    for (const underway of [...this.#underway]) underway.fail(problem);
  }

  /** Resolves when none is under way, and no answer is still sent. */
  idle(): Promise<void> {
    return this.#isIdle ? Promise.resolve() : new Promise((resolve) => this.#onIdle.push(resolve));
  }

  get #isIdle(): boolean {
    return this.#underway.length === 0 && this.#streams === 0;
  }

  #wakeIfIdle(): void {
    if (this.#isIdle) for (const wake of this.#onIdle.splice(0)) wake();
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #ended(underway: Underway): void {
    const last = this.#underway.pop() as Underway;
    if (last !== underway) {
      this.#underway[underway.index] = last;
      last.index = underway.index;
    }
    underway.slot?.release();
    this.#wakeIfIdle();
  }

  #in(ms: number): number {
    return this.#tick + Math.ceil(ms / TICK_MS) + 1;
  }

  #look(): void {
    this.#tick += 1;
    for (const underway of [...this.#underway]) {
      if (underway.deadline > this.#tick) continue;
      underway.fail(new Problem("overloaded", "Timed out; the operation may still have been applied."));
    }
  }
}

/** All places are taken, or all that are for this one. */
export function overloaded(what: string, { count, max }: SharedPool, { token }: Holder): Problem {
  if (count >= max || token === undefined) {
    return new Problem("overloaded", `There are ${count} ${what}, the maximum is ${max}; try again in a second.`);
  }
  return new Problem(
    "overloaded",
    `The token ${token}, or its namespace, has its full share of ${what} while others wait; try again in a second.`,
  );
}
