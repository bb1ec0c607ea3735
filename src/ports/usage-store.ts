import type { UsageSnapshot, UsageWindow } from "../domain/charge/usage.ts";
import type { Page, PageRequest } from "../domain/names/paging.ts";
import type { MaybePromise } from "./bucket-store.ts";

export interface UsageQuery {
  readonly entityId?: string;
  readonly resource?: string;
  readonly window: UsageWindow;
  /** Windows that start in [fromMs, toMs). */
  readonly fromMs: number;
  readonly toMs: number;
}

/** Usage of one namespace, kept by the store in the transactions of the takes themselves. */
export interface UsageStore {
  /** By window start, then entity, then resource. */
  query(query: UsageQuery, page: PageRequest): MaybePromise<Page<UsageSnapshot>>;
}
