import { type Amount, checkAmounts, type Tokens } from "../domain/amounts.ts";
import { type BucketState, overdrawnOf } from "../domain/bucket-state.ts";
import { LeaseClosed, RateLimitExceeded, RateLimiterUnavailable } from "../domain/errors.ts";
import type { Availability } from "./availability.ts";
import type { ChainLink } from "./config-cache.ts";
import { add, type Holding, heldOf, holdingOf, mergeByHolding } from "./holdings.ts";
import { type LeasePart, remainingIn } from "./lease-part.ts";
import { type Demand, demandOf, sharedWith } from "./request.ts";
import type { StoreClient } from "./store-client.ts";

/** Where a lease stands: only an open one can be changed. */
export type LeaseStatus = "open" | "settled" | "rolledBack";

/** What a lease needs of the limiter that gave it. */
export interface LeaseMaker {
  readonly client: StoreClient;
  now(): number;
  /** Whether a fault of the store lets this entity's work through. */
  allows(link: ChainLink): boolean;
  /** Publishes that something could not be stored. */
  degraded(link: ChainLink, reason: string, cause: unknown): void;
  /** Publishes that an outage has kept a lease from taking more. */
  unavailable(link: ChainLink, cause: unknown): void;
}

/** What all resources of a lease share. */
export interface LeaseCore {
  readonly maker: LeaseMaker;
  status: LeaseStatus;
  degradedReason: string | false;
  /** The request's; otherwise made when it is first looked at. */
  signal: AbortSignal | undefined;
}

interface PendingDebit {
  readonly holding: Holding;
  readonly amounts: readonly Amount[];
}

/** What became of the tokens of a lease after they were taken. */
interface Ledger {
  readonly holdings: Holding[];
  /** Adjustments that certainly were not stored yet; settling tries them again. */
  pendingDebits: readonly PendingDebit[];
  /** The entity's bucket as an adjustment or a consume last left it. */
  seen: BucketState | undefined;
}

/** What a lease holds on one resource. A lease itself is that of its first one. */
export abstract class LeaseResource<Name extends string = string> {
  protected readonly core: LeaseCore;
  protected readonly part: LeasePart;
  #ledger: Ledger | undefined;

  /** @internal */
  constructor(core: LeaseCore, part: LeasePart) {
    this.core = core;
    this.part = part;
  }

