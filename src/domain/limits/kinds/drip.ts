import { dripMs } from "../../../bucket/retry-after.ts";
import type { KindRules } from "./kind.ts";

// A limit that drips: `refillAmount` every `refillPeriodMs`, up to its capacity. It has no field of its own and no periods.

const NEVER_MS = Number.POSITIVE_INFINITY;

export const DRIP_RULES: KindRules = {
  refillsSteadily: true,
  hasPeriods: false,
  opensWindow: false,
  isWhole: false,
  holdsSlots: false,
  marks: undefined,
  isClosed: () => false,
  endMs: () => NEVER_MS,
  windowEndMs: () => NEVER_MS,
  filledMs: () => -NEVER_MS,
  lengthMs: (_, terms) => dripMs(terms.capacityMilli, terms),
  isSameRule: () => true,
  pin: () => ({ reset: undefined, untilMs: NEVER_MS }),
  isOf: () => true,
};
