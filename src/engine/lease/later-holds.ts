/** A hold that is looked at when it is due, unless it is removed before. */
export interface LaterHold {
  remove(): void;
  /** Looks at the hold now, unless that has happened. */
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
 * Holds that are not looked at before a time, and most of which are over by then. A linked list: an entry that is removed leaves nothing
 * behind, and there is no set whose tables the garbage collector promotes.
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

  /** Called by entries only. */
  drop({ before, after }: Entry): void {
    if (before !== undefined) before.after = after;
    if (after === undefined) this.#last = before;
    else after.before = before;
  }

  /** The time of the next due hold; `Infinity` if there is none. Walks over all of them. */
  get nextMs(): number {
    let nextMs = Number.POSITIVE_INFINITY;
    for (let entry = this.#last; entry !== undefined; entry = entry.before) nextMs = Math.min(nextMs, entry.dueMs);
    return nextMs;
  }

  lookAtAll(): void {
    for (let entry = this.#last; entry !== undefined; entry = this.#last) entry.now();
  }
}
