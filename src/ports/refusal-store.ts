import type { RefusalCount, RefusalFilter, RefusalKey } from "../domain/charge/refusal-count.ts";
import type { UsageWindow } from "../domain/charge/usage.ts";
import type { Page, PageRequest } from "../domain/names/paging.ts";
import type { MaybePromise } from "./bucket-store.ts";

export interface RefusalQuery extends RefusalFilter {
  readonly window: UsageWindow;
  /** Windows that start in [fromMs, toMs). */
  readonly fromMs: number;
  readonly toMs: number;
}

/**
 * What one process counted of one entity on one resource in one hour. It is written whole each time, so that a write whose answer
 * was lost can be sent again without counting anything twice; no two processes write the same row.
 */
export interface RefusalRow {
  /** Url-safe, never twice. */
  readonly id: string;
  readonly hourMs: number;
  readonly entityId: string;
  readonly resource: string;
  /** Grows with each write of the row: one that arrives late must not replace a newer one. */
  readonly version: number;
  /** It was certainly stored before. Where it is there no more, its entity was deleted, and it is not stored anew. */
  readonly mustExist: boolean;
  /** All that was counted since the row was begun. */
  readonly counts: readonly (Pick<RefusalKey, "limit" | "level" | "total"> & { readonly count: number })[];
}

/** `gone`: it had to be there and was not. `unknown`: it may have been written; the same row may be sent again. */
export type RowReply = "stored" | "gone" | "unknown";

/** How many requests of one namespace were refused, by hour. */
export interface RefusalStore {
  /** Whether this store keeps any; where not, a query is an error. */
  readonly isKept: boolean;
  /** A process writes at most so often. */
  readonly writeEveryMs: number;
  /** One reply a row. Throws where the namespace is not active. */
  write(rows: readonly RefusalRow[], nowMs: number): MaybePromise<readonly RowReply[]>;
  /**
   * In the order of `compareRefusals`; cursors are those of `refusalCursor`. A page may be shorter than asked for, and have a next
   * one: then all up to the place of the cursor was looked at.
   */
  query(query: RefusalQuery, page: PageRequest): MaybePromise<Page<RefusalCount>>;
}
