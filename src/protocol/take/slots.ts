import { type BucketState, findLimit, holdEndMs, type LimitState } from "../../domain/bucket/bucket-state.ts";
import { hasSlots, isSlotPin, type SlotPin, type Ticket } from "../../domain/bucket/give-back.ts";
import { givenBack, moved, SLICES_MAX, type Slice, sliceEndingBy, taken } from "../../domain/bucket/holds.ts";
import { heldFor } from "../../domain/bucket/slot-time.ts";
import type { CountedAmount } from "../../domain/charge/amounts.ts";
import { rulesOf } from "../../domain/limits/kinds/table.ts";
import { namesOf } from "../item/attributes.ts";
import type { WriteBuilder } from "../item/write-builder.ts";
import type { Move } from "./intent.ts";

// Slots of a limit on how many are at once, in the write of a take (docs/protocol.md, "At most N at once"). Slices are opened and closed
// together with the epoch, so a write that leaves the epoch alone only changes how much is held in them.

/** Whether slots are held of a limit, or were before it became another kind. */
export function hasSlices({ limit, slices }: LimitState): boolean {
  return slices.length > 0 || rulesOf(limit).holdsSlots;
}

/** Whether a move needs a slice that is not open: then the epoch has to be moved. */
function opensSlice({ limit, slices }: LimitState, move: Move, atMs: number): boolean {
  if (!rulesOf(limit).holdsSlots || (move.milli <= 0 && move.slots === undefined)) return false;
  const endMs = holdEndMs(limit, move.holdMs, atMs);
  if (move.milli === 0 && move.slots?.every(({ pin }) => (pin?.endMs ?? 0) >= endMs)) return false;
  const open = sliceEndingBy(slices, endMs);
  return open === undefined || (open.endMs !== endMs && slices.length < SLICES_MAX);
}

/**
 * The slices of a limit after a move at an instant: what is taken is held, what is given back or renewed leaves its slice. Undefined where
 * slots that are to be given back or renewed are not held any more. To `times` is added how long those were held that are renewed.
 */
export function slicesAfter(
  held: LimitState,
  move: Move | undefined,
  atMs: number,
  times: CountedAmount[],
): readonly Slice[] | undefined {
  const { name, limit, slices } = held;
  if (move === undefined || (move.milli <= 0 && move.slots === undefined)) return slices;
  if (!rulesOf(limit).holdsSlots) return move.slots === undefined ? slices : undefined;
  const endMs = holdEndMs(limit, move.holdMs, atMs);
  if (move.slots === undefined) return taken(slices, move.milli, endMs);
  let after = slices;
  for (const { pin, milli } of move.slots) {
    if (pin === undefined || !hasSlots(held, pin)) return undefined;
    const then = move.milli < 0 ? givenBack(after, pin, milli) : moved(after, pin, milli, endMs)?.slices;
    if (then === undefined) return undefined;
    if (move.milli === 0 && then !== after) times.push(heldFor(name, milli, atMs - pin.sinceMs));
    after = then;
  }
  return after;
}

/**
 * The condition and the effect of a write on what is held. Of a slice that goes, or gets another end, the count is pinned: what it frees
 * was computed from it. Of any other only what leaves it must be there.
 */
export function writeSlices(
  builder: WriteBuilder,
  { name, slices: before }: Pick<LimitState, "name" | "slices">,
  after: readonly Slice[],
  move: Move | undefined,
): void {
  const { held } = namesOf(name);
  for (const was of before) {
    const attribute = held[was.place] as string;
    const is = after.find(({ place }) => place === was.place);
    if (is?.endMs === was.endMs) {
      const leaving = leavingFrom(was, move);
      if (leaving > 0) builder.where(attribute, ">=", leaving);
      builder.add(attribute, is.heldMilli - was.heldMilli);
      continue;
    }
    builder.where(attribute, "=", was.heldMilli);
    if (is === undefined) builder.remove(attribute);
    else builder.set(attribute, is.heldMilli);
  }
  for (const { place, heldMilli } of after) {
    if (!before.some((was) => was.place === place)) builder.set(held[place] as string, heldMilli);
  }
}

function leavingFrom({ place, endMs }: Slice, move: Move | undefined): number {
  let milli = 0;
  for (const { pin, milli: part } of move?.slots ?? []) {
    if (pin?.place === place && pin.endMs === endMs) milli += part;
  }
  return milli;
}

/**
 * Of several tickets of one take, of which one counts and nobody knows which, that with the slices that end first. Given back from a slice
 * that ends too early a slot is free for nobody who may not have it; from one that ends too late it would be somebody else's.
 */
export function endingFirst(ticket: Ticket, others: readonly Ticket[]): Ticket {
  if (!ticket.pins.some(isSlotPin)) return ticket;
  const pins = ticket.pins.map((pin) => {
    if (!isSlotPin(pin)) return pin;
    const same = others.flatMap((other) => other.pins.filter((one) => isSlotPin(one) && one.limit === pin.limit));
    return (same as SlotPin[]).reduce((first, one) => (one.endMs < first.endMs ? one : first), pin);
  });
  return { ...ticket, pins };
}

/** Whether a write of these moves opens a slice on a bucket. */
export function opensSlices(state: BucketState, moves: readonly Move[], readingMs: number): boolean {
  const atMs = Math.max(readingMs, state.epochMs);
  return moves.some((move) => {
    const held = findLimit(state, move.limit);
    return held !== undefined && opensSlice(held, move, atMs);
  });
}
