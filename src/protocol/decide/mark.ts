import type { ItemWrite } from "../../ports/item-store.ts";
import type { Image } from "../item/codec.ts";
import type { Ended, Event, Turn, WriteAction } from "../process/machine.ts";

/*
 * A mark that one process swaps in for the one it saw, as a machine without I/O. The write has a number of its own, which stays on
 * the item until another mark replaces it.
 *
 *   ┌─────────┐ applied ──────────────────────────────────▶ settled: ours
 *   │ sending │ failed, and the item has our number ──────▶ settled: ours (an answer was lost)
 *   └─────────┘ failed ───────────────────────────────────▶ settled: outrun, with the item as it is
 *      ▲   │    refused, out of time or attempts ──────────▶ settled: not written, as far as anybody knows
 *      └───┘    unknown: once more, with the same number: at most one of them is applied
 */
export type MarkProgress = { readonly at: "sending" } | { readonly at: "settled"; readonly result: MarkResult };

/** `outrun`: another process was faster, or the item is gone. */
export type MarkResult =
  | { readonly kind: "ours" }
  | { readonly kind: "outrun"; readonly image: Image | undefined }
  | { readonly kind: "not written"; readonly cause: unknown };

/** `isOurs`: whether an item shows the number of this write. */
export interface MarkPlan {
  readonly readingMs: number;
  readonly write: ItemWrite;
  isOurs(image: Image): boolean;
}

export type MarkAction = WriteAction | { readonly do: "settle"; readonly result: MarkResult };

export const SENDING_MARK: MarkProgress = { at: "sending" };

export function markEnded(progress: MarkProgress): Ended<MarkResult> | undefined {
  return progress.at === "settled" ? progress : undefined;
}

export function nextMark(progress: MarkProgress, { over }: Turn, { write, readingMs }: MarkPlan): MarkAction {
  if (progress.at === "settled") return { do: "settle", result: progress.result };
  if (over === undefined) return { do: "write", write, atMs: readingMs, set: undefined };
  return { do: "settle", result: { kind: "not written", cause: new Error(`There is no more ${over} for it.`) } };
}

export function onMark(progress: MarkProgress, action: MarkAction, event: Event, plan: MarkPlan): MarkProgress {
  const settled = (result: MarkResult): MarkProgress => ({ at: "settled", result });
  if (action.do === "settle") return settled(action.result);
  switch (event.kind) {
    case "applied":
      return settled({ kind: "ours" });
    case "failed": {
      const { image } = event.seen;
      const isOurs = image !== undefined && plan.isOurs(image);
      return settled(isOurs ? { kind: "ours" } : { kind: "outrun", image });
    }
    case "refused":
      return settled({ kind: "not written", cause: event.cause });
    default:
      return progress;
  }
}
