import { type BucketState, findLimit } from "../../domain/bucket/bucket-state.ts";
import { hasSlots, isSlotPin, pinOf, type SlotPin, type Ticket } from "../../domain/bucket/give-back.ts";
import { givenBack } from "../../domain/bucket/holds.ts";
import { heldFor } from "../../domain/bucket/slot-time.ts";
import type { Amount, CountedAmount } from "../../domain/charge/amounts.ts";
import type { Clause } from "../../ports/item-store.ts";
import { namesOf } from "../item/attributes.ts";
import type { Image } from "../item/codec.ts";
import type { WriteBuilder } from "../item/write-builder.ts";

/** What is given back, as far as slots are concerned. */
interface SlotsBack {
  readonly readingMs: number;
  readonly amounts: readonly Amount[];
  readonly ticket: Ticket;
  /** Slots that were used stay counted; absent: it is as if they were never taken. */
  readonly slotsUsed: boolean;
  /** Whether usage counts how long they were held: not where the whole request is undone. */
  readonly countsTime: boolean;
}

/** The slice that slots of a limit are held in, by the ticket; undefined where it is no limit on how many are at once. */
export function slotPinOf(ticket: Ticket, limit: string): SlotPin | undefined {
  const pin = pinOf(ticket, limit);
  return isSlotPin(pin) ? pin : undefined;
}

/** Whether nothing but slots is given back: then no boundary matters that was passed meanwhile. */
export function isOnlySlots({ amounts, ticket }: Pick<SlotsBack, "amounts" | "ticket">): boolean {
  return amounts.length > 0 && amounts.every(({ limit }) => slotPinOf(ticket, limit) !== undefined);
}

/** Whether the time of a hold is up by the reading: what is given back then has ended by itself, and is counted so. */
export function isOverBy({ amounts, ticket }: Pick<SlotsBack, "amounts" | "ticket">, readingMs: number): boolean {
  return amounts.some(({ limit }) => (slotPinOf(ticket, limit)?.endMs ?? Number.POSITIVE_INFINITY) <= readingMs);
}

/** Whether slots are still held in the slice of their ticket. */
export function isHeldIn(state: BucketState, pin: SlotPin, milli: number): boolean {
  const held = findLimit(state, pin.limit);
  return held !== undefined && hasSlots(held, pin) && givenBack(held.slices, pin, milli) !== undefined;
}

/**
 * Gives slots back into their own slice, or nowhere: by then it may have ended, and what is held there is somebody else's. It needs no epoch:
 * place, end and beginning say which slice it is. Where it is gone by the image nothing is written, if that is so: a take that landed late
 * may not be in the image yet, and its slot would stay held until its end.
 */
export function addSlots(
  builder: WriteBuilder,
  image: Image | undefined,
  { milli, pin }: { readonly milli: number; readonly pin: SlotPin },
  { readingMs, countsTime }: SlotsBack,
): void {
  if (image !== undefined && !isHeldIn(image.state, pin, milli)) {
    builder.any(goneFrom(pin, milli));
    return;
  }
  const { tk, rn, hu, ends, held } = namesOf(pin.limit);
  const inSlice = held[pin.place] as string;
  builder.where(ends[pin.place] as string, "=", pin.endMs).where(inSlice, ">=", milli);
  if (pin.resets === 0) builder.absent(rn);
  else builder.where(rn, "=", pin.resets);
  builder.add(tk, milli).add(inSlice, -milli);
  if (countsTime) builder.add(hu, heldFor(pin.limit, milli, readingMs - pin.sinceMs).milli);
}

/** That slots are not held in the slice of their ticket: another slice has its place, or none, too little is held, or it began anew. */
export function goneFrom({ limit, place, endMs, resets }: SlotPin, milli: number): Clause {
  const { rn, ends, held } = namesOf(limit);
  const [end, inSlice] = [ends[place] as string, held[place] as string];
  const anew: Clause =
    resets === 0
      ? [{ name: rn, is: "present" }]
      : [
          { name: rn, is: "absent" },
          { name: rn, is: "<>", value: resets },
        ];
  return [
    { name: end, is: "absent" },
    { name: end, is: "<>", value: endMs },
    { name: inSlice, is: "absent" },
    { name: inSlice, is: "<", value: milli },
    ...anew,
  ];
}

/** Of amounts that are given back those that usage does not keep. */
export function uncounted({ amounts, ticket, slotsUsed }: SlotsBack): readonly Amount[] {
  return slotsUsed ? amounts.filter(({ limit }) => slotPinOf(ticket, limit) === undefined) : amounts;
}

/** How long slots were held that are given back to a bucket as it stands. */
export function timesBack(state: BucketState, back: SlotsBack): readonly CountedAmount[] {
  if (!back.countsTime) return [];
  return back.amounts.flatMap(({ limit, milli }) => {
    const pin = slotPinOf(back.ticket, limit);
    if (pin === undefined || !isHeldIn(state, pin, milli)) return [];
    return [heldFor(limit, milli, Math.max(back.readingMs, state.epochMs) - pin.sinceMs)];
  });
}
