import { forgottenAtMs, type LeaseRecord } from "../domain/lease/lease-record.ts";
import { RateLimiterUnavailable } from "../domain/names/errors.ts";
import type { LeaseStore } from "../ports/lease-store.ts";
import { besideDifferences } from "./beside.ts";
import { ChangesAtOnce } from "./change-at-once.ts";
import { ChangesInSteps } from "./change-in-steps.ts";
import type {
  ChangeAttempts,
  Changed,
  ChangeKey,
  ChangePlan,
  ChangeStep,
  Charge,
  StoredLeasesDeps,
} from "./change-plan.ts";
import { leaseContended, leaseMissing } from "./errors.ts";
import { type LeaseView, viewOf } from "./lease-view.ts";
import { allOf, compacted } from "./ledger.ts";
import { slotsBack } from "./slots.ts";

/** The result of a search for expired leases. */
interface ExpiryRun {
  readonly found: number;
  readonly expired: number;
  readonly failure: { readonly error: unknown } | undefined;
}

/**
 * The result of ending a due lease.
 * - `open`: its hold was extended.
 * - `closed`: it was ended before.
 * - `waiting`: try again.
 */
export type DueOutcome =
  | { readonly kind: "expired" | "missing" | "waiting" }
  | { readonly kind: "open"; readonly expiresAtMs: number }
  | { readonly kind: "closed"; readonly lease: LeaseView }
  | { readonly kind: "failed"; readonly error: unknown };

const WAITS: DueOutcome = { kind: "waiting" };
const failedBy = (error: unknown): DueOutcome => ({ kind: "failed", error });

const CHANGES_MAX = 20;
/** Pause before the record of a lease that another process renews is read again. */
const RENEWING_LOOK_MS = 20;
const EXPIRED_AT_ONCE = 16;

/** Changes stored leases. Writes depend on the version of the record, so of two concurrent changes one wins. */
export class LeaseChanges {
  readonly #deps: StoredLeasesDeps;
  readonly #attempts: ChangeAttempts;

  constructor(deps: StoredLeasesDeps) {
    this.#deps = deps;
    this.#attempts = changesAtOnce(deps.leases) ? new ChangesAtOnce(deps, deps.leases) : new ChangesInSteps(deps);
  }

