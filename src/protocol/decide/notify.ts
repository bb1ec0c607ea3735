import type { ItemWrite } from "../../ports/item-store.ts";
import type { Seen } from "../process/bucket-cache.ts";
import type { Ended, Event, Turn, WriteAction } from "../process/machine.ts";

/*
 * A write that one shard must get besides the takes, as a machine without I/O: changed limits, a mark, a stamp.
 *
 *   ┌─────────┐ nothing to write, or the item is gone ──▶ settled: nothing
 *   │ sending │ applied ────────────────────────────────▶ settled: written
 *   └─────────┘ refused for good, out of attempts ──────▶ settled: not written
 *      ▲   │    unknown: once more where writing it twice does no harm; otherwise settled: not written
 *      └───┘    failed: once more where the write depends on the item; otherwise it is gone: settled: nothing
 */
export type NotifyProgress = { readonly at: "sending" } | { readonly at: "settled"; readonly result: Notified };

export type Notified = "written" | "not written" | "nothing";

export interface NotifyPlan {
  readonly readingMs: number;
  /** Whether the write is the same whatever the item says, so that it may be sent twice. */
  readonly isIdempotent: boolean;
  /** What to write to the item as it was last seen; or that nothing is to be written, or must not be. */
  writeFor(seen: Seen | undefined): ItemWrite | Exclude<Notified, "written">;
}

export type NotifyAction = WriteAction | { readonly do: "settle"; readonly result: Notified };

export function notifyEnded(progress: NotifyProgress): Ended<Notified> | undefined {
  return progress.at === "settled" ? progress : undefined;
}

export function nextNotify(
  progress: NotifyProgress,
  { cached, over }: Turn & { readonly cached: Seen | undefined },
  plan: NotifyPlan,
): NotifyAction {
  if (progress.at === "settled") return { do: "settle", result: progress.result };
  if (over !== undefined) return { do: "settle", result: "not written" };
  const write = plan.writeFor(cached);
  if (typeof write === "string") return { do: "settle", result: write };
  return { do: "write", write, atMs: plan.readingMs, set: undefined };
}

export function onNotify(
  progress: NotifyProgress,
  action: NotifyAction,
  event: Event,
  plan: NotifyPlan,
): NotifyProgress {
  if (action.do === "settle") return { at: "settled", result: action.result };
  switch (event.kind) {
    case "applied":
      return { at: "settled", result: "written" };
    case "failed":
      return plan.isIdempotent ? { at: "settled", result: "nothing" } : progress;
    case "unknown":
      return plan.isIdempotent ? progress : { at: "settled", result: "not written" };
    case "refused":
      return { at: "settled", result: "not written" };
    default:
      return progress;
  }
}
