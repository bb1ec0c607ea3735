import {
  acrossBoundaries,
  availableMilli,
  type BucketState,
  findLimit,
  type LimitState,
} from "../../domain/bucket/bucket-state.ts";
import { hasComeTo, isOfPeriod, pinOf, type Ticket } from "../../domain/bucket/give-back.ts";
import { type Amount, sumByLimit } from "../../domain/charge/amounts.ts";
import type { Calendar } from "../../domain/limits/schedule.ts";
import { BN, namesOf, RF, WCU } from "../item/attributes.ts";
import type { Image } from "../item/codec.ts";

/** The take that is given back, and when. */
interface TakenAs {
  readonly ticket: Ticket;
  readonly readingMs: number;
  readonly calendar: Calendar;
}

/** The part of a give-back for one shard. */
export interface Placed {
  readonly shard: number;
  /** The number of shards that the bucket must have. */
  readonly shardCount: number;
  readonly amounts: readonly Amount[];
  /**
   * The part of the amounts that must stay within the shard's capacity: the next take would cut it off, and another shard may
   * have room. It excludes what the whole bucket has no room for.
   */
  readonly bounded: readonly Amount[];
}

/** Everything to the only shard: what exceeds its capacity exceeds the bucket's. */
export function unsplit(amounts: readonly Amount[]): Placed {
  return { shard: 0, shardCount: 1, amounts, bounded: [] };
}

/**
 * Places a give-back on the shards with the most room, and on as few as possible. It does not matter where the tokens were taken,
 * or by which lease. What the whole bucket has no room for goes above the capacity of the first shard: an exact bucket would cut
 * it off too.
 */
export function placesFor(images: readonly Image[], amounts: readonly Amount[], of: TakenAs): readonly Placed[] {
  const shares = images.map(({ key: { shard }, shardCount }) => ({
    shard,
    shardCount,
    amounts: [] as Amount[],
    bounded: [] as Amount[],
  }));
  const states = images.map(({ state }) => acrossBoundaries(state, of.readingMs, of.calendar));
  for (const { limit, milli } of amounts) {
    const rooms = shares
      .map((share, i) => ({ share, roomMilli: roomFor(states[i] as BucketState, limit, of) }))
      .sort((a, b) => rank(b, milli) - rank(a, milli) || (b.roomMilli ?? 0) - (a.roomMilli ?? 0));
    let left = milli;
    for (const { share, roomMilli = 0 } of rooms) {
      const part = Math.min(left, roomMilli);
      if (part <= 0) break;
      share.amounts.push({ limit, milli: part });
      share.bounded.push({ limit, milli: part });
      left -= part;
    }
    if (left > 0) rooms[0]?.share.amounts.push({ limit, milli: left });
  }
  const sums = shares.map((share) => ({ ...share, amounts: sumByLimit(share.amounts) }));
  const used = sums.filter((share) => share.amounts.length > 0);
  return used.length > 0 ? used : sums.slice(0, 1);
}

/**
 * True if several shards seem to have no room for what was taken from a quota in its current period. Nothing else fills a quota:
 * so limits were changed, or the shards never stood like that at one moment.
 */
export function lacksQuota(images: readonly Image[], amounts: readonly Amount[], of: TakenAs): boolean {
  if (images.length < 2) return false;
  const states = images.map(({ state }) => acrossBoundaries(state, of.readingMs, of.calendar));
  return amounts.some(({ limit, milli }) => {
    if (pinOf(of.ticket, limit) === undefined) return false;
    const rooms = states.flatMap((state) => roomFor(state, limit, of) ?? []);
    return rooms.length > 0 && rooms.reduce((sum, room) => sum + room, 0) < milli;
  });
}

/** True if no shard was written between two reads: then all of them stood like that at once, when the second began. */
export function isUnwrittenSince(before: readonly Image[], images: readonly Image[]): boolean {
  return (
    before.length === images.length &&
    images.every(({ item }, i) => ALWAYS_WRITTEN.every((name) => item[name] === before[i]?.item[name]))
  );
}

/** Every write counts itself; an item that is made anew, or that counts anew, has another `bn` or a later epoch. */
const ALWAYS_WRITTEN = [namesOf(WCU).tc, BN, RF];

export function isRightPlace({ state, shardCount }: Image, place: Placed, of: TakenAs): boolean {
  if (shardCount !== place.shardCount) return false;
  const now = acrossBoundaries(state, of.readingMs, of.calendar);
  return place.bounded.every(({ limit, milli }) => (roomFor(now, limit, of) ?? -1) >= milli);
}

/** The amount that a limit of a shard can get within its capacity; undefined if the amount does not belong there. */
export function roomFor(state: BucketState, limit: string, of: TakenAs): number | undefined {
  const held = findLimit(state, limit);
  if (held === undefined || !belongs(state, held, of)) return undefined;
  return Math.max(0, held.terms.capacityMilli - availableMilli(state, held, of.readingMs));
}

/** True if tokens of the ticket belong to a limit of the bucket at the reading. */
export function belongs(state: BucketState, held: LimitState, { ticket, readingMs, calendar }: TakenAs): boolean {
  const atMs = Math.max(readingMs, state.epochMs);
  return isOfPeriod(held, ticket, atMs) && hasComeTo(held, ticket, atMs, calendar);
}

/** A shard that is written anyway and has room for all comes first; one to which the amount does not belong comes last. */
function rank(
  { share, roomMilli }: { readonly share: Placed; readonly roomMilli: number | undefined },
  milli: number,
): number {
  if (roomMilli === undefined) return 0;
  return share.amounts.length > 0 && roomMilli >= milli ? 2 : 1;
}
