import { type Amount, checkAmounts, type Tokens } from "../domain/amounts.ts";
import { LeaseClosed, RateLimitExceeded, RateLimiterUnavailable } from "../domain/errors.ts";
import type { Claim, Held, Ticket } from "../ports/bucket-store.ts";
import type { Level } from "./levels.ts";
import { type Demand, demandOf, sharedWith } from "./request.ts";
import type { Taken, TakenAnswer, Taker } from "./taker.ts";

export type LeaseStatus = "open" | "settled" | "rolledBack";

/** What a lease needs of the limiter that gave it. */
export interface LeaseMaker {
  readonly taker: Taker;
  /** Takes from the buckets of a lease, whatever configuration says meanwhile. */
  takeMore(claims: readonly Claim[]): Promise<Taken>;
  /** Whether a fault of the store lets this entity's work through. */
  allows(level: Level): boolean;
  /** Tells that something could not be stored. */
  degraded(level: Level, reason: string, cause: unknown): void;
}

/** What was taken from one bucket at one time, and how much of it is still held. */
interface Holding {
  readonly level: Level;
  readonly ticket: Ticket | undefined;
  readonly milli: Map<string, number>;
}

/**
 * Tokens taken for a piece of work. Adjust them while it runs; `settle` keeps what was consumed, `rollback` gives all of
 * it back. `await using lease = ...` rolls back unless it was settled, as a database transaction does.
 */
export class Lease<Name extends string = string> {
  readonly #maker: LeaseMaker;
  readonly #demands: readonly Demand[];
  readonly #taken: readonly TakenAnswer[];
  #holdings: Holding[] | undefined;
  /** Adjustments that certainly were not stored yet; settling tries them again. */
  #owed: { readonly holding: Holding; readonly amounts: readonly Amount[] }[] | undefined;
  #status: LeaseStatus = "open";
  #degraded: string | false;

  constructor(maker: LeaseMaker, demands: readonly Demand[], taken: readonly TakenAnswer[], degraded: string | false) {
    this.#maker = maker;
    this.#demands = demands;
    this.#taken = taken;
    this.#degraded = degraded;
  }

  get status(): LeaseStatus {
    return this.#status;
  }

  /** False, or why the limiter could not count this work properly: it was let through without being charged, or in part. */
  get degraded(): string | false {
    return this.#degraded;
  }

