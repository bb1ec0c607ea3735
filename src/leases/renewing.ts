import type { BucketKey } from "../domain/bucket/bucket-key.ts";
import type { Ticket } from "../domain/bucket/give-back.ts";
import type { LeaseHolding, LeaseRecord } from "../domain/lease/lease-record.ts";
import { HoldLost } from "../domain/names/errors.ts";
import { renewed as renewedBy } from "../engine/lease/renewal.ts";
import { reasonOf } from "../engine/limiter/event-publisher.ts";
import type { RenewReply } from "../ports/bucket-store.ts";
import type { Movement } from "../ports/lease-change.ts";
import { leaseNotStored } from "./errors.ts";
import { heldAt } from "./ledger.ts";
import { isHardAt, slotsIn } from "./slots.ts";
import type { StoredLeasesDeps } from "./stored-leases-deps.ts";

// How the slots of a stored lease are renewed: by the limits that their buckets have now, each limit by itself. Until when they are held
// then, their tickets say.

/** Slots of one limit, in one of the holdings of a lease. */
interface SlotRenewal {
  readonly of: LeaseHolding;
  readonly movement: Movement;
}

/** What is renewed of a lease, limit by limit. */
export function renewalsOf(record: LeaseRecord, holdMs: number): readonly SlotRenewal[] {
  return slotsIn(record).flatMap((of) =>
    of.held.map((amount) => {
      const movement = { held: { ...heldAt(record, of.at, of.ticket), holdMs }, amounts: [amount] };
      return { of, movement: isHardAt(record, of.at, amount.limit) ? movement : { ...movement, isOptional: true } };
    }),
  );
}

/** The holdings of a lease with the tickets that renewals gave. */
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

/** Slots of a lease that were renewed by themselves, without its record. */
interface RenewedSlots {
  readonly holdings: readonly LeaseHolding[];
  /** Why the lease is not extended: slots are lost, or the store did not answer. What was renewed is held all the same. */
  readonly failure: Error | undefined;
}

/** Renews on a store that does not change a record together with its buckets. Nobody else may change the lease meanwhile. */
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

/** The ticket with the slices that its slots are in now; what else it says stays. */
function withPins(before: Ticket, { pins }: Ticket): Ticket {
  const others = before.pins.filter(({ limit }) => pins.every((pin) => pin.limit !== limit));
  return { ...before, pins: [...others, ...pins].sort((a, b) => (a.limit < b.limit ? -1 : 1)) };
}

function isSame(slots: LeaseHolding, { at, ticket }: LeaseHolding): boolean {
  return slots.at[0] === at[0] && slots.at[1] === at[1] && slots.ticket === ticket;
}
