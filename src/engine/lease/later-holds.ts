/** A hold that is looked at when its time has come, unless it is removed before. */
export interface LaterHold {
  remove(): void;
  /** Looked at now, unless it was before. */
  now(): void;
}

class Entry implements LaterHold {
  readonly dueMs: number;
  readonly #holds: LaterHolds;
  readonly #look: () => void;
  before: Entry | undefined;
  after: Entry | undefined;
  #isIn = true;

  constructor(holds: LaterHolds, dueMs: number, look: () => void) {
    this.#holds = holds;
    this.dueMs = dueMs;
    this.#look = look;
  }

  remove(): void {
    if (!this.#isIn) return;
    this.#isIn = false;
    this.#holds.drop(this);
  }

  now(): void {
    if (!this.#isIn) return;
    this.remove();
    this.#look();
  }
}

/**
 * Holds that nobody has to look at before a time, and most of which are over by then. They are linked with their neighbours: one that is
 * removed leaves nothing behind, and there is no set whose tables grow old.
 */
export class LaterHolds {
  #last: Entry | undefined;

  add(dueMs: number, look: () => void): LaterHold {
    const entry = new Entry(this, dueMs, look);
    entry.before = this.#last;
    if (this.#last !== undefined) this.#last.after = entry;
    this.#last = entry;
    return entry;
  }

  /** For its entries alone. */
  drop({ before, after }: Entry): void {
    if (before !== undefined) before.after = after;
    if (after === undefined) this.#last = before;
    else after.before = before;
  }

  /** When the next one is due; `Infinity` where there is none. It walks over all of them. */
  get nextMs(): number {
    let nextMs = Number.POSITIVE_INFINITY;
    for (let entry = this.#last; entry !== undefined; entry = entry.before) nextMs = Math.min(nextMs, entry.dueMs);
    return nextMs;
  }

  /** Looks at all of them. */
  lookAtAll(): void {
    for (let entry = this.#last; entry !== undefined; entry = this.#last) entry.now();
  }
}
