import { type Amount, checkAmounts, type Tokens } from "../domain/amounts.ts";
import type { BucketState } from "../domain/bucket-state.ts";
import { LeaseClosed, RateLimitExceeded, RateLimiterUnavailable } from "../domain/errors.ts";
import { PLAIN_TICKET, type Ticket } from "../domain/give-back.ts";
import { type Holding, returnsOf, without, withTaken } from "../domain/holding.ts";
import type { Held } from "../ports/bucket-store.ts";
import { allDone } from "./all-done.ts";
import type { Availability } from "./availability.ts";
import type { ChainLink } from "./config-cache.ts";
import { type LeasePart, overdrawnAt, remainingIn, seenIn } from "./lease-part.ts";
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
  /** Which of the demands it is of. */
  readonly level: number;
  readonly amounts: readonly Amount[];
}

/** What became of the tokens of a lease after they were taken. */
interface Ledger {
  /** For each demand of the lease. */
  readonly held: (readonly Holding[])[];
  /** Adjustments that certainly were not stored yet; settling tries them again. */
  pendingDebits: readonly PendingDebit[];
  /** The bucket of each demand as the take, an adjustment or a consume last left it. */
  readonly seen: (BucketState | undefined)[];
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
    for (const { held } of this.#ledger?.held[0] ?? []) {
      for (const { limit, milli } of held) consumed.set(limit, (consumed.get(limit) ?? 0) + milli / 1000);
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

  /**
   * Names of the soft limits of all levels that are below zero, as their buckets were last seen: `day` of the entity, `day^1` one
   * level up.
   */
  get overdrawn(): readonly string[] {
    const seen = this.#ledger?.seen ?? seenIn(this.part);
    const nowMs = this.core.maker.now();
    return seen.flatMap((state, level) => (state === undefined ? [] : overdrawnAt(state, level, nowMs)));
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
    await allDone([this.#debit(more), this.#giveBack(less, "adjust")]);
  }

  /** Takes more, if it is there: throws `RateLimitExceeded` when not, and then nothing was taken. */
  async consume(tokens: Tokens<Name>): Promise<void> {
    const amounts = this.#checked(tokens, "consume");
    if (this.#unmetered() || amounts.length === 0) return;
    const asked = this.part.demands
      .map(({ link, bypass }, level) => ({
        level,
        demand: demandOf(link, level === 0 ? amounts : sharedWith(link, amounts), bypass),
      }))
      .filter(({ demand }) => demand.take.length > 0);
    const demands = asked.map(({ demand }) => demand);
    const taken = await this.core.maker.client.takeMore(demands);
    if (taken.kind === "refused") throw new RateLimitExceeded(taken.refusal);
    if (taken.kind !== "granted") return this.#unavailable(taken.kind === "unavailable" ? taken.cause : undefined);
    const tickets = demands.map((_, i) => taken.answers[i]?.ticket ?? PLAIN_TICKET);
    // The lease may have been closed while the store was asked. A later rollback would not give this back.
    if (this.core.status !== "open") {
      await this.core.maker.client.giveBack(
        demands.map(({ link }, i) => heldOf(link, tickets[i] as Ticket)),
        demands.map(({ take }) => take),
        "rollback",
      );
      throw closed(this.core.status);
    }
    const ledger = this.#openLedger();
    for (const [i, { level, demand }] of asked.entries()) {
      ledger.held[level] = withTaken(ledger.held[level] ?? [], demand.take, tickets[i] as Ticket);
      ledger.seen[level] = taken.answers[i]?.state ?? ledger.seen[level];
    }
  }

  /** Gives back, at most what is held: asking for more gives back what is held. */
  async release(tokens: Tokens<Name>): Promise<void> {
    const amounts = this.#checked(tokens, "release");
    if (!this.#unmetered()) await this.#giveBack(amounts, "release");
  }

  /** Stores what is still pending; throws once all was tried, when some could not be stored. For the lease, once the work is done. */
  protected async flushPendingDebits(): Promise<void> {
    const ledger = this.#ledger;
    if (ledger === undefined) return;
    const pending = ledger.pendingDebits;
    ledger.pendingDebits = [];
    // Each by itself: that one level cannot be reached does not keep another from being charged.
    await allDone(pending.map((one) => this.#flush(ledger, one)));
  }

  async #flush(ledger: Ledger, { level, amounts }: PendingDebit): Promise<void> {
    const link = this.#linkAt(level);
    const { outcome, ticket } = await this.core.maker.client.debit(heldOf(link, PLAIN_TICKET), amounts);
    if (outcome === "applied") {
      ledger.held[level] = withTaken(ledger.held[level] ?? [], amounts, ticket ?? PLAIN_TICKET);
      return;
    }
    if (outcome === "unknown") return this.core.maker.degraded(link, "an adjustment may not be stored", undefined);
    this.core.maker.degraded(link, "an adjustment could not be stored", undefined);
    if (outcome === "gone") return;
    throw new RateLimiterUnavailable(
      `The adjustment of ${link.bucket.entityId} on ${link.bucket.resource} could not be stored; ` +
        "the work is done, but the bucket does not know its true cost.",
    );
  }

  /** Gives back all that is held. For the lease, when it is rolled back. */
  protected async giveAllBack(): Promise<void> {
    if (this.#unmetered()) return;
    const ledger = this.#openLedger();
    ledger.pendingDebits = [];
    const all = ledger.held.slice();
    ledger.held.fill([]);
    await this.#giveBackHeld(all, "rollback");
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
      const held = demands.map(({ take }) =>
        take.length === 0 ? [] : withTaken([], take, taken[next++]?.ticket ?? PLAIN_TICKET),
      );
      this.#ledger = { held, pendingDebits: [], seen: seenIn(this.part) };
    }
    return this.#ledger;
  }

  async #debit(amounts: readonly Amount[]): Promise<void> {
    if (amounts.length === 0) return;
    const ledger = this.#openLedger();
    await allDone(
      this.part.demands.map(async ({ link }, level) => {
        const due = level === 0 ? amounts : sharedWith(link, amounts);
        if (due.length === 0) return;
        const { outcome, state, ticket } = await this.core.maker.client.debit(heldOf(link, PLAIN_TICKET), due);
        if (state !== undefined) ledger.seen[level] = state;
        // Perhaps stored counts as stored, but not as held: what may not have been taken must not be given back.
        if (outcome === "no" || outcome === "unknown") this.#notStored(level, due, outcome);
        // The lease was rolled back while the store was asked. No later call would give this back.
        else if (this.core.status === "rolledBack") {
          await this.core.maker.client.giveBack([heldOf(link, ticket ?? PLAIN_TICKET)], [due], "rollback");
        } else ledger.held[level] = withTaken(ledger.held[level] ?? [], due, ticket ?? PLAIN_TICKET);
      }),
    );
  }

  #notStored(level: number, amounts: readonly Amount[], outcome: "no" | "unknown"): void {
    if (outcome === "no") {
      const ledger = this.#openLedger();
      ledger.pendingDebits = [...ledger.pendingDebits, { level, amounts }];
    }
    const reason = outcome === "no" ? "an adjustment is not stored yet" : "an adjustment may not be stored";
    if (this.core.degradedReason === false) this.core.degradedReason = reason;
    this.core.maker.degraded(this.#linkAt(level), reason, undefined);
  }

  async #giveBack(amounts: readonly Amount[], reason: "release" | "adjust"): Promise<void> {
    if (amounts.length === 0) return;
    const { held } = this.#openLedger();
    const returns = held.map((holdings) => returnsOf(holdings, amounts));
    for (const [level, holdings] of held.entries()) held[level] = without(holdings, returns[level] ?? []);
    await this.#giveBackHeld(returns, reason);
  }

  /** One give-back for each ticket of each level. */
  async #giveBackHeld(
    returns: readonly (readonly Holding[])[],
    reason: "release" | "adjust" | "rollback",
  ): Promise<void> {
    const all = returns.flatMap((holdings, level) => holdings.map((one) => ({ level, ...one })));
    await this.core.maker.client.giveBack(
      all.map(({ level, ticket }) => heldOf(this.#linkAt(level), ticket)),
      all.map(({ held }) => held),
      reason,
    );
  }

  #linkAt(level: number): ChainLink {
    return (this.part.demands[level] as Demand).link;
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

/** A level of the lease as a store needs to see it. */
function heldOf({ bucket, set, origin, access }: ChainLink, ticket: Ticket): Held {
  return { bucket, set, origin, ticket, bypass: access === "bypass" };
}
