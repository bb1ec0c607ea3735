import type { LimitState } from "../../domain/bucket-state.ts";
import type { Claim, Held } from "../../ports/bucket-store.ts";
import type { TracePart } from "../../ports/item-store.ts";
import type { WriteBuilder } from "../item/write-builder.ts";
import { neededBy } from "./floors.ts";
import type { Piece } from "./fold.ts";
import type { Intent, Move, UsageDelta } from "./intent.ts";
import { atLeast, isBelow } from "./moves.ts";
import { type Passed, passedAt, type Sides } from "./passed.ts";

/** Levels between which something is decided alike. Undefined: nothing binds there. */
interface Bounds {
  readonly from: number | undefined;
  readonly below: number | undefined;
}

/** How many requests of a write leave a soft limit below zero. */
interface OverdraftCount extends Bounds {
  readonly count: number;
}

/**
 * The requests of one write are taken one after the other, in their order. `levelMilli`: what the limit holds before;
 * `isLeft`: it is left as it is, because it would owe too much.
 */
export function overdraftsBy({ parts }: Intent, limit: string, levelMilli: number, isLeft: boolean): OverdraftCount {
  const sums: number[] = [];
  let sum = 0;
  for (const part of parts) {
    const amount = isTake(part) ? part.amounts.find((one) => one.limit === limit) : undefined;
    if (amount === undefined) continue;
    if (!isLeft) sum += amount.milli;
    sums.push(sum);
  }
  const fitting = sums.filter((one) => one <= levelMilli).length;
  return { count: sums.length - fitting, from: sums[fitting - 1], below: sums[fitting] };
}

/** Makes a write below the brim fail where another number of its requests would be overdrafts than it counts. */
export function boundOverdrafts(builder: WriteBuilder, tk: string, { from, below }: Bounds, risenMilli: number): void {
  atLeast(builder, tk, from === undefined ? undefined : from - risenMilli);
  isBelow(builder, tk, below === undefined ? undefined : below - risenMilli);
}

/** What a shadow makes of a write: what is taken, what passes, and for which levels that is so. */
interface ShadowSide extends Bounds, Passed {
  readonly takenMilli: number;
}

/**
 * The requests of one write, first come first served: each is taken if what those before it left is enough. Which of them fit is
 * the same for all levels in one interval: above what each that fits needs, below what each that does not fit would need. What
 * a lease is charged further is taken in any case.
 */
export function shadowSide({ parts }: Intent, held: LimitState, levelMilli: number): ShadowSide {
  const { name } = held;
  const places: number[] = [];
  let [from, below, takenMilli, milli]: [number | undefined, number | undefined, number, number] = [
    undefined,
    undefined,
    0,
    0,
  ];
  for (const [place, part] of parts.entries()) {
    if ((part.of as Claim | Held).bypass) continue;
    const asked = part.amounts.find((one) => one.limit === name)?.milli;
    if (asked === undefined) continue;
    if (isTake(part)) {
      const needed = takenMilli + neededBy({ ...part, kind: "take", of: part.of as Claim }, asked, held);
      if (levelMilli < needed) {
        below = Math.min(below ?? needed, needed);
        places.push(place);
        milli += asked;
        continue;
      }
      from = Math.max(from ?? needed, needed);
    }
    takenMilli += asked;
  }
  return { limit: name, takenMilli, places, milli, from, below };
}

/** The move of what is taken: it is there, or it is owed where a lease is charged. */
export function shadowMove({ limit, takenMilli, from }: ShadowSide): Move {
  return { limit, milli: takenMilli, whenShort: from === undefined ? "owe" : "refuse" };
}

/** The piece of stored tokens for which a shadow decides as it does. `liftMilli`: what the level has on top of them. */
export function pieceBelow(piece: Piece, { below }: ShadowSide, liftMilli: number): Piece {
  if (below === undefined || piece.how === "set") return piece;
  return { ...piece, below: Math.min(below - liftMilli, piece.below ?? Number.POSITIVE_INFINITY) };
}

/** What a write counts, with what it has decided. */
export function countedBy(usage: UsageDelta, { overdrafts, passed }: Sides): UsageDelta {
  if (passed.length === 0) return { ...usage, overdrafts };
  const counters = usage.counters.flatMap((amount) => {
    const { places, milli = 0 } = passed.find(({ limit }) => limit === amount.limit) ?? {};
    if (places === undefined) return [amount];
    return amount.milli === milli ? [] : [{ limit: amount.limit, milli: amount.milli - milli }];
  });
  const wouldRefuse = passed.map(({ limit, places }) => ({ limit, milli: places.length * 1000 }));
  return { ...usage, counters, overdrafts, wouldRefuse: [...usage.wouldRefuse, ...wouldRefuse] };
}

/** The parts of a write, with what passed by shadows. */
export function tracedParts({ parts }: Intent, sides: Sides): readonly TracePart[] {
  if (sides.passed.length === 0) return parts;
  return parts.map((part, place) => ({ ...part, shadowed: passedAt(sides, place) }));
}

function isTake({ of, kind }: TracePart): boolean {
  return kind === "take" && !(of as Claim | Held).bypass;
}
