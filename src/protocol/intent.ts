import type { Amount } from "../domain/amounts.ts";
import type { BucketState } from "../domain/bucket-state.ts";
import type { Calendar } from "../domain/calendar.ts";
import type { LimitSet, SetOrigin } from "../domain/limit-set.ts";
import type { ItemWrite, TracePart } from "../ports/item-store.ts";
import type { Rules } from "./rules.ts";
import type { ServerTime } from "./server-time.ts";

/** What forms go by besides the item and what is wanted of it. */
export interface Env {
  readonly calendar: Calendar;
  /** The original writes the same items. */
  readonly shared: boolean;
  readonly serverTime: ServerTime;
  /** Until when a limit that is soft by configuration is to be taken for soft, by the original. */
  readonly softUntilMs: (atMs: number) => number;
  readonly rules: Rules;
}

/** Tokens of one limit that leave (more than 0) or come back (less). */
export interface Move {
  readonly limit: string;
  readonly milli: number;
  /** Whether it leaves only what is there; otherwise the limit may go into debt. */
  readonly mustFit: boolean;
}

/** What one write of one shard is for. */
export interface Intent {
  readonly readingMs: number;
  /** Limits to be brought to the item, if they are newer than its own; undefined: it goes by what it has. */
  readonly bring: { readonly set: LimitSet; readonly origin: SetOrigin } | undefined;
  /**
   * Whether configuration was read after the item cast doubt on it: then marks that say "read it again" go. Otherwise they
   * stay for whoever reads it.
   */
  readonly resolved: boolean;
  /** Whether somebody is asked for who can read configuration again, should the item say that nobody is let through. */
  readonly heedsStamps: boolean;
  /** Each limit once. */
  readonly moves: readonly Move[];
  /** Usage, in either direction: also of what moves no tokens. Each limit once. */
  readonly counted: readonly Amount[];
  readonly requests: number;
  readonly parts: readonly TracePart[];
  readonly nonce: { readonly name: string; readonly value: number } | undefined;
  /** Ask, although by the image it does not fit: the image may be old. */
  readonly blind: boolean;
  /** On which side of its brim a limit is expected, where that is not what the image says. */
  readonly guesses: ReadonlyMap<string, Guess> | undefined;
}

/** Expect a limit below its brim, or over it; then cut `spareMilli` more than needed, so that being almost there will do. */
export interface Guess {
  readonly side: "below" | "over";
  readonly spareMilli: number;
}

/** What to do about an intent, as far as the image of an item can tell. `state`: after it, or as it stands. */
export type Step =
  | { readonly kind: "write"; readonly write: ItemWrite; readonly state: BucketState }
  | { readonly kind: "short"; readonly state: BucketState };

/** An intent that wants nothing yet: no limits, no tokens, no usage. */
export function blankIntent(readingMs: number): Intent {
  return {
    readingMs,
    bring: undefined,
    resolved: false,
    heedsStamps: false,
    moves: [],
    counted: [],
    requests: 0,
    parts: [],
    nonce: undefined,
    blind: false,
    guesses: undefined,
  };
}
