import type { Clock } from "../ports/system.ts";
import { type Lifecycle, limiterClosed } from "./lifecycle.ts";
import { type AcquireRequest, checkRequest, checkWait } from "./request.ts";

type Attempted = { readonly ok: true } | { readonly ok: false; readonly retryAfterMs: number };

/** What waiting needs of an acquirer. */
interface Attempts<Outcome extends Attempted> {
  readonly room: WaitingRoom;
  attempt(request: AcquireRequest): Promise<Outcome>;
  peek(request: AcquireRequest): Promise<Outcome>;
}

/** Attempts until the tokens are there or `wait.maxMs` are over, in turn with others of this process on the same bucket. */
export async function acquireWaiting<Outcome extends Attempted>(
  acquirer: Attempts<Outcome>,
  clock: Clock,
  request: AcquireRequest,
): Promise<Outcome> {
  checkRequest(request);
  const deadlineMs = clock.now() + checkWait(request.wait);
  const key = `${request.entityId}\n${request.resource}`;
  if (!acquirer.room.has(key)) {
    const outcome = await acquirer.attempt(request);
    if (outcome.ok) return outcome;
  }
  const turn = acquirer.room.enter(key);
  try {
    for (;;) {
      const leftMs = deadlineMs - clock.now();
      if (!turn.atHead()) {
        // It was never this request's turn; asking now would jump the queue.
        if (leftMs <= 0) return await acquirer.peek(request);
        await turn.pause(leftMs, clock, request.signal);
        continue;
      }
      const outcome = await acquirer.attempt(request);
      if (outcome.ok || leftMs <= 0) return outcome;
      await turn.pause(Math.min(outcome.retryAfterMs, leftMs), clock, request.signal);
    }
  } finally {
    turn.leave();
  }
}

interface Waiter {
  wake: () => void;
}

/**
 * The requests of this process that wait for tokens, first come first served per bucket: only the head of a queue asks the
 * store, so a large request is not starved by small ones that come after it.
 */
export class WaitingRoom {
  readonly #lifecycle: Lifecycle;
  readonly #queues = new Map<string, Waiter[]>();

  constructor(lifecycle: Lifecycle) {
    this.#lifecycle = lifecycle;
  }

  has(key: string): boolean {
    return this.#queues.has(key);
  }

  /** Something was given back, or limits changed: the head of every queue asks again. */
  wakeHeads(): void {
    for (const [head] of this.#queues.values()) head?.wake();
  }

  /** Joins the queue of a bucket. Call `leave` in the end, whatever the outcome. */
  enter(key: string): QueueTurn {
    const waiter: Waiter = { wake: () => {} };
    const queue = this.#queues.get(key) ?? [];
    if (queue.length === 0) this.#queues.set(key, queue);
    queue.push(waiter);
    return {
      atHead: () => queue[0] === waiter,
      pause: async (ms, clock, signal) => {
        const stop = this.#lifecycle.onClosing(() => waiter.wake());
        try {
          if (this.#lifecycle.isOpen) await paused(waiter, ms, clock, signal);
        } finally {
          stop();
        }
        if (!this.#lifecycle.isOpen) throw limiterClosed();
      },
      leave: () => {
        const index = queue.indexOf(waiter);
        queue.splice(index, 1);
        if (queue.length === 0) this.#queues.delete(key);
        else if (index === 0) queue[0]?.wake();
      },
    };
  }
}

export interface QueueTurn {
  atHead(): boolean;
  /**
   * Resolves after `ms`, or earlier when this request became the head or `wakeHeads` was called; rejects at once when the
   * limiter closes.
   */
  pause(ms: number, clock: Clock, signal: AbortSignal | undefined): Promise<void>;
  leave(): void;
}

async function paused(waiter: Waiter, ms: number, clock: Clock, signal: AbortSignal | undefined): Promise<void> {
  signal?.throwIfAborted();
  const woken = new AbortController();
  const either = signal === undefined ? woken.signal : AbortSignal.any([signal, woken.signal]);
  waiter.wake = () => woken.abort();
  try {
    await clock.sleep(ms, either);
  } catch (error) {
    if (!woken.signal.aborted || signal?.aborted) throw error;
  } finally {
    waiter.wake = () => {};
  }
}