  /** Whole tokens per limit that the entity has been charged so far by this lease. Parents are charged the same. */
  get consumed(): Readonly<Record<string, number>> {
    const consumed: Record<string, number> = {};
    if (this.#holdings === undefined) {
      const charged = !this.#unmetered();
      for (const { limit, milli } of this.#demands[0]?.take ?? []) consumed[limit] = charged ? milli / 1000 : 0;
      return consumed;
    }
    for (const { limit } of this.#entity.take) consumed[limit] = 0;
    for (const { level, milli } of this.#holdings) {
      if (level !== this.#entity.level) continue;
      for (const [limit, held] of milli) consumed[limit] = (consumed[limit] ?? 0) + held / 1000;
    }
    return consumed;
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
    const demands = this.#demands
      .map(({ level }, i) => demandOf(level, i === 0 ? amounts : sharedWith(level, amounts)))
      .filter(({ take }) => take.length > 0);
    const taken = await this.#maker.takeMore(demands);
    if (taken.kind === "refused") throw new RateLimitExceeded(taken.refusal);
    if (taken.kind !== "granted") return this.#unavailable(taken.kind === "unavailable" ? taken.cause : undefined);
    const holdings = demands.map(({ level, take }, i) => holdingOf(level, take, taken.answers[i]?.ticket));
    // It may have been closed while the store was asked: then nobody is left to give this back later.
    if (this.#status !== "open") {
      await this.#maker.taker.giveBack(
        holdings.map(heldOf),
        demands.map(({ take }) => take),
        "rollback",
      );
      throw closed(this.#status);
    }
    this.#ledger().push(...holdings);
  }

  /** Gives back, at most what is held: asking for more gives back what is held. */
  async release(tokens: Tokens<Name>): Promise<void> {
    const amounts = this.#checked(tokens, "release");
    if (!this.#unmetered()) await this.#giveBack(amounts, "release");
  }

  /** Keeps what was consumed and closes the lease. A second time does nothing. */
  async settle(): Promise<void> {
    if (this.#status !== "open") return;
    this.#status = "settled";
    const owed = this.#owed;
    if (owed === undefined) return;
    this.#owed = undefined;
    // Each by itself: that one level cannot be reached does not keep another from being charged.
    const outcomes = await Promise.all(
      owed.map(({ holding, amounts }) => this.#maker.taker.debit(heldOf(holding), amounts)),
    );
    for (const [i, { holding, amounts }] of owed.entries()) {
      if (outcomes[i] === "applied") for (const { limit, milli } of amounts) add(holding.milli, limit, milli);
    }
    const missed = owed[outcomes.indexOf("no")]?.holding.level.bucket;
    if (missed === undefined) return;
    throw new RateLimiterUnavailable(
      `The adjustment of ${missed.entityId} on ${missed.resource} could not be stored; ` +
        "the work is done, but the bucket does not know its true cost.",
    );
  }

  /** Gives everything back and closes the lease. A second time does nothing. */
  async rollback(): Promise<void> {
    if (this.#status !== "open") return;
    this.#status = "rolledBack";
    this.#owed = undefined;
    if (this.#unmetered()) return;
    const holdings = this.#ledger();
    const amounts = holdings.map(({ milli }) => [...milli].map(([limit, held]) => ({ limit, milli: held })));
    for (const { milli } of holdings) milli.clear();
    await this.#maker.taker.giveBack(holdings.map(heldOf), amounts, "rollback");
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.rollback();
  }

  get #entity(): Demand {
    return this.#demands[0] as Demand;
  }

  /** Let through without being charged at all: there is nothing to adjust or give back. */
  #unmetered(): boolean {
    return this.#degraded !== false && this.#taken.length === 0 && this.#holdings === undefined;
  }

  #checked(tokens: Tokens, use: "adjust" | "consume" | "release"): Amount[] {
    if (this.#status !== "open") throw closed(this.#status);
    // Let through during an outage: perhaps not even the limits' names are known.
    if (this.#unmetered()) return [];
    const { bucket, set } = this.#entity.level;
    return checkAmounts(tokens, use, bucket, set.limits);
  }

  // Most leases are settled as they were taken; the ledger is made when one is not.
  #ledger(): Holding[] {
    if (this.#holdings === undefined) {
      let next = 0;
      this.#holdings = this.#demands.map(({ level, take }) =>
        holdingOf(level, take, take.length === 0 ? undefined : this.#taken[next++]?.ticket),
      );
    }
    return this.#holdings;
  }

  async #debit(amounts: readonly Amount[]): Promise<void> {
    if (amounts.length === 0) return;
    const ledger = this.#ledger();
    await Promise.all(
      this.#demands.map(async ({ level }, i) => {
        const due = i === 0 ? amounts : sharedWith(level, amounts);
        const holding = ledger[i] as Holding;
        if (due.length === 0) return;
        const outcome = await this.#maker.taker.debit(heldOf(holding), due);
        // Perhaps stored counts as stored, but not as held: what may not have been taken must not be given back.
        if (outcome !== "applied") this.#notStored(holding, due, outcome);
        // Rolled back while the store was asked: nobody is left to give this back later.
        else if (this.#status === "rolledBack") await this.#maker.taker.giveBack([heldOf(holding)], [due], "rollback");
        else for (const { limit, milli } of due) add(holding.milli, limit, milli);
      }),
    );
  }

  #notStored(holding: Holding, amounts: readonly Amount[], outcome: "no" | "unknown"): void {
    if (outcome === "no") this.#owed = [...(this.#owed ?? []), { holding, amounts }];
    const reason = outcome === "no" ? "an adjustment is not stored yet" : "an adjustment may not be stored";
    if (this.#degraded === false) this.#degraded = reason;
    this.#maker.degraded(holding.level, reason, undefined);
  }

  async #giveBack(amounts: readonly Amount[], reason: "release" | "adjust"): Promise<void> {
    if (amounts.length === 0) return;
    const ledger = this.#ledger();
    const returns: { holding: Holding; amounts: Amount[] }[] = [];
    for (const { level } of this.#demands) {
      for (const { limit, milli } of amounts) {
        let due = milli;
        // Latest first: what was added last is given back to where it was taken last.
        for (const holding of ledger.filter((one) => one.level === level).reverse()) {
          const part = Math.min(due, holding.milli.get(limit) ?? 0);
          if (part <= 0) continue;
          add(holding.milli, limit, -part);
          returns.push({ holding, amounts: [{ limit, milli: part }] });
          due -= part;
        }
      }
    }
    const merged = mergeByHolding(returns);
    await this.#maker.taker.giveBack(
      merged.map(({ holding }) => heldOf(holding)),
      merged.map((one) => one.amounts),
      reason,
    );
  }

  #unavailable(cause: unknown): void {
    const { level } = this.#entity;
    if (!this.#maker.allows(level)) {
      throw new RateLimiterUnavailable(
        `The limiter could not be reached to consume more for ${level.bucket.entityId} on ${level.bucket.resource}.`,
        { cause },
      );
    }
    this.#degraded = "the store was unavailable when more was consumed";
    this.#maker.degraded(level, this.#degraded, cause);
  }
}

function holdingOf(level: Level, take: readonly Amount[], ticket: Ticket | undefined): Holding {
  return { level, ticket, milli: new Map(take.map(({ limit, milli }) => [limit, milli])) };
}

function heldOf({ level, ticket }: Holding): Held {
  return { bucket: level.bucket, set: level.set, origin: level.origin, ticket };
}

function add(map: Map<string, number>, limit: string, milli: number): void {
  map.set(limit, (map.get(limit) ?? 0) + milli);
}

function mergeByHolding(returns: readonly { holding: Holding; amounts: Amount[] }[]) {
  const merged = new Map<Holding, Amount[]>();
  for (const { holding, amounts } of returns) merged.set(holding, [...(merged.get(holding) ?? []), ...amounts]);
  return [...merged].map(([holding, amounts]) => ({ holding, amounts }));
}

function closed(status: LeaseStatus): LeaseClosed {
  const how = status === "settled" ? "settled" : "rolled back";
  return new LeaseClosed("lease_closed", `The lease has been ${how}; acquire a new one.`);
}
