import type { Ticket } from "../../domain/bucket/give-back.ts";
import type { Amount } from "../../domain/charge/amounts.ts";

/** What a write has decided of limits that refuse nothing. Its conditions make it certain. */
export interface Sides {
  /** Overdrafts that the write counts, 1000 each: of its requests the last so many leave the limit below zero. */
  readonly overdrafts: readonly Amount[];
  readonly passed: readonly Passed[];
}

export const NO_SIDES: Sides = Object.freeze({ overdrafts: Object.freeze([]), passed: Object.freeze([]) });

/** What passed by one shadow. */
export interface Passed {
  readonly limit: string;
  /** The requests that it would have refused, by their place among the parts of the write. */
  readonly places: readonly number[];
  /** What they asked for together: nothing of it is taken, nor counted as used. */
  readonly milli: number;
}

/** The shadows that would have refused one part of a write. */
export function passedAt({ passed }: Sides, place: number): readonly string[] {
  return passed.flatMap(({ limit, places }) => (places.includes(place) ? [limit] : []));
}

/**
 * What is told of several writes of which one was applied, nobody knows which: what passed by a shadow in one of them may not have
 * been taken, so it is not given back.
 */
export function sidesOfAny(sent: readonly { readonly sides: Sides }[]): Sides {
  const [first, ...others] = sent.map(({ sides }) => sides);
  if (first === undefined || others.every(({ passed }) => passed.length === 0)) return first ?? NO_SIDES;
  const limits = new Set([first, ...others].flatMap(({ passed }) => passed.map(({ limit }) => limit)));
  const passed = Array.from(limits, (limit) => {
    const own = [first, ...others].flatMap((sides) => sides.passed.filter((one) => one.limit === limit));
    return { limit, places: [...new Set(own.flatMap(({ places }) => places))], milli: 0 };
  });
  return { overdrafts: first.overdrafts, passed };
}

/** A request of a write, as far as it is known by what it took. */
interface Taker {
  readonly of: { readonly bypass: boolean };
  readonly amounts: readonly Amount[];
}

/** What a write decided for one of its requests; undefined: nothing. */
export function sidesFor(
  { jobs, sides }: { readonly jobs: readonly Taker[]; readonly sides: Sides },
  of: Taker["of"],
): Pick<Ticket, "overdrawn" | "shadowed"> | undefined {
  if (sides.overdrafts.length + sides.passed.length === 0) return undefined;
  const placeIn = (among: readonly Taker[]) => among.findIndex((job) => job.of === of);
  // Of those that took from a soft limit, the last so many left it below zero.
  const overdrawn = sides.overdrafts.flatMap(({ limit, milli }) => {
    const takers = jobs.filter((job) => !job.of.bypass && job.amounts.some((one) => one.limit === limit));
    const place = placeIn(takers);
    return place >= takers.length - milli / 1000 && place >= 0 ? [limit] : [];
  });
  return { overdrawn, shadowed: passedAt(sides, placeIn(jobs)) };
}
