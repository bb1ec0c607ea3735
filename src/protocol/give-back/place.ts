import { acrossBoundaries, availableMilli, type BucketState, findLimit } from "../../domain/bucket/bucket-state.ts";
import { hasComeTo, isOfPeriod, pinOf, type Ticket } from "../../domain/bucket/give-back.ts";
import type { Amount } from "../../domain/charge/amounts.ts";
import type { Calendar } from "../../domain/limits/calendar.ts";
import { BN, namesOf, RF, WCU } from "../item/attributes.ts";
import type { Image } from "../item/codec.ts";

/** What of a give-back goes to one shard. */
export interface Placed {
  readonly shard: number;
  /** As many shards as the bucket must have. */
  readonly shardCount: number;
  readonly amounts: readonly Amount[];
  /**
   * How much of the amounts must stay within the shard's capacity when it is applied: the next take would cut it off, and another
   * shard may have room. What the whole bucket has no room for is not among it.
   */
  readonly bounded: readonly Amount[];
}

/** Everything to the only shard there is: what rises above its capacity rises above the bucket's. */
export function unsplit(amounts: readonly Amount[]): Placed {
  return { shard: 0, shardCount: 1, amounts, bounded: [] };
}

/**
 * Where a give-back goes: to the shards with the most room, and to as few as possible. That a token came back to a shard is all
 * that the promise needs to know; whose it was, and where it was taken, does not matter. What the whole bucket has no room for
 * goes above the capacity of the first: an exact bucket would cut it off, too.
 */
export function placed(
  images: readonly Image[],
  amounts: readonly Amount[],
  ticket: Ticket,
  readingMs: number,
  calendar: Calendar,
): readonly Placed[] {
  const shares = images.map(({ key: { shard }, shardCount }) => ({
    ...{ shard, shardCount },
    amounts: [] as Amount[],
    bounded: [] as Amount[],
  }));
  const states = images.map(({ state }) => acrossBoundaries(state, readingMs, calendar));
  for (const { limit, milli } of amounts) {
    const rooms = shares
      .map((share, i) => ({ share, roomMilli: roomFor(states[i] as BucketState, limit, ticket, readingMs, calendar) }))
      .sort((a, b) => rank(b, milli) - rank(a, milli) || (b.roomMilli ?? 0) - (a.roomMilli ?? 0));
    let left = milli;
    for (const { share, roomMilli = 0 } of rooms) {
      const part = Math.min(left, roomMilli);
      if (part <= 0) break;
      share.amounts.push({ limit, milli: part });
      share.bounded.push({ limit, milli: part });
      left -= part;
    }
    if (left > 0) putMore(rooms[0]?.share.amounts ?? [], { limit, milli: left });
  }
  const used = shares.filter((share) => share.amounts.length > 0);
  return used.length > 0 ? used : shares.slice(0, 1);
}

/**
 * Whether several shards seem to have no room for what was taken from a quota in the period that they are in. It was taken from
 * them, and nothing else fills a quota: that is so where limits were changed, or where they never stood like that at one moment.
 */
export function lacksQuota(
  images: readonly Image[],
  amounts: readonly Amount[],
  ticket: Ticket,
  readingMs: number,
  calendar: Calendar,
): boolean {
  if (images.length < 2) return false;
  const states = images.map(({ state }) => acrossBoundaries(state, readingMs, calendar));
  return amounts.some(({ limit, milli }) => {
    if (pinOf(ticket, limit) === undefined) return false;
    const rooms = states.flatMap((state) => roomFor(state, limit, ticket, readingMs, calendar) ?? []);
    return rooms.length > 0 && rooms.reduce((sum, room) => sum + room, 0) < milli;
  });
}

/** Whether no shard was written between two reads: then all of them stood like that at once, when the second began. */
export function isUnwrittenSince(before: readonly Image[], images: readonly Image[]): boolean {
  return (
    before.length === images.length &&
    images.every(({ item }, i) => ALWAYS_WRITTEN.every((name) => item[name] === before[i]?.item[name]))
  );
}

/** Every write counts itself; an item that is made anew, or that counts anew, has another beginning or a later epoch. */
const ALWAYS_WRITTEN = [namesOf(WCU).tc, BN, RF];

/** Whether a shard, as it is seen now, is still the right place. */
export function isRightPlace(
  { state, shardCount }: Image,
  place: Placed,
  ticket: Ticket,
  readingMs: number,
  calendar: Calendar,
): boolean {
  if (shardCount !== place.shardCount) return false;
  const now = acrossBoundaries(state, readingMs, calendar);
  return place.bounded.every(({ limit, milli }) => (roomFor(now, limit, ticket, readingMs, calendar) ?? -1) >= milli);
}

/** How much a limit of a shard could get without rising above its capacity; undefined where the amount does not belong. */
export function roomFor(
  state: BucketState,
  limit: string,
  ticket: Ticket,
  readingMs: number,
  calendar: Calendar,
): number | undefined {
  const held = findLimit(state, limit);
  const atMs = Math.max(readingMs, state.epochMs);
  if (held === undefined || !isOfPeriod(held, ticket, atMs) || !hasComeTo(held, ticket, atMs, calendar))
    return undefined;
  return Math.max(0, held.terms.capacityMilli - availableMilli(state, held, readingMs));
}

/** First a shard that is written anyway and has room for all of it; last one to which the amount does not belong. */
function rank(
  { share, roomMilli }: { readonly share: Placed; readonly roomMilli: number | undefined },
  milli: number,
): number {
  if (roomMilli === undefined) return 0;
  return share.amounts.length > 0 && roomMilli >= milli ? 2 : 1;
}

function putMore(amounts: Amount[], { limit, milli }: Amount): void {
  const at = amounts.findIndex((one) => one.limit === limit);
  if (at < 0) amounts.push({ limit, milli });
  else amounts[at] = { limit, milli: (amounts[at]?.milli ?? 0) + milli };
}
