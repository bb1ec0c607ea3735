import { PLAIN_TICKET } from "../domain/bucket/give-back.ts";
import { aboveZero } from "../domain/charge/amounts.ts";
import { keyInProgress } from "../domain/lease/idempotency.ts";
import type { LeaseRecord } from "../domain/lease/lease-record.ts";
import { given } from "../domain/names/given.ts";
import { changeLease, type LeaseChanged } from "../engine/lease/lease-writes.ts";
import { exceededBy } from "../engine/refusal/refused.ts";
import type { Charged, LeaseChange, LeaseMoves, LeaseStore } from "../ports/lease-store.ts";
import {
  type ChangeAttempts,
  type Changed,
  type ChangeKey,
  type ChangePlan,
  REPEATS_MAX,
  replyAfterLost,
  type StoredLeasesDeps,
} from "./change-plan.ts";
import { type ChargedShare, changedRecord, chargedShare, chargeOf } from "./charging.ts";
import { leaseNotStored } from "./errors.ts";
import { bucketsOf, claimOf, claimsOf, debitsOf, heldAt, type Share, sharesOf, without } from "./ledger.ts";
import { afterRenewals, holdLost, renewalsOf } from "./slots.ts";

/**
 * Changes leases in a store whose transaction covers records and buckets: a crash leaves all or nothing changed, and a repeat under the
 * same key gets the first answer.
 */
export class ChangesAtOnce implements ChangeAttempts {
  readonly #deps: StoredLeasesDeps;
  readonly #store: Required<Pick<LeaseStore, "change">>;

  constructor(deps: StoredLeasesDeps, store: Required<Pick<LeaseStore, "change">>) {
    this.#deps = deps;
    this.#store = store;
  }

  async attempt(record: LeaseRecord, plan: ChangePlan, key: ChangeKey | undefined): Promise<Changed | undefined> {
    const draft = new ChangeDraft(record, plan, key, this.#deps);
    if (draft.moves.kind === "take") await this.#deps.acquirer.requireThawed(draft.chain);
    const reply = await this.#changed(draft, plan);
    switch (reply.kind) {
      case "stored":
        // The store has called the draft before it applied the change.
        return draft.made as Changed;
      case "refused":
        throw exceededBy(reply.refusal);
      case "conflict":
        return undefined;
      case "keyLost":
        throw keyInProgress(key?.mark.key ?? "");
      case "lost":
        throw holdLost(record, reply.renewal.held.bucket, this.#deps);
      case "unavailable":
        throw leaseNotStored(`A change of the lease ${record.leaseId}`, reply.cause);
    }
  }

  /** Nothing is owed: give-backs are part of the change. */
  async collect(): Promise<void> {}

  renewed(): undefined {}

  async resolve(): Promise<void> {}

  /** The store answers a repeat of a change that was applied unseen as stored. */
  async #changed(draft: ChangeDraft, { reason }: ChangePlan): Promise<LeaseChanged> {
    const { engine, acquirer, timeoutMs } = this.#deps;
    const parts = { engine, listeners: acquirer.listeners, timeoutMs };
    let isAmbiguous = false;
    for (let repeats = 0; ; repeats++) {
      const reply = await changeLease(parts, this.#store, draft, reason);
      if (reply.kind === "unavailable" && reply.applied === "unknown") {
        if (repeats === REPEATS_MAX) return reply;
        isAmbiguous = true;
        continue;
      }
      // The store compares the version first: the record still has the old one, so nothing was applied.
      const isCertain = reply.kind === "refused" || reply.kind === "keyLost" || reply.kind === "lost";
      if (!isAmbiguous || reply.kind === "stored" || isCertain) return reply;
      return replyAfterLost(this.#deps.leases, { leaseId: draft.leaseId, version: draft.version + 1 }, reply);
    }
  }
}

/** A change as the store gets it. The next record is made inside its transaction. */
class ChangeDraft implements LeaseChange {
  readonly leaseId: string;
  readonly version: number;
  readonly writer: string;
  readonly key: LeaseChange["key"];
  readonly moves: LeaseMoves;
  readonly chain: ReturnType<typeof bucketsOf>;
  made: Changed | undefined;
  charged: Charged | undefined;
  readonly #record: LeaseRecord;
  readonly #plan: ChangePlan;
  readonly #key: ChangeKey | undefined;
  readonly #deps: StoredLeasesDeps;
  readonly #shares: readonly Share[];
  readonly #renewals: ReturnType<typeof renewalsOf>;

  constructor(record: LeaseRecord, plan: ChangePlan, key: ChangeKey | undefined, deps: StoredLeasesDeps) {
    this.#record = record;
    this.#plan = plan;
    this.#key = key;
    this.#deps = deps;
    this.leaseId = record.leaseId;
    this.version = record.version;
    this.writer = deps.engine.random.id();
    this.key = key?.mark;
    this.chain = bucketsOf(record);
    const taken = sharesOf(record, plan.takes);
    this.#shares = taken.length > 0 ? taken : debitsOf(record, plan.debits);
    this.#renewals = plan.renewMs === undefined ? [] : renewalsOf(record, plan.renewMs);
    this.moves = taken.length > 0 ? this.#takes() : this.#renewals.length > 0 ? this.#renews() : this.#difference();
  }

  writeOf(charged: Charged): ReturnType<LeaseChange["writeOf"]> {
    this.charged = charged;
    const held =
      charged.kind === "renew"
        ? afterRenewals(this.#record, this.#renewals, charged.renewed)
        : without(this.#record.holdings, this.#plan.returns);
    const charge = chargeOf(this.#deps, this.#record, held, this.#got(charged));
    const next = changedRecord(this.#record, this.#plan, charge, this.writer);
    this.made = { next, charge };
    return { record: next, finish: this.#key?.finishOf(next, charge) };
  }

  #takes(): LeaseMoves {
    const nowMs = this.#deps.engine.clock.now();
    const { leavePercent } = this.#plan;
    return { kind: "take", claims: claimsOf(this.#record, this.#shares, { nowMs, leavePercent }) };
  }

  #renews(): LeaseMoves {
    return { kind: "renew", renewals: this.#renewals.map(({ movement }) => movement) };
  }

  #difference(): LeaseMoves {
    const debits = this.#shares.map(({ at, amounts }) => ({ held: heldAt(this.#record, at, PLAIN_TICKET), amounts }));
    const credits = this.#plan.returns.map(({ at, ticket, held, reason }) => ({
      held: heldAt(this.#record, at, ticket),
      amounts: aboveZero(held),
      ...given({ reason }),
      ...((reason ?? this.#plan.reason) === "rollback" ? {} : { slotsUsed: true as const }),
    }));
    return { kind: "difference", debits, credits: credits.filter(({ amounts }) => amounts.length > 0) };
  }

  #got(charged: Charged): readonly ChargedShare[] {
    const { moves } = this;
    if (charged.kind === "renew") return [];
    const answers = charged.kind === "take" ? charged.taken : charged.debited;
    return this.#shares.map((share, i) => {
      const at = moves.kind === "take" ? claimOf(this.#record, share, moves.claims) : i;
      return chargedShare(this.#record, share, answers[at]);
    });
  }
}
