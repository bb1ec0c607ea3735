import type { LeaseRecord } from "../domain/lease/lease-record.ts";

/** Work that was begun under an idempotency key, by whoever has the mark. */
export interface KeyMark {
  readonly key: string;
  /** New for every beginning: only who has it may finish. */
  readonly mark: string;
}

/** The answer that a key is remembered by. */
export interface KeyFinish extends KeyMark {
  /** What a repeat is answered with; a text that the store does not read. */
  readonly answer: string;
  readonly nowMs: number;
}

/** What a take is written down with: the record of a lease, the answer under a key, or both at once. */
export interface LeaseWrite {
  readonly record: LeaseRecord | undefined;
  readonly finish: KeyFinish | undefined;
}
