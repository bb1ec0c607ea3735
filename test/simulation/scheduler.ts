import type { SeededRandom } from "../../src/testing/random.ts";

/** What a client waits for that does not wait for the store. */
export const WORKS = "works";

interface Gate {
  readonly owner: string;
  readonly label: string;
  open(): void;
}

/**
 * Decides which client goes on. A call of the store waits at a gate, before it is made and again before its answer; the seed says
 * which gate opens next. So every interleaving of the clients' calls can happen, and happens again with the same seed.
 */
export class Scheduler {
  /** Once calm, no call waits: for the questions asked when all is over. */
  calm = false;
  readonly #random: () => SeededRandom;
  #gates: Gate[] = [];

  constructor(random: () => SeededRandom) {
    this.#random = random;
  }

  get waiting(): number {
    return this.#gates.length;
  }

  pause(owner: string, label: string): Promise<void> {
    if (this.calm) return Promise.resolve();
    return new Promise((open) => this.#gates.push({ owner, label, open }));
  }

  /** Opens one gate, or several at once, and says which. */
  open(count: number): string {
    const opened: string[] = [];
    for (let i = 0; i < count && this.#gates.length > 0; i++) {
      const index = this.#random().integer(0, this.#gates.length - 1);
      const { owner, label, open } = this.#gates[index] as Gate;
      // A change goes alone: beside others it would not be known which came before it.
      const alone = label === "applying change";
      if (alone && opened.length > 0) break;
      this.#gates.splice(index, 1);
      opened.push(`${owner} ${label}`);
      open();
      if (alone) break;
    }
    return opened.join(", ");
  }

  /** Opens a gate behind which a client still goes by an earlier reading of its clock; false when there is none. */
  openDated(): boolean {
    const index = this.#gates.findIndex(({ label }) => !TIMELESS.has(label));
    if (index < 0) return false;
    this.#gates.splice(index, 1)[0]?.open();
    return true;
  }

  /** Opens a gate of one owner, if he waits at any. */
  openOf(owner: string): boolean {
    const index = this.#gates.findIndex((gate) => gate.owner === owner);
    if (index < 0) return false;
    this.#gates.splice(index, 1)[0]?.open();
    return true;
  }

  /** Removes the gates of this owner: calls that wait behind them never go on. */
  drop(owner: string): void {
    this.#gates = this.#gates.filter((gate) => gate.owner !== owner);
  }
}

/** Gates behind which a client reads its clock again. */
const TIMELESS = new Set(["works", "answering take", "answering debit", "answering credit", "answering change"]);
