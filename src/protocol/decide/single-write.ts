import type { ItemWrite } from "../../ports/item-store.ts";
import type { Seen } from "../process/bucket-cache.ts";
import type { Ended, Event, Machine, Turn, WriteAction } from "../process/machine.ts";

/*
 * One write to one shard, apart from the takes, as a machine without I/O: changed limits, a stamp, a mark. Its plan says what an
 * answer means.
 *
 *   ┌─────────┐ nothing to write, out of time or attempts ──▶ ended
 *   │ sending │ applied, failed, refused, unknown ──────────▶ ended, or sent again
 *   └─────────┘
 */
export interface SingleWrite<Result> {
  readonly readingMs: number;
  /** The write for the item as it was last seen; or the result, if there is nothing to write. */
  writeFor(seen: Seen | undefined): ItemWrite | Ended<Result>;
  /** The result after an answer; undefined: the write is sent again. */
  answered(event: Event): Ended<Result> | undefined;
  gaveUp(over: NonNullable<Turn["over"]>): Result;
}

/** Undefined while the write is being sent. */
type Progress<Result> = Ended<Result> | undefined;

export function singleWrite<Result>(
  plan: SingleWrite<Result>,
  cached: () => Seen | undefined,
  untilMs: number,
): Machine<Progress<Result>, WriteAction, Result> {
  return {
    ended: (progress) => progress,
    next: (_, { over }) => {
      if (over !== undefined) return { do: "end", result: plan.gaveUp(over) };
      const write = plan.writeFor(cached());
      if ("result" in write) return { do: "end", result: write.result };
      return { do: "write", write, atMs: plan.readingMs, set: undefined };
    },
    on: (_, __, event) => plan.answered(event),
    untilMs: () => untilMs,
  };
}
