import type { LimitState } from "../../domain/bucket/bucket-state.ts";
import type { Claim, Held } from "../../ports/bucket-store.ts";
import type { TracePart } from "../../ports/item-store.ts";
import { namesOf } from "../item/attributes.ts";
import type { WriteBuilder } from "../item/write-builder.ts";
import { neededBy } from "./floors.ts";
import type { Intent, Move, UsageDelta } from "./intent.ts";
import { atLeast, isBelow } from "./moves.ts";
import { type Passed, passedAt, type Sides } from "./passed.ts";
import type { Fold, Piece } from "./piece.ts";

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
function shadowSide({ parts }: Intent, held: LimitState, levelMilli: number): ShadowSide {
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

/** One limit of a write, as far as a shadow changes it. */
interface ShadowWrite {
  readonly fold: Fold;
  readonly move: Move | undefined;
  readonly refill: { readonly risenMilli: number } | undefined;
  readonly intent: Intent;
}

/**
 * A write on a shadow as one on a limit that has all that is left to take: of what passes nothing is moved. Its condition says that
 * the shadow decides so. `left`: nothing is taken, and nothing else is done to it. `short`: it decides by all that there is, and this is
 * one of several shards, which are joined first.
 */
export function passedMove<Write extends ShadowWrite>(
  builder: WriteBuilder,
  of: Write,
  after: LimitState,
  written: { readonly passed: Passed[] },
): Write | "left" | "short" {
  const { fold, move, refill, intent } = of;
  // Only requests are decided: not what a lease is charged further, nor what shards that are joined owe.
  if (!isTaken(intent, after.name)) return of;
  if (after.part !== undefined) return "short";
  // Slots that come back or are renewed are decided already.
  if (move === undefined || move.slots !== undefined || move.milli < 0) return of;
  const risenMilli = refill?.risenMilli ?? 0;
  const side = shadowSide(intent, after, after.tokensMilli + risenMilli);
  const { limit, takenMilli, from, below, places } = side;
  if (places.length > 0) written.passed.push(side);
  const isAdded = fold.before !== undefined && fold.piece.how === "add";
  const piece = isAdded ? pieceBelow(fold.piece, below, fold.piece.milli + risenMilli) : fold.piece;
  if (takenMilli === 0 && from === undefined && refill !== undefined) {
    const { tk } = namesOf(limit);
    atLeast(builder, tk, piece.from);
    isBelow(builder, tk, piece.below);
    return "left";
  }
  const due: Move =
    from === undefined
      ? { ...move, milli: takenMilli, whenShort: "owe" }
      : { ...move, milli: takenMilli, whenShort: "refuse", floors: [{ afterMilli: from, leavePercent: 0 }] };
  return { ...of, fold: { ...fold, piece }, move: due };
}

/** The stored tokens for which the level, so much higher, is below a bound. */
function pieceBelow(piece: Piece, below: number | undefined, liftMilli: number): Piece {
  if (below === undefined) return piece;
  return { ...piece, below: Math.min(below - liftMilli, piece.below ?? Number.POSITIVE_INFINITY) };
}

/** What a write counts, with what it has decided. */
export function countedBy(
  usage: UsageDelta,
  { overdrafts, passed, heldMs }: Sides & Pick<UsageDelta, "heldMs">,
): UsageDelta {
  if (passed.length === 0) return { ...usage, overdrafts, heldMs };
  const counters = usage.counters.flatMap((amount) => {
    const { places, milli = 0 } = passed.find(({ limit }) => limit === amount.limit) ?? {};
    if (places === undefined) return [amount];
    return amount.milli === milli ? [] : [{ limit: amount.limit, milli: amount.milli - milli }];
  });
  const wouldRefuse = passed.map(({ limit, places }) => ({ limit, milli: places.length * 1000 }));
  return { ...usage, counters, overdrafts, heldMs, wouldRefuse: [...usage.wouldRefuse, ...wouldRefuse] };
}

/** The parts of a write, with what passed by shadows. */
export function tracedParts({ parts }: Intent, sides: Sides): readonly TracePart[] {
  if (sides.passed.length === 0) return parts;
  return parts.map((part, place) => ({ ...part, shadowed: passedAt(sides, place) }));
}

function isTaken({ parts }: Intent, name: string): boolean {
  return parts.some((part) => isTake(part) && part.amounts.some(({ limit }) => limit === name));
}

function isTake({ of, kind }: TracePart): boolean {
  return kind === "take" && !(of as Claim | Held).bypass;
}
