import type { LimitStanding } from "../domain/charge/limit-standing.ts";
import type { LeaseHolding, LeaseRecord, LeaseResourceRecord } from "../domain/lease/lease-record.ts";
import type { GaveBackEvent } from "../ports/events.ts";
import type { KeyFinish, KeyMark } from "../ports/lease-write.ts";
import type { ResourceAmounts } from "./ledger.ts";

/** What a change takes: `debits` without a lower bound, `takes` only if it is there. A change has one of the two. */
export interface ChargePlan {
  readonly debits: ResourceAmounts;
  readonly takes: ResourceAmounts;
  /** What the takes leave at least. Absent: what the lease itself leaves. */
  readonly leavePercent?: number;
}

/** What is given back of a holding. */
export interface LeaseReturn extends LeaseHolding {
  /** Where it is not that of the change: slots come back when the work is done. */
  readonly reason?: "settle";
}

/** What a change does to a lease; what it does not name stays. */
export interface ChangePlan extends ChargePlan {
  readonly returns: readonly LeaseReturn[];
  /** What changes of what passed by shadows, by measure; "none": nothing is left of it. Absent: nothing changes. */
  readonly passes?: ResourceAmounts | "none";
  readonly reason: GaveBackEvent["reason"];
  /** For so long from now on slots are held anew, in ms. Absent: they are held as before. */
  readonly renewMs?: number;
  readonly to: Partial<Pick<LeaseRecord, "status" | "closing" | "expiresAtMs">>;
}

/** How a change is worked out against the lease as it stands: a plan, or that nothing is left to do. It throws to refuse. */
export type ChangeStep = (record: LeaseRecord, nowMs: number) => ChangePlan | "done";

/** What was taken, and the lease with it. */
export interface Charge {
  readonly holdings: readonly LeaseHolding[];
  readonly resources: readonly LeaseResourceRecord[];
  readonly standings: readonly LimitStanding[];
}

/** The key that a change is asked with, and the answer that is stored under it, made of the lease as it will be. */
export interface ChangeKey {
  readonly mark: KeyMark;
  finishOf(next: LeaseRecord, charge: Charge): KeyFinish;
}

/** A change that was made. */
export interface Changed {
  readonly next: LeaseRecord;
  readonly charge: Charge;
}

/** One attempt to change a lease; undefined when another was faster, and then nothing is changed. */
export interface ChangeAttempts {
  /** Resolves when no other call of this process is renewing the slots of a lease. */
  renewed(leaseId: string): Promise<unknown> | undefined;
  attempt(record: LeaseRecord, plan: ChangePlan, key: ChangeKey | undefined): Promise<Changed | undefined>;
  /** Gives back what a record owes, unless another does. */
  collect(record: LeaseRecord): Promise<void>;
  /** Finds out about changes of this process whose answers were lost: of one lease, or of all. */
  resolve(leaseId: string | undefined): Promise<void>;
}

/** How often a write whose answer was lost is sent again; a store that has a line to lose it on has done so before. */
export const REPEATS_MAX = 1;
