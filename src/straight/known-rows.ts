import type { BucketRecord } from "../stored/bucket-record.ts";

/** A row as this process last saw it. */
export interface KnownRow {
  readonly version: number;
  readonly record: BucketRecord;
}

/**
 * The rows of one namespace as they were last seen. They may be older than the store's: a request that goes by an old one is answered
 * `again`. What is not known is taken not to be there.
 */
export class KnownRows {
  readonly #max: number;
  #rows = new Map<string, KnownRow>();
  #older = new Map<string, KnownRow>();

  /** `max`: so many are meant to be in use at once; of those that were not used for longest, up to as many more are kept. */
  constructor(max: number) {
    this.#max = max;
  }

  get(id: string): KnownRow | undefined {
    const row = this.#rows.get(id);
    if (row !== undefined) return row;
    const older = this.#older.get(id);
    if (older !== undefined) this.set(id, older);
    return older;
  }

  set(id: string, row: KnownRow): void {
    this.#rows.set(id, row);
    if (this.#rows.size < this.#max) return;
    this.#older = this.#rows;
    this.#rows = new Map();
  }

  forget(id: string): void {
    this.#rows.delete(id);
    this.#older.delete(id);
  }
}
