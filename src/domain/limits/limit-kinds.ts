import { refilledMilli } from "../../bucket/level.ts";
import { heldMilli, pulledIn } from "../bucket/holds.ts";
import { countedOn, type LimitState, termsAt } from "../bucket/limit-state.ts";
import type { Calendar } from "./calendar.ts";
import { holdMsOf } from "./kinds/concurrent.ts";
import { NO_MARKS, type QuotaMarks } from "./kinds/kind.ts";
import { rulesOf } from "./kinds/table.ts";
import type { Limit } from "./limit.ts";

/**
 * Whether a bucket with this limit is in one piece: by its kind, or because it is a shadow, which decides by all that there is.
 */
export function isWhole(limit: Limit): boolean {
  return rulesOf(limit).isWhole || limit.shadow === true;
}

/** Whether a use of so much opens the window of a limit. */
export function opensWindow({ limit, quota }: LimitState, milli: number): boolean {
  return milli > 0 && quota?.windowStartMs === undefined && rulesOf(limit).opensWindow;
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
 * capacity. A quota that the end of a period in between filled is empty until that end comes: windows of a schedule fill nothing.
 */
export function rewound(
  held: LimitState,
  { fromMs, toMs }: { readonly fromMs: number; readonly toMs: number },
  calendar: Calendar,
): Rewound {
  const { limit, quota } = held;
  const terms = termsAt(limit, quota?.topUpMilli ?? 0, toMs, calendar, held.part);
  const rules = rulesOf(limit);
  if (rules.refillsSteadily) {
    const lostMilli = Math.min(terms.capacityMilli, refilledMilli(0, terms, fromMs - toMs));
    return { limit: { ...held, terms, tokensMilli: held.tokensMilli - lostMilli, remainder: 0 }, lostMilli };
  }
  if (rules.holdsSlots) {
    // Slices that ended in between were free for as long as anybody's: only such as no right clock can have made end earlier.
    const slices = pulledIn(held.slices, toMs, holdMsOf(limit));
    const tokensMilli = terms.capacityMilli - heldMilli(slices);
    return { limit: { ...held, terms, tokensMilli, remainder: 0, slices }, lostMilli: 0 };
  }
  const windowStartMs = windowBefore(held, { fromMs, toMs });
  const isFilled = rules.opensWindow
    ? windowStartMs !== quota?.windowStartMs
    : rules.endMs(limit, quota ?? NO_MARKS, toMs, calendar) <= fromMs;
  if (!isFilled) return { limit: { ...held, terms, remainder: 0, quota: countedOn(held, terms) }, lostMilli: 0 };
  const tokensMilli = Math.min(held.tokensMilli, 0);
  const marks = countedOn(held, terms);
  return {
    limit: { ...held, terms, tokensMilli, remainder: 0, quota: marks && { ...marks, windowStartMs } },
    lostMilli: "all",
  };
}

/**
 * When the window of a session opened that counts at `toMs`. One that is closed at `fromMs`, or opened since, says nothing of the window
 * before it, which may have ended in between: it counts as open until then, as long as a window can have been.
 */
function windowBefore(
  { limit, terms, quota }: LimitState,
  { fromMs, toMs }: { readonly fromMs: number; readonly toMs: number },
): number | undefined {
  const rules = rulesOf(limit);
  if (!rules.opensWindow || (quota?.windowStartMs ?? fromMs) <= toMs) return quota?.windowStartMs;
  const lengthMs = rules.lengthMs(limit, terms);
  return Math.min(fromMs, toMs + lengthMs) - lengthMs;
}
