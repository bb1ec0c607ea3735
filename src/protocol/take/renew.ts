import { type BucketState, findLimit, holdEndMs } from "../../domain/bucket/bucket-state.ts";
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
import { sliceEndingBy } from "../../domain/bucket/holds.ts";
import type { Amount } from "../../domain/charge/amounts.ts";
import type { Claim, Held } from "../../ports/bucket-store.ts";
import { type Intent, type IntentOptions, type Move, NO_USAGE } from "./intent.ts";

// Renewals are jobs of the machine of takes: they move slots to a slice that ends later, and are `short` where they are lost.

/** A job that renews. */
interface Renewal {
  readonly of: Claim | Held;
  readonly amounts: readonly Amount[];
}

/** One write that renews for all jobs. */
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

/** Whether a bucket still holds what a job renews, besides what others of the same write take out of the same slices. */
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

/** The ticket of a renewal, from the state that its write left. */
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

/** Slots, and in which slice they are held; undefined: in none. */
type HeldSlots = NonNullable<Move["slots"]>[number];

/** What a job renews, slice by slice. */
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
