import { withoutShadowed } from "../../domain/bucket/bucket-questions.ts";
import { PLAIN_TICKET, type Ticket } from "../../domain/bucket/give-back.ts";
import { slotsOf } from "../../domain/bucket/slot-time.ts";
import {
  type Amount,
  type AmountUse,
  aboveZero,
  belowZero,
  negated,
  type Tokens,
} from "../../domain/charge/amounts.ts";
import { allBack } from "../../domain/charge/caller-usage.ts";
import { nothingCounted } from "../../domain/charge/charge-errors.ts";
import { type Asked, changedBy, chargedTo, checkCounted } from "../../domain/charge/charges.ts";
import type { Holding } from "../../domain/lease/holding.ts";
import { type LevelUse, usedMore } from "../../domain/lease/level-use.ts";
import { andThen } from "../../domain/steps.ts";
import type { MaybePromise } from "../../ports/bucket-store.ts";
import type { GaveBackEvent } from "../../ports/events.ts";
import type { ChainLink } from "../acquire/chain-link.ts";
import { type Demand, furtherDemand, refuseSlots, withoutSlots } from "../acquire/request.ts";
import { allDone, allEnded } from "../acquire/store-calls.ts";
import type { Availability } from "../limiter/question.ts";
import { exceededBy } from "../refusal/refused.ts";
import { requestBeside } from "../usage/caller-usage.ts";
import type { LeaseHolds, SlotHolder } from "./lease-holds.ts";
import {
  adjustmentLost,
  chargedOf,
  closed,
  consumedIn,
  countBeside,
  differenceTo,
  type LeaseCore,
  type LeaseLedger,
  type LeaseStatus,
  type LevelMove,
  ledgerOf,
  noMoreConsumed,
  type PendingDebit,
  takeAll,
  takeReturns,
} from "./lease-ledger.ts";
import {
  hasSlots,
  heldOf,
  type LeasePart,
  namesAt,
  overdrawnIn,
  remainingIn,
  seenIn,
  shadowedIn,
  slotsTaken,
} from "./lease-part.ts";

export type { LeaseStatus };

/** Access to the slots of a resource, for its lease. */
export let slotHolderOf: (resource: LeaseResource) => SlotHolder;

/** The tokens that a lease holds on one resource. The lease itself is that of its first resource. */
export abstract class LeaseResource<Measure extends string = string> {
  protected readonly core: LeaseCore;
  protected readonly own: LeasePart;
  #ledger: LeaseLedger | undefined;

  static {
    slotHolderOf = (resource) => ({
      part: resource.own,
      mayHoldSlots: () => resource.hasChanged,
      holdingsAt: (level) => resource.#useAt(level).held,
      replaceAt: (level, held) => {
        resource.#openLedger().levels[level] = { ...resource.#useAt(level), held };
      },
    });
  }

  /** @internal */
  constructor(core: LeaseCore, part: LeasePart) {
    this.core = core;
    this.own = part;
  }