  /** Reads a lease, and writes its end if its time is up. */
  async read(leaseId: string): Promise<LeaseRecord> {
    for (let tries = 0; tries < CHANGES_MAX; tries++) {
      const stored = typeof leaseId === "string" ? await this.#deps.leases.get(leaseId) : undefined;
      const nowMs = this.#deps.engine.clock.now();
      const isDue = stored?.status === "open" && nowMs >= stored.expiresAtMs && !isBeingRenewed(stored, nowMs);
      const record = isDue ? (await this.#attempt(stored, expiry(stored), undefined))?.next : stored;
      // Another process was faster.
      if (isDue && record === undefined) continue;
      if (record === undefined || (forgottenAtMs(record) ?? Number.POSITIVE_INFINITY) <= nowMs)
        throw leaseMissing(leaseId);
      return record;
    }
    throw leaseContended(leaseId);
  }

  /** Reads and changes; starts again if another change was faster. */
  async change(
    leaseId: string,
    step: ChangeStep,
    key: ChangeKey | undefined,
  ): Promise<{ readonly record: LeaseRecord; readonly charge: Charge | undefined }> {
    for (let tries = 0; tries < CHANGES_MAX; tries++) {
      await this.#attempts.resolve(leaseId);
      const read = await this.#notBeingRenewed(leaseId);
      if (read.owed !== undefined) {
        await this.#attempts.collect(read);
        continue;
      }
      const record = compacted(read);
      const plan = step(record, this.#deps.engine.clock.now());
      if (plan === "done") return { record, charge: undefined };
      const changed = await this.#attempt(record, plan, key);
      if (changed !== undefined) return { record: changed.next, charge: changed.charge };
    }
    throw leaseContended(leaseId);
  }

  /** Reads the lease once no process renews its slots: until then their tickets are unknown. */
  async #notBeingRenewed(leaseId: string): Promise<LeaseRecord> {
    const { clock } = this.#deps.engine;
    for (;;) {
      for (let own = this.#attempts.renewed(leaseId); own !== undefined; own = this.#attempts.renewed(leaseId))
        await own;
      const read = await this.read(leaseId);
      if (!isBeingRenewed(read, clock.now())) return read;
      if (this.#attempts.renewed(leaseId) === undefined) await clock.sleep(RENEWING_LOOK_MS, undefined);
    }
  }

  /**
   * Writes the end of expired leases, a few at a time. A lease that cannot be ended, such as one with a damaged record, does not block the
   * others.
   */
  async expireDue(max: number): Promise<ExpiryRun> {
    await this.resolve();
    const due = await this.#deps.leases.findDue(this.#deps.engine.clock.now(), max);
    const outcomes = await this.endDue(due.map(({ leaseId }) => leaseId));
    const failed = outcomes.find((one) => one.kind === "failed");
    return {
      found: due.length,
      expired: outcomes.filter(({ kind }) => kind === "expired").length,
      failure: failed?.kind === "failed" ? { error: failed.error } : undefined,
    };
  }

  resolve(): Promise<void> {
    return this.#attempts.resolve(undefined);
  }

  /** Ends the expired ones of these leases, in their order. While the store is down the others wait. */
  async endDue(leaseIds: readonly string[]): Promise<readonly DueOutcome[]> {
    const outcomes: DueOutcome[] = [];
    for (let from = 0; from < leaseIds.length; from += EXPIRED_AT_ONCE) {
      const isDown = outcomes.some((one) => one.kind === "failed" && one.error instanceof RateLimiterUnavailable);
      const some = leaseIds.slice(from, from + EXPIRED_AT_ONCE);
      const ended = isDown
        ? some.map((): DueOutcome => WAITS)
        : await Promise.all(some.map((id) => this.#expire(id).catch(failedBy)));
      outcomes.push(...ended);
    }
    return outcomes;
  }

  async #expire(leaseId: string): Promise<DueOutcome> {
    const record = await this.#deps.leases.get(leaseId);
    if (record?.owed !== undefined) await this.#attempts.collect(record);
    if (record === undefined) return { kind: "missing" };
    if (record.status !== "open") return { kind: "closed", lease: viewOf(record, this.#deps.namespace) };
    const nowMs = this.#deps.engine.clock.now();
    if (nowMs < record.expiresAtMs || record.owed !== undefined) {
      return { kind: "open", expiresAtMs: record.expiresAtMs };
    }
    if (isBeingRenewed(record, nowMs)) return WAITS;
    // Another process may have ended it.
    return (await this.#attempt(record, expiry(record), undefined)) === undefined ? WAITS : { kind: "expired" };
  }

  async #attempt(record: LeaseRecord, plan: ChangePlan, key: ChangeKey | undefined): Promise<Changed | undefined> {
    if (record.owed !== undefined) {
      await this.#attempts.collect(record);
      return undefined;
    }
    const changed = await this.#attempts.attempt(record, plan, key);
    if (changed !== undefined) this.#count(record, plan);
    if (changed !== undefined && changed.next.status !== record.status) {
      this.#deps.onChange(viewOf(changed.next, this.#deps.namespace));
    }
    return changed;
  }

  #count(record: LeaseRecord, { beside, takes }: ChangePlan): void {
    for (const { entityId, resource, bypass, amounts, request } of besideDifferences(record, beside, takes)) {
      this.#deps.acquirer.callers.differed({ entityId, resource }, bypass, amounts, request);
    }
  }
}

function isBeingRenewed({ renewingUntilMs = 0 }: LeaseRecord, nowMs: number): boolean {
  return nowMs < renewingUntilMs;
}

function changesAtOnce(leases: LeaseStore): leases is LeaseStore & Required<Pick<LeaseStore, "change">> {
  return leases.change !== undefined;
}

/** Ends a lease as of the end of its hold. Slots come back in any case. */
function expiry(record: LeaseRecord): ChangePlan {
  return {
    debits: [],
    takes: [],
    returns: record.onExpiry === "refund" ? allOf(record) : slotsBack(record),
    ...(record.onExpiry === "refund" ? { passes: "none" as const, beside: "all" as const } : {}),
    reason: "rollback",
    to: { status: "expired", closing: { atMs: record.expiresAtMs, by: "" } },
  };
}
