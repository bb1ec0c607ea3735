import { type BucketState, findLimit, holdEndMs, type LimitState } from "../../domain/bucket/bucket-state.ts";
import {
  byPeriod,
  hasSlots,
  isSlotPin,
  joinedTicket,
  type PeriodShare,
  PLAIN_TICKET,
  pinOf,
  type SlotPin,
  type Ticket,
} from "../../domain/bucket/give-back.ts";
import { givenBack, moved, SLICES_MAX, type Slice, sliceEndingBy, taken } from "../../domain/bucket/holds.ts";
import { heldFor } from "../../domain/bucket/slot-time.ts";
import type { Amount, CountedAmount } from "../../domain/charge/amounts.ts";
import { rulesOf } from "../../domain/limits/kinds/table.ts";
import type { Claim, Held } from "../../ports/bucket-store.ts";
import { namesOf } from "../item/attributes.ts";
import type { WriteBuilder } from "../item/write-builder.ts";
import { type Intent, type IntentOptions, type Move, NO_USAGE } from "./intent.ts";

// Slots of concurrency limits in the write of a take (docs/protocol.md, "At most N at once"). Slices are opened and closed
// together with the epoch, so a write that keeps the epoch only changes their amounts.

/** True if a limit has slots, or had before it became another kind. */
export function hasSlices({ limit, slices }: LimitState): boolean {
  return slices.length > 0 || rulesOf(limit).holdsSlots;
}

/** True if a move needs a slice that is not open: then the epoch must be moved. */
function opensSlice({ limit, slices }: LimitState, move: Move, atMs: number): boolean {
  if (!rulesOf(limit).holdsSlots || (move.milli <= 0 && move.slots === undefined)) return false;
  const endMs = holdEndMs(limit, move.holdMs, atMs);
  if (move.milli === 0 && move.slots?.every(({ pin }) => (pin?.endMs ?? 0) >= endMs)) return false;
  const open = sliceEndingBy(slices, endMs);
  return open === undefined || (open.endMs !== endMs && slices.length < SLICES_MAX);
}

/**
 * The slices of a limit after a move: taken slots are held, slots given back or renewed leave their slice. Undefined if slots to
 * give back or renew are no longer held. Adds to `times` how long renewed slots were held.
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
 * Adds the condition and the effect on held slots to a write. A slice that goes, or gets another end, is pinned: what it frees
 * was computed from its amount. Any other slice must only hold what leaves it.
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
 * The ticket with the slices that end first, among several of one take of which one counts, it is unknown which. A slot given
 * back from a slice that ends too early frees nothing; from one that ends too late it could free another holder's slot.
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

export function opensSlices(state: BucketState, moves: readonly Move[], readingMs: number): boolean {
  const atMs = Math.max(readingMs, state.epochMs);
  return moves.some((move) => {
    const held = findLimit(state, move.limit);
    return held !== undefined && opensSlice(held, move, atMs);
  });
}

// Renewals are jobs of the take machine: they move slots to a slice that ends later, and are `short` if they are lost.

interface Renewal {
  readonly of: Claim | Held;
  readonly amounts: readonly Amount[];
}

export function renewalIntent(jobs: readonly Renewal[], install: Intent["install"], options: IntentOptions): Intent {
  const { sheeted, ...how } = options;
  const moves = new Map<string, Move & { readonly slots: HeldSlots[] }>();
  for (const job of jobs) {
    for (const { limit, milli, pin } of heldBy(job)) {
      const move = moves.get(limit) ?? { limit, milli: 0, whenShort: "owe", holdMs: job.of.holdMs, slots: [] };
      move.slots.push({ pin, milli });
      moves.set(limit, move);
    }
  }
  return {
    ...how,
    install,
    checksAccess: false,
    isOff: false,
    moves: [...moves.values()],
    usage: { ...NO_USAGE, renews: true, sheeted },
    parts: jobs.map(({ of, amounts }) => ({ of, kind: "renew", amounts })),
  };
}

/** True if a bucket still holds the slots of a job, besides those that other jobs of the write take out of the same slices. */
export function isStillHeld(state: BucketState, left: Map<string, number>, job: Renewal): boolean {
  const slots = heldBy(job);
  const rest = slots.map(({ limit, milli, pin }) => {
    const held = findLimit(state, limit);
    if (held === undefined || pin === undefined || !hasSlots(held, pin)) return undefined;
    const slice = held.slices.find(({ place, endMs }) => place === pin.place && endMs === pin.endMs);
    const id = `${limit} ${pin.place}`;
    const restMilli = (left.get(id) ?? slice?.heldMilli ?? 0) - milli;
    return slice === undefined || restMilli < 0 ? undefined : ([id, restMilli] as const);
  });
  if (slots.length === 0 || rest.includes(undefined)) return false;
  for (const [id, milli] of rest as (readonly [string, number])[]) left.set(id, milli);
  return true;
}

export function renewedTicket(job: Renewal, state: BucketState, readingMs: number): Ticket {
  const atMs = Math.max(readingMs, state.epochMs);
  const parts = heldBy(job).map(({ limit, milli, pin }): PeriodShare => {
    const pins = pin === undefined ? [] : [renewedPin(state, pin, job.of.holdMs, atMs)];
    return { ticket: { ...PLAIN_TICKET, pins }, amounts: [{ limit, milli }] };
  });
  return joinedTicket(parts);
}

function renewedPin(state: BucketState, pin: SlotPin, holdMs: number | undefined, atMs: number): SlotPin {
  const held = findLimit(state, pin.limit);
  if (held === undefined) return pin;
  const untilMs = holdEndMs(held.limit, holdMs, atMs);
  const into = untilMs <= pin.endMs ? undefined : sliceEndingBy(held.slices, untilMs);
  if (into === undefined || into.place === pin.place) return pin;
  return { ...pin, place: into.place, endMs: into.endMs, sinceMs: atMs };
}

/** Slots, and their slice; undefined: none. */
type HeldSlots = NonNullable<Move["slots"]>[number];

function heldBy({ of, amounts }: Renewal): readonly (Amount & HeldSlots)[] {
  const { ticket } = of as Held;
  return byPeriod(ticket, amounts).flatMap((share) =>
    share.amounts.flatMap(({ limit, milli }) => {
      if (milli === 0) return [];
      const pin = pinOf(share.ticket, limit);
      return [{ limit, milli, pin: isSlotPin(pin) ? withoutPart(pin) : undefined }];
    }),
  );
}

function withoutPart({ milli: _, ...pin }: SlotPin): SlotPin {
  return pin;
}
