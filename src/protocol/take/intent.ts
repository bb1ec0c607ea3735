import type { ServerTime } from "../../clock/server-time.ts";
import type { BucketState } from "../../domain/bucket/bucket-state.ts";
import type { SlotPin } from "../../domain/bucket/give-back.ts";
import type { Amount, CountedAmount } from "../../domain/charge/amounts.ts";
import { perCounter, type UsageCounter } from "../../domain/charge/usage-counters.ts";
import type { Calendar } from "../../domain/limits/calendar.ts";
import type { Floor } from "../../domain/limits/floor.ts";
import type { ItemWrite, TracePart } from "../../ports/item-store.ts";
import type { Dialect, Install } from "../item/dialect.ts";
import type { Sides } from "./passed.ts";

/** What a write depends on besides the item and the intent. */
export interface Env {
  readonly calendar: Calendar;
  readonly dialect: Dialect;
  readonly serverTime: ServerTime;
  /** Until when a limit that is soft by configuration is to be taken for soft, by the original. */
  readonly softUntilMs: (atMs: number) => number;
  /** How long usage is kept, in seconds. */
  readonly usageKeptS: () => number;
}

/** Tokens of one limit that leave (more than 0) or come back (less). */
export interface Move {
  readonly limit: string;
  readonly milli: number;
  /** What a limit does that holds less: it refuses the write, or owes the rest. */
  readonly whenShort: "refuse" | "owe";
  /** What must be left of it, where one of the takes has a floor; absent: nothing must. */
  readonly floors?: readonly Floor[];
  /** How long slots are held that it takes or renews; absent: as long as the limit says. */
  readonly holdMs?: number | undefined;
  /** Slots that it gives back (less than 0) or renews (0), and where they are held; undefined there: nowhere. */
  readonly slots?: readonly { readonly pin: SlotPin | undefined; readonly milli: number }[];
}

/**
 * What one write counts, in either direction: tokens also of what moves none, and what of them was let through by a bypass, each
 * limit once; requests that leave a soft limit below zero, 1000 each, to which the form adds those of the write's own requests.
 */
export interface UsageDelta extends Readonly<Record<Exclude<UsageCounter, "heldMs">, readonly Amount[]>> {
  /** How long slots were held. */
  readonly heldMs: readonly CountedAmount[];
  readonly requests: number;
  /** It may count how long slots were held that it renews: also where nothing else is counted, the hour is that of the reading. */
  readonly renews?: true;
  /** The hour to begin, also where nothing is counted; undefined: that of the reading, where something is. */
  readonly rollsTo: number | undefined;
  /** The closed hour of the shard that is known to be on its sheet. */
  readonly sheeted: number | undefined;
}

/** A write that counts nothing but itself. */
export const NO_USAGE: UsageDelta = Object.freeze({
  requests: 0,
  ...perCounter(() => []),
  rollsTo: undefined,
  sheeted: undefined,
});

/** What one write of one shard is for. */
export interface Intent {
  readonly readingMs: number;
  /** Limits to be installed on the item, if they are newer than its own; undefined: it goes by what it has. */
  readonly install: Install | undefined;
  /**
   * Whether configuration was read after the item cast doubt on it. Then marks that say "read it again" are removed; otherwise
   * they stay for a caller that reads it.
   */
  readonly configConfirmed: boolean;
  /** Whether a bucket that was disabled meanwhile makes the write fail: the caller can read configuration again. */
  readonly checksAccess: boolean;
  /** Whether the bucket is of a level that is switched off, which who asks is exempt from: others go on hearing of it. */
  readonly isOff: boolean;
  /** Each limit once. */
  readonly moves: readonly Move[];
  readonly usage: UsageDelta;
  readonly parts: readonly TracePart[];
  readonly nonce: { readonly name: string; readonly value: number } | undefined;
  /**
   * The number of the bucket, should the write make it (`bn`, `rn`); undefined: it gets none. Another for each sending: one that
   * lands after the bucket of an earlier one was deleted makes another bucket.
   */
  readonly birth: number | undefined;
  /** Send the write although by the image it does not fit: the image may be old. */
  readonly ignoreImageShortage: boolean;
  /** Whether a limit is expected below its capacity or at it, where that is not what the image says. */
  readonly guesses: ReadonlyMap<string, Guess> | undefined;
}

/** Whether what the item says of access is removed: only by who has read that nothing is off. */
export function clearsAccess({ configConfirmed, checksAccess, isOff }: Intent): boolean {
  return configConfirmed && checksAccess && !isOff;
}

/** What of an intent its jobs do not say. */
export type IntentOptions = Omit<Intent, "install" | "checksAccess" | "isOff" | "moves" | "usage" | "parts"> &
  Pick<UsageDelta, "sheeted">;

/** An intent that only rebases; a caller that wants more overrides fields. */
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

/** Expect a limit below its capacity, or at it: then cut `spareMilli` more than needed, so that being almost full will do. */
export interface Guess {
  readonly side: "below" | "over";
  readonly spareMilli: number;
}

/** What to do about an intent, by the image of the item. `state`: after the write, or, where it does not fit, as it stands. */
export type Step =
  | {
      readonly kind: "write";
      readonly write: ItemWrite;
      readonly state: BucketState;
      readonly sides: Sides;
    }
  | { readonly kind: "short"; readonly state: BucketState };
