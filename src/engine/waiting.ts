import type { Clock } from "../ports/system.ts";

interface Waiter {
  wake: () => void;
}

/**
 * Who waits for tokens in this process, first come first served per bucket: only the one at the head asks the store, so
 * a large request is not starved by small ones that come after it.
 */
export class WaitingRoom {
  readonly #queues = new Map<string, Waiter[]>();

  has(key: string): boolean {
    return this.#queues.has(key);
  }

  /** Something was given back: whoever is at the head looks again. */
  nudge(): void {
    for (const [head] of this.#queues.values()) head?.wake();
  }

  /** Queues up for a bucket. `atHead` tells whether it is this one's turn; leave when done, whatever came of it. */
  enter(key: string): Place {
    const waiter: Waiter = { wake: () => {} };
    const queue = this.#queues.get(key) ?? [];
    if (queue.length === 0) this.#queues.set(key, queue);
    queue.push(waiter);
    return {
      atHead: () => queue[0] === waiter,
      pause: (ms, clock, signal) => paused(waiter, ms, clock, signal),
      leave: () => {
        const index = queue.indexOf(waiter);
        queue.splice(index, 1);
        if (queue.length === 0) this.#queues.delete(key);
        else if (index === 0) queue[0]?.wake();
      },
    };
  }
}

export interface Place {
  atHead(): boolean;
  /** Resolves after `ms`, or when woken: at the head now, or something was given back. */
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
