import { RateLimiterUnavailable } from "../domain/errors.ts";
import { forgottenAtMs, type LeaseRecord } from "../domain/lease-record.ts";
import type { LeaseStore } from "../ports/lease-store.ts";
import { ChangesAtOnce } from "./change-at-once.ts";
import { ChangesInSteps } from "./change-in-steps.ts";
import type { ChangeAttempts, Changed, ChangeKey, ChangePlan, ChangeStep, Charge } from "./change-plan.ts";
import type { DeskDeps } from "./desk-deps.ts";
import { leaseContended, leaseMissing } from "./errors.ts";
import { viewOf } from "./lease-view.ts";
import { allOf, compacted } from "./ledger.ts";

/** What came of looking for leases whose time is up. */
export interface ExpiryRun {
  readonly found: number;
  readonly expired: number;
  /** The first that was met, if any. */
  readonly failure: { readonly error: unknown } | undefined;
}

const CHANGES_MAX = 20;
const EXPIRED_AT_ONCE = 16;
/** Changes of stored leases. The record moves by a condition on its version: so of two that change a lease at once one wins. */
export class LeaseChanges {
  readonly #deps: DeskDeps;
  readonly #attempts: ChangeAttempts;

  constructor(deps: DeskDeps) {
    this.#deps = deps;
    this.#attempts = changesAtOnce(deps.leases) ? new ChangesAtOnce(deps, deps.leases) : new ChangesInSteps(deps);
  }

  /** A lease that is remembered, with its end written down if its time is up. */
  async read(leaseId: string): Promise<LeaseRecord> {
    for (let tries = 0; tries < CHANGES_MAX; tries++) {
      const stored = typeof leaseId === "string" ? await this.#deps.leases.get(leaseId) : undefined;
      const nowMs = this.#deps.engine.clock.now();
      const isDue = stored?.status === "open" && nowMs >= stored.expiresAtMs;
      const record = isDue ? (await this.#attempt(stored, expiry(stored), undefined))?.next : stored;
      // Another was faster.
      if (isDue && record === undefined) continue;
      if (record === undefined || (forgottenAtMs(record) ?? Number.POSITIVE_INFINITY) <= nowMs)
        throw leaseMissing(leaseId);
      return record;
    }
    throw leaseContended(leaseId);
  }

  /** Reads and changes; again from the start when another was faster. */
  async change(
    leaseId: string,
    step: ChangeStep,
    key: ChangeKey | undefined,
  ): Promise<{ readonly record: LeaseRecord; readonly charge: Charge | undefined }> {
    for (let tries = 0; tries < CHANGES_MAX; tries++) {
      await this.#attempts.resolve(leaseId);
      const read = await this.read(leaseId);
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

  /**
   * Writes down the end of some leases whose time is up, a few at a time. One that cannot be ended, because its record is damaged
   * for example, does not keep the others from it.
   */
  async expireDue(max: number): Promise<ExpiryRun> {
    await this.#attempts.resolve(undefined);
    const due = await this.#deps.leases.findDue(this.#deps.engine.clock.now(), max);
    let expired = 0;
    let failure: ExpiryRun["failure"];
    for (let from = 0; from < due.length; from += EXPIRED_AT_ONCE) {
      const some = due.slice(from, from + EXPIRED_AT_ONCE);
      for (const outcome of await Promise.allSettled(some.map((leaseId) => this.#expire(leaseId)))) {
        if (outcome.status === "rejected") failure ??= { error: outcome.reason };
        else if (outcome.value) expired++;
      }
      // While the store is down the others can wait.
      if (failure?.error instanceof RateLimiterUnavailable) break;
    }
    return { found: due.length, expired, failure };
  }

  /** Whether it was this one that ended it: another that does so at the same time does as well. */
  async #expire(leaseId: string): Promise<boolean> {
    const record = await this.#deps.leases.get(leaseId);
    if (record?.owed !== undefined) {
      await this.#attempts.collect(record);
      return false;
    }
    if (record?.status !== "open" || this.#deps.engine.clock.now() < record.expiresAtMs) return false;
    return (await this.#attempt(record, expiry(record), undefined)) !== undefined;
  }

  async #attempt(record: LeaseRecord, plan: ChangePlan, key: ChangeKey | undefined): Promise<Changed | undefined> {
    if (record.owed !== undefined) {
      await this.#attempts.collect(record);
      return undefined;
    }
    const changed = await this.#attempts.attempt(record, plan, key);
    if (changed !== undefined && changed.next.status !== record.status) {
      this.#deps.onChange(viewOf(changed.next, this.#deps.namespace));
    }
    return changed;
  }
}

function changesAtOnce(leases: LeaseStore): leases is LeaseStore & Required<Pick<LeaseStore, "change">> {
  return leases.change !== undefined;
}

/** The end of a lease that nobody ended, counted at the end of its hold. */
function expiry(record: LeaseRecord): ChangePlan {
  return {
    debits: [],
    takes: [],
    returns: record.onExpiry === "refund" ? allOf(record) : [],
    reason: "rollback",
    to: { status: "expired", closing: { atMs: record.expiresAtMs, by: "" } },
  };
}
