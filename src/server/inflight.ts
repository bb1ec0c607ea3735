import { Problem } from "./problem.ts";
import { type Holder, type PoolSlot, SharedPool, type TokenCount } from "./shared-pool.ts";

/** Deadlines are looked at every so many ms: none is answered early, and none more than this late. */
const TICK_MS = 250;

const nothing = (): void => {};

/** What a request does to capacity: one that ends a lease, or keeps it from ending, frees it or guards what is there. */
type RequestKind = "plain" | "ending";

/** A request that has begun; under way once its body is there. */
export interface Underway {
  /** Undefined until its body is there. */
  slot: PoolSlot | undefined;
  holder: Holder | undefined;
  /** Rejects its answer with this, unless it has one. */
  fail: (problem: Problem) => void;
  /** Aborted when the time is over; made when somebody asks for it. */
  controller: AbortController | undefined;
  /** In ticks. */
  deadline: number;
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
  readonly #underway = new Set<Underway>();
  readonly #onIdle: (() => void)[] = [];
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
    const underway: Underway = {
      slot: undefined,
      holder: undefined,
      fail: nothing,
      controller: undefined,
      deadline: this.#in(bodyMs),
    };
    this.#underway.add(underway);
    this.#timer ??= setInterval(() => this.#look(), TICK_MS).unref();
    const ended = () => {
      this.#underway.delete(underway);
      underway.slot?.release();
      if (this.#underway.size === 0) for (const wake of this.#onIdle.splice(0)) wake();
    };
    // The work is begun outside the executor: begun inside, what it makes outlives collections, and requests cost a fifth more.
    let resolve: (value: Value) => void = nothing;
    let reject: (error: unknown) => void = nothing;
    const answer = new Promise<Value>((...settle) => {
      [resolve, reject] = settle;
    });
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
