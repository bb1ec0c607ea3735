import type { ItemWrite, Undecided } from "../../ports/item-store.ts";
import type { Ended, Event, Machine, Turn, WriteAction } from "../process/machine.ts";

/*
 * A closed hour is put on its sheet, as a machine without I/O. What is closed is final, so it may be written any number of times.
 *
 *   ┌─────────┐ applied, or failed: it is there already ──▶ settled: there
 *   │ sending │ ── refused, unknown ──▶ pausing, then once more
 *   └─────────┘ out of time or attempts ──────────────────▶ settled: what the store said last
 */
export type SheetProgress =
  | { readonly at: "sending"; readonly last: Undecided | undefined }
  | { readonly at: "pausing"; readonly last: Undecided }
  | { readonly at: "settled"; readonly result: "there" | Undecided };

type SheetStep =
  | WriteAction
  | { readonly do: "pause" }
  | { readonly do: "settle"; readonly result: "there" | Undecided };

export const SENDING_SHEET: SheetProgress = Object.freeze({ at: "sending", last: undefined });

export class SheetWriting implements Machine<SheetProgress, SheetStep, "there" | Undecided> {
  readonly #write: ItemWrite;
  readonly #untilMs: number;

  constructor(write: ItemWrite, untilMs: number) {
    this.#write = write;
    this.#untilMs = untilMs;
  }

  ended(progress: SheetProgress): Ended<"there" | Undecided> | undefined {
    return progress.at === "settled" ? progress : undefined;
  }

  next(progress: SheetProgress, { over, nowMs }: Turn): SheetStep {
    if (progress.at === "settled") return { do: "settle", result: progress.result };
    if (over !== undefined && progress.last !== undefined) return { do: "settle", result: progress.last };
    if (progress.at === "pausing") return { do: "pause" };
    // Also where there is no time for it: one try is made.
    return { do: "write", write: this.#write, atMs: nowMs, set: undefined };
  }

  on(progress: SheetProgress, action: SheetStep, event: Event): SheetProgress {
    if (action.do === "settle") return { at: "settled", result: action.result };
    if (progress.at === "pausing") return { at: "sending", last: progress.last };
    switch (event.kind) {
      case "there":
        return { at: "settled", result: "there" };
      case "refused":
      case "unknown":
        return { at: "pausing", last: event };
      default:
        return progress;
    }
  }

  untilMs(): number {
    return this.#untilMs;
  }

  throttled(): void {}
}
