import type { OnExpiry } from "../domain/lease/lease-record.ts";
import type { Acquirer } from "../engine/acquire/acquirer.ts";
import type { LeaseWrites } from "../engine/lease/lease-writes.ts";
import type { EngineDeps } from "../engine/limiter/settings.ts";
import type { LeaseStore } from "../ports/lease-store.ts";
import type { LeaseView } from "./lease-view.ts";

/** What an acquire that does not say gets, and the longest it may ask for. */
export interface HoldDefaults {
  readonly holdMs: number;
  readonly holdMaxMs: number;
  readonly onExpiry: OnExpiry;
}

/** What the parts of `StoredLeases` work with. */
export interface StoredLeasesDeps {
  readonly namespace: string;
  readonly leases: LeaseStore;
  readonly acquirer: Acquirer;
  readonly writes: LeaseWrites;
  readonly engine: Pick<EngineDeps, "clock" | "calendar" | "random" | "digest">;
  /** Called with a lease whose status has changed. */
  readonly onChange: (lease: LeaseView) => void;
}
