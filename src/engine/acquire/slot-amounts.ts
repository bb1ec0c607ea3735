import { type BucketState, findLimit } from "../../domain/bucket/bucket-state.ts";
import { hardSlotLimits, slotLimits } from "../../domain/bucket/hold-time.ts";
import { adjustOfSlots } from "../../domain/bucket/slot-errors.ts";
import type { Amount } from "../../domain/charge/amounts.ts";
import { rulesOf } from "../../domain/limits/kinds/table.ts";
import type { LimitSet } from "../../domain/limits/limit-set.ts";
import type { ChainLink } from "./config-cache.ts";

// What of the amounts of a lease is about slots.

/** Whether slots may be taken of a set of limits. */
export function hasSlotLimits({ limits, isBeyondRates }: LimitSet): boolean {
  return isBeyondRates && limits.some((limit) => rulesOf(limit).holdsSlots);
}

/** Throws where an adjustment would take slots of a hard limit: debts would be more than there may be at once. `charges`: for each level. */
export function refuseSlots(
  levels: readonly { readonly link: Pick<ChainLink, "charged" | "bucket"> }[],
  charges: readonly (readonly Amount[])[],
): void {
  for (const [level, { link }] of levels.entries()) {
    const [slots] = link.charged.isBeyondRates ? hardSlotLimits(link.charged.limits, charges[level] ?? []) : [];
    if (slots !== undefined) throw adjustOfSlots(slots.name, link.bucket);
  }
}

/** Amounts of limits that are no slots: nobody owes slots. */
export function withoutSlots({ limits, isBeyondRates }: LimitSet, amounts: readonly Amount[]): readonly Amount[] {
  if (!isBeyondRates) return amounts;
  const slots = slotLimits(limits, amounts);
  return amounts.filter(({ limit }) => slots.every(({ name }) => name !== limit));
}

/** The same by the limits that a bucket goes by. */
export function withoutSlotsOn(state: BucketState, amounts: readonly Amount[]): readonly Amount[] {
  return amounts.filter(({ limit: name }) => {
    const held = findLimit(state, name);
    return held === undefined || !rulesOf(held.limit).holdsSlots;
  });
}
