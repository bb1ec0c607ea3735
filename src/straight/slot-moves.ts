import { type BucketState, bucketState, holdEndMs, type LimitState } from "../domain/bucket/bucket-state.ts";
import { hasSlots, isSlotPin, pinOf, type Ticket } from "../domain/bucket/give-back.ts";
import { SLICES_MAX, type Slice, type SliceName, sliceEndingBy, taken } from "../domain/bucket/holds.ts";
import { type RenewedSlots, renewSlots } from "../domain/bucket/slot-time.ts";
import type { Amount } from "../domain/charge/amounts.ts";
import { rulesOf } from "../domain/limits/kinds/table.ts";
import type { Claim, Held } from "../ports/bucket-store.ts";
import type { BucketRecord } from "../stored/bucket-record.ts";

// Slots that are held are levels of their own in a row: a take adds to the level of its slice what it takes of the limit, a give-back
// takes it off again, a renewal moves it. Slices are opened by what is brought to a row, so that a store only adds and compares. Which
// slice it is follows from the form of the row, never from how much is held in it: that others change all the time.

/** Slots in a slice. */
interface SlotMove extends SliceName {
  /** The place of their limit. */
  readonly limit: number;
  readonly milli: number;
}

/** The amounts of a take, and how long slots of them are held. */
type Holding = Pick<Claim, "take" | "holdMs">;

/** The record with a slice for all that a take would hold; the same object where there is one. */
export function openedForTake(record: BucketRecord, claim: Holding, nowMs: number): BucketRecord {
  let opened = record;
  for (const { limit, endMs } of wantedBy(record.state, claim, nowMs)) opened = openedAt(opened, limit, endMs);
  return opened;
}

/** The slots that a take would hold of a bucket that has a slice for them. */
export function holdsOf(state: BucketState, claim: Holding, nowMs: number): readonly SlotMove[] {
  return wantedBy(state, claim, nowMs).flatMap(({ limit, milli, endMs }) => {
    const slice = sliceEndingBy((state.limits[limit] as LimitState).slices, endMs);
    return slice === undefined ? [] : [{ limit, place: slice.place, endMs: slice.endMs, milli }];
  });
}

function wantedBy(state: BucketState, { take, holdMs }: Holding, nowMs: number): readonly Omit<SlotMove, "place">[] {
  return take.flatMap(({ limit: name, milli }) => {
    const limit = state.limits.findIndex((one) => one.name === name);
    const held = state.limits[limit];
    if (held === undefined || milli <= 0 || !rulesOf(held.limit).holdsSlots) return [];
    return [{ limit, milli, endMs: holdEndMs(held.limit, holdMs, Math.max(nowMs, state.epochMs)) }];
  });
}

/** With a slice that ends then, or the next later one where no place is left. */
function openedAt(record: BucketRecord, limit: number, endMs: number): BucketRecord {
  const { slices } = record.state.limits[limit] as LimitState;
  const found = sliceEndingBy(slices, endMs);
  const isOpen = found?.endMs === endMs || (found !== undefined && slices.length >= SLICES_MAX);
  return isOpen ? record : withSlices(record, new Map([[limit, taken(slices, 0, endMs)]]), endMs);
}

function withSlices(
  record: BucketRecord,
  opened: ReadonlyMap<number, readonly Slice[]>,
  untilMs: number,
): BucketRecord {
  const { state } = record;
  const limits = state.limits.map((held, i) => ({ ...held, slices: opened.get(i) ?? held.slices }));
  return { ...record, state: bucketState({ ...state, limits, validUntilMs: Math.min(state.validUntilMs, untilMs) }) };
}

/** The slice of a ticket, if it is still open and of the same beginning. */
export function sliceOfTicket(held: LimitState | undefined, ticket: Ticket): SliceName | undefined {
  const pin = held && pinOf(ticket, held.name);
  if (held === undefined || !isSlotPin(pin) || !hasSlots(held, pin)) return undefined;
  return held.slices.find(({ place, endMs }) => place === pin.place && endMs === pin.endMs);
}

/** A bucket in whose slices enough is held for anything: whether it is, the store sees. */
export function asIfEnough(state: BucketState): BucketState {
  if (state.plain) return state;
  const limits = state.limits.map((held) =>
    held.slices.length === 0
      ? held
      : { ...held, slices: held.slices.map((slice) => ({ ...slice, heldMilli: ENOUGH })) },
  );
  return { ...state, limits };
}

/** More than all slots of a limit, and still exact with them added or taken off. */
const ENOUGH = 2 ** 50;

/** A renewal moves slots in a bucket that has the slices for it. */
interface Renewal extends Pick<RenewedSlots, "ticket" | "times"> {
  readonly moves: readonly (SlotMove & { readonly into: SliceName })[];
}

/** Undefined: what it renews is held no more. */
export function renewalOf(
  state: BucketState,
  { ticket, holdMs }: Held,
  amounts: readonly Amount[],
  nowMs: number,
): Renewal | undefined {
  const renewed = renewSlots(asIfEnough(state), amounts, ticket, { nowMs, holdMs });
  if (renewed === undefined) return undefined;
  const moves = renewed.state.limits.flatMap(({ slices }, limit) => {
    // All that moves of a limit ends at the same instant.
    const into = slices.find(({ heldMilli }) => heldMilli > ENOUGH);
    if (into === undefined) return [];
    return slices.flatMap(({ place, endMs, heldMilli }) =>
      heldMilli < ENOUGH && place !== into.place ? [{ limit, place, endMs, milli: ENOUGH - heldMilli, into }] : [],
    );
  });
  return { ticket: renewed.ticket, times: renewed.times, moves };
}

/** The record with a slice for all that a renewal would move; the same object where there is one, or where nothing is held any more. */
export function openedForRenewal(
  record: BucketRecord,
  { ticket, holdMs }: Held,
  amounts: readonly Amount[],
  nowMs: number,
): BucketRecord {
  const { state } = record;
  const renewed = renewSlots(asIfEnough(state), amounts, ticket, { nowMs, holdMs });
  const opened = new Map<number, readonly Slice[]>();
  for (const [limit, { slices }] of (renewed?.state.limits ?? []).entries()) {
    const before = state.limits[limit] as LimitState;
    if (slices.every((slice, i) => before.slices[i]?.endMs === slice.endMs && before.slices[i]?.place === slice.place))
      continue;
    opened.set(
      limit,
      slices.map(({ place, endMs }) => {
        const own = before.slices.find((slice) => slice.place === place);
        return { place, endMs, heldMilli: own?.heldMilli ?? 0 };
      }),
    );
  }
  return opened.size === 0
    ? record
    : withSlices(record, opened, renewed?.state.validUntilMs ?? Number.POSITIVE_INFINITY);
}
