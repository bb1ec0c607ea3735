import { PLAIN_TICKET } from "../domain/bucket/give-back.ts";
import { keyInProgress } from "../domain/lease/idempotency.ts";
import type { LeaseRecord } from "../domain/lease/lease-record.ts";
import type { LeaseChanged } from "../engine/lease/lease-writes.ts";
import { exceededBy } from "../engine/refusal/refused.ts";
import type { Charged, LeaseChange, LeaseMoves } from "../ports/lease-change.ts";
import type { LeaseStore } from "../ports/lease-store.ts";
import type { ChangeAttempts, Changed, ChangeKey, ChangePlan } from "./change-plan.ts";
import { REPEATS_MAX } from "./change-plan.ts";
import { type ChargedShare, chargeOf } from "./charging.ts";
import { leaseNotStored } from "./errors.ts";
import {
  bucketsOf,
  claimOf,
  claimsOf,
  debitsOf,
  heldAt,
  notPassedBy,
  type Share,
  sharesOf,
  without,
  withReturned,
} from "./ledger.ts";
import { withPassedBy } from "./passed.ts";
import { afterRenewals, holdLost, renewalsOf } from "./renewing.ts";
import { endingWithSlots } from "./slots.ts";
import type { StoredLeasesDeps } from "./stored-leases-deps.ts";

/**
 * Changes of leases in a store whose transaction covers records and buckets: whoever is cut off, wherever, has changed all or
 * nothing, and a repeat under the same key is answered with what was done.
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
    const reply = await this.#changed(draft, plan);
    switch (reply.kind) {
      case "stored":
        // A store that has applied a change has called its draft before.
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

  /** Nothing is ever owed: what a change gives back is given back with it. */
  async collect(): Promise<void> {}

  renewed(): undefined {}

  async resolve(): Promise<void> {}

  /** A repeat of a change that was applied unseen is answered as stored. */
  async #changed(draft: ChangeDraft, { reason }: ChangePlan): Promise<LeaseChanged> {
    let isAmbiguous = false;
    for (let repeats = 0; ; repeats++) {
      const reply = await this.#deps.writes.change(this.#store, draft, reason);
      if (reply.kind === "unavailable" && reply.applied === "unknown") {
        if (repeats === REPEATS_MAX) return reply;
        isAmbiguous = true;
        continue;
      }
      return isAmbiguous && reply.kind !== "stored" ? this.#resolved(draft, reply) : reply;
    }
  }

  /** After a lost answer: whether the change was certainly not applied. Later versions hide that. */
  async #resolved(draft: ChangeDraft, reply: LeaseChanged): Promise<LeaseChanged> {
    // The version was looked at first: the record has its old one still, so that nothing was applied.
    if (reply.kind === "refused" || reply.kind === "keyLost" || reply.kind === "lost") return reply;
    if (reply.kind === "conflict") {
      const now = await this.#deps.leases.get(draft.leaseId);
      if (now?.version === draft.version + 1) return reply;
    }
    const cause =
      reply.kind === "unavailable" ? reply.cause : new Error("The response to an earlier attempt was lost.");
    return { kind: "unavailable", applied: "unknown", cause };
  }
}

/** A change as the store gets it; the lease as it will be is made inside its transaction. */
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
    this.#shares = taken.length > 0 ? taken : notPassedBy(record, debitsOf(record, plan.debits));
    this.#renewals = plan.renewMs === undefined ? [] : renewalsOf(record, plan.renewMs);
    this.moves = taken.length > 0 ? this.#takes() : this.#renewals.length > 0 ? this.#renews() : this.#difference();
  }

  writeOf(charged: Charged): ReturnType<LeaseChange["writeOf"]> {
    this.charged = charged;
    const { clock, calendar } = this.#deps.engine;
    const held =
      charged.kind === "renew"
        ? afterRenewals(this.#record, this.#renewals, charged.renewed)
        : without(this.#record.holdings, this.#plan.returns);
    const charge = chargeOf(this.#record, held, this.#got(charged), { nowMs: clock.now(), calendar });
    const next = endingWithSlots({
      ...this.#record,
      ...this.#plan.to,
      version: this.version + 1,
      writer: this.writer,
      resources: withPassedBy(withReturned(charge.resources, this.#plan.returns), this.#plan.passes),
      holdings: charge.holdings,
    });
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
    const debits = this.#shares.map(({ at, amounts }) => ({ held: this.#heldAt(at), amounts }));
    const credits = this.#plan.returns.map(({ at, ticket, held, reason }) => ({
      held: heldAt(this.#record, at, ticket),
      amounts: held.filter(({ milli }) => milli > 0),
      ...(reason === undefined ? {} : { reason }),
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
      const { ticket = PLAIN_TICKET, state } = answers[at] as (typeof answers)[number];
      return { share, held: this.#heldAt(share.at), ticket, state };
    });
  }

  #heldAt(at: Share["at"]) {
    return heldAt(this.#record, at, PLAIN_TICKET);
  }
}
