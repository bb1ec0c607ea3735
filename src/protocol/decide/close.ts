import type { ItemUnreadable } from "../../domain/bucket/item-unreadable.ts";
import { timeOfEnded } from "../../domain/bucket/slot-time.ts";
import { HOUR_MS } from "../../domain/charge/usage.ts";
import type { Image } from "../item/codec.ts";
import type { Ended, Event, SheetAction, Turn, WriteAction } from "../process/machine.ts";
import type { Env } from "../take/intent.ts";
import { closedHourIn, hourNumber, isNothing, isOnSheet, openHourIn } from "../usage/hours.ts";
import { rollWrite } from "../usage/roll.ts";
import { sheetWrite } from "../usage/sheet-text.ts";
import { shortenExpiry } from "../usage/shorten-expiry.ts";

/*
 * The hours of one shard that nobody writes to any more are closed, as a machine without I/O. Each step goes by the item as it was
 * seen last: an answer shows it anew.
 *
 *   ┌──────┐ an hour beside the open one ── sheet ──▶ seen; settled: failed, where it could not be written
 *   │      │ the open one is over ───────── roll ───▶ (answer)
 *   │ seen │ a hold ended by itself ─────── roll ───▶ (answer)
 *   │      │ nothing was counted ── shorten expiry ─▶ (answer)
 *   │      │ nothing is left to do ─────────────────▶ settled: closed
 *   └──────┘ the open one is not over for long ─────▶ settled: open
 *      ▲
 *   (answer) applied, failed: seen. No item: settled: gone. refused, unknown: settled: failed
 */
export type CloseProgress =
  | { readonly at: "seen"; readonly image: Image; readonly hours: number }
  | { readonly at: "settled"; readonly result: ShardClosed };

export interface CloseOptions {
  readonly nowMs: number;
  /** An open hour is closed when it has been over for this many hours. */
  readonly afterHours: number;
}

/** What became of one shard. `hours`: how many hours this call put on their sheets. */
export type ShardClosed =
  /** Nothing is left on it that is not on a sheet. */
  | { readonly kind: "closed"; readonly hours: number; readonly shardCount: number }
  /** Its open hour, in hours since 1970, has not been over for long enough. */
  | { readonly kind: "open"; readonly hours: number; readonly shardCount: number; readonly openHour: number }
  | { readonly kind: "gone" }
  /** It is damaged: its hours stay as they are until it is mended or reset. */
  | { readonly kind: "unreadable"; readonly cause: ItemUnreadable }
  /** Others wrote at every attempt, or the store did not answer: next time. */
  | { readonly kind: "failed"; readonly cause: unknown };

export type CloseAction = WriteAction | SheetAction | { readonly do: "settle"; readonly result: ShardClosed };

interface CloseFacts extends Turn {
  /** The hour of the shard that is known to be on its sheet. */
  readonly sheeted: number | undefined;
}

export function closeEnded(progress: CloseProgress): Ended<ShardClosed> | undefined {
  return progress.at === "settled" ? progress : undefined;
}

export function nextClose(
  progress: CloseProgress,
  { over, sheeted }: CloseFacts,
  { nowMs, afterHours }: CloseOptions,
  env: Env,
): CloseAction {
  if (progress.at === "settled") return { do: "settle", result: progress.result };
  const { image, hours } = progress;
  const { item, key, hourEndMs, shardCount } = image;
  const closed = isOnSheet(item, sheeted) ? undefined : closedHourIn(item);
  if (closed !== undefined) return { do: "sheet", write: sheetWrite(key, closed, env) };
  const done: CloseAction = { do: "settle", result: { kind: "closed", hours, shardCount } };
  const open = openHourIn(item);
  // An item of an earlier release has no hour, and nothing to close.
  if (open === undefined) return done;
  const isCounted = !isNothing(open);
  if (isCounted && hourEndMs + afterHours * HOUR_MS > nowMs) {
    return { do: "settle", result: { kind: "open", openHour: open.hour, hours, shardCount } };
  }
  // Left to its expiry, it would take with it holds that ended by themselves: nothing has counted them yet.
  const hasEnded = timeOfEnded(image.state, { epochMs: nowMs }).length > 0;
  const write =
    isCounted || hasEnded
      ? rollWrite(image, { hour: hourNumber(nowMs), readingMs: nowMs, sheeted }, env)
      : shortenExpiry(image, nowMs, env);
  if (write === undefined) return done;
  if (over !== undefined) return { do: "settle", result: failed(new Error("the item changed at every attempt")) };
  return { do: "write", write, atMs: nowMs, set: undefined };
}

export function onClose(progress: CloseProgress, action: CloseAction, event: Event): CloseProgress {
  if (action.do === "settle") return { at: "settled", result: action.result };
  if (progress.at === "settled") return progress;
  switch (event.kind) {
    case "there":
      return { ...progress, hours: progress.hours + 1 };
    case "applied":
    case "failed": {
      const { image } = event.seen;
      return image === undefined ? { at: "settled", result: { kind: "gone" } } : { ...progress, image };
    }
    case "refused":
    case "unknown": {
      const cause =
        action.do === "sheet" ? new Error("the sheet could not be written", { cause: event.cause }) : event.cause;
      return { at: "settled", result: failed(cause) };
    }
    default:
      return progress;
  }
}

function failed(cause: unknown): ShardClosed {
  return { kind: "failed", cause };
}
