import type { DatabaseSync, SQLInputValue, SQLOutputValue, StatementSync } from "node:sqlite";
import { LimiterError } from "../../domain/names/errors.ts";
import { faultOf, thrownFor } from "./faults.ts";

/**
 * A process waits for the write lock of another one in short random sleeps. SQLite's own busy handler sleeps longer with every try, so a
 * process that keeps writing starves the other for seconds; short sleeps meet the gaps between its transactions.
 */
const BLOCK_MAX_MS = 0.1;

/** A call tries again this often while it blocks its event loop, a few milliseconds at most, before it waits on a timer. */
export const BLOCKING_RETRIES_MAX = 40;

/** After the first wait on the timer there are fewer tries: the lock stays held, and others want the event loop. */
export const BLOCKING_RETRIES_LATER_MAX = 8;

/** A change of configuration, or a read that meets a recovery, waits this long. */
export const CHANGE_WAIT_MS = 1_000;

/** Opening waits longer: another process may be migrating the file. */
export const OPEN_WAIT_MS = 5_000;

const cell = new Int32Array(new SharedArrayBuffer(4));

/** Blocks the thread for a random time up to `BLOCK_MAX_MS`. */
export function blockBriefly(random: () => number): void {
  Atomics.wait(cell, 0, 0, random() * BLOCK_MAX_MS);
}

/** The delay of the timer between two rounds of blocking retries. */
export function retryDelayMs(random: () => number): number {
  return 1 + Math.floor(random() * 3);
}

export type Row = readonly SQLOutputValue[];

/** A prepared statement whose rows are arrays in the order of the columns: cheaper than objects. */
export interface Statement {
  get(...parameters: SQLInputValue[]): Row | undefined;
  all(...parameters: SQLInputValue[]): readonly Row[];
  run(...parameters: SQLInputValue[]): { readonly changes: number | bigint; readonly lastInsertRowid: number | bigint };
}

/** The write lock was taken, or it could not be had just now. */
type Begun = { readonly kind: "begun" } | { readonly kind: "refused"; readonly cause: unknown };

const BEGUN: Begun = { kind: "begun" };

/** One connection to the file. Every transaction begins and ends within one turn: they never interleave. */
export class Connection {
  readonly file: string;
  readonly random: () => number;
  /** Whole ms since some instant, never going back: all waiting for a lock is bounded by it. */
  readonly steadyMs: () => number;
  /** Write transactions committed so far. */
  commits = 0;
  readonly #database: DatabaseSync;
  readonly #statements = new Map<string, Statement>();
  readonly #begin: Statement;
  readonly #beginRead: Statement;
  readonly #commit: Statement;
  readonly #rollback: Statement;
  #refusing = false;
  #closed = false;

  constructor(
    database: DatabaseSync,
    options: { readonly file: string; readonly random: () => number; readonly steadyMs: () => number },
  ) {
    this.file = options.file;
    this.random = options.random;
    this.steadyMs = options.steadyMs;
    this.#database = database;
    this.#begin = this.prepare("BEGIN IMMEDIATE");
    this.#beginRead = this.prepare("BEGIN");
    this.#commit = this.prepare("COMMIT");
    this.#rollback = this.prepare("ROLLBACK");
  }

  /** Prepared once, however many ask: none is left half-read, so that all may share it. */
  prepare(sql: string): Statement {
    let statement = this.#statements.get(sql);
    if (statement === undefined) {
      statement = withArrays(this.#database.prepare(sql));
      this.#statements.set(sql, statement);
    }
    return statement;
  }

  exec(sql: string): void {
    this.#database.exec(sql);
  }

  /** Takes the write lock; tries up to `retriesMax` times again, blocking the thread, while another process has it. */
  begin(retriesMax: number): Begun {
    for (let retries = 0; ; retries++) {
      try {
        // Not `run`, whose answer would have to be made: nobody looks at it.
        this.#begin.get();
        return BEGUN;
      } catch (error) {
        if (faultOf(error) === "other") throw thrownFor(error, this.file);
        if (faultOf(error) === "broken" || retries >= retriesMax) return { kind: "refused", cause: error };
      }
      blockBriefly(this.random);
    }
  }

  commit(): void {
    this.#commit.get();
    this.commits++;
  }

  /** Never throws: after some faults SQLite has rolled back already. */
  rollback(): void {
    try {
      this.#rollback.run();
    } catch {
      // No transaction is active any more, which is what was wanted.
    }
  }

  /** Runs statements that only read. In WAL a reader waits for nobody but a process that recovers or closes the log. */
  read<Value>(work: () => Value): Value {
    this.requireOpen();
    try {
      return work();
    } catch (error) {
      if (faultOf(error) === "other") throw thrownFor(error, this.file);
      try {
        return this.retryWhileBusy(CHANGE_WAIT_MS, work);
      } catch (again) {
        throw thrownFor(again, this.file);
      }
    }
  }

  /** Several reads that must see one state of the file. */
  readTogether<Value>(work: () => Value): Value {
    return this.read(() => {
      this.#beginRead.run();
      try {
        return work();
      } finally {
        this.rollback();
      }
    });
  }

  /** Runs the work again while another process holds a lock, up to `waitMs`; blocks the thread meanwhile. */
  retryWhileBusy<Value>(waitMs: number, work: () => Value): Value {
    const untilMs = this.steadyMs() + waitMs;
    for (;;) {
      try {
        return work();
      } catch (error) {
        if (faultOf(error) !== "busy" || this.steadyMs() > untilMs) throw error;
      }
      blockBriefly(this.random);
    }
  }

  requireOpen(): void {
    if (!this.#refusing) return;
    throw new LimiterError("closed", `The store on ${this.file} is closed; open it again with RateLimiter.open.`);
  }

  /** From now on every call is refused; the file stays open for work that is still queued. */
  refuseCalls(): void {
    this.#refusing = true;
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    try {
      // Leaves one plain file behind; when another process still uses it, the log stays, and that is fine too.
      this.#database.exec("PRAGMA wal_checkpoint(TRUNCATE)");
    } catch (error) {
      if (faultOf(error) === "other") throw thrownFor(error, this.file);
    } finally {
      this.#database.close();
    }
  }
}

// Node before 22.16 has no setReturnArrays; there the names of the columns must differ, and they do.
function withArrays(statement: StatementSync): Statement {
  if (typeof statement.setReturnArrays === "function") {
    statement.setReturnArrays(true);
    return statement as unknown as Statement;
  }
  return {
    get: (...parameters) => {
      const row = statement.get(...parameters);
      return row === undefined ? undefined : Object.values(row);
    },
    all: (...parameters) => statement.all(...parameters).map((row) => Object.values(row)),
    run: (...parameters) => statement.run(...parameters),
  };
}
