import type { AuditEvent } from "../../domain/config/audit.ts";
import type { LimitSet } from "../../domain/limits/limit-set.ts";
import type { Item, ItemKey, ItemWrite, Undecided } from "../../ports/item-store.ts";
import type { Seen } from "./bucket-cache.ts";

/**
 * Work on items, without I/O (decide/*.ts): `next` chooses an action, `on` applies its answer. `drive` sends, waits, puts answers
 * into the cache, and keeps to the budget.
 */
export interface Machine<Progress, Act extends Action, Result> {
  /** The result; undefined while it goes on. It is asked first, so that an end costs no look at the clock. */
  ended(progress: Progress): Ended<Result> | undefined;
  /** The next action, or the end; never asked of progress that has ended. */
  next(progress: Progress, turn: Turn): Act | End<Result>;
  on(progress: Progress, action: Act, event: Event): Progress;
  /** Its deadline; absent: none. */
  untilMs?(progress: Progress): number;
  /** The store throttled one of its writes. */
  throttled?(): void;
}

export interface Ended<Result> {
  readonly result: Result;
}

/** Nothing is left to do. */
export interface End<Result> extends Ended<Result> {
  readonly do: "end";
}

/** The circumstances of one step. `over`: the part of the budget that is used up. */
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

/** Puts a closed hour on its sheet before anything else is done. */
export interface SheetAction {
  readonly do: "sheet";
  readonly write: ItemWrite;
}

export interface ReadAction {
  readonly do: "read";
  readonly keys: readonly ItemKey[];
  readonly consistent: boolean;
  /** The reading that dates the observation. */
  readonly atMs: number;
  /** By key: the limits of the request; undefined if there is none. */
  readonly sets: readonly (LimitSet | undefined)[] | undefined;
  /** Returns the items unchecked and keeps them out of the cache. */
  readonly raw?: true;
}

export interface WriteAction {
  readonly do: "write";
  readonly write: ItemWrite;
  readonly atMs: number;
  readonly set: LimitSet | undefined;
  /** The write prepares what is decided after the next read; the number of such writes depends on the shards, not on others. */
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
  | { readonly kind: "unread"; readonly cause: unknown }
  /** The answer to a write; `seen` is the item after it, or the one that failed its condition. */
  | { readonly kind: "applied" | "failed"; readonly seen: Seen }
  /** The answer to a write beside a shard, such as a sheet: it is there, written now or before. */
  | { readonly kind: "there" }
  /** The answer to a transaction, which shows no items. */
  | { readonly kind: "committed" | "outrun" }
  | Undecided
  | { readonly kind: "moved on" };
