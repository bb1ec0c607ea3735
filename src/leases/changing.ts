import { RateLimiterUnavailable } from "../domain/errors.ts";
import { keyInProgress } from "../domain/idempotency.ts";
import { forgottenAtMs, type LeaseHolding, type LeaseRecord } from "../domain/lease-record.ts";
import type { GaveBackEvent } from "../ports/events.ts";
import type { LeaseReply } from "../ports/lease-store.ts";
import type { KeyFinish } from "../ports/lease-write.ts";
import { type Charge, type ChargePlan, Charging } from "./charging.ts";
import type { DeskDeps } from "./desk-deps.ts";
import { leaseContended, leaseMissing, leaseNotStored } from "./errors.ts";
import { viewOf } from "./lease-view.ts";
import { allOf, compacted, heldAt, without, withReturned } from "./ledger.ts";

/** What a change does to a lease; what it does not name stays. */
export interface ChangePlan extends ChargePlan {
  readonly returns: readonly LeaseHolding[];
  readonly reason: GaveBackEvent["reason"];
  readonly to: Partial<Pick<LeaseRecord, "status" | "closing" | "expiresAtMs">>;
}

/** How a change is worked out against the lease as it stands: a plan, or that nothing is left to do. It throws to refuse. */
export type ChangeStep = (record: LeaseRecord, nowMs: number) => ChangePlan | "done";

/** The answer that is stored with a change under its key, made of the lease as it will be. */
export type FinishOf = (next: LeaseRecord, charge: Charge) => KeyFinish | undefined;

/** What came of looking for leases whose time is up. */
export interface ExpiryRun {
  readonly found: number;
  readonly expired: number;
  /** The first that was met, if any. */
  readonly failure: { readonly error: unknown } | undefined;
}

const CHANGES_MAX = 20;
const EXPIRED_AT_ONCE = 16;
/** How often a write whose answer was lost is sent again; a store that has a line to lose it on has done so before. */
const REPEATS_MAX = 1;

/**
 * Changes of stored leases. A debit is written before the record, a credit after it, and the record moves by a condition on its
 * version: so of two that change a lease at once one wins, and only that one credits. Whoever is cut off in between leaves
 * charged what it took, and never gives anything back twice.
 */
export class LeaseChanges {
  readonly #deps: DeskDeps;
  readonly #charging: Charging;

  constructor(deps: DeskDeps) {
    this.#deps = deps;
    this.#charging = new Charging(deps);
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

  /** Reads, charges, moves and gives back; again from the start when another was faster. */
  async change(
    leaseId: string,
    step: ChangeStep,
    finishOf: FinishOf | undefined,
  ): Promise<{ readonly record: LeaseRecord; readonly charge: Charge | undefined }> {
    for (let tries = 0; tries < CHANGES_MAX; tries++) {
      const record = compacted(await this.read(leaseId));
      const plan = step(record, this.#deps.engine.clock.now());
      if (plan === "done") return { record, charge: undefined };
      const changed = await this.#attempt(record, plan, finishOf);
      if (changed !== undefined) return { record: changed.next, charge: changed.charge };
    }
    throw leaseContended(leaseId);
  }

  /**
   * Writes down the end of some leases whose time is up, a few at a time. One that cannot be ended, because its record is damaged
   * for example, does not keep the others from it.
   */
  async expireDue(max: number): Promise<ExpiryRun> {
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
    if (record?.status !== "open" || this.#deps.engine.clock.now() < record.expiresAtMs) return false;
    return (await this.#attempt(record, expiry(record), undefined)) !== undefined;
  }

  /** One attempt; undefined when another was faster, and then nothing is changed. */
  async #attempt(
    record: LeaseRecord,
    plan: ChangePlan,
    finishOf: FinishOf | undefined,
  ): Promise<{ readonly next: LeaseRecord; readonly charge: Charge } | undefined> {
    const kept = { ...record, holdings: without(record.holdings, plan.returns) };
    const charge = await this.#charging.charge(record, kept.holdings, plan);
    const next: LeaseRecord = {
      ...record,
      ...plan.to,
      version: record.version + 1,
      writer: this.#deps.engine.random.id(),
      resources: withReturned(charge.resources, plan.returns),
      holdings: charge.holdings,
    };
    const reply = await this.#move(next, finishOf?.(next, charge));
    switch (reply.kind) {
      case "stored":
        await this.#giveBack(record, plan);
        if (next.status !== record.status) this.#changed(next);
        return { next, charge };
      case "conflict":
        await charge.undo();
        return undefined;
      case "keyLost":
        await charge.undo();
        throw keyInProgress(finishOf?.(next, charge)?.key ?? "");
      case "unavailable":
        // What may be written in the record must not be given back: the record would give it back once more.
        if (reply.applied === "no") await charge.undo();
        throw leaseNotStored(`A change of the lease ${record.leaseId}`, reply.cause);
    }
  }

  /** A repeat of a move that was applied unseen is answered as stored. */
  async #move(next: LeaseRecord, finish: KeyFinish | undefined): Promise<LeaseReply> {
    let isAmbiguous = false;
    for (let repeats = 0; ; repeats++) {
      const reply = await this.#deps.leases.move(next, finish, this.#deps.engine.clock.now());
      if (reply.kind === "unavailable" && reply.applied === "unknown") {
        if (repeats === REPEATS_MAX) return reply;
        isAmbiguous = true;
        continue;
      }
      if (isAmbiguous && reply.kind !== "stored") return this.#resolved(next, reply);
      return reply;
    }
  }

  /** After a lost answer: whether the move was certainly not applied. Later versions hide that. */
  async #resolved(next: LeaseRecord, reply: LeaseReply): Promise<LeaseReply> {
    const hidden: LeaseReply = {
      kind: "unavailable",
      applied: "unknown",
      cause: reply.kind === "unavailable" ? reply.cause : new Error("The answer to an earlier attempt was lost."),
    };
    if (reply.kind !== "conflict") return hidden;
    const now = await this.#deps.leases.get(next.leaseId);
    return now?.version === next.version ? reply : hidden;
  }

  async #giveBack(record: LeaseRecord, { returns, reason }: ChangePlan): Promise<void> {
    if (returns.length === 0) return;
    await this.#deps.acquirer.client.giveBack(
      returns.map(({ at, ticket }) => heldAt(record, at, ticket)),
      returns.map(({ held }) => held),
      reason,
    );
  }

  #changed(record: LeaseRecord): void {
    this.#deps.onChange(viewOf(record, this.#deps.namespace));
  }
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
