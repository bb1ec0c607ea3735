import { hourOf } from "../../domain/charge/usage.ts";
import { RateLimiterUnavailable } from "../../domain/names/errors.ts";
import type { MaybePromise } from "../../ports/bucket-store.ts";
import type { RowReply } from "../../ports/usage-store.ts";
import type { BookPart, BookUser } from "./book.ts";
import type { LineRules } from "./lines.ts";

/** What adds up in memory and is written as rows, of which a store has each whole. */
export interface KeptLines<Line, Row> {
  isWritten(): boolean;
  /** True if everything is in the store and no line is of the current hour. */
  isDone(hourMs: number): boolean;
  /** The next lines to write, at most so many and the rest. */
  toWrite(most: number, what: "some" | "all"): readonly Line[];
  /** The line as it is on its way to the store. */
  rowOf(line: Line, pass: number): Row;
  replied(line: Line, reply: RowReply): void;
  forgetBefore(hourMs: number): void;
  clear(): void;
}

/** A row, for a message about it. */
interface AnyRow {
  readonly entityId: string;
  readonly resource: string;
}

/** Writes the rows of one store. */
type WriteRows<Row> = (rows: readonly Row[], nowMs: number) => MaybePromise<readonly RowReply[]>;

/**
 * Lines as rows of a store. A row is written whole, so that a write whose answer was lost can be repeated without counting twice.
 * A crash loses what was not written yet.
 */
export class LineRows<Line, Row extends AnyRow> implements BookPart {
  readonly #lines: KeptLines<Line, Row>;
  readonly #rowsPerWrite: number;
  readonly #write: WriteRows<Row>;

  constructor(
    lines: KeptLines<Line, Row>,
    { rowsPerWrite }: Pick<LineRules<never>, "rowsPerWrite">,
    write: WriteRows<Row>,
  ) {
    this.#lines = lines;
    this.#rowsPerWrite = rowsPerWrite;
    this.#write = write;
  }

  isWritten(): boolean {
    return this.#lines.isWritten();
  }

  isDone(nowMs: number): boolean {
    return this.#lines.isDone(hourOf(nowMs));
  }

  async write(user: BookUser, what: "some" | "all", pass: number): Promise<void> {
    const nowMs = user.clock.now();
    // Lines that wait for a later write have none before the end: then there are as many writes as they need.
    while (await this.#writeOnce(user, what, nowMs, pass)) {}
  }

  /** True if there is more to write at once. */
  async #writeOnce(user: BookUser, what: "some" | "all", nowMs: number, pass: number): Promise<boolean> {
    const lines = this.#lines.toWrite(this.#rowsPerWrite, what);
    if (lines.length === 0) return false;
    const rows = lines.map((line) => this.#lines.rowOf(line, pass));
    const about = rows[0] as Row;
    try {
      const replies = await this.#write(rows, nowMs);
      for (const [i, line] of lines.entries()) this.#lines.replied(line, replies[i] ?? "unknown");
      this.#lines.forgetBefore(hourOf(nowMs));
      const unsure = rows.find((_, i) => replies[i] === undefined || replies[i] === "unknown");
      if (unsure !== undefined) user.notStored(unsure, undefined);
      return unsure === undefined && what === "all" && !this.#lines.isWritten();
    } catch (error) {
      // Other errors are permanent: the namespace was deleted, the store closed, a right is missing.
      if (!(error instanceof RateLimiterUnavailable)) this.#lines.clear();
      user.notStored(about, error);
      return false;
    }
  }
}
