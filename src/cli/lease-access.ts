import { LeaseClosed } from "../domain/errors.ts";
import type { Limiter } from "../engine/limiter.ts";
import type { LeaseView } from "../leases/lease-view.ts";
import { type CommandLimiter, clientOf } from "./command-limiter.ts";
import { fieldsText } from "./print.ts";
import { timeText } from "./show-entity.ts";

/** The leases that are kept in a store, whether it is at hand or behind a service. */
interface LeaseAccess {
  list(query: {
    readonly entityId?: string;
    readonly resource?: string;
    readonly limit: number;
    readonly cursor?: string;
  }): PromiseLike<readonly LeaseView[] & { readonly cursor?: string }>;
  get(leaseId: string): Promise<LeaseView>;
  settle(leaseId: string, totals: { readonly consumed?: Readonly<Record<string, number>> }): Promise<LeaseView>;
  rollback(leaseId: string): Promise<LeaseView>;
}

export async function leasesOf(limiter: CommandLimiter): Promise<LeaseAccess> {
  const client = clientOf(limiter);
  if (client !== undefined) return client.leases;
  const { StoredLeases } = await import("../leases/stored-leases.ts");
  // Nothing is taken here, so that no hold has to be chosen.
  return new StoredLeases(limiter as unknown as Limiter, { ...UNUSED_HOLD, onChange: () => {} });
}

const UNUSED_HOLD = { holdMs: 60_000, holdMaxMs: 86_400_000, onExpiry: "charge" } as const;

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
