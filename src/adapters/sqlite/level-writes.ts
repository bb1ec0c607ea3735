import { AssertionError } from "node:assert";
import type { SQLInputValue } from "node:sqlite";
import type { Connection, Statement } from "./connection.ts";

/** How many levels one statement writes. A statement for each costs a quarter more, one for all of 64 no less. */
export const LEVELS_TOGETHER = 16;

/** A row in the file whose level alone has changed. */
interface LevelRow {
  readonly rowId: number;
  /** What it is called where it turns out to be gone. */
  readonly key: { readonly entityId: string; readonly resource: string };
}

/** Writes the levels of rows that are in the file, several with one statement. Inside a transaction only. */
export class LevelWrites {
  readonly #one: Statement;
  readonly #several: Statement;
  /** The rows that wait for their statement, and its parameters: id and level of each in turn. */
  readonly #rows: LevelRow[] = [];
  readonly #parameters: SQLInputValue[] = [];

  constructor(connection: Connection) {
    const values = Array.from({ length: LEVELS_TOGETHER }, () => "(?, ?)").join(", ");
    this.#one = connection.prepare("UPDATE bucket SET level = ? WHERE id = ?");
    this.#several = connection.prepare(
      `UPDATE bucket SET level = written.column2 FROM (VALUES ${values}) AS written WHERE id = written.column1`,
    );
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
    if (this.#rows.length < LEVELS_TOGETHER) return;
    const { changes } = this.#several.run(...this.#parameters);
    if (Number(changes) !== LEVELS_TOGETHER) throw gone(this.#rows.map(({ key }) => key));
    this.#rows.length = 0;
  }

  /** Writes what is left. */
  end(): void {
    for (let i = 0; i < this.#rows.length; i++) {
      this.write(this.#rows[i] as LevelRow, this.#parameters[2 * i + 1] as Uint8Array);
    }
    this.#rows.length = 0;
  }

  /** The transaction was rolled back. */
  forget(): void {
    this.#rows.length = 0;
  }
}

/** An update that meets no row would be a grant that is not stored anywhere. */
function gone(keys: readonly LevelRow["key"][]): AssertionError {
  const names = keys.map(({ entityId, resource }) => `${entityId} on ${resource}`).join(", ");
  return new AssertionError({ message: `Not all of these buckets are in the file, but all are in memory: ${names}.` });
}
