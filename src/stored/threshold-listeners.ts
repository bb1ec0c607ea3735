import type { Crossed } from "../domain/thresholds.ts";

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
