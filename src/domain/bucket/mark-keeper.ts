import type { Crossed } from "../limits/thresholds.ts";
import type { Use } from "./mark-words.ts";

/**
 * Work on thresholds (`notifyAt`) that no caller waits for. A take knows nothing of them: its answer shows what was used before and after.
 * A process that has something to tell swaps a mark in by a second write, and tells when that was applied. What is not told because a process
 * died, or the store was down, the next take tells: it goes by levels.
 */
export class MarkKeeper<Looked extends { readonly use: Use }> {
  readonly listeners = new ThresholdListeners();
  /** By key: work under way, and the uses that it has to look at next, by their limits and periods. */
  readonly #running = new Map<string, { readonly next: Map<string, Looked>; readonly done: Promise<void> }>();

  /** Resolves when what was looked at so far is told, or will not be. */
  async told(): Promise<void> {
    while (this.#running.size > 0) await Promise.allSettled([...this.#running.values()].map(({ done }) => done));
  }

  /**
   * Looks at a use, one at a time for each key. Of several uses of a limit in a period that wait, the one that reached most is looked at.
   * Undefined: the work that is under way does it.
   */
  begin(
    key: string,
    looked: Looked,
    run: (looked: Looked) => Promise<void>,
    holding: (work: () => Promise<void>) => Promise<void>,
  ): Promise<void> | undefined {
    const id = `${looked.use.limit}\n${looked.use.period}`;
    const running = this.#running.get(key);
    if (running !== undefined) {
      const waiting = running.next.get(id);
      if (waiting === undefined || waiting.use.used.after <= looked.use.used.after) running.next.set(id, looked);
      return undefined;
    }
    const next = new Map([[id, looked]]);
    const done = holding(() => runAll(next, run)).finally(() => this.#running.delete(key));
    this.#running.set(key, { next, done });
    return done;
  }
}

async function runAll<Looked>(waiting: Map<string, Looked>, run: (looked: Looked) => Promise<void>): Promise<void> {
  // It comes by those that are added meanwhile, too.
  for (const [id, looked] of waiting) {
    waiting.delete(id);
    await run(looked);
  }
}

/** Who hears of percentages that takes of one namespace have reached. */
export class ThresholdListeners {
  readonly #listeners = new Set<(crossed: Crossed) => void>();

  watch(listener: (crossed: Crossed) => void): () => void {
    this.#listeners.add(listener);
    return () => {
      this.#listeners.delete(listener);
    };
  }

  /** To be called once what was taken is stored; undefined: there is nothing to tell. */
  tell(all: readonly Crossed[] | undefined): void {
    if (all === undefined) return;
    // Each is told once, however many listen.
    const [first] = this.#listeners;
    if (first !== undefined) for (const crossed of all) first(crossed);
  }
}
