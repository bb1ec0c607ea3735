import assert from "node:assert/strict";
import type { SQLInputValue } from "node:sqlite";
import type { Connection, Statement } from "./connection.ts";

/** One statement writes at least this many levels, where it writes several. A statement for each costs a quarter more. */
export const LEVELS_TOGETHER = 16;

/** One statement writes at most this many. A level costs a fourteenth less than among 16; among 64 no less. */
export const LEVELS_TOGETHER_MAX = 2 * LEVELS_TOGETHER;

/** A row in the file whose level alone has changed. */
interface LevelRow {
  readonly rowId: number;
  /** Its name in the error where it turns out to be gone. */
  readonly key: { readonly entityId: string; readonly resource: string };
}

/** Writes the levels of rows that are in the file, several with one statement. Inside a transaction only. */
export class LevelWrites {
  readonly #one: Statement;
  readonly #several: Statement;
  readonly #most: Statement;
  /** The rows that wait for their statement, and its parameters: id and level of each in turn. */
  readonly #rows: LevelRow[] = [];
  readonly #parameters: SQLInputValue[] = [];

  constructor(connection: Connection) {
    this.#one = connection.prepare("UPDATE bucket SET level = ? WHERE id = ?");
    this.#several = connection.prepare(updateOf(LEVELS_TOGETHER));
    this.#most = connection.prepare(updateOf(LEVELS_TOGETHER_MAX));
  }

  /** Writes one level at once. */
  write({ rowId, key }: LevelRow, bytes: Uint8Array): void {
    if (Number(this.#one.run(bytes, rowId).changes) !== 1) throw gone([key]);
  }

  /** Writes a level together with others. The bytes may be used again after the call. `end` follows before the transaction ends, or `forget`. */
  put(row: LevelRow, bytes: Uint8Array): void {
    const at = 2 * this.#rows.length;
    this.#rows.push(row);
    this.#parameters[at] = row.rowId;
    const before = this.#parameters[at + 1];
    // Most levels have as many bytes as the one before that stood here: its place is used again.
    if (before instanceof Uint8Array && before.length === bytes.length) before.set(bytes);
    else this.#parameters[at + 1] = bytes.slice();
    if (this.#rows.length < LEVELS_TOGETHER_MAX) return;
    this.#checkFirst(LEVELS_TOGETHER_MAX, this.#most.run(...this.#parameters));
    this.#rows.length = 0;
  }

  /** Writes what is left. */
  end(): void {
    let written = 0;
    if (this.#rows.length >= LEVELS_TOGETHER) {
      written = LEVELS_TOGETHER;
      this.#checkFirst(written, this.#several.run(...this.#parameters.slice(0, 2 * written)));
    }
    for (let i = written; i < this.#rows.length; i++) {
      this.write(this.#rows[i] as LevelRow, this.#parameters[2 * i + 1] as Uint8Array);
    }
    this.#rows.length = 0;
  }

  #checkFirst(count: number, { changes }: { readonly changes: number | bigint }): void {
    if (Number(changes) !== count) throw gone(this.#rows.slice(0, count).map(({ key }) => key));
  }

  /** The transaction was rolled back. */
  forget(): void {
    this.#rows.length = 0;
  }
}

function updateOf(count: number): string {
  const values = Array.from({ length: count }, () => "(?, ?)").join(", ");
  return `UPDATE bucket SET level = written.column2 FROM (VALUES ${values}) AS written WHERE id = written.column1`;
}

/** An update that meets no row would be a grant that is not stored anywhere. */
function gone(keys: readonly LevelRow["key"][]): Error {
  const names = keys.map(({ entityId, resource }) => `${entityId} on ${resource}`).join(", ");
  return new assert.AssertionError({
    message: `Not all of these buckets are in the file, but all are in memory: ${names}.`,
  });
}