  /**
   * Whole tokens by measure that this lease has been charged so far, at each level that counts the measure. `requests`
   * is among them if a limit counts it.
   */
  get consumed(): Readonly<Record<string, number>> {
    const consumed = consumedIn(this.own, this.#ledger, this.core.status);
    const charged = this.#ledger === undefined && this.#unmetered() ? 0 : 1;
    return Object.fromEntries(Array.from(consumed, ([measure, milli]) => [measure, (milli / 1000) * charged]));
  }

  /** Whether the entity passed without being debited (`setAccess(…, "bypass")`). Usage counts it. */
  get bypassed(): boolean {
    return this.own.demands[0]?.bypass ?? false;
  }

  /**
   * What each limit of each level held right after the take. It costs no further call, and later takes do not change
   * it. Empty if the store was not reached.
   */
  get remaining(): readonly Availability[] {
    return remainingIn(this.own);
  }

  /**
   * Names of the soft limits that are below zero, as their buckets were last read: `day` of the entity, `day^1` one
   * level up.
   */
  get overdrawn(): readonly string[] {
    const seen = this.#ledger?.seen ?? seenIn(this.own);
    const nowMs = this.core.maker.now();
    return namesAt(
      this.own,
      seen.map((state) => (state === undefined ? [] : overdrawnIn(state, nowMs))),
    );
  }

  /**
   * Names of the shadow limits that would have refused what this lease took: `tpm` of the entity, `tpm^1` one level up. Nothing was
   * taken of them, and changes of the lease leave them out.
   */
  get shadowed(): readonly string[] {
    const names =
      this.#ledger?.levels.map(({ passed = [] }) => passed.map(({ limit }) => limit)) ?? shadowedIn(this.own);
    return namesAt(this.own, names);
  }

  /**
   * Corrects an estimate. A positive amount takes more, into debt if need be; a negative one gives back, at most what
   * the lease holds. Every measure that a level counts can be named, also one that was not consumed at the start.
   */
  async adjust(delta: Tokens<Measure | "requests">): Promise<void> {
    const asked = this.checked(delta, "adjust");
    if (asked === undefined) return;
    refuseSlots(this.own.demands, this.#charges(asked).map(aboveZero));
    const charged = this.#charged(asked, "difference");
    const due = charged.map((amounts, level) => ({
      more: withoutSlots(this.#linkAt(level).charged, aboveZero(amounts)),
      less: belowZero(amounts),
    }));
    await this.#move(due);
    countBeside(this.core, this.own, this.#openLedger(), { named: asked.named, how: "difference" });
  }

  /**
   * Takes more tokens, or throws `RateLimitExceeded` and takes nothing. It leaves what the request had to leave, holds slots for as long
   * as the request said, and does not count as a request.
   */
  async consume(tokens: Tokens<Measure | "requests">): Promise<void> {
    const more = this.checked(tokens, "consume");
    if (more === undefined) return;
    const { demands: levels } = this.own;
    const asked = this.#charges(more).flatMap((amounts, level) =>
      amounts.length === 0 ? [] : [{ level, demand: furtherDemand(levels[level] as Demand, amounts) }],
    );
    if (asked.length === 0) throw nothingCounted(levels.map(({ link }) => link));
    const demands = asked.map(({ demand }) => demand);
    const askedMs = this.core.maker.now();
    const taken = await this.core.maker.takeMore(demands, levels);
    if (taken.kind === "refused") throw exceededBy(taken.refusal);
    if (taken.kind !== "granted")
      return this.#unavailable(demands, taken.kind === "unavailable" ? taken.cause : undefined);
    const tickets = demands.map((_, i) => taken.answers[i]?.ticket ?? PLAIN_TICKET);
    // The lease may have been closed while the store was asked: a later rollback would not give this back.
    if (this.core.status !== "open") {
      await this.core.maker.client.giveBack(
        demands.map(({ link }, i) => heldOf(link, tickets[i] as Ticket)),
        demands.map(({ take }, i) => withoutShadowed(take, (tickets[i] as Ticket).shadowed)),
        "rollback",
      );
      throw closed(this.core.status);
    }
    const ledger = this.#openLedger();
    for (const [i, { level, demand }] of asked.entries()) {
      this.#hold(ledger, level, demand.take, tickets[i] as Ticket, askedMs);
      ledger.seen[level] = taken.answers[i]?.state ?? ledger.seen[level];
    }
    const request = requestBeside(asked[0]?.level === 0, demands);
    countBeside(this.core, this.own, ledger, { named: more.named, how: "difference", request });
  }

  /** Records a later take or debit. `askedMs` is the clock reading before the store was asked. */
  #hold(ledger: LeaseLedger, level: number, amounts: readonly Amount[], ticket: Ticket, askedMs: number): void {
    // Made before the ledger changes: earlier slots are watched from their own start, the new ones from now on.
    const holds = slotsOf(ticket, amounts).length === 0 ? undefined : this.slotHolds();
    ledger.levels[level] = usedMore(ledger.levels[level] as LevelUse, amounts, ticket);
    holds?.taken(askedMs);
  }

  /** The slots of the whole lease; undefined once it is closed. */
  protected abstract slotHolds(): LeaseHolds | undefined;

  /** Gives tokens back, at most as many as the lease holds. */
  async release(tokens: Tokens<Measure | "requests">): Promise<void> {
    const asked = this.checked(tokens, "release");
    if (asked === undefined) return;
    const less = { ...asked, named: asked.named.map(negated) };
    await this.#giveBack(this.#charged(less, "difference").map(belowZero), "release");
    countBeside(this.core, this.own, this.#openLedger(), { named: asked.named, how: "back" });
  }

  /** Charges or gives back the difference to the totals, at every limit that counts their measures. Synchronous if the store is. */
  protected comeTo(totals: Asked): MaybePromise<unknown> {
    const ledger = this.#openLedger();
    countBeside(this.core, this.own, ledger, { named: totals.named, how: "totals" });
    const due = this.#charged(totals, "totals").map((amounts, level) =>
      // Slots have no totals: they are given back.
      differenceTo(ledger, level, withoutSlots(this.#linkAt(level).charged, amounts)),
    );
    return this.#move(due);
  }

  /** Debits and gives back, by level. */
  #move(due: readonly LevelMove[]): MaybePromise<unknown> {
    const debits = due.flatMap(({ more }, level) => (more.length === 0 ? [] : [() => this.#debit(level, more)]));
    const less = due.map((one) => one.less);
    return allDone([...debits, () => this.#giveBack(less, "adjust")]);
  }

  /** True if nothing but the take has happened. */
  protected get isAsTaken(): boolean {
    return this.#ledger === undefined;
  }

  /** True if the end may have to store something: more than the take has happened, or slots are held. */
  protected get hasChanged(): boolean {
    return this.#ledger !== undefined || hasSlots(this.own);
  }

  /** Stores pending debits and gives back the slots. Called by the lease when the work is done. */
  protected keepUsed(): MaybePromise<unknown> {
    if (!this.hasChanged) return;
    if (this.isAsTaken && this.core.holds === undefined) {
      const { helds, amounts } = slotsTaken(this.own);
      return this.core.maker.client.giveBack(helds, amounts, "settle");
    }
    if ((this.#ledger?.pendingDebits.length ?? 0) === 0) return this.#giveSlotsBack();
    // A debit that is stored only now may have become slots: they go back with the others.
    const flushed = this.flushPendingDebits();
    const giveBack = () => this.#giveSlotsBack();
    return allEnded([flushed, flushed.then(giveBack, giveBack)]);
  }

  #giveSlotsBack(): MaybePromise<void> {
    return this.#afterRenewals(() => {
      const ledger = this.#openLedger();
      ledger.gaveSlotsBack = true;
      const slotsIn = ({ ticket, held }: Holding) => ({ ticket, held: slotsOf(ticket, held) });
      const slots = ledger.levels.map((use) => use.held.map(slotsIn));
      if (slots.some((holdings) => holdings.some(({ held }) => held.length > 0)))
        return this.#giveBackHeld(slots, "settle");
    });
  }

  /** Tries all pending debits, then throws if some could not be stored. */
  protected async flushPendingDebits(): Promise<void> {
    const ledger = this.#ledger;
    if (ledger === undefined) return;
    const pending = ledger.pendingDebits;
    ledger.pendingDebits = [];
    // Each by itself: a level that cannot be reached does not keep another from being charged.
    await allDone(pending.map((one) => () => this.#flush(ledger, one)));
  }

  async #flush(ledger: LeaseLedger, { level, amounts }: PendingDebit): Promise<void> {
    const link = this.#linkAt(level);
    const askedMs = this.core.maker.now();
    const { client } = this.core.maker;
    const { outcome, ticket = PLAIN_TICKET } = await client.debit(heldOf(link, PLAIN_TICKET), amounts, "adjust");
    if (outcome === "applied") return this.#hold(ledger, level, amounts, ticket, askedMs);
    if (outcome === "unknown") {
      ledger.uncertain[level] = [...(ledger.uncertain[level] ?? []), ...amounts];
      return this.#tellNotStored(level, "an adjustment may not be stored");
    }
    this.#tellNotStored(level, "an adjustment could not be stored");
    if (outcome === "gone") return;
    throw adjustmentLost(link.bucket);
  }

  /** Gives back all that is held. Called by the lease when it is rolled back. */
  protected async giveAllBack(): Promise<void> {
    if (this.#unmetered()) return;
    const ledger = this.#openLedger();
    countBeside(this.core, this.own, ledger, { named: allBack(ledger.beside), how: "difference" });
    await this.#afterRenewals(() => this.#giveBackHeld(takeAll(ledger), "rollback"));
  }

  /** True if the lease was let through without a charge: there is nothing to adjust or give back. */
  #unmetered(): boolean {
    return this.core.degradedReason !== false && this.own.taken.length === 0 && this.#ledger === undefined;
  }

  /** The amounts by measure; undefined for a lease that was let through in an outage, whose limits may be unknown. */
  protected checked(tokens: Tokens, use: AmountUse): Asked | undefined {
    if (this.core.status !== "open") throw closed(this.core.status);
    if (this.#unmetered()) return undefined;
    const asked = changedBy(tokens, use);
    const chain = this.own.demands.map(({ link }) => link);
    checkCounted(asked, chain);
    return asked;
  }

  /** The charge of each level, by the limits that the lease was taken under. */
  #charges(asked: Asked): readonly (readonly Amount[])[] {
    return this.own.demands.map(({ link }) => chargedTo(link.charged, asked));
  }

  /** The charge of a change: limits that the lease passed by are left out. */
  #charged(asked: Asked, meaning: "difference" | "totals"): readonly (readonly Amount[])[] {
    const charges = this.#charges(asked);
    if (charges.every((amounts) => amounts.length === 0)) return charges;
    const ledger = this.#openLedger();
    return charges.map((amounts, level) => chargedOf(ledger, level, amounts, meaning));
  }

  // Made on the first change: most leases are settled as they were taken.
  #openLedger(): LeaseLedger {
    this.#ledger ??= ledgerOf(this.own);
    return this.#ledger;
  }

  #useAt(level: number): LevelUse {
    return this.#openLedger().levels[level] as LevelUse;
  }

  #debit(level: number, due: readonly Amount[]): MaybePromise<void> {
    const ledger = this.#openLedger();
    const askedMs = this.core.maker.now();
    const { client } = this.core.maker;
    const link = this.#linkAt(level);
    const written = client.debit(heldOf(link, PLAIN_TICKET), due, "adjust");
    return andThen(written, ({ outcome, state, ticket = PLAIN_TICKET }): MaybePromise<void> => {
      if (state !== undefined) ledger.seen[level] = state;
      // A debit that may be stored counts as charged but not as held: it must not be given back.
      if (outcome === "no" || outcome === "unknown") return this.#notStored(level, due, outcome);
      // The lease was closed while the store was asked: no later call would give this back.
      const back = [heldOf(link, ticket)];
      if (this.core.status === "rolledBack") return client.giveBack(back, [due], "rollback");
      this.#hold(ledger, level, due, ticket, askedMs);
      const slots = ledger.gaveSlotsBack ? slotsOf(ticket, due) : [];
      if (slots.length > 0) return client.giveBack(back, [slots], "settle");
    });
  }

  #notStored(level: number, amounts: readonly Amount[], outcome: "no" | "unknown"): void {
    const ledger = this.#openLedger();
    if (outcome === "no") ledger.pendingDebits = [...ledger.pendingDebits, { level, amounts }];
    else ledger.uncertain[level] = [...(ledger.uncertain[level] ?? []), ...amounts];
    const reason = outcome === "no" ? "an adjustment is not stored yet" : "an adjustment may not be stored";
    if (this.core.degradedReason === false) this.core.degradedReason = reason;
    this.#tellNotStored(level, reason);
  }

  #tellNotStored(level: number, reason: string): void {
    this.core.maker.publisher.degraded(this.#linkAt(level).bucket, "adjustment_not_stored", reason, undefined);
  }

  #giveBack(charges: readonly (readonly Amount[])[], reason: "release" | "adjust"): MaybePromise<void> {
    if (charges.every((amounts) => amounts.length === 0)) return;
    return this.#afterRenewals(() => {
      const returns = takeReturns(this.#openLedger(), charges);
      this.core.holds?.gaveBack();
      return this.#giveBackHeld(returns, reason);
    });
  }

  #afterRenewals(work: () => MaybePromise<void>): MaybePromise<void> {
    const { holds } = this.core;
    return holds === undefined ? work() : holds.afterRenewals(work);
  }

  /** One give-back for each ticket of each level. */
  #giveBackHeld(returns: readonly (readonly Holding[])[], reason: GaveBackEvent["reason"]): MaybePromise<void> {
    const all = returns.flatMap((holdings, level) => holdings.map((one) => ({ level, ...one })));
    return this.core.maker.client.giveBack(
      all.map(({ level, ticket }) => heldOf(this.#linkAt(level), ticket)),
      all.map(({ held }) => held),
      reason,
    );
  }

  #linkAt(level: number): ChainLink {
    return (this.own.demands[level] as Demand).link;
  }

  #unavailable(claims: readonly Demand[], cause: unknown): void {
    const { link } = this.own.demands[0] as Demand;
    const { outage, publisher } = this.core.maker;
    const decided = outage(claims, "the store was unavailable when more was consumed");
    if (typeof decided === "object") throw exceededBy(decided);
    if (decided === "block") {
      publisher.unavailable(link.bucket, cause);
      throw noMoreConsumed(link.bucket, cause);
    }
    this.core.degradedReason = decided;
    publisher.degraded(link.bucket, "store_unavailable", decided, cause);
  }
}
