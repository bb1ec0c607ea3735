import { refilledMilli } from "../bucket/level.ts";
import type { Calendar } from "./calendar.ts";
import { kindOf, type Limit } from "./limit.ts";
import type { LimitKind } from "./limit-kind.ts";
import { boundaryAfter, type LimitState, NO_MARKS, type QuotaMarks, termsAt } from "./limit-state.ts";

/** What is different between the kinds of limits, for code that stores buckets and need not know the kinds themselves. */
interface KindTraits {
  /** Tokens come back a little at a time. Otherwise they all come back at once, when a period ends: a quota. */
  readonly refillsSteadily: boolean;
  /** The first use opens a window. There is one for the whole bucket, so such a bucket is not split into shards. */
  readonly opensWindow: boolean;
}

const TRAITS: Readonly<Record<LimitKind, KindTraits>> = {
  drip: { refillsSteadily: true, opensWindow: false },
  calendar: { refillsSteadily: false, opensWindow: false },
  session: { refillsSteadily: false, opensWindow: true },
};

export function traitsOf(limit: Limit): KindTraits {
  return TRAITS[kindOf(limit)];
}

/** Whether a use of so much opens the window of a limit. */
export function opensWindow({ limit, quota }: LimitState, milli: number): boolean {
  return milli > 0 && quota?.windowStartMs === undefined && traitsOf(limit).opensWindow;
}

/** The marks of a limit after a use of so much at an instant. */
export function marksAfterUse(held: LimitState, milli: number, atMs: number): QuotaMarks | undefined {
  return opensWindow(held, milli) ? { ...NO_MARKS, ...held.quota, windowStartMs: atMs } : held.quota;
}

/** A limit as it was earlier, and what it loses by that: some millitokens, or all that it has. */
interface Rewound {
  readonly limit: LimitState;
  readonly lostMilli: number | "all";
}

/**
 * A limit whose epoch is moved back from `fromMs` to `toMs`. What was refilled in between is taken off again, at most a
 * capacity; a quota that was filled by a reset in between is empty until that reset comes.
 */
export function rewound(
  held: LimitState,
  { fromMs, toMs }: { readonly fromMs: number; readonly toMs: number },
  calendar: Calendar,
): Rewound {
  const terms = termsAt(held.limit, held.quota?.topUpMilli ?? 0, toMs, calendar, held.part);
  if (traitsOf(held.limit).refillsSteadily) {
    const lostMilli = Math.min(terms.capacityMilli, refilledMilli(0, terms, fromMs - toMs));
    return { limit: { ...held, terms, tokensMilli: held.tokensMilli - lostMilli, remainder: 0 }, lostMilli };
  }
  const isReset = boundaryAfter({ ...held, terms }, toMs, calendar) <= fromMs;
  if (!isReset) return { limit: { ...held, terms, remainder: 0 }, lostMilli: 0 };
  // A session that is closed is full, whatever it holds: it stays empty only if its window is open.
  const quota = held.quota && marksAfterUse(held, 1, toMs);
  return {
    limit: { ...held, terms, tokensMilli: Math.min(held.tokensMilli, 0), remainder: 0, quota },
    lostMilli: "all",
  };
}
