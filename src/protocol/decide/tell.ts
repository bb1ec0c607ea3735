import type { ItemWrite } from "../../ports/item-store.ts";
import type { Seen } from "../bucket-cache.ts";
import type { Ended, Event, Turn, WriteAction } from "../drive.ts";

/*
 * Something that one shard is to be told of, as a machine without I/O: changed limits, a mark, a stamp.
 *
 *   ┌─────────┐ nothing to say, or the item is gone ──▶ settled: nothing
 *   │ telling │ applied ──────────────────────────────▶ settled: told
 *   └─────────┘ refused for good, out of attempts ────▶ settled: not told
 *      ▲   │    unknown: once more where saying it twice says the same; otherwise settled: not told
 *      └───┘    failed: once more where the write depends on the item; otherwise it is gone: settled: nothing
 */
export type TellProgress = { readonly at: "telling" } | { readonly at: "settled"; readonly result: Telling };

export type Telling = "told" | "not told" | "nothing";

export interface TellPlan {
  readonly readingMs: number;
  /** Whether the write is the same whatever the item says, so that it may be sent twice. */
  readonly isIdempotent: boolean;
  /** What to write to the item as it was last seen; or that nothing is to be said, or must not. */
  writeFor(seen: Seen | undefined): ItemWrite | Exclude<Telling, "told">;
}

export type TellAction = WriteAction | { readonly do: "settle"; readonly result: Telling };

export function tellEnded(progress: TellProgress): Ended<Telling> | undefined {
  return progress.at === "settled" ? progress : undefined;
}

export function nextTell(
  progress: TellProgress,
  { cached, over }: Turn & { readonly cached: Seen | undefined },
  plan: TellPlan,
): TellAction {
  if (progress.at === "settled") return { do: "settle", result: progress.result };
  if (over !== undefined) return { do: "settle", result: "not told" };
  const write = plan.writeFor(cached);
  if (typeof write === "string") return { do: "settle", result: write };
  return { do: "write", write, atMs: plan.readingMs, set: undefined };
}

export function onTell(progress: TellProgress, action: TellAction, event: Event, plan: TellPlan): TellProgress {
  if (action.do === "settle") return { at: "settled", result: action.result };
  switch (event.kind) {
    case "applied":
      return { at: "settled", result: "told" };
    case "failed":
      return plan.isIdempotent ? { at: "settled", result: "nothing" } : progress;
    case "unknown":
      return plan.isIdempotent ? progress : { at: "settled", result: "not told" };
    case "refused":
      return { at: "settled", result: "not told" };
    default:
      return progress;
  }
}
