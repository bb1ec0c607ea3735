import { keyInProgress } from "../domain/lease/idempotency.ts";
import type { LeaseRecord } from "../domain/lease/lease-record.ts";
import { RateLimiterUnavailable } from "../domain/names/errors.ts";
import type { LeaseReply } from "../ports/lease-store.ts";
import type { KeyFinish } from "../ports/lease-write.ts";
import type { ChangeAttempts, Changed, ChangeKey, ChangePlan } from "./change-plan.ts";
import { Charging } from "./charging.ts";
import { leaseNotStored } from "./errors.ts";
import { heldAt, without, withReturned } from "./ledger.ts";
import { withPassedBy } from "./passed.ts";
import { renewedSlots } from "./renewing.ts";
import { endingWithSlots, slotsIn } from "./slots.ts";
import type { StoredLeasesDeps } from "./stored-leases-deps.ts";

type GiveBack = Pick<ChangePlan, "returns" | "reason">;

/** A change of which nobody knows whether it is stored, and what it gives back if it is. */
interface Unresolved {
  readonly next: LeaseRecord;
  readonly back: GiveBack;
}

/** A renewal that is not over by then has died: more than a call of a store takes. */
const RENEWING_MAX_MS = 5_000;

/** Of so many changes it is remembered that nobody knows. */
const UNRESOLVED_MAX = 1_000;

/**
 * Changes of leases in a store that has no transaction over records and buckets. A debit is written before the record, a credit
 * after it: so of two that change a lease at once only the one that wins credits. Whoever is killed in between leaves charged
 * what it took, and never gives anything back twice.
 */
export class ChangesInSteps implements ChangeAttempts {
  readonly #deps: StoredLeasesDeps;
  readonly #charging: Charging;
  readonly #unresolved = new Map<string, Unresolved>();
  /** Extensions of this process, by lease. */
  readonly #renewing = new Map<string, Promise<unknown>>();

  constructor(deps: StoredLeasesDeps) {
    this.#deps = deps;
    this.#charging = new Charging(deps);
  }

  renewed(leaseId: string): Promise<unknown> | undefined {
    return this.#renewing.get(leaseId);
  }

  async attempt(given: LeaseRecord, plan: ChangePlan, key: ChangeKey | undefined): Promise<Changed | undefined> {
    const { renewingUntilMs: _, ...record } = given;
    if (plan.renewMs !== undefined && slotsIn(record).length > 0) return this.#renewedAlone(record, plan, plan.renewMs);
    const charge = await this.#charging.charge(record, without(record.holdings, plan.returns), plan);
    const next = endingWithSlots({
      ...record,
      ...plan.to,
      version: record.version + 1,
      writer: this.#deps.engine.random.id(),
      resources: withPassedBy(withReturned(charge.resources, plan.returns), plan.passes),
      holdings: charge.holdings,
    });
    const reply = await this.#move(next, plan, key?.finishOf(next, charge));
    switch (reply.kind) {
      case "stored":
        charge.kept();
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
        else charge.kept();
        throw leaseNotStored(`A change of the lease ${record.leaseId}`, reply.cause);
    }
  }

  /** Others of this process wait for it, and do not have to look at the record again and again. */
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
   * The record says first that its slots are being renewed, then what their tickets are: whoever wants to change the lease meanwhile waits,
   * for it could not tell in which slices the slots are. Where this process dies in between, they end at their time.
   */
  async #renewedMarked(record: LeaseRecord, to: ChangePlan["to"], holdMs: number): Promise<Changed | undefined> {
    const { clock, random } = this.#deps.engine;
    const mark = { version: record.version + 1, writer: random.id(), renewingUntilMs: clock.now() + RENEWING_MAX_MS };
    if (!(await this.#movedTo({ ...record, ...mark }))) return undefined;
    const { holdings, failure } = await renewedSlots(record, holdMs, this.#deps);
    // Slots that are lost do not lose the others: what was renewed is written down.
    const next = endingWithSlots({
      ...{ ...record, ...(failure === undefined ? to : {}), holdings },
      ...{ version: record.version + 2, writer: random.id() },
    });
    const isMoved = await this.#movedTo(next);
    if (failure !== undefined) throw failure;
    return isMoved ? { next, charge: { holdings, resources: record.resources, standings: [] } } : undefined;
  }

  /** Whether the record is the next one; false: another was faster. */
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

  /** Only this process knows of it: where the record is as it wrote it, it owes what the change gives back. */
  async #resolveOne({ next, back }: Unresolved): Promise<void> {
    const now = await this.#deps.leases.get(next.leaseId);
    if (now?.version === next.version && now.writer === next.writer) await this.collect({ ...now, owed: back.returns });
    this.#unresolved.delete(next.leaseId);
  }

  /**
   * Moves the record, then gives back. Where the answer to the move is lost, it is sent again and says what it owes: whoever meets
   * the record from then on, this process or another, takes that off first and gives it back after. So the give-back is made
   * however many answers are lost, and never twice: a move that arrives late finds another version.
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
    const reply = await this.#resolved(next, second);
    if (reply.kind === "unavailable" && back.returns.length > 0) this.#remember(next, back);
    return reply;
  }

  #remember(next: LeaseRecord, back: GiveBack): void {
    const [oldest] = this.#unresolved.keys();
    if (this.#unresolved.size >= UNRESOLVED_MAX && oldest !== undefined) this.#unresolved.delete(oldest);
    this.#unresolved.set(next.leaseId, { next, back });
  }

  /** The change is stored, and what it owes with it: where that cannot be given back now, whoever looks for due leases does. */
  async #collectLater(marked: LeaseRecord): Promise<void> {
    try {
      await this.collect(marked);
    } catch (error) {
      if (!(error instanceof RateLimiterUnavailable)) throw error;
    }
  }

  /** After a lost answer: whether the move was certainly not applied. Later versions hide that. */
  async #resolved(next: LeaseRecord, reply: LeaseReply): Promise<LeaseReply> {
    const hidden: LeaseReply = {
      kind: "unavailable",
      applied: "unknown",
      cause: reply.kind === "unavailable" ? reply.cause : new Error("The response to an earlier attempt was lost."),
    };
    if (reply.kind !== "conflict") return hidden;
    const now = await this.#deps.leases.get(next.leaseId);
    return now?.version === next.version ? reply : hidden;
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
