import { type Count, times } from "../../bucket/count.ts";
import type { Amount, CountedAmount } from "../charge/amounts.ts";
import { holdMsOf } from "../limits/kinds/concurrent.ts";
import { rulesOf } from "../limits/kinds/table.ts";
import { type BucketState, findLimit } from "./bucket-state.ts";
import { hasSlots, isSlotPin, pinOf, type Ticket } from "./give-back.ts";
import { givenBack } from "./holds.ts";

// How long slots were held, for usage: thousandths of a slot times milliseconds. It is counted where a hold is given back or renewed,
// and by the whole `holdMs` where it ended by itself. So a hold that is given back after its end is counted once, by its end.

/** Time that holds take with them which are given back to a bucket, by limit. */
export function timeOfGivenBack(
  state: BucketState,
  amounts: readonly Amount[],
  ticket: Ticket,
  nowMs: number,
): readonly CountedAmount[] {
  const atMs = Math.max(nowMs, state.epochMs);
  return amounts.flatMap(({ limit, milli }) => {
    const pin = pinOf(ticket, limit);
    const held = findLimit(state, limit);
    if (!isSlotPin(pin) || held === undefined || !hasSlots(held, pin)) return [];
    return givenBack(held.slices, pin, milli) === undefined ? [] : [heldFor(limit, milli, atMs - pin.sinceMs)];
  });
}

/** Time of the holds that ended by themselves between a state of a bucket and a later one, or the instant of one, by limit. */
export function timeOfEnded(
  before: BucketState | undefined,
  after: Pick<BucketState, "epochMs">,
): readonly CountedAmount[] {
  if (before === undefined || before === after || before.plain) return NONE;
  return before.limits.flatMap(({ name, limit, slices }) => {
    if (slices.length === 0 || !rulesOf(limit).holdsSlots) return [];
    let milli = 0;
    for (const { endMs, heldMilli } of slices) if (endMs <= after.epochMs) milli += heldMilli;
    return milli === 0 ? [] : [heldFor(name, milli, holdMsOf(limit))];
  });
}

/** So many thousandths of a slot for so long. */
export function heldFor(limit: string, milli: number, ms: number): CountedAmount {
  return { limit, milli: timeOf(milli, ms) };
}

export function timeOf(milli: number, ms: number): Count {
  return times(milli, Math.max(0, ms));
}

const NONE: readonly CountedAmount[] = Object.freeze([]);
