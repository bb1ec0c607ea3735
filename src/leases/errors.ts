import type { StoredLeaseStatus } from "../domain/lease/lease-record.ts";
import { ConflictError, LeaseClosed, NotFoundError, RateLimiterUnavailable } from "../domain/names/errors.ts";
import { shown } from "../domain/names/names.ts";

export function leaseMissing(leaseId: unknown): NotFoundError {
  return new NotFoundError(
    "lease_not_found",
    `There is no lease ${shown(leaseId)} in this namespace: it never existed, or ended more than a day ago. ` +
      "Acquire a new one.",
  );
}

const HOW: Readonly<Record<Exclude<StoredLeaseStatus, "open">, string>> = {
  settled: "has been settled",
  rolledBack: "has been rolled back",
  expired: "has expired",
};

export function leaseClosed(leaseId: string, leaseStatus: Exclude<StoredLeaseStatus, "open">): LeaseClosed {
  return new LeaseClosed("lease_closed", `The lease ${leaseId} ${HOW[leaseStatus]}; acquire a new one.`, {
    leaseStatus,
  });
}

export function leaseContended(leaseId: string): ConflictError {
  return new ConflictError(
    "lease_contended",
    `Others changed the lease ${leaseId} at each attempt of this change; nothing was changed. Try again.`,
  );
}

export function leaseNotStored(what: string, cause: unknown): RateLimiterUnavailable {
  return new RateLimiterUnavailable(
    `${what} could not be stored. Settle and rollback may be repeated; tokens taken but not held count as used.`,
    { cause },
  );
}
