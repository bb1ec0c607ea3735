import { keyInProgress } from "../domain/lease/idempotency.ts";
import type { LeaseRecord } from "../domain/lease/lease-record.ts";
import { RateLimiterUnavailable } from "../domain/names/errors.ts";
import type { KeyFinish } from "../ports/bucket-store.ts";
import type { LeaseReply } from "../ports/lease-store.ts";
import {
  type ChangeAttempts,
  type Changed,
  type ChangeKey,
  type ChangePlan,
  replyAfterLost,
  type StoredLeasesDeps,
} from "./change-plan.ts";
import { changedRecord, charge } from "./charging.ts";
import { leaseNotStored } from "./errors.ts";
import { heldAt, without } from "./ledger.ts";
import { endingWithSlots, renewedSlots, slotsIn } from "./slots.ts";

type GiveBack = Pick<ChangePlan, "returns" | "reason">;

/** A change that may be stored, and its give-back if it is. */
interface Unresolved {
  readonly next: LeaseRecord;
  readonly back: GiveBack;
}

/** A renewal that takes longer has died: no call of a store takes this long. */
const RENEWING_MAX_MS = 5_000;

const UNRESOLVED_MAX = 1_000;

/**
 * Changes leases in a store without a transaction over records and buckets. A debit is written before the record, a credit after it:
 * so of two concurrent changes only the winner credits. A process that is killed in between leaves its debit charged, and never gives
 * anything back twice.
 */
export class ChangesInSteps implements ChangeAttempts {
  readonly #deps: StoredLeasesDeps;
  readonly #unresolved = new Map<string, Unresolved>();
  /** Renewals of this process, by lease. */
  readonly #renewing = new Map<string, Promise<unknown>>();

  constructor(deps: StoredLeasesDeps) {
    this.#deps = deps;
  }

  renewed(leaseId: string): Promise<unknown> | undefined {
    return this.#renewing.get(leaseId);
  }

