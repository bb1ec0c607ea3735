import { isSlotPin, type PeriodPin, PLAIN_TICKET, type Ticket } from "../../src/domain/bucket/give-back.ts";
import { storedTicket } from "../../src/domain/lease/stored-ticket.ts";
import type { ModelPeriod, ModelPins } from "../kit/model-bucket.ts";

/** In which period of a limit something was taken, as the model has it. */
export interface Pinned {
  readonly period: ModelPeriod;
  /** How often the bucket had been removed by then. */
  readonly removals: number;
}

/**
 * Which periods of the model the pins of tickets mean. Tickets are values, so a pin is known by what it says: any process may
 * give back with it, also one that has read it from a text.
 */
export class PinBook {
  readonly #known = new Map<string, Pinned[]>();

  /** What a take from one shard, or from the whole bucket, was answered with. Says what is wrong with the ticket. */
  note(bucketId: string, ticket: Ticket | undefined, pins: ModelPins, removals: number): string[] {
    const problems: string[] = [];
    for (const [limit, period] of pins) {
      const own = ticket?.pins.filter((pin) => pin.limit === limit) ?? [];
      if (own.length === 0) problems.push(`a ticket says nothing of the period of ${limit}`);
      for (const pin of own) {
        const text = textOf(bucketId, pin);
        this.#known.set(text, [...(this.#known.get(text) ?? []), { period, removals }]);
      }
    }
    return problems;
  }

  /** The periods that a ticket means for a limit; none where it has no pin, as of what drips. */
  of(bucketId: string, { pins }: Ticket, limit: string): readonly Pinned[] {
    return pins.filter((pin) => pin.limit === limit).flatMap((pin) => this.#known.get(textOf(bucketId, pin)) ?? []);
  }
}

function textOf(bucketId: string, { milli: _, ...named }: PeriodPin): string {
  // Since when slots are held tells no two pins apart: holds of one slice are one, since some time between.
  const pin = isSlotPin(named) ? { ...named, sinceMs: 0 } : named;
  return `${bucketId} ${JSON.stringify(storedTicket({ ...PLAIN_TICKET, pins: [pin] }))}`;
}
