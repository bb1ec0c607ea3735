import type { Amount } from "../domain/amounts.ts";
import { acrossBoundaries, availableMilli, type BucketState, findLimit } from "../domain/bucket-state.ts";
import type { Calendar } from "../domain/calendar.ts";
import { isOfPeriod, type Ticket } from "../domain/give-back.ts";
import type { Image } from "./codec.ts";

/** What of a give-back goes to one shard. */
export interface Placed {
  readonly shard: number;
  /** As many shards as the bucket must have. */
  readonly shardCount: number;
  readonly amounts: readonly Amount[];
  /** Limits whose amount must stay within the shard's capacity: the next take would cut it off, and another shard has room. */
  readonly bounded: readonly string[];
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
  const shares = images.map(() => ({ amounts: [] as Amount[], bounded: [] as string[] }));
  const states = images.map(({ state }) => acrossBoundaries(state, readingMs, calendar));
  for (const { limit, milli } of amounts) {
    const rooms = states
      .map((state, i) => ({ i, roomMilli: roomFor(state, limit, ticket, readingMs) }))
      .filter(({ roomMilli }) => roomMilli !== undefined)
      .map(({ i, roomMilli }) => ({ i, roomMilli: roomMilli ?? 0, isUsed: (shares[i]?.amounts.length ?? 0) > 0 }))
      // One that is written anyway and has room for all of it; else the roomiest first.
      .sort((a, b) => wholly(b, milli) - wholly(a, milli) || b.roomMilli - a.roomMilli);
    const total = rooms.reduce((sum, { roomMilli }) => sum + roomMilli, 0);
    let left = milli;
    for (const { i, roomMilli } of rooms) {
      const part = Math.min(left, roomMilli);
      if (part <= 0) break;
      shares[i]?.amounts.push({ limit, milli: part });
      if (total >= milli) shares[i]?.bounded.push(limit);
      left -= part;
    }
    if (left > 0) putMore(shares[rooms[0]?.i ?? 0]?.amounts ?? [], { limit, milli: left });
  }
  const used = shares.flatMap((share, i) =>
    share.amounts.length === 0 ? [] : [{ ...share, image: images[i] as Image }],
  );
  const all = used.length > 0 ? used : images.slice(0, 1).map((image) => ({ amounts: [], bounded: [], image }));
  return all.map(({ image, ...share }) => ({ shard: image.key.shard, shardCount: image.shardCount, ...share }));
}

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
  return place.bounded.every((limit) => {
    const milli = place.amounts.find((one) => one.limit === limit)?.milli ?? 0;
    return (roomFor(now, limit, ticket, readingMs) ?? -1) >= milli;
  });
}

/** How much a limit of a shard could get without rising above its capacity; undefined where the amount does not belong. */
export function roomFor(state: BucketState, limit: string, ticket: Ticket, readingMs: number): number | undefined {
  const held = findLimit(state, limit);
  if (held === undefined || !isOfPeriod(held, ticket, Math.max(readingMs, state.epochMs))) return undefined;
  return Math.max(0, held.terms.capacityMilli - availableMilli(state, held, readingMs));
}

function wholly(
  { isUsed, roomMilli }: { readonly isUsed: boolean; readonly roomMilli: number },
  milli: number,
): number {
  return isUsed && roomMilli >= milli ? 1 : 0;
}

function putMore(amounts: Amount[], { limit, milli }: Amount): void {
  const at = amounts.findIndex((one) => one.limit === limit);
  if (at < 0) amounts.push({ limit, milli });
  else amounts[at] = { limit, milli: (amounts[at]?.milli ?? 0) + milli };
}
