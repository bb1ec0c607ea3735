import type { ItemWrite, Undecided } from "../../ports/item-store.ts";
import type { Machine, WriteAction } from "../process/machine.ts";

/*
 * A closed hour is put on its sheet, as a machine without I/O. What is closed is final, so it may be written any number of times.
 *
 *   ┌─────────┐ applied, or failed: it is there already ──▶ there
 *   │ sending │ ── refused, unknown ──▶ pausing, then once more
 *   └─────────┘ out of time or attempts ──────────────────▶ ended: what the store said last
 */
export type SheetProgress =
  | { readonly at: "sending"; readonly last: Undecided | undefined }
  | { readonly at: "pausing"; readonly last: Undecided }
  | { readonly at: "there" };

type SheetStep = WriteAction | { readonly do: "pause" };

export const SENDING_SHEET: SheetProgress = Object.freeze({ at: "sending", last: undefined });

export function sheetWriting(
  write: ItemWrite,
  untilMs: number,
): Machine<SheetProgress, SheetStep, "there" | Undecided> {
  return {
    ended: ({ at }) => (at === "there" ? { result: at } : undefined),
    next: (progress, { over, nowMs }) => {
      if (progress.at === "there") return { do: "end", result: "there" };
      if (over !== undefined && progress.last !== undefined) return { do: "end", result: progress.last };
      if (progress.at === "pausing") return { do: "pause" };
      // One try is made even if there is no time left.
      return { do: "write", write, atMs: nowMs, set: undefined };
    },
    on: (progress, _, event) => {
      if (progress.at === "pausing") return { at: "sending", last: progress.last };
      if (event.kind === "there") return { at: "there" };
      return event.kind === "refused" || event.kind === "unknown" ? { at: "pausing", last: event } : progress;
    },
    untilMs: () => untilMs,
  };
}
