import { isSlotPin, type SlotPin, type Ticket } from "../../src/domain/bucket/give-back.ts";
import type { Amount } from "../../src/domain/charge/amounts.ts";
import type { StoredSlice } from "../kit/model-holds.ts";

// What holds of slots after every write that was applied (docs/protocol.md, "At most N at once"): what is free and what is held are all
// there is, and for every instant at least as much is stored as is held until then by what holders were told.

/** Slots that somebody was told to hold. */
export interface ToldHold {
  readonly bucketId: string;
  readonly pin: SlotPin;
  readonly milli: number;
}

/** Slots that are held until an instant. */
type HeldUntil = Pick<StoredSlice, "endMs" | "heldMilli">;

/** (A): what is free and what is held are all slots that there are, and no slice holds less than nothing. */
export function balanceProblems(freeMilli: number, capacityMilli: number, slices: readonly HeldUntil[]): string[] {
  const held = sumOf(slices);
  return [
    ...(freeMilli + held === capacityMilli ? [] : [`${freeMilli} are free and ${held} held of ${capacityMilli}`]),
    ...(slices.some(({ heldMilli }) => heldMilli < 0) ? ["a slice holds less than nothing"] : []),
  ];
}

/** (B): until every instant, what is stored is at least what holders were told to have so long. */
export function coverProblems(slices: readonly HeldUntil[], live: readonly HeldUntil[]): string[] {
  for (const { endMs } of live) {
    const isSoLong = (one: HeldUntil) => one.endMs >= endMs;
    const [stored, told] = [sumOf(slices.filter(isSoLong)), sumOf(live.filter(isSoLong))];
    if (stored < told) return [`${told} live until ${endMs}, and only ${stored} are stored`];
  }
  return [];
}

/** After a take of a limit that refuses, not more are held than there are. */
export function takenProblems(freeMilli: number): string[] {
  return freeMilli < 0 ? [`${-freeMilli} more are held than there are after a take`] : [];
}

function sumOf(slices: readonly HeldUntil[]): number {
  return slices.reduce((sum, { heldMilli }) => sum + heldMilli, 0);
}

interface Told {
  readonly bucketId: string;
  readonly pin: SlotPin;
  milli: number;
  /** Where the epoch of its bucket was set back, it may end earlier than it was told. */
  untilMs: number;
}

/** What processes were told that they hold: thousandths of slots by bucket and slice. */
export class ToldHolds {
  readonly #held = new Map<string, Told>();
  /** Its bodies run no more: what it was told does not count. */
  isDead = false;

  get all(): readonly ToldHold[] {
    return this.isDead ? [] : [...this.#held.values()];
  }

  /** Of a ticket with its amounts, as often as it is. */
  addAll(bucketId: string, ticket: Ticket, amounts: readonly Amount[], sign: 1 | -1): void {
    for (const { limit, milli } of amounts) {
      let left = milli;
      for (const pin of ticket.pins.filter(isSlotPin)) {
        if (pin.limit !== limit) continue;
        const part = Math.min(left, pin.milli ?? left);
        this.#add(bucketId, pin, sign * part);
        left -= part;
      }
    }
  }

  /** Those that are neither given back nor ended by the epoch of the bucket, and of its beginning. */
  liveIn(bucketId: string, limit: string, { resets, epochMs }: Beginning): readonly HeldUntil[] {
    if (this.isDead) return [];
    return [...this.#held.values()].flatMap(({ bucketId: id, pin, milli, untilMs }) => {
      const isOf = id === bucketId && pin.limit === limit && pin.resets === resets;
      return isOf && milli > 0 && untilMs > epochMs ? [{ endMs: untilMs, heldMilli: milli }] : [];
    });
  }

  /** The epoch of a bucket was far ahead and is set back: what had ended by it stays so, and nothing ends later than is stored. */
  setBack(bucketId: string, fromMs: number, lastMsOf: (limit: string) => number): void {
    for (const told of this.#held.values()) {
      if (told.bucketId !== bucketId) continue;
      const isOver = told.untilMs <= fromMs;
      told.untilMs = isOver ? Number.NEGATIVE_INFINITY : Math.min(told.untilMs, lastMsOf(told.pin.limit));
    }
  }

  #add(bucketId: string, pin: SlotPin, milli: number): void {
    const key = `${bucketId} ${pin.limit} ${pin.place} ${pin.endMs} ${pin.resets}`;
    const before = this.#held.get(key);
    if (before === undefined) this.#held.set(key, { bucketId, pin, milli, untilMs: pin.endMs });
    else before.milli += milli;
  }
}

interface Beginning {
  readonly resets: number;
  readonly epochMs: number;
}
