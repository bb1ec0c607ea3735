import type { Journal } from "./journal.ts";

/** Counts the limits that a bucket had, had no longer, and has again. */
export class Forgotten {
  readonly #journal: Journal;
  readonly #buckets = new Map<string, { had: ReadonlySet<string>; readonly gone: Set<string> }>();

  constructor(journal: Journal) {
    this.#journal = journal;
  }

  /** The limits that stand on a bucket now; none where there is no bucket. */
  note(bucketId: string, names: readonly string[]): void {
    const bucket = this.#buckets.get(bucketId) ?? { had: new Set<string>(), gone: new Set<string>() };
    this.#buckets.set(bucketId, bucket);
    for (const name of bucket.had) if (!names.includes(name)) bucket.gone.add(name);
    for (const name of names) if (bucket.gone.delete(name)) this.#journal.count("forgotten limits that come back");
    bucket.had = new Set(names);
  }
}
