import { isAskedFor, type RefusalCount, type RefusalKey } from "../../domain/charge/refusal-count.ts";
import { hourOf, windowStartMs } from "../../domain/charge/usage.ts";
import { LimiterError, RateLimiterUnavailable } from "../../domain/names/errors.ts";
import type { RefusalQuery, RefusalRow, RefusalStore } from "../../ports/refusal-store.ts";
import type { Clock, Random } from "../../ports/system.ts";
import { type RefusalLine, RefusalLines, wasStored } from "./refusal-lines.ts";

/** The limiter that counts, writes or asks: books are shared by all limiters of a process on one namespace of a store. */
export interface BookUser {
  readonly clock: Clock;
  /** Hears of a write that failed, and of one of the buckets it was about. */
  notStored(about: Pick<RefusalKey, "entityId" | "resource">, cause: unknown): void;
}

/** Rows of one write, the most refused first; the rest is added up under one name. */
const ROWS_PER_WRITE = 100;

/**
 * What this process has counted of refused requests in one namespace. It adds up in memory and writes now and then: nobody waits
 * for it and nothing fails by it. A row is written whole, so that a write whose answer was lost is sent again without counting
 * anything twice; a crash loses what was not written yet.
 */
export class RefusalBook {
  readonly #store: RefusalStore;
  readonly #lines: RefusalLines;
  #version = 0;
  /** Ends the sleep before the next write; undefined: no write is due. */
  #due: AbortController | undefined;
  #writing: Promise<void> | undefined;
  /** Pages that are being read: a write in between would be in both, the page and what was not written yet. */
  readonly #reads = new Set<Promise<unknown>>();

  constructor(store: RefusalStore, random: Random) {
    this.#store = store;
    this.#lines = new RefusalLines(() => random.id());
  }

  get isKept(): boolean {
    return this.#store.isKept;
  }

  /** Whether there is nothing in it that another book would not do as well. */
  isIdle(nowMs: number): boolean {
    return this.#writing === undefined && this.#reads.size === 0 && this.#lines.isDone(hourOf(nowMs));
  }

  count(key: RefusalKey, user: BookUser): void {
    this.#lines.count(key, hourOf(user.clock.now()));
    this.#schedule(user);
  }

  /** Writes what is there before the limiter, or the store, closes. Never throws. */
  async close(what: "limiter" | "store", user: BookUser): Promise<void> {
    this.#unschedule();
    // One that is under way has not sent what was counted since.
    while (this.#writing !== undefined) await this.#writing;
    await this.#write(user, "all");
    // What could not be written may be written later, unless there is no later.
    if (what === "store") this.#unschedule();
  }

  /** Reads a page, while no write is under way, with what was not written by then. */
  async reading<Reply>(query: RefusalQuery, read: (own: readonly RefusalCount[]) => Promise<Reply>): Promise<Reply> {
    while (this.#writing !== undefined) await this.#writing;
    const reply = read(this.#unwritten(query));
    this.#reads.add(reply);
    try {
      return await reply;
    } finally {
      this.#reads.delete(reply);
    }
  }

  #unwritten(query: RefusalQuery): readonly RefusalCount[] {
    const { window, fromMs, toMs } = query;
    return this.#lines.all().flatMap(({ hourMs, entityId, resource, counts }): RefusalCount[] => {
      const startMs = windowStartMs(window, hourMs);
      if (startMs < fromMs || startMs >= toMs) return [];
      return [...counts.values()].flatMap(({ limit, level, total, count, sent }): RefusalCount[] => {
        const key = { entityId, resource, limit, level, total };
        // What was sent may be there: counted once too few for a while rather than twice.
        if (count === sent || !isAskedFor(key, query)) return [];
        return [{ ...key, window, windowStartMs: startMs, count: count - sent }];
      });
    });
  }

  #unschedule(): void {
    this.#due?.abort();
    this.#due = undefined;
  }

  #schedule(user: BookUser): void {
    if (this.#due !== undefined) return;
    const due = new AbortController();
    this.#due = due;
    const { clock } = user;
    const sleep = clock.sleepInBackground?.bind(clock) ?? clock.sleep.bind(clock);
    void sleep(this.#store.writeEveryMs, due.signal).then(
      () => {
        if (this.#due === due) this.#due = undefined;
        return this.#write(user, "some");
      },
      // It was written at the end.
      () => {},
    );
  }

  /** `all`: there is no next time. */
  #write(user: BookUser, what: "some" | "all"): Promise<void> {
    this.#writing ??= this.#written(user, what).finally(() => {
      this.#writing = undefined;
    });
    return this.#writing;
  }

  async #written(user: BookUser, what: "some" | "all"): Promise<void> {
    await Promise.allSettled([...this.#reads]);
    const nowMs = user.clock.now();
    const lines = this.#lines.toWrite(ROWS_PER_WRITE, what);
    if (lines.length === 0) return;
    this.#version++;
    const rows = lines.map((line) => this.#rowOf(line));
    try {
      const replies = await this.#store.write(rows, nowMs);
      for (const [i, line] of lines.entries()) this.#lines.replied(line, replies[i] ?? "unknown");
      this.#lines.forgetBefore(hourOf(nowMs));
      const unsure = rows.find((_, i) => replies[i] === "unknown");
      if (unsure !== undefined) user.notStored(unsure, undefined);
    } catch (error) {
      this.#failed(error, rows[0] as RefusalRow, user);
    }
    if (!this.#lines.isWritten()) this.#schedule(user);
  }

  #failed(error: unknown, about: RefusalRow, user: BookUser): void {
    // What is wrong for good would be so the next time: the namespace was deleted, the store closed, a right is missing.
    if (!(error instanceof RateLimiterUnavailable)) this.#lines.clear();
    if (error instanceof LimiterError && error.code === "closed") return;
    user.notStored(about, error);
  }

  #rowOf(line: RefusalLine): RefusalRow {
    const { id, hourMs, entityId, resource } = line;
    const mustExist = wasStored(line);
    const counts = [...line.counts.values()].map(({ limit, level, total, count }) => ({ limit, level, total, count }));
    this.#lines.sent(line);
    return { id, hourMs, entityId, resource, version: this.#version, mustExist, counts };
  }
}
