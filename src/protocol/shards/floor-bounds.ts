import { divFloor } from "../../bucket/integers.ts";
import { type BucketState, findLimit, wholeOf } from "../../domain/bucket/bucket-state.ts";
import type { Calendar } from "../../domain/limits/calendar.ts";
import { floorMilli } from "../../domain/limits/floor.ts";
import { leaveOf } from "../take/floors.ts";
import type { Move } from "../take/intent.ts";
import type { Job } from "../take/job.ts";
import { roomIn } from "./split.ts";

/** What must be left of a limit of the whole bucket after a job; 0 where it has no floor, or the limit is soft. */
export function floorOfWhole(states: readonly BucketState[], limit: string, job: Job, calendar: Calendar): number {
  const leavePercent = leaveOf(job);
  if (leavePercent === 0) return 0;
  const held = findLimit(wholeOf(states, calendar), limit);
  return held === undefined || held.limit.soft ? 0 : floorMilli(held.terms.capacityMilli, leavePercent);
}

/**
 * A floor is one of the whole bucket, but a condition is about one shard. So every shard is written, or at least looked at, in the
 * transaction: each may have lost a part of what lies above the floor since it was read, and no more. Answers the moves of one shard.
 */
export function boundMoves(
  moves: readonly Move[],
  { states, at, job }: { readonly states: readonly BucketState[]; readonly at: number; readonly job: Job },
  calendar: Calendar,
): readonly Move[] {
  return moves.map((move) => {
    const { limit, milli } = move;
    const rooms = states.map((state) => roomIn(state, limit, job.readingMs));
    const total = rooms.reduce((all, room) => all + room, 0);
    const asked = job.amounts.reduce((sum, one) => (one.limit === limit ? sum + one.milli : sum), 0);
    const spareMilli = total - asked - floorOfWhole(states, limit, job, calendar);
    const least = (rooms[at] as number) - divFloor(Math.max(0, spareMilli), rooms.length);
    // A shard that gives something must have it, too.
    return { ...move, floors: [{ afterMilli: milli > 0 ? Math.max(milli, least) : least, leavePercent: 0 }] };
  });
}
