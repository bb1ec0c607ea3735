import type { Amount } from "../charge/amounts.ts";
import { HOLD_LEAST_MS, holdMsOf } from "../limits/kinds/concurrent.ts";
import { rulesOf } from "../limits/kinds/table.ts";
import { isHard, type Limit } from "../limits/limit.ts";
import { ValidationError } from "../names/errors.ts";
import { shown } from "../names/names.ts";

/** How long a request wants to hold its slots, checked; undefined: as long as each limit says. */
export function checkHold(holdMs: unknown): number | undefined {
  if (holdMs === undefined) return undefined;
  if (typeof holdMs === "number" && Number.isSafeInteger(holdMs) && holdMs >= HOLD_LEAST_MS) return holdMs;
  throw new ValidationError(
    "hold_invalid",
    `holdMs is ${shown(holdMs)}; give a whole number of milliseconds, ${HOLD_LEAST_MS} or more.`,
  );
}

/** Those of a bucket's limits on how many are at once that something is taken of. */
export function slotLimits(limits: readonly Limit[], take: readonly Amount[]): readonly Limit[] {
  const slots = limits.filter((limit) => rulesOf(limit).holdsSlots);
  if (slots.length === 0) return slots;
  return slots.filter(({ name }) => take.some(({ limit, milli }) => limit === name && milli > 0));
}

/** The same without those that refuse nothing: they neither bound a hold nor need one. */
export function hardSlotLimits(limits: readonly Limit[], take: readonly Amount[]): readonly Limit[] {
  return slotLimits(limits, take).filter(isHard);
}

/** Throws for a request that wants to hold slots of a hard limit for longer than the limit lets it. */
export function checkHoldIn(slots: readonly Limit[], holdMs: number): void {
  const short = slots.find((limit) => holdMs > holdMsOf(limit));
  if (short === undefined) return;
  const error = new ValidationError(
    "hold_too_long",
    `holdMs is ${holdMs}, but slots of "${short.name}" are held for at most ${holdMsOf(short)} ms. ` +
      "Ask for less and renew the lease, or raise the limit's holdMs.",
  );
  // For a client that did not choose: it asks again with that.
  throw Object.assign(error, { holdMs: Math.min(...slots.map(holdMsOf)) });
}
