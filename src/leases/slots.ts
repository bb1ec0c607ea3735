import type { BucketKey } from "../domain/bucket/bucket-key.ts";
import { isSlotPin, pinOf, type Ticket } from "../domain/bucket/give-back.ts";
import { slotsOf } from "../domain/bucket/slot-time.ts";
import type { LeaseHolding, LeaseRecord } from "../domain/lease/lease-record.ts";
import { HoldLost } from "../domain/names/errors.ts";
import { isHardIn } from "../engine/lease/lease-part.ts";
import { renewed as renewedBy } from "../engine/lease/renewals.ts";
import { reasonOf } from "../engine/limiter/event-publisher.ts";
import type { RenewReply } from "../ports/bucket-store.ts";
import type { Movement } from "../ports/lease-store.ts";
import type { LeaseReturn, StoredLeasesDeps } from "./change-plan.ts";
import { leaseNotStored } from "./errors.ts";
import { heldAt } from "./ledger.ts";

// The hold of a stored lease is that of its slots. They come back when it ends, in whatever way, and are renewed with it.

/** The slots that a lease holds. */
export function slotsIn({ holdings }: Pick<LeaseRecord, "holdings">): readonly LeaseHolding[] {
  return holdings.flatMap(({ at, ticket, held }) => {
    const slots = slotsOf(ticket, held);
    return slots.length === 0 ? [] : [{ at, ticket, held: slots }];
  });
}

/** The give-back of all slots when the work is done. */
export function slotsBack(record: Pick<LeaseRecord, "holdings">): readonly LeaseReturn[] {
  return slotsIn(record).map((holding) => ({ ...holding, reason: "settle" as const }));
}

/** A return without its slots; empty if nothing else is left. */
export function withoutSlots(holding: LeaseReturn): readonly LeaseReturn[] {
  const slots = slotsOf(holding.ticket, holding.held);
  if (slots.length === 0) return [holding];
  const held = holding.held.filter((amount) => !slots.includes(amount));
  return held.length === 0 ? [] : [{ ...holding, held }];
}

function isHardAt({ resources }: Pick<LeaseRecord, "resources">, at: LeaseHolding["at"], name: string): boolean {
  return isHardIn(resources[at[0]]?.levels[at[1]]?.limits ?? [], name);
}

/** Moves the end of the lease to the earliest end of its slots. */
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

// Slots of a stored lease are renewed by the present limits of their buckets, each limit by itself. Their tickets say until when.

/** The renewal of one limit in one holding of a lease. */
interface SlotRenewal {
  readonly of: LeaseHolding;
  readonly movement: Movement;
}

export function renewalsOf(record: LeaseRecord, holdMs: number): readonly SlotRenewal[] {
  return slotsIn(record).flatMap((of) =>
    of.held.map((amount) => {
      const movement = { held: { ...heldAt(record, of.at, of.ticket), holdMs }, amounts: [amount] };
      return { of, movement: isHardAt(record, of.at, amount.limit) ? movement : { ...movement, isOptional: true } };
    }),
  );
}

/** The holdings with the tickets of their renewals. */
export function afterRenewals(
  { holdings }: LeaseRecord,
  renewals: readonly SlotRenewal[],
  replies: readonly RenewReply[],
): readonly LeaseHolding[] {
  return holdings.map((holding) => {
    const tickets = renewals.flatMap(({ of }, i) => {
      const reply = replies[i];
      return isSame(of, holding) && reply?.kind === "renewed" ? [reply.ticket] : [];
    });
    return tickets.length === 0 ? holding : { ...holding, ticket: tickets.reduce(withPins, holding.ticket) };
  });
}

interface RenewedSlots {
  readonly holdings: readonly LeaseHolding[];
  /** Why the lease is not extended: slots are lost, or the store did not answer. Renewed slots are held all the same. */
  readonly failure: Error | undefined;
}

/** Renews on a store without a transaction over records and buckets. No other change of the lease may run meanwhile. */
export async function renewedSlots(record: LeaseRecord, holdMs: number, deps: StoredLeasesDeps): Promise<RenewedSlots> {
  const renewed = await Promise.all(
    slotsIn(record).map(async (of) => {
      const held = { ...heldAt(record, of.at, of.ticket), holdMs };
      return { of, held, renewal: await renewedBy(deps.acquirer.client, held, of.held) };
    }),
  );
  const holdings = record.holdings.map((holding) => {
    const own = renewed.find(({ of }) => isSame(of, holding));
    return own === undefined ? holding : { ...holding, ticket: withPins(holding.ticket, own.renewal.ticket) };
  });
  const lost = renewed.find(({ of, renewal }) => renewal.lost.some((limit) => isHardAt(record, of.at, limit)));
  if (lost !== undefined) return { holdings, failure: holdLost(record, lost.held.bucket, deps) };
  const late = renewed.find(
    ({ of, renewal }) => renewal.unanswered && of.held.some(({ limit }) => isHardAt(record, of.at, limit)),
  );
  const cause = late?.renewal.unanswered?.cause;
  const failure = late && leaseNotStored(`An extension of the lease ${record.leaseId}`, cause);
  return { holdings, failure };
}

export function holdLost(
  { leaseId }: Pick<LeaseRecord, "leaseId">,
  bucket: BucketKey,
  { acquirer }: StoredLeasesDeps,
): HoldLost {
  const lost = new HoldLost(
    `The slots of ${bucket.entityId} on ${bucket.resource} are held no more: the time of the lease ${leaseId} was up, or they were reset. Stop the work, and acquire again.`,
  );
  acquirer.listeners.publisher.degraded(bucket, "other", reasonOf(lost), lost);
  return lost;
}

/** Replaces the slices of renewed slots in a ticket. */
function withPins(before: Ticket, { pins }: Ticket): Ticket {
  const others = before.pins.filter(({ limit }) => pins.every((pin) => pin.limit !== limit));
  return { ...before, pins: [...others, ...pins].sort((a, b) => (a.limit < b.limit ? -1 : 1)) };
}

function isSame(slots: LeaseHolding, { at, ticket }: LeaseHolding): boolean {
  return slots.at[0] === at[0] && slots.at[1] === at[1] && slots.ticket === ticket;
}
