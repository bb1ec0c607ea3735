import type { LimitStanding } from "../domain/charge/rate-limit-headers.ts";
import type { LeaseHolding, LeaseRecord, LeaseResourceRecord, OnExpiry } from "../domain/lease/lease-record.ts";
import type { Acquirer } from "../engine/acquire/acquirer.ts";
import type { EngineDeps } from "../engine/limiter/settings.ts";
import type { KeyFinish, KeyMark } from "../ports/bucket-store.ts";
import type { GaveBackEvent } from "../ports/events.ts";
import type { LeaseReply, LeaseStore } from "../ports/lease-store.ts";
import type { BesideChange } from "./beside.ts";
import type { LeaseView } from "./lease-view.ts";
import type { ResourceAmounts } from "./ledger.ts";

/** The charge of a change: `debits` may go into debt, `takes` may be refused. A change has one of the two. */
export interface ChargePlan {
  readonly debits: ResourceAmounts;
  readonly takes: ResourceAmounts;
  /** The share to leave. Absent: that of the lease. */
  readonly leavePercent?: number;
}

/** A part of a holding that is given back. */
export interface LeaseReturn extends LeaseHolding {
  /** Overrides the reason of the change: slots come back because the work is done. */
  readonly reason?: "settle";
}

/** A change of a lease. */
export interface ChangePlan extends ChargePlan {
  readonly returns: readonly LeaseReturn[];
  /** The change of amounts that passed by shadows, by measure; "none" clears them. Absent: they stay. */
  readonly passes?: ResourceAmounts | "none";
  /** The change of what is counted beside the buckets. Absent: it stays. */
  readonly beside?: BesideChange;
  readonly reason: GaveBackEvent["reason"];
  /** The new hold of slots from now on, in ms. Absent: it stays. */
  readonly renewMs?: number;
  readonly to: Partial<Pick<LeaseRecord, "status" | "closing" | "expiresAtMs">>;
}

/** Plans a change of the present record; "done": nothing is left to do. Throws to refuse. */
export type ChangeStep = (record: LeaseRecord, nowMs: number) => ChangePlan | "done";

/** The lease after a charge. */
export interface Charge {
  readonly holdings: readonly LeaseHolding[];
  readonly resources: readonly LeaseResourceRecord[];
  readonly standings: readonly LimitStanding[];
}

/** The idempotency key of a change, and the answer to store under it. */
export interface ChangeKey {
  readonly mark: KeyMark;
  finishOf(next: LeaseRecord, charge: Charge): KeyFinish;
}

export interface Changed {
  readonly next: LeaseRecord;
  readonly charge: Charge;
}

export interface ChangeAttempts {
  /** The renewal of this lease by another call of this process, if any. */
  renewed(leaseId: string): Promise<unknown> | undefined;
  attempt(record: LeaseRecord, plan: ChangePlan, key: ChangeKey | undefined): Promise<Changed | undefined>;
  /** Gives back what a record owes, unless another process does. */
  collect(record: LeaseRecord): Promise<void>;
  /** Resolves changes of this process whose answers were lost: of one lease, or of all. */
  resolve(leaseId: string | undefined): Promise<void>;
}

/** A write whose answer was lost is sent again this often; a store over a network has retried before. */
export const REPEATS_MAX = 1;

type Unavailable = Extract<LeaseReply, { readonly kind: "unavailable" }>;

/**
 * The reply to the change to `version`, after an earlier answer was lost. A conflict counts only if it proves that the change was not
 * applied. Later versions hide that.
 */
export async function replyAfterLost<Reply extends { readonly kind: string }>(
  leases: LeaseStore,
  { leaseId, version }: Pick<LeaseRecord, "leaseId" | "version">,
  reply: Reply | Unavailable,
): Promise<Reply | Unavailable> {
  if (reply.kind === "conflict" && (await leases.get(leaseId))?.version === version) return reply;
  const cause = "cause" in reply ? reply.cause : new Error("The response to an earlier attempt was lost.");
  return { kind: "unavailable", applied: "unknown", cause };
}

/** The defaults of an acquire, and the longest hold. */
export interface HoldDefaults {
  readonly holdMs: number;
  readonly holdMaxMs: number;
  readonly onExpiry: OnExpiry;
}

/** The dependencies of the parts of `StoredLeases`. */
export interface StoredLeasesDeps {
  readonly namespace: string;
  readonly leases: LeaseStore;
  readonly acquirer: Acquirer;
  readonly timeoutMs: number;
  readonly engine: Pick<EngineDeps, "clock" | "calendar" | "random" | "digest">;
  /** Called with a lease whose status has changed. */
  readonly onChange: (lease: LeaseView) => void;
}
