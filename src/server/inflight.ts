import { Problem } from "./problem.ts";

/** The caller and the namespace that need a slot. */
export interface Holder {
  /** The id of the token. Undefined: no token was needed. */
  readonly token: string | undefined;
  /** Empty: the request is about no namespace. */
  readonly namespace: string;
}

/** A slot that is held; give it back once. */
export interface PoolSlot {
  release(): void;
}

/** The number of tokens, each with a share of its own. Undefined: the service is open, and there are no shares. */
export type TokenCount = () => number | undefined;

/** A quarter of all slots is reserved for tokens, the same for each. */
const RESERVED_PART = 4;

/** One token or namespace may use at most four times the common slots that it leaves free. */
const SHARE_RATIO_MAX = 4;

/**
 * Slots of which nobody can take all. Every token has a share of its own. The rest is common: a token, and a namespace, may have at
 * most four times what it leaves free, so that the next caller finds room. Counts decide, never a queue: nobody waits for others.
 */
export class SharedPool {
  readonly max: number;
  readonly #tokenCount: TokenCount;
  readonly #byToken = new Map<string, number>();
  readonly #byNamespace = new Map<string, number>();
  #total = 0;

  constructor(max: number, tokenCount: TokenCount) {
    this.max = max;
    this.#tokenCount = tokenCount;
  }

  get count(): number {
    return this.#total;
  }

  /** A slot, or undefined where the holder has all that it may have now. */
  take(holder: Holder): PoolSlot | undefined {
    if (!this.#hasRoomFor(holder)) return undefined;
    this.#total += 1;
    bump(this.#byToken, holder.token, 1);
    bump(this.#byNamespace, holder.namespace, 1);
    let isHeld = true;
    return {
      release: () => {
        if (!isHeld) return;
        isHeld = false;
        this.#total -= 1;
        bump(this.#byToken, holder.token, -1);
        bump(this.#byNamespace, holder.namespace, -1);
      },
    };
  }

  #hasRoomFor({ token, namespace }: Holder): boolean {
    const free = this.max - this.#total;
    if (free <= 0) return false;
    const tokens = this.#tokenCount();
    // An open service has no tokens to reserve slots for.
    if (tokens === undefined) return true;
    const share = shareOf(this.max, tokens);
    const own = token === undefined ? 0 : (this.#byToken.get(token) ?? 0);
    if (token !== undefined && own < share) return true;
    const left = free - this.#keptFree(share, tokens) - 1;
    if (left < 0) return false;
    const most = Math.max(1, SHARE_RATIO_MAX * left);
    const common = token === undefined ? this.#common(share) : own - share;
    return common < most && (namespace === "" || (this.#byNamespace.get(namespace) ?? 0) - share < most);
  }

  /** Slots that stand free for tokens which have not used up their shares. */
  #keptFree(share: number, tokens: number): number {
    let used = 0;
    for (const count of this.#byToken.values()) used += Math.min(count, share);
    return Math.max(0, share * tokens - used);
  }

  /** Slots held by those without a token. */
  #common(share: number): number {
    let held = 0;
    for (const count of this.#byToken.values()) held += count;
    return Math.max(0, this.#total - held - share);
  }
}

/** At least one slot for each token, where there are enough for that and for something in common. */
function shareOf(max: number, tokens: number): number {
  if (tokens === 0 || max < 2 * tokens) return 0;
  return Math.max(1, Math.floor(max / RESERVED_PART / tokens));
}

function bump(counts: Map<string, number>, key: string | undefined, by: number): void {
  if (key === undefined || key === "") return;
  const next = (counts.get(key) ?? 0) + by;
  if (next === 0) counts.delete(key);
  else counts.set(key, next);
}

/** Milliseconds between checks of the deadlines: a timeout is at most this late, and never early. */
const TICK_MS = 250;

/** `ending`: the request ends or extends a lease, which frees or keeps capacity. */
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

/** Requests that end leases may exceed the limit by a quarter. */
const LEASE_END_RESERVE = 4;

/**
 * Bounds the number of requests under way and the time of each. A request holds a slot from the arrival of its body on, so that slow
 * bodies keep nobody out. A request that waits for tokens holds a slot of another pool.
 */
export class Inflight {
  readonly #plain: SharedPool;
  readonly #ending: SharedPool;
  readonly #waiting: SharedPool;
  /** In no order. It is no set, because a set that changes with every request is rehashed again and again. */
  readonly #underway: Underway[] = [];
  readonly #onIdle: (() => void)[] = [];
  /** Answers that are still sent. */
  #streams = 0;
  #tick = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor({ inflightMax, waitingMax }: InflightBounds, tokenCount: TokenCount) {
    this.#plain = new SharedPool(inflightMax, tokenCount);
    this.#ending = new SharedPool(Math.ceil(inflightMax / LEASE_END_RESERVE), tokenCount);
    this.#waiting = new SharedPool(waitingMax, tokenCount);
  }

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