  async attempt(given: LeaseRecord, plan: ChangePlan, key: ChangeKey | undefined): Promise<Changed | undefined> {
    const { renewingUntilMs: _, ...record } = given;
    if (plan.renewMs !== undefined && slotsIn(record).length > 0) return this.#renewedAlone(record, plan, plan.renewMs);
    const charged = await charge(this.#deps, record, without(record.holdings, plan.returns), plan);
    const next = changedRecord(record, plan, charged, this.#deps.engine.random.id());
    const reply = await this.#move(next, plan, key?.finishOf(next, charged));
    switch (reply.kind) {
      case "stored":
        charged.kept();
        return { next, charge: charged };
      case "conflict":
        await charged.undo();
        return undefined;
      case "keyLost":
        await charged.undo();
        throw keyInProgress(key?.mark.key ?? "");
      case "unavailable":
        // The record may contain the charge, and would give it back once more.
        if (reply.applied === "no") await charged.undo();
        else charged.kept();
        throw leaseNotStored(`A change of the lease ${record.leaseId}`, reply.cause);
    }
  }

  /** Other calls of this process wait for the renewal instead of polling the record. */
  async #renewedAlone(record: LeaseRecord, { to }: ChangePlan, holdMs: number): Promise<Changed | undefined> {
    const renewed = this.#renewedMarked(record, to, holdMs);
    const over = renewed.catch(() => {});
    this.#renewing.set(record.leaseId, over);
    try {
      return await renewed;
    } finally {
      if (this.#renewing.get(record.leaseId) === over) this.#renewing.delete(record.leaseId);
    }
  }

  /**
   * Marks the record as renewing, renews, and then writes the tickets. Other changes wait meanwhile, because they could not know the slices
   * of the slots. If this process dies in between, the slots end at their time.
   */
  async #renewedMarked(record: LeaseRecord, to: ChangePlan["to"], holdMs: number): Promise<Changed | undefined> {
    const { clock, random } = this.#deps.engine;
    const mark = { version: record.version + 1, writer: random.id(), renewingUntilMs: clock.now() + RENEWING_MAX_MS };
    if (!(await this.#movedTo({ ...record, ...mark }))) return undefined;
    const { holdings, failure } = await renewedSlots(record, holdMs, this.#deps);
    // Lost slots do not lose the others: the renewed ones are written.
    const next = endingWithSlots({
      ...{ ...record, ...(failure === undefined ? to : {}), holdings },
      ...{ version: record.version + 2, writer: random.id() },
    });
    const isMoved = await this.#movedTo(next);
    if (failure !== undefined) throw failure;
    return isMoved ? { next, charge: { holdings, resources: record.resources, standings: [] } } : undefined;
  }

  /** False if another change was faster. */
  async #movedTo(next: LeaseRecord): Promise<boolean> {
    const reply = await this.#move(next, { returns: [], reason: "adjust" }, undefined);
    if (reply.kind === "unavailable") throw leaseNotStored(`An extension of the lease ${next.leaseId}`, reply.cause);
    return reply.kind === "stored";
  }

  async collect(record: LeaseRecord): Promise<void> {
    const { owed = [], ...kept } = record;
    const next = { ...kept, version: record.version + 1, writer: this.#deps.engine.random.id() };
    const reply = await this.#move(next, { returns: owed, reason: "rollback" }, undefined);
    if (reply.kind === "unavailable") {
      throw leaseNotStored(`A give-back of the lease ${record.leaseId}`, reply.cause);
    }
  }

  async resolve(leaseId: string | undefined): Promise<void> {
    const all = leaseId === undefined ? [...this.#unresolved.values()] : [this.#unresolved.get(leaseId)];
    for (const one of all) if (one !== undefined) await this.#resolveOne(one);
  }

  /** If the record is as this process wrote it, the change was applied, and its give-back is due. */
  async #resolveOne({ next, back }: Unresolved): Promise<void> {
    const now = await this.#deps.leases.get(next.leaseId);
    if (now?.version === next.version && now.writer === next.writer) await this.collect({ ...now, owed: back.returns });
    this.#unresolved.delete(next.leaseId);
  }

  /**
   * Moves the record, then gives back. If the answer to the move is lost, it is sent again with the debt (`owed`): the next process that
   * reads the record removes the debt and gives it back. So the give-back happens however many answers are lost, and never twice: a move
   * that arrives late finds another version.
   */
  async #move(next: LeaseRecord, back: GiveBack, finish: KeyFinish | undefined): Promise<LeaseReply> {
    const first = await this.#deps.leases.move(next, finish, this.#deps.engine.clock.now());
    if (first.kind === "stored") await this.#giveBack(next, back);
    if (first.kind !== "unavailable" || first.applied === "no") return first;
    const marked = back.returns.length === 0 ? next : { ...next, owed: back.returns };
    const second = await this.#deps.leases.move(marked, finish, this.#deps.engine.clock.now());
    if (second.kind === "stored") {
      if (marked.owed !== undefined) await this.#collectLater(marked);
      return second;
    }
    const reply = await replyAfterLost(this.#deps.leases, next, second);
    if (reply.kind === "unavailable" && back.returns.length > 0) this.#remember(next, back);
    return reply;
  }

  #remember(next: LeaseRecord, back: GiveBack): void {
    const [oldest] = this.#unresolved.keys();
    if (this.#unresolved.size >= UNRESOLVED_MAX && oldest !== undefined) this.#unresolved.delete(oldest);
    this.#unresolved.set(next.leaseId, { next, back });
  }

  /** The record has stored the debt: if it cannot be given back now, the search for due leases will. */
  async #collectLater(marked: LeaseRecord): Promise<void> {
    try {
      await this.collect(marked);
    } catch (error) {
      if (!(error instanceof RateLimiterUnavailable)) throw error;
    }
  }

  async #giveBack(record: LeaseRecord, { returns, reason }: GiveBack): Promise<void> {
    for (const why of new Set(returns.map((one) => one.reason ?? reason))) {
      const own = returns.filter((one) => (one.reason ?? reason) === why);
      await this.#deps.acquirer.client.giveBack(
        own.map(({ at, ticket }) => heldAt(record, at, ticket)),
        own.map(({ held }) => held),
        why,
      );
    }
  }
}
