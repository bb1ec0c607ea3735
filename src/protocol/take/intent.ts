import type { ServerTime } from "../../clock/clock-bounds.ts";
import type { BucketState } from "../../domain/bucket/bucket-state.ts";
import type { SlotPin, Ticket } from "../../domain/bucket/give-back.ts";
import type { Amount, CountedAmount } from "../../domain/charge/amounts.ts";
import { perCounter, type UsageCounter } from "../../domain/charge/usage.ts";
import type { Floor } from "../../domain/limits/limit-numbers.ts";
import type { Calendar } from "../../domain/limits/schedule.ts";
import type { ItemWrite, TracePart } from "../../ports/item-store.ts";
import type { Dialect, Install } from "../item/dialect.ts";

/** The decisions of a write on limits that refuse nothing. Its conditions make them certain. */
export interface Sides {
  /** Overdrafts that the write counts, 1000 each: the last requests leave the limit below zero. */
  readonly overdrafts: readonly Amount[];
  readonly passed: readonly Passed[];
}

export const NO_SIDES: Sides = Object.freeze({ overdrafts: Object.freeze([]), passed: Object.freeze([]) });

/** The requests that a shadow limit would have refused. */
export interface Passed {
  readonly limit: string;
  /** Their places among the parts of the write. */
  readonly places: readonly number[];
  /** Their sum: it is neither taken nor counted as used. */
  readonly milli: number;
}

export function passedAt({ passed }: Sides, place: number): readonly string[] {
  return passed.flatMap(({ limit, places }) => (places.includes(place) ? [limit] : []));
}

/**
 * The decisions of several writes of which one was applied, it is unknown which: an amount that passed a shadow in one of them
 * may not have been taken, so it is not given back.
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

/** A request of a write, identified by its claim. */
interface Taker {
  readonly of: { readonly bypass: boolean };
  readonly amounts: readonly Amount[];
}

/** The decisions of a write for one of its requests; undefined: none. */
export function sidesFor(
  { jobs, sides }: { readonly jobs: readonly Taker[]; readonly sides: Sides },
  of: Taker["of"],
): Pick<Ticket, "overdrawn" | "shadowed"> | undefined {
  if (sides.overdrafts.length + sides.passed.length === 0) return undefined;
  const placeIn = (among: readonly Taker[]) => among.findIndex((job) => job.of === of);
  // The last requests that took from a soft limit left it below zero.
  const overdrawn = sides.overdrafts.flatMap(({ limit, milli }) => {
    const takers = jobs.filter((job) => !job.of.bypass && job.amounts.some((one) => one.limit === limit));
    const place = placeIn(takers);
    return place >= takers.length - milli / 1000 && place >= 0 ? [limit] : [];
  });
  return { overdrawn, shadowed: passedAt(sides, placeIn(jobs)) };
}

export interface Env {
  readonly calendar: Calendar;
  readonly dialect: Dialect;
  readonly serverTime: ServerTime;
  /** The deadline after which the original no longer treats a soft limit as soft. */
  readonly softUntilMs: (atMs: number) => number;
  readonly usageKeptS: () => number;
}

/** Tokens of one limit that leave (more than 0) or come back (less). */
export interface Move {
  readonly limit: string;
  readonly milli: number;
  /** The limit refuses the write if it holds less, or owes the rest. */
  readonly whenShort: "refuse" | "owe";
  /** The amounts that must be left of it, if one of the takes has a floor. */
  readonly floors?: readonly Floor[];
  /** The time that slots are held; absent: as long as the limit says. */
  readonly holdMs?: number | undefined;
  /** Slots that it gives back (less than 0) or renews (0), and their slices; `pin` is undefined if they are in none. */
  readonly slots?: readonly { readonly pin: SlotPin | undefined; readonly milli: number }[];
}

/**
 * Usage that one write adds or takes back: tokens, also those that are not moved, and the part that a bypass let through, each
 * limit once; requests that leave a soft limit below zero, 1000 each, to which the form adds those of the write's own requests.
 */
export interface UsageDelta extends Readonly<Record<Exclude<UsageCounter, "heldMs">, readonly Amount[]>> {
  readonly heldMs: readonly CountedAmount[];
  readonly requests: number;
  /** It may count how long the renewed slots were held: the hour is that of the reading even if nothing else is counted. */
  readonly renews?: true;
  /** The hour to begin even if nothing is counted; undefined: that of the reading, if something is. */
  readonly rollsTo: number | undefined;
  readonly sheeted: number | undefined;
}

/** A write that counts nothing but itself. */
export const NO_USAGE: UsageDelta = Object.freeze({
  requests: 0,
  ...perCounter(() => []),
  rollsTo: undefined,
  sheeted: undefined,
});

/** The purpose of one write of one shard. */
export interface Intent {
  readonly readingMs: number;
  /** Limits to install if they are newer than the item's; undefined: the item keeps its own. */
  readonly install: Install | undefined;
  /**
   * True if configuration was read after the item cast doubt on it. Then marks that say "read it again" are removed; otherwise
   * they stay for a caller that reads it.
   */
  readonly configConfirmed: boolean;
  /** True if the write fails on a bucket that was disabled meanwhile: the caller can read configuration again. */
  readonly checksAccess: boolean;
  /** True if the level is disabled, but this caller is exempt: the mark stays for other callers. */
  readonly isOff: boolean;
  readonly moves: readonly Move[];
  readonly usage: UsageDelta;
  readonly parts: readonly TracePart[];
  readonly nonce: { readonly name: string; readonly value: number } | undefined;
  /**
   * The number of the bucket, should the write create it (`bn`, `rn`); undefined: it gets none. Each sending has another: one
   * that lands after the bucket of an earlier one was deleted makes another bucket.
   */
  readonly birth: number | undefined;
  /** Send the write although it does not fit the image: the image may be old. */
  readonly ignoreImageShortage: boolean;
  /** The expected side of a limit's capacity, if it is not the image's. */
  readonly guesses: ReadonlyMap<string, Guess> | undefined;
}

/** True if access marks are removed: only a caller that has read that nothing is off may do so. */
export function clearsAccess({ configConfirmed, checksAccess, isOff }: Intent): boolean {
  return configConfirmed && checksAccess && !isOff;
}

export type IntentOptions = Omit<Intent, "install" | "checksAccess" | "isOff" | "moves" | "usage" | "parts"> &
  Pick<UsageDelta, "sheeted">;

/** An intent that only rebases; callers override fields. */
export function blankIntent(readingMs: number): Intent {
  return {
    readingMs,
    install: undefined,
    configConfirmed: false,
    checksAccess: false,
    isOff: false,
    moves: [],
    usage: NO_USAGE,
    parts: [],
    nonce: undefined,
    birth: undefined,
    ignoreImageShortage: false,
    guesses: undefined,
  };
}

/** Expect a limit below its capacity, or at it: then cut `spareMilli` more than needed, so that almost full will do. */
export interface Guess {
  readonly side: "below" | "over";
  readonly spareMilli: number;
}

/** The write for an intent. `state`: after the write, or, if it does not fit, as it stands. */
export type Step =
  | {
      readonly kind: "write";
      readonly write: ItemWrite;
      readonly state: BucketState;
      readonly sides: Sides;
    }
  | { readonly kind: "short"; readonly state: BucketState };
