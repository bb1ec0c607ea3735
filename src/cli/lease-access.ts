import { LeaseClosed } from "../domain/errors.ts";
import type { LeaseView } from "../leases/lease-view.ts";
import { fieldsText } from "./print.ts";
import { timeText } from "./show-entity.ts";

/** For a dry run: a lease that has ended cannot be ended otherwise. */
export function requireOpenLease({ leaseId, status }: LeaseView): void {
  if (status === "open") return;
  throw new LeaseClosed(
    "lease_closed",
    `The lease ${leaseId} is ${status === "rolledBack" ? "rolled back" : status}.`,
    {
      leaseStatus: status,
    },
  );
}

export function leaseText(lease: LeaseView): string {
  const { leaseId, entityId, resource, status, consumed, also, expiresAtMs, onExpiry } = lease;
  const further = Object.entries(also).map(([on, amounts]) => `${on}: ${amountsText(amounts)}`);
  return fieldsText({
    lease: leaseId ?? undefined,
    entity: entityId,
    resource,
    status,
    holds: amountsText(consumed),
    also: further.length === 0 ? undefined : further.join("; "),
    ends: expiresAtMs === null ? undefined : `${timeText(expiresAtMs)} (${onExpiry} then)`,
  });
}

export function amountsText(amounts: Readonly<Record<string, number>>): string {
  return Object.entries(amounts)
    .map(([name, amount]) => `${name}=${amount}`)
    .join(" ");
}
