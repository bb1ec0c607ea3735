import { divFloor } from "../../bucket/integers.ts";
import { refilledMilli } from "../../bucket/level.ts";
import { findLimit, type LimitState } from "../../domain/bucket/bucket-state.ts";
import type { Image } from "../item/codec.ts";
import type { BucketCache } from "../process/bucket-cache.ts";
import { neededOf } from "./floors.ts";
import type { Guess, Intent, Move } from "./intent.ts";

/**
 * What to expect of limits that the image shows over their brim, when others write too: by the time of the write another
 * process may have taken from them. A limit that is little used is full again by then. One that is used much is sometimes
 * below its brim and sometimes over it; when it is found over it, a little more is cut than needed: at most a second's refill,
 * and only where that is two requests or more, and where not all of it is wanted. From then on it stays below for a while,
 * and being below is what is expected. Cutting too much is always safe.
 */
export function guessesFor(
  cache: BucketCache,
  { state }: Image,
  moves: readonly Move[],
  readingMs: number,
): ReadonlyMap<string, Guess> | undefined {
  if (!cache.hasOtherWriters(readingMs)) return undefined;
  let guesses: Map<string, Guess> | undefined;
  for (const move of moves) {
    const { limit: name, milli } = move;
    const held = findLimit(state, name);
    if (held === undefined || milli <= 0 || (cache.utilization.get(name) ?? 0) < BUSY) continue;
    const { terms, tokensMilli, remainder } = held;
    const brimMilli = terms.capacityMilli - refilledMilli(remainder, terms, readingMs - state.epochMs);
    if (tokensMilli < brimMilli) continue;
    guesses ??= new Map();
    if (cache.lastSide.get(name) === "below") guesses.set(name, { side: "below", spareMilli: 0 });
    // Where all of it is wanted, another request would miss what is given up here.
    // And a shadow is to hold what a hard one would.
    else {
      const isNeeded = held.limit.shadow || cache.isWanted(readingMs);
      guesses.set(name, { side: "over", spareMilli: isNeeded ? 0 : spareOf(held, move) });
    }
  }
  return guesses;
}

/** Remembers on which side of their brims the limits turned out to be; `taken`: the write was applied. */
export function noteSides(
  cache: BucketCache,
  { state }: Image,
  { moves, guesses }: Pick<Intent, "moves" | "guesses">,
  readingMs: number,
  taken: boolean,
): void {
  if (!cache.hasOtherWriters(readingMs)) return;
  for (const { limit: name, milli } of moves) {
    const held = findLimit(state, name);
    if (held === undefined || milli <= 0) continue;
    const { terms, tokensMilli, remainder } = held;
    const brimMilli = terms.capacityMilli - refilledMilli(remainder, terms, readingMs - state.epochMs);
    // After a take that was applied the tokens stand as much lower as it took, and what was cut on top of it.
    const wasOver = tokensMilli + (taken ? milli : 0) >= brimMilli;
    const wasCut = taken && (guesses?.get(name)?.spareMilli ?? 0) > 0;
    cache.lastSide.set(name, wasOver && !wasCut ? "over" : "below");
  }
}

/** From this utilization on a limit is seldom full when a request comes. */
const BUSY = 0.3;

function spareOf(held: LimitState, move: Move): number {
  const { capacityMilli, refillAmountMilli, refillPeriodMs } = held.terms;
  const spare = Math.min(divFloor(capacityMilli, 16), divFloor(refillAmountMilli * 1000, refillPeriodMs));
  return spare >= 2 * move.milli && capacityMilli - spare >= neededOf(move, held) ? spare : 0;
}
