import { LimiterError } from "../../domain/names/errors.ts";
import type { Store } from "../../ports/store.ts";
import type { Clock, Random } from "../../ports/system.ts";

/** The limiter that counts, writes or reads: all limiters of a process on one namespace of a store share a book. */
export interface BookUser {
  readonly clock: Clock;
  /** Called for a failed write, with one of its buckets. */
  notStored(about: { readonly entityId: string; readonly resource: string }, cause: unknown): void;
}

/** A part of a book: something that adds up in memory, and is written in each pass. */
export interface BookPart {
  /** True if everything is in the store. */
  isWritten(): boolean;
  /** What is unwritten may wait for a write that is due anyway: it wakes nobody but in the background. */
  readonly isPatient?: true;
  /** True if everything is in the store and nothing is of the current hour. */
  isDone(nowMs: number): boolean;
  /** Writes what is due, and never throws; `all`: there is no later write. `pass` grows by one with each. */
  write(user: BookUser, what: "some" | "all", pass: number): Promise<void>;
}

/**
 * The times at which one namespace of a store is written what this process has counted: some time after the first count, in the
 * background, and when a limiter closes. The parts of a book are written in the same pass, one after the other.
 */
export class Book {
  readonly #writeEveryMs: number;
  readonly #parts: readonly BookPart[];
  #pass = 0;
  /** Ends the sleep before the next write; undefined if no write is due. */
  #due: AbortController | undefined;
  #writing: Promise<void> | undefined;
  /** Pages that are being read. A write meanwhile would be counted twice: in the page and as unwritten. */
  readonly #reads = new Set<Promise<unknown>>();

  constructor(writeEveryMs: number, parts: readonly BookPart[]) {
    this.#writeEveryMs = writeEveryMs;
    this.#parts = parts;
  }

  /** True if a new book could replace this one. */
  isIdle(nowMs: number): boolean {
    return this.#writing === undefined && this.#reads.size === 0 && this.#parts.every((part) => part.isDone(nowMs));
  }

  /** Something was counted: a write is due. */
  counted(user: BookUser): void {
    if (this.#due !== undefined) return;
    const { clock } = user;
    this.#schedule(user, clock.sleepInBackground?.bind(clock) ?? clock.sleep.bind(clock));
  }

  /** Something was counted that may wait: where a clock has no background, it is written with whatever else is, and at the end. */
  countedPatiently(user: BookUser): void {
    const { clock } = user;
    if (this.#due === undefined && clock.sleepInBackground !== undefined)
      this.#schedule(user, clock.sleepInBackground.bind(clock));
  }

  /** Writes everything before the limiter, or the store, closes. Never throws. */
  async close(what: "limiter" | "store", user: BookUser): Promise<void> {
    this.#unschedule();
    // A write under way does not contain what was counted later.
    while (this.#writing !== undefined) await this.#writing;
    await this.#write(user, "all");
    // A failed write is scheduled again, unless the store closes.
    if (what === "store") this.#unschedule();
  }

  /** Reads a page while no write is under way. `read` asks the parts at once for what they have not written. */
  async reading<Reply>(read: () => Promise<Reply>): Promise<Reply> {
    while (this.#writing !== undefined) await this.#writing;
    const reply = read();
    this.#reads.add(reply);
    try {
      return await reply;
    } finally {
      this.#reads.delete(reply);
    }
  }

  #unschedule(): void {
    this.#due?.abort();
    this.#due = undefined;
  }

  #schedule(user: BookUser, sleep: Clock["sleep"]): void {
    const due = new AbortController();
    this.#due = due;
    void sleep(this.#writeEveryMs, due.signal).then(
      () => {
        if (this.#due === due) this.#due = undefined;
        return this.#write(user, "some");
      },
      // Closing has written it.
      () => {},
    );
  }

  #write(user: BookUser, what: "some" | "all"): Promise<void> {
    this.#writing ??= this.#written(user, what).finally(() => {
      this.#writing = undefined;
    });
    return this.#writing;
  }

  async #written(user: BookUser, what: "some" | "all"): Promise<void> {
    await Promise.allSettled([...this.#reads]);
    this.#pass++;
    for (const part of this.#parts) await part.write(user, what, this.#pass);
    const open = this.#parts.filter((part) => !part.isWritten());
    if (open.some(({ isPatient }) => isPatient !== true)) this.counted(user);
    else if (open.length > 0) this.countedPatiently(user);
  }
}

/** Calls the user for failures of writes, but for that of a store which was closed. */
export function bookUser(clock: Clock, notStored: BookUser["notStored"]): BookUser {
  return {
    clock,
    notStored: (about, cause) => {
      if (!(cause instanceof LimiterError && cause.code === "closed")) notStored(about, cause);
    },
  };
}

/** What this process has counted on one store, a book for each namespace. */
export class Books<One extends { isIdle(nowMs: number): boolean }> {
  readonly #store: Pick<Store, "scope">;
  readonly #make: (scope: ReturnType<Store["scope"]>, random: Random) => One;
  readonly #books = new Map<string, One>();

  constructor(store: Pick<Store, "scope">, make: (scope: ReturnType<Store["scope"]>, random: Random) => One) {
    this.#store = store;
    this.#make = make;
  }

  of(namespaceId: string, random: Random, nowMs: number): One {
    const known = this.#books.get(namespaceId);
    if (known !== undefined) return known;
    for (const [id, book] of this.#books) if (book.isIdle(nowMs)) this.#books.delete(id);
    const made = this.#make(this.#store.scope(namespaceId), random);
    this.#books.set(namespaceId, made);
    return made;
  }

  all(): readonly One[] {
    return [...this.#books.values()];
  }
}
