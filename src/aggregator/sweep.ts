/** What a sweep did. */
export interface SweepReport {
  /** Whether every namespace was gone through; otherwise the next sweep goes on where this one stopped. */
  readonly complete: boolean;
  /** Shards of buckets that were looked at. */
  readonly bucketsSwept: number;
  /** Hours that were written to their sheets. */
  readonly hoursClosed: number;
  readonly shardsJoined: number;
  /** Deletions of entities that had been cut off, and were brought to their end. */
  readonly deletionsFinished: number;
  /** Purges of namespaces likewise. */
  readonly purgesFinished: number;
  /** Buckets that could not be closed this time; the next sweep tries again. */
  readonly failures: number;
  /** All hours before this instant are on sheets, in every namespace; absent where that is not known. */
  readonly closedUntilMs?: number;
}
