import { keyInProgress } from "../domain/idempotency.ts";
import type { LeaseRecord } from "../domain/lease-record.ts";
import type { LeaseReply } from "../ports/lease-store.ts";
import type { KeyFinish } from "../ports/lease-write.ts";
import type { ChangeAttempts, Changed, ChangeKey, ChangePlan } from "./change-plan.ts";
import { REPEATS_MAX } from "./change-plan.ts";
import { Charging } from "./charging.ts";
import type { DeskDeps } from "./desk-deps.ts";
import { leaseNotStored } from "./errors.ts";
import { heldAt, without, withReturned } from "./ledger.ts";

/**
 * Changes of leases in a store that has no transaction over records and buckets. A debit is written before the record, a credit
 * after it: so of two that change a lease at once only the one that wins credits. Whoever is cut off in between leaves charged
 * what it took, and never gives anything back twice.
 */
export class ChangesInSteps implements ChangeAttempts {
  readonly #deps: DeskDeps;
  readonly #charging: Charging;

  constructor(deps: DeskDeps) {
    this.#deps = deps;
    this.#charging = new Charging(deps);
  }

  async attempt(record: LeaseRecord, plan: ChangePlan, key: ChangeKey | undefined): Promise<Changed | undefined> {
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
    const reply = await this.#move(next, key?.finishOf(next, charge));
    switch (reply.kind) {
      case "stored":
        await this.#giveBack(record, plan);
        return { next, charge };
      case "conflict":
        await charge.undo();
        return undefined;
      case "keyLost":
        await charge.undo();
        throw keyInProgress(key?.mark.key ?? "");
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
}