  /** Whole tokens per limit that the entity has been charged so far by this lease. Parents are charged the same. */
  get consumed(): Readonly<Record<string, number>> {
    const consumed = new Map<string, number>();
    const charged = this.#ledger === undefined && !this.#unmetered();
    for (const { limit, milli } of this.part.demands[0]?.take ?? []) consumed.set(limit, charged ? milli / 1000 : 0);
    for (const { link, milli } of this.#ledger?.holdings ?? []) {
      if (link !== this.#entity.link) continue;
      for (const [limit, held] of milli) add(consumed, limit, held / 1000);
    }
    return Object.fromEntries(consumed);
  }

  /** Whether the entity was let through without being debited (`setAccess(..., "bypass")`); usage counts it. */
  get bypassed(): boolean {
    return this.part.demands[0]?.bypass ?? false;
  }

  /**
   * What each limit of every level that was taken from had left right after the take, as its own answer showed it: no
   * further call, and later takes do not change it. Empty where the store was not reached.
   */
  get remaining(): readonly Availability[] {
    return remainingIn(this.part);
  }

  /** Names of the entity's soft limits that are below zero, as the bucket was last seen. */
  get overdrawn(): readonly string[] {
    const seen = this.#ledger?.seen ?? this.part.taken[0]?.state;
    if (seen === undefined) return [];
    const all = seen.limits.map(({ name }) => ({ limit: name, milli: 0 }));
    return overdrawnOf(seen, all, this.core.maker.now());
  }

  /**
   * Charges the difference between estimate and truth: positive takes more, into debt if need be; negative gives back, at
   * most what is held. Every limit of the entity may be named, also one that was not consumed at the start.
   */
  async adjust(delta: Tokens<Name>): Promise<void> {
    const amounts = this.#checked(delta, "adjust");
    if (this.#unmetered()) return;
    const more = amounts.filter(({ milli }) => milli > 0);
    const less = amounts.filter(({ milli }) => milli < 0).map(({ limit, milli }) => ({ limit, milli: -milli }));
    await Promise.all([this.#debit(more), this.#giveBack(less, "adjust")]);
  }

  /** Takes more, if it is there: throws `RateLimitExceeded` when not, and then nothing was taken. */
  async consume(tokens: Tokens<Name>): Promise<void> {
    const amounts = this.#checked(tokens, "consume");
    if (this.#unmetered() || amounts.length === 0) return;
    const demands = this.part.demands
      .map(({ link, bypass }, i) => demandOf(link, i === 0 ? amounts : sharedWith(link, amounts), bypass))
      .filter(({ take }) => take.length > 0);
    const taken = await this.core.maker.client.takeMore(demands);
    if (taken.kind === "refused") throw new RateLimitExceeded(taken.refusal);
    if (taken.kind !== "granted") return this.#unavailable(taken.kind === "unavailable" ? taken.cause : undefined);
    const holdings = demands.map(({ link, take }, i) => holdingOf(link, take, taken.answers[i]?.ticket));
    // The lease may have been closed while the store was asked. A later rollback would not give this back.
    if (this.core.status !== "open") {
      await this.core.maker.client.giveBack(
        holdings.map(heldOf),
        demands.map(({ take }) => take),
        "rollback",
      );
      throw closed(this.core.status);
    }
    const ledger = this.#openLedger();
    ledger.holdings.push(...holdings);
    ledger.seen = taken.answers[0]?.state;
  }

  /** Gives back, at most what is held: asking for more gives back what is held. */
  async release(tokens: Tokens<Name>): Promise<void> {
    const amounts = this.#checked(tokens, "release");
    if (!this.#unmetered()) await this.#giveBack(amounts, "release");
  }

  /** Stores what is still pending; throws when that is not possible. For the lease, once the work is done. */
  protected async flushPendingDebits(): Promise<void> {
    const ledger = this.#ledger;
    if (ledger === undefined) return;
    const pending = ledger.pendingDebits;
    ledger.pendingDebits = [];
    // Each by itself: that one level cannot be reached does not keep another from being charged.
    const outcomes = await Promise.all(
      pending.map(
        async ({ holding, amounts }) => (await this.core.maker.client.debit(heldOf(holding), amounts)).outcome,
      ),
    );
    for (const [i, { holding, amounts }] of pending.entries()) {
      if (outcomes[i] === "applied") for (const { limit, milli } of amounts) add(holding.milli, limit, milli);
      else {
        const reason =
          outcomes[i] === "unknown" ? "an adjustment may not be stored" : "an adjustment could not be stored";
        this.core.maker.degraded(holding.link, reason, undefined);
      }
    }
    const missed = pending[outcomes.indexOf("no")]?.holding.link.bucket;
    if (missed === undefined) return;
    throw new RateLimiterUnavailable(
      `The adjustment of ${missed.entityId} on ${missed.resource} could not be stored; ` +
        "the work is done, but the bucket does not know its true cost.",
    );
  }

  /** Gives back all that is held. For the lease, when it is rolled back. */
  protected async giveAllBack(): Promise<void> {
    if (this.#unmetered()) return;
    const ledger = this.#openLedger();
    ledger.pendingDebits = [];
    const { holdings } = ledger;
    const amounts = holdings.map(({ milli }) => [...milli].map(([limit, held]) => ({ limit, milli: held })));
    for (const { milli } of holdings) milli.clear();
    await this.core.maker.client.giveBack(holdings.map(heldOf), amounts, "rollback");
  }

  get #entity(): Demand {
    return this.part.demands[0] as Demand;
  }

  /** Let through without being charged at all: there is nothing to adjust or give back. */
  #unmetered(): boolean {
    return this.core.degradedReason !== false && this.part.taken.length === 0 && this.#ledger === undefined;
  }

  #checked(tokens: Tokens, use: "adjust" | "consume" | "release"): Amount[] {
    if (this.core.status !== "open") throw closed(this.core.status);
    // Let through during an outage: perhaps not even the limits' names are known.
    if (this.#unmetered()) return [];
    const { bucket, set } = this.#entity.link;
    return checkAmounts(tokens, this.bypassed && use === "consume" ? "bypass" : use, bucket, set.limits);
  }

  // Most leases are settled as they were taken; the ledger is made when one is not.
  #openLedger(): Ledger {
    if (this.#ledger === undefined) {
      const { demands, taken } = this.part;
      let next = 0;
      const holdings = demands.map(({ link, take }) =>
        holdingOf(link, take, take.length === 0 ? undefined : taken[next++]?.ticket),
      );
      this.#ledger = { holdings, pendingDebits: [], seen: undefined };
    }
    return this.#ledger;
  }

  async #debit(amounts: readonly Amount[]): Promise<void> {
    if (amounts.length === 0) return;
    const ledger = this.#openLedger();
    const { holdings } = ledger;
    await Promise.all(
      this.part.demands.map(async ({ link }, i) => {
        const due = i === 0 ? amounts : sharedWith(link, amounts);
        const holding = holdings[i] as Holding;
        if (due.length === 0) return;
        const { outcome, state, ticket } = await this.core.maker.client.debit(heldOf(holding), due);
        if (i === 0 && state !== undefined) ledger.seen = state;
        // Perhaps stored counts as stored, but not as held: what may not have been taken must not be given back.
        if (outcome === "no" || outcome === "unknown") this.#notStored(holding, due, outcome);
        // The lease was rolled back while the store was asked. No later call would give this back.
        else if (this.core.status === "rolledBack") {
          await this.core.maker.client.giveBack(
            [{ ...heldOf(holding), ticket: ticket ?? holding.ticket }],
            [due],
            "rollback",
          );
        } else if (ticket !== undefined) holdings.push(holdingOf(link, due, ticket));
        else for (const { limit, milli } of due) add(holding.milli, limit, milli);
      }),
    );
  }

  #notStored(holding: Holding, amounts: readonly Amount[], outcome: "no" | "unknown"): void {
    if (outcome === "no") {
      const ledger = this.#openLedger();
      ledger.pendingDebits = [...ledger.pendingDebits, { holding, amounts }];
    }
    const reason = outcome === "no" ? "an adjustment is not stored yet" : "an adjustment may not be stored";
    if (this.core.degradedReason === false) this.core.degradedReason = reason;
    this.core.maker.degraded(holding.link, reason, undefined);
  }

  async #giveBack(amounts: readonly Amount[], reason: "release" | "adjust"): Promise<void> {
    if (amounts.length === 0) return;
    const { holdings } = this.#openLedger();
    const returns: { holding: Holding; amounts: Amount[] }[] = [];
    for (const { link } of this.part.demands) {
      for (const { limit, milli } of amounts) {
        let due = milli;
        // Latest first: what was added last is given back to where it was taken last.
        for (const holding of holdings.filter((one) => one.link === link).reverse()) {
          const part = Math.min(due, holding.milli.get(limit) ?? 0);
          if (part <= 0) continue;
          add(holding.milli, limit, -part);
          returns.push({ holding, amounts: [{ limit, milli: part }] });
          due -= part;
        }
      }
    }
    const merged = mergeByHolding(returns);
    await this.core.maker.client.giveBack(
      merged.map(({ holding }) => heldOf(holding)),
      merged.map((one) => one.amounts),
      reason,
    );
  }

  #unavailable(cause: unknown): void {
    const { link } = this.#entity;
    const { entityId, resource } = link.bucket;
    if (!this.core.maker.allows(link)) {
      this.core.maker.unavailable(link, cause);
      throw new RateLimiterUnavailable(
        `The limiter could not be reached to consume more for ${entityId} on ${resource}; the lease holds what it held before.`,
        { cause },
      );
    }
    this.core.degradedReason = "the store was unavailable when more was consumed";
    this.core.maker.degraded(link, this.core.degradedReason, cause);
  }
}

function closed(status: LeaseStatus): LeaseClosed {
  const leaseStatus = status === "settled" ? "settled" : "rolledBack";
  const how = status === "settled" ? "settled" : "rolled back";
  return new LeaseClosed("lease_closed", `The lease has been ${how}; acquire a new one.`, { leaseStatus });
}
