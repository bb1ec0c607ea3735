import { HoldLost } from "../domain/errors.ts";
import type { Ticket } from "../domain/give-back.ts";
import { checkHoldIn } from "../domain/hold-time.ts";
import type { LeaseRecord } from "../domain/lease-record.ts";
import { reasonOf } from "../engine/event-publisher.ts";
import { leaseNotStored } from "./errors.ts";
import { heldAt } from "./ledger.ts";
import { type RenewedHolding, slotLimitsOf, slotsIn } from "./slots.ts";
import type { StoredLeasesDeps } from "./stored-leases-deps.ts";

/** Renews the slots of stored leases, before their records say so. */
export class LeaseRenewing {
  readonly #deps: StoredLeasesDeps;

  constructor(deps: StoredLeasesDeps) {
    this.#deps = deps;
  }

  /**
   * The tickets of the slots of an open lease, held for so long from now on. Where the record is not changed after all, they end later than
   * it says: whoever gives them back by the tickets of before frees nothing that another holds.
   */
  async renew(record: LeaseRecord, holdMs: number): Promise<readonly RenewedHolding[]> {
    if (record.status !== "open") return [];
    checkHoldIn(slotLimitsOf(record), holdMs);
    return Promise.all(
      slotsIn(record).map(async ({ at, ticket, held }): Promise<RenewedHolding> => {
        const of = { ...heldAt(record, at, ticket), holdMs };
        const reply = await this.#deps.acquirer.client.renew(of, held);
        if (reply.kind === "renewed") return { at, before: ticket, after: withPins(ticket, reply.ticket) };
        if (reply.kind === "unavailable") {
          throw leaseNotStored(`An extension of the lease ${record.leaseId}`, reply.cause);
        }
        const { entityId, resource } = of.bucket;
        const lost = new HoldLost(
          `The slots of ${entityId} on ${resource} are held no more: the time of the lease ${record.leaseId} was up, or they were reset. Stop the work, and acquire again.`,
        );
        this.#deps.acquirer.listeners.publisher.degraded(of.bucket, reasonOf(lost), lost);
        throw lost;
      }),
    );
  }
}

/** The ticket with the slices that its slots are in now; what else it says stays. */
function withPins(before: Ticket, { pins }: Ticket): Ticket {
  const others = before.pins.filter(({ limit }) => pins.every((pin) => pin.limit !== limit));
  return { ...before, pins: [...others, ...pins].sort((a, b) => (a.limit < b.limit ? -1 : 1)) };
}
