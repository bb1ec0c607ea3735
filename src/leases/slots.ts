import { isSlotPin, pinOf } from "../domain/bucket/give-back.ts";
import { slotsOf } from "../domain/bucket/renew-slots.ts";
import type { LeaseHolding, LeaseRecord } from "../domain/lease/lease-record.ts";
import { isHard } from "../domain/limits/limit.ts";
import type { LeaseReturn } from "./change-plan.ts";

// Slots of a stored lease: the hold of the lease is theirs. They come back when it ends, in whatever way, and are renewed with it.

/** What a lease holds of limits on how many are at once. */
export function slotsIn({ holdings }: Pick<LeaseRecord, "holdings">): readonly LeaseHolding[] {
  return holdings.flatMap(({ at, ticket, held }) => {
    const slots = slotsOf(ticket, held);
    return slots.length === 0 ? [] : [{ at, ticket, held: slots }];
  });
}

/** All slots of a lease, as they come back when its work is done. */
export function slotsBack(record: Pick<LeaseRecord, "holdings">): readonly LeaseReturn[] {
  return slotsIn(record).map((holding) => ({ ...holding, reason: "settle" as const }));
}

/** What is given back without slots; none where nothing else is. */
export function withoutSlots(holding: LeaseReturn): readonly LeaseReturn[] {
  const slots = slotsOf(holding.ticket, holding.held);
  if (slots.length === 0) return [holding];
  const held = holding.held.filter((amount) => !slots.includes(amount));
  return held.length === 0 ? [] : [{ ...holding, held }];
}

/** Whether a limit refuses, by the limits that a lease was taken under. One that is not known by its name does. */
export function isHardAt({ resources }: Pick<LeaseRecord, "resources">, at: LeaseHolding["at"], name: string): boolean {
  const limit = resources[at[0]]?.levels[at[1]]?.limits.find((one) => one.name === name);
  return limit === undefined || isHard(limit);
}

/** The lease with an end that its slots have, too: the earliest that a ticket says, where that is before its own. */
export function endingWithSlots(record: LeaseRecord): LeaseRecord {
  let { expiresAtMs } = record;
  for (const { at, ticket, held } of slotsIn(record)) {
    for (const { limit } of held) {
      const pin = pinOf(ticket, limit);
      if (isSlotPin(pin) && isHardAt(record, at, limit)) expiresAtMs = Math.min(expiresAtMs, pin.endMs);
    }
  }
  return expiresAtMs === record.expiresAtMs ? record : { ...record, expiresAtMs };
}
