import type { BucketKey } from "../../src/domain/bucket/bucket-key.ts";
import { isSlotPin, type SlotPin, type Ticket } from "../../src/domain/bucket/give-back.ts";
import type { Amount } from "../../src/domain/charge/amounts.ts";
import type { CreditContext, Held, RenewReply } from "../../src/ports/bucket-store.ts";
import type { ModelBucket, ModelPeriod } from "../kit/model-bucket.ts";
import { ModelSlots } from "../kit/model-slots.ts";
import type { Journal } from "./journal.ts";
import type { UsageLedger } from "./usage-ledger.ts";

// What a store that applies a call as a whole has to make of slots, by what their holders were told: ends and beginnings of tickets.

/** Slots of a ticket that are in one slice. */
interface InSlice {
  readonly limit: string;
  readonly pin: SlotPin;
  readonly milli: number;
}

/** The amounts of a ticket that are slots, by slice. */
export function inSlices({ pins }: Ticket, amounts: readonly Amount[]): readonly InSlice[] {
  return amounts.flatMap(({ limit, milli }) => {
    let left = milli;
    return pins.filter(isSlotPin).flatMap((pin) => {
      if (pin.limit !== limit) return [];
      const part = Math.min(left, pin.milli ?? left);
      left -= part;
      return part === 0 ? [] : [{ limit, pin, milli: part }];
    });
  });
}

/** The ends that a ticket names. */
export function endsIn({ pins }: Ticket): ReadonlyMap<string, number> {
  return new Map(pins.filter(isSlotPin).map(({ limit, endMs }) => [limit, endMs]));
}

/** What is given back without what usage keeps of it: slots that were used. */
export function uncountedOf(held: Held, amounts: readonly Amount[], { slotsUsed }: CreditContext): readonly Amount[] {
  if (!slotsUsed || held.bypass) return amounts;
  const ends = endsIn(held.ticket);
  return amounts.filter(({ limit, milli }) => milli === 0 || !ends.has(limit));
}

/** A ticket of a take or debit says until when its slots are held: for their time, and no longer than a quarter of the limit's more. */
export function toldEndProblems(model: ModelBucket, ticket: Ticket | undefined, amounts: readonly Amount[]): string[] {
  return amounts.flatMap(({ limit: name, milli }) => {
    const limit = model.limit(name);
    if (!(limit instanceof ModelSlots) || milli === 0) return [];
    const [due, told] = [limit.held.latestEndMs, ticket && endsIn(ticket).get(name)];
    return told === due ? [] : [`a hold of ${name} is told to end at ${told}, not at ${due}`];
  });
}

/** A bucket's slots before a call. */
export interface SlotsBefore {
  readonly bucket: BucketKey;
  readonly held: readonly { readonly name: string; readonly holdMs: number; readonly slots: ModelSlots["held"] }[];
}

export function slotsBefore(bucket: BucketKey, model: ModelBucket | undefined): SlotsBefore {
  const held = (model?.limits ?? []).flatMap((limit) =>
    limit instanceof ModelSlots
      ? [{ name: limit.limit.name, holdMs: limit.limit.holdMs ?? 0, slots: limit.held.copy() }]
      : [],
  );
  return { bucket, held };
}

/** What a recorder has to know of slots: periods that pins mean, and where usage is written down. */
interface SlotBooks {
  readonly journal: Journal;
  readonly usage: UsageLedger;
  /** Of the pins of a ticket: undefined where they mean none that is known. */
  periodOf(bucket: BucketKey, pin: SlotPin): ModelPeriod | undefined;
}

export class SlotRecords {
  readonly #books: SlotBooks;

  constructor(books: SlotBooks) {
    this.#books = books;
  }

  /** Holds that ended by themselves during a call: usage has each for its whole time. */
  ended({ bucket, held }: SlotsBefore, epochMs: number, nowMs: number): void {
    for (const { name, holdMs, slots } of held) {
      const milli = slots.endedBy(epochMs);
      if (milli === 0n) continue;
      this.#books.journal.count("holds that ended by themselves");
      // Also an operation, which counts nothing else.
      this.#books.usage.opened(bucket, nowMs);
      this.#books.usage.held(bucket, name, milli * BigInt(holdMs), nowMs);
    }
  }

  /** Slots are given back, for usage: those that are held still, for as long as they were. The bucket is across its boundaries. */
  givenBack(held: Held, amounts: readonly Amount[], model: ModelBucket, { nowMs, undoes }: CreditContext): void {
    for (const { limit, pin, milli } of inSlices(held.ticket, amounts)) {
      const isHeld = this.#isHeld(held.bucket, model, { limit, pin, milli });
      this.#books.journal.count(isHeld ? "slots given back" : "slots given back too late");
      if (isHeld && undoes === undefined) this.#lasted(held.bucket, model, { limit, pin, milli }, nowMs);
    }
  }

  /** What is wrong with a renewal that was answered; the model has renewed, too, then. */
  renewed(held: Held, amounts: readonly Amount[], reply: RenewReply, model: ModelBucket, nowMs: number): string[] {
    if (reply.kind === "unavailable") return [];
    const { bucket } = held;
    const parts = inSlices(held.ticket, amounts);
    const atMs = Math.max(nowMs, model.epochMs);
    const isThere =
      parts.length > 0 &&
      parts.every((part) => {
        const same = parts.filter(({ limit, pin }) => limit === part.limit && pin.endMs === part.pin.endMs);
        const milli = same.reduce((sum, one) => sum + one.milli, 0);
        return part.pin.endMs > atMs && this.#isHeld(bucket, model, { ...part, milli });
      });
    this.#books.journal.count(`renewals ${reply.kind}`);
    if (!isThere) return reply.kind === "lost" ? [] : ["slots were renewed that are held no more"];
    if (reply.kind === "lost") return ["slots are held, and their renewal is told to be lost"];
    model.cross(nowMs);
    const due = new Map<string, number>();
    for (const part of parts) {
      const limit = model.limit(part.limit) as ModelSlots;
      limit.held.renew(part.pin.endMs, part.milli, limit.endFor(Math.max(nowMs, model.epochMs), held.holdMs));
      const endMs = limit.held.latestEndMs as number;
      if (endMs > part.pin.endMs) this.#lasted(bucket, model, part, nowMs);
      else this.#books.journal.count("renewals that end no later");
      const key = `${part.limit} ${endMs}`;
      due.set(key, (due.get(key) ?? 0) + part.milli);
    }
    for (const { limit, pin, milli } of inSlices(reply.ticket, amounts)) {
      const key = `${limit} ${pin.endMs}`;
      due.set(key, (due.get(key) ?? 0) - milli);
    }
    const wrong = [...due].filter(([, milli]) => milli !== 0);
    return wrong.length === 0 ? [] : [`a renewal is told to hold otherwise: ${JSON.stringify(wrong)}`];
  }

  #isHeld(bucket: BucketKey, model: ModelBucket, { limit: name, pin, milli }: InSlice): boolean {
    const limit = model.limit(name);
    if (!(limit instanceof ModelSlots)) return false;
    const period = this.#books.periodOf(bucket, pin);
    return period !== undefined && limit.isOf(period) === "yes" && limit.held.has(pin.endMs, milli);
  }

  #lasted(bucket: BucketKey, model: ModelBucket, { limit, pin, milli }: InSlice, nowMs: number): void {
    const ms = Math.max(0, Math.max(nowMs, model.epochMs) - pin.sinceMs);
    this.#books.usage.held(bucket, limit, BigInt(milli) * BigInt(ms), nowMs);
  }
}
