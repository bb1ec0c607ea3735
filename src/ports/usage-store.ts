import type { CallerCounts, UsagePosition } from "../domain/charge/caller-usage.ts";
import type { RefusalCount, RefusalFilter, RefusalKey } from "../domain/charge/refusal-count.ts";
import type { RefusalLogRow } from "../domain/charge/refusal-log.ts";
import type { UsageSnapshot, UsageWindow, Windows } from "../domain/charge/usage.ts";
import type { Page, PageRequest } from "../domain/names/paging.ts";
import type { MaybePromise } from "./bucket-store.ts";

export interface UsageQuery {
  readonly entityId?: string;
  readonly resource?: string;
  readonly window: Windows;
  /** Windows that start in [fromMs, toMs). */
  readonly fromMs: number;
  readonly toMs: number;
}

/** Usage of one namespace, kept by the store in the transactions of the takes themselves. */
export interface UsageStore {
  /** By window start, then entity, then resource. */
  query(query: UsageQuery, page: PageRequest): MaybePromise<Page<UsageSnapshot>>;
}

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
interface BookRow {
  /** Url-safe, never twice. */
  readonly id: string;
  readonly hourMs: number;
  readonly entityId: string;
  readonly resource: string;
  /** Grows with each write of the row: one that arrives late must not replace a newer one. */
  readonly version: number;
  /** It was certainly stored before. Where it is there no more, its entity was deleted, and it is not stored anew. */
  readonly mustExist: boolean;
}

/** The refusals of a row: all that were counted since it was begun. */
export interface RefusalRow extends BookRow {
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

/** A row of the log as it is written. */
export interface WrittenLogRow extends RefusalLogRow {
  /** It was certainly stored before. Where it is there no more, its entity was deleted, and it is not stored anew. */
  readonly mustExist: boolean;
}

/** Rows of hours that begin in [fromMs, toMs), of one entity or of all. */
export interface LogRowQuery {
  readonly entityId?: string;
  readonly fromMs: number;
  readonly toMs: number;
}

/** Single refusals of one namespace: a row for each process, entity and hour. Kept where counts of refusals are, for 48 hours. */
export interface RefusalLogStore {
  /** One reply a row. Throws where the namespace is not active. */
  write(rows: readonly WrittenLogRow[], nowMs: number): MaybePromise<readonly RowReply[]>;
  /** The newest hour first; in an hour in an order that stays. A page may be shorter than asked for, and have a next one. */
  list(query: LogRowQuery, page: PageRequest): MaybePromise<Page<RefusalLogRow>>;
}

/** What callers asked and no bucket counted: all since the row was begun. */
export interface CallerRow extends BookRow {
  readonly counts: CallerCounts;
}

/** Rows of one entity on one resource, added up over a window and all processes. */
export interface CallerSum extends UsagePosition {
  readonly counts: CallerCounts;
}

/** Usage of callers that no bucket counts, of one namespace, by hour. */
export interface CallerStore {
  /** Whether this store keeps any. */
  readonly isKept: boolean;
  /** A process writes at most so often. */
  readonly writeEveryMs: number;
  /** One reply a row. Throws where the namespace is not active. */
  write(rows: readonly CallerRow[], nowMs: number): MaybePromise<readonly RowReply[]>;
  /** By window start, then entity, then resource; cursors are those of `callerCursor`. A page may be shorter than asked for. */
  query(query: UsageQuery, page: PageRequest): MaybePromise<Page<CallerSum>>;
}
