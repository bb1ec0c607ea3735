import type { AuditEvent } from "../../domain/config/audit.ts";
import type { LimitSet } from "../../domain/limits/limit-set.ts";
import type { Item, ItemKey, ItemWrite, Undecided } from "../../ports/item-store.ts";
import type { Seen } from "./bucket-cache.ts";

/**
 * Work on items, without I/O (decide/*.ts): it says what to do next, and what an answer means. `drive` sends, waits, puts answers
 * into the cache, and keeps to the budget.
 */
export interface Machine<Progress, Act extends Action, Result> {
  /** What came of it; undefined while it goes on. Asked before anything else, so that an end costs no look at the clock. */
  ended(progress: Progress): Ended<Result> | undefined;
  /** What to do; never asked of progress that has ended. */
  next(progress: Progress, turn: Turn): Act;
  on(progress: Progress, action: Act, event: Event): Progress;
  /** When it must be over. */
  untilMs(progress: Progress): number;
  /** The store throttled a write of it. */
  throttled(): void;
}

export interface Ended<Result> {
  readonly result: Result;
}

/** The circumstances of one step. `over`: what of the budget is used up. */
export interface Turn {
  readonly nowMs: number;
  readonly over: "time" | "attempts" | undefined;
}

export type Action =
  | ReadAction
  | WriteAction
  | TransactAction
  | SheetAction
  /** Wait a little, longer each time. */
  | { readonly do: "pause" }
  /** Nothing to send: the machine only moves on. */
  | { readonly do: "settle" };

/** A closed hour is put on its sheet before anything else is done. */
export interface SheetAction {
  readonly do: "sheet";
  readonly write: ItemWrite;
}

export interface ReadAction {
  readonly do: "read";
  readonly keys: readonly ItemKey[];
  readonly consistent: boolean;
  /** The reading of the clock that the observation is dated with. */
  readonly atMs: number;
  /** By key: the limits that somebody goes by; undefined where nobody does. */
  readonly sets: readonly (LimitSet | undefined)[] | undefined;
  /** The items are wanted as they stand, readable or not; nothing is concluded from them for others. */
  readonly raw?: true;
}

export interface WriteAction {
  readonly do: "write";
  readonly write: ItemWrite;
  readonly atMs: number;
  readonly set: LimitSet | undefined;
  /** It only prepares what is decided after the next read; how many of them there are depends on the shards, not on others. */
  readonly prepares?: true;
}

export interface TransactAction {
  readonly do: "transact";
  readonly writes: readonly ItemWrite[];
  readonly token: string;
  readonly event: AuditEvent | undefined;
}

export type Event =
  | {
      readonly kind: "read";
      readonly items: readonly (Item | undefined)[];
      readonly seen: readonly (Seen | undefined)[];
    }
  /** The read failed; nothing is known. */
  | { readonly kind: "unread"; readonly cause: unknown }
  /** The answer to a write; `seen` is the item after it, or the one that did not meet its condition. */
  | { readonly kind: "applied" | "failed"; readonly seen: Seen }
  /** The answer to a write beside a shard, such as a sheet: it is there, written now or before. */
  | { readonly kind: "there" }
  /** The answer to a transaction, which shows no items. */
  | { readonly kind: "committed" | "outrun" }
  | Undecided
  | { readonly kind: "moved on" };
