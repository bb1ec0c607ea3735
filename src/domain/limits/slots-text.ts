import { amountOfText, amountText } from "./amount-text.ts";
import { durationMs, durationText } from "./durations.ts";

// The terms of a limit of so many at once, as people write them: `10@60s`.

/** Stands between how many at once, and how long each is held. */
export const HOLD_MARK = "@";

/** What `10@60s` says, or what is wrong with it. */
export function slotsOfText(text: string): { readonly amount: number; readonly holdMs: number } | string {
  const [first = "", hold = "", ...more] = text.split(HOLD_MARK);
  const amount = amountOfText(first);
  if (amount === undefined || more.length > 0) {
    return `"${text}" is not COUNT@HOLD; give how many at once and how long each may be held, such as 10@60s (no period, no burst)`;
  }
  const holdMs = durationMs(hold);
  if (holdMs === undefined)
    return `the hold is "${hold}"; give how long each is held after the @, such as ${first}@60s, 5m or 1h`;
  return { amount, holdMs };
}

/** `10@60s`: in seconds below two minutes, as holds are usually told. */
export function slotsText(capacity: number, holdMs: number): string {
  const hold = holdMs < SECONDS_BELOW_MS && holdMs % 1000 === 0 ? `${holdMs / 1000}s` : durationText(holdMs);
  return `${amountText(capacity)}${HOLD_MARK}${hold}`;
}

const SECONDS_BELOW_MS = 120_000;
