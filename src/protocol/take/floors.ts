import type { LimitState } from "../../domain/bucket/bucket-state.ts";
import type { Amount } from "../../domain/charge/amounts.ts";
import { neededForAll } from "../../domain/limits/floor.ts";
import type { Claim, Held } from "../../ports/bucket-store.ts";
import type { Move } from "./intent.ts";

/** A job, as far as its floor is concerned. */
interface Taking {
  readonly of: Claim | Held;
  readonly kind: "take" | "debit" | "renew";
  readonly amounts: readonly Amount[];
}

/** How many percent of each limit a job must leave. */
export function leaveOf({ of, kind }: Pick<Taking, "of" | "kind">): number {
  return kind === "take" && "leavePercent" in of ? (of.leavePercent ?? 0) : 0;
}

/** The moves of a write with the floors of its jobs, which take one after the other; the same where none has a floor. */
export function withFloors(moves: readonly Move[], jobs: readonly Taking[]): readonly Move[] {
  if (jobs.every((job) => leaveOf(job) === 0)) return moves;
  return moves.map((move) => {
    let afterMilli = 0;
    const floors = jobs.flatMap((job) => {
      if (job.of.bypass) return [];
      return job.amounts.flatMap(({ limit, milli }) => {
        if (limit !== move.limit) return [];
        afterMilli += milli;
        return [{ afterMilli, leavePercent: leaveOf(job) }];
      });
    });
    return { ...move, floors };
  });
}

/**
 * What a limit must hold for a move that it may refuse. A floor is one of the whole bucket: what a shard holds says nothing of it, so
 * no shard has enough by itself, and all of them are asked together (shards/gather.ts).
 */
export function neededOf({ milli, floors }: Pick<Move, "milli" | "floors">, { terms, part }: LimitState): number {
  if (floors === undefined) return milli;
  if (part !== undefined && floors.some(({ leavePercent }) => leavePercent > 0)) return Number.MAX_SAFE_INTEGER;
  return neededForAll(floors, terms.capacityMilli);
}

/** The same for an amount of one job. */
export function neededBy(job: Taking, milli: number, held: LimitState): number {
  const leavePercent = leaveOf(job);
  if (leavePercent === 0) return milli;
  const floors = [{ afterMilli: milli, leavePercent }];
  return neededOf({ milli, floors }, held);
}
