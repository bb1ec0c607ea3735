import { PLAIN_TICKET, type Ticket } from "../../domain/bucket/give-back.ts";
import { slotsOf } from "../../domain/bucket/renew-slots.ts";
import type { Amount, AmountUse, Tokens } from "../../domain/charge/amounts.ts";
import { nothingCounted } from "../../domain/charge/charge-errors.ts";
import { type Asked, changedBy, chargedTo, checkCounted } from "../../domain/charge/charges.ts";
import { type Holding, withTaken } from "../../domain/lease/holding.ts";
import { onlyShadowed, withoutShadowed } from "../../domain/limits/shadow.ts";
import { RateLimiterUnavailable } from "../../domain/names/errors.ts";
import type { MaybePromise } from "../../ports/bucket-store.ts";
import { allDone } from "../acquire/all-done.ts";
import type { ChainLink } from "../acquire/config-cache.ts";
import { type Demand, furtherDemand } from "../acquire/request.ts";
import { refuseSlots, withoutSlots } from "../acquire/slot-amounts.ts";
import type { Availability } from "../limiter/availability.ts";
import { exceededBy } from "../refusal/refused.ts";
import type { LeaseCore } from "./lease-core.ts";
import type { LeaseHolds, SlotHolder } from "./lease-holds.ts";
import {
  chargedOf,
  closed,
  consumedIn,
  differenceTo,
  type LeaseLedger,
  type LeaseStatus,
  ledgerOf,
  notePassed,
  type PendingDebit,
  takeReturns,
} from "./lease-ledger.ts";
import {
  type BucketPosition,
  hasSlots,
  heldOf,
  type LeasePart,
  nameAt,
  overdrawnAt,
  positionsOf,
  remainingIn,
  seenIn,
  shadowedIn,
  slotsTaken,
} from "./lease-part.ts";

export type { LeaseStatus };

/** What a resource of a lease keeps of slots, for the lease. */
export let slotHolderOf: (resource: LeaseResource) => SlotHolder;

/** What a lease holds on one resource. The lease itself is that of its first resource. */
export abstract class LeaseResource<Measure extends string = string> {
  protected readonly core: LeaseCore;
  protected readonly part: LeasePart;
  #ledger: LeaseLedger | undefined;

  static {
    slotHolderOf = (resource) => ({
      part: resource.part,
      mayHoldSlots: () => resource.hasChanged,
      holdingsAt: (level) => resource.#openLedger().held[level] ?? [],
      replaceAt: (level, holdings) => {
        resource.#openLedger().held[level] = holdings;
      },
    });
  }

  /** @internal */
  constructor(core: LeaseCore, part: LeasePart) {
    this.core = core;
    this.part = part;
  }

  /**
   * Whole tokens by measure that this lease has been charged so far, at each level that counts the measure. `requests`
   * is among them if a limit counts it.
   */
  get consumed(): Readonly<Record<string, number>> {
    const consumed = consumedIn(this.part, this.#ledger, this.core.status);
    const charged = this.#ledger === undefined && this.#unmetered() ? 0 : 1;
    return Object.fromEntries(Array.from(consumed, ([measure, milli]) => [measure, (milli / 1000) * charged]));
  }

  /** Whether the entity passed without being debited (`setAccess(…, "bypass")`). Usage counts it. */
  get bypassed(): boolean {
    return this.part.demands[0]?.bypass ?? false;
  }

  /**
   * What each limit of each level held right after the take. It costs no further call, and later takes do not change
   * it. Empty if the store was not reached.
   */
  get remaining(): readonly Availability[] {
    return remainingIn(this.part);
  }

  /**
   * Names of the soft limits that are below zero, as their buckets were last read: `day` of the entity, `day^1` one
   * level up.
   */
  get overdrawn(): readonly string[] {
    const seen = this.#ledger?.seen ?? seenIn(this.part);
    const nowMs = this.core.maker.now();
    const positions = positionsOf(this.part.demands.map(({ bucket }) => bucket));
    return seen.flatMap((state, i) =>
      state === undefined ? [] : overdrawnAt(state, positions[i] as BucketPosition, nowMs),
    );
  }

  /**
   * Names of the shadow limits that would have refused what this lease took: `tpm` of the entity, `tpm^1` one level up. Nothing was
   * taken of them, and changes of the lease leave them out.
   */
  get shadowed(): readonly string[] {
    const names = this.#ledger?.passed.map((amounts) => amounts?.map(({ limit }) => limit)) ?? shadowedIn(this.part);
    if (names.every((some) => some === undefined || some.length === 0)) return [];
    const positions = positionsOf(this.part.demands.map(({ bucket }) => bucket));
    return names.flatMap((some, i) => (some ?? []).map((name) => nameAt(name, positions[i] as BucketPosition)));
  }

  /**
   * Corrects an estimate. A positive amount takes more, into debt if need be; a negative one gives back, at most what
   * the lease holds. Every measure that a level counts can be named, also one that was not consumed at the start.
   */
  async adjust(delta: Tokens<Measure | "requests">): Promise<void> {
    const asked = this.#checked(delta, "adjust");
    if (asked === undefined) return;
    const less = asked.named.filter(({ milli }) => milli < 0).map(({ limit, milli }) => ({ limit, milli: -milli }));
    const more = asked.named.filter(({ milli }) => milli > 0);
    refuseSlots(this.part.demands, this.#charges({ named: more, requestsMilli: 0 }));
    const charged = this.#charged({ named: more, requestsMilli: 0 }, "more");
    await allDone([
      this.#debit(charged.map((amounts, level) => withoutSlots(this.#linkAt(level).charged, amounts))),
      this.#giveBack(this.#charged({ named: less, requestsMilli: 0 }, "less"), "adjust"),
    ]);
  }

  /**
   * Takes more tokens, or throws `RateLimitExceeded` and takes nothing. It leaves what the request had to leave, holds slots for as long
   * as the request said, and does not count as a request.
   */
  async consume(tokens: Tokens<Measure | "requests">): Promise<void> {
    const more = this.#checked(tokens, "consume");
    if (more === undefined) return;
    const { demands: levels } = this.part;
    const asked = this.#charges(more).flatMap((amounts, level) =>
      amounts.length === 0 ? [] : [{ level, demand: furtherDemand(levels[level] as Demand, amounts) }],
    );
    if (asked.length === 0) throw nothingCounted(levels.map(({ link }) => link));
    const demands = asked.map(({ demand }) => demand);
    const askedMs = this.core.maker.now();
    const taken = await this.core.maker.client.takeMore(demands, levels);
    if (taken.kind === "refused") throw exceededBy(taken.refusal);
    if (taken.kind !== "granted")
      return this.#unavailable(demands, taken.kind === "unavailable" ? taken.cause : undefined);
    const tickets = demands.map((_, i) => taken.answers[i]?.ticket ?? PLAIN_TICKET);
    // The lease may have been closed while the store was asked. A later rollback would not give this back.
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
      const ticket = tickets[i] as Ticket;
      this.#hold(ledger, level, withoutShadowed(demand.take, ticket.shadowed), ticket, askedMs);
      notePassed(ledger, level, onlyShadowed(demand.take, ticket.shadowed));
      ledger.seen[level] = taken.answers[i]?.state ?? ledger.seen[level];
    }
  }

  /** All that a lease takes after its take comes in here. `askedMs`: the reading before the store was asked. */
  #hold(ledger: LeaseLedger, level: number, amounts: readonly Amount[], ticket: Ticket, askedMs: number): void {
    // What it held so far is looked after from its own beginning, what comes now from now on.
    const holds = slotsOf(ticket, amounts).length === 0 ? undefined : this.slotHolds();
    ledger.held[level] = withTaken(ledger.held[level] ?? [], amounts, ticket);
    holds?.taken(askedMs);
  }

  /** Of the whole lease, from now on; undefined once it is closed. */
  protected abstract slotHolds(): LeaseHolds | undefined;

  /** Gives tokens back, at most as many as the lease holds. */
  async release(tokens: Tokens<Measure | "requests">): Promise<void> {
    const asked = this.#checked(tokens, "release");
    if (asked !== undefined) await this.#giveBack(this.#charged(asked, "less"), "release");
  }

  /** Checks what a lease is to come to in total; undefined where nothing is charged at all. For the lease, before it is closed. */
  protected checkTotals(totals: Tokens): Asked | undefined {
    return this.#checked(totals, "settle");
  }

  /** Charges or gives back what is missing to the totals, at every limit that counts their measures. For the lease. */
  protected async comeTo(totals: Asked): Promise<void> {
    const ledger = this.#openLedger();
    const due = this.#charged(totals, "total").map((amounts, level) =>
      // Slots have no total to come to: they are given back.
      differenceTo(ledger, level, withoutSlots(this.#linkAt(level).charged, amounts)),
    );
    await allDone([
      this.#debit(due.map(({ more }) => more)),
      this.#giveBack(
        due.map(({ less }) => less),
        "adjust",
      ),
    ]);
  }

  /** Whether nothing but the take has happened to it. */
  protected get isAsTaken(): boolean {
    return this.#ledger === undefined;
  }

  /** Whether something may have to be stored at its end: more has happened to it than the take, or slots are held. */
  protected get hasChanged(): boolean {
    return this.#ledger !== undefined || hasSlots(this.part);
  }

  /** Stores what is still pending, and gives back the slots. For the lease, once the work is done. */
  protected keepUsed(): MaybePromise<void> {
    if (!this.hasChanged) return;
    if (this.isAsTaken && this.core.holds === undefined) {
      const { helds, amounts } = slotsTaken(this.part);
      return this.core.maker.client.giveBack(helds, amounts, "settle");
    }
    if ((this.#ledger?.pendingDebits.length ?? 0) === 0) return this.#giveSlotsBack();
    // What is stored only now may be slots by now: they go back with the others.
    const flushed = this.flushPendingDebits();
    const giveBack = () => this.#giveSlotsBack();
    return allDone([flushed, flushed.then(giveBack, giveBack)]).then(() => {});
  }

  async #giveSlotsBack(): Promise<void> {
    while (this.core.holds?.isRenewing()) await this.core.holds.settled();
    const ledger = this.#openLedger();
    ledger.gaveSlotsBack = true;
    const slots = ledger.held.map((holdings) =>
      holdings.map(({ ticket, held }) => ({ ticket, held: slotsOf(ticket, held) })),
    );
    if (slots.some((holdings) => holdings.some(({ held }) => held.length > 0)))
      await this.#giveBackHeld(slots, "settle");
  }

  /** Throws once all was tried, when some could not be stored. */
  protected async flushPendingDebits(): Promise<void> {
    const ledger = this.#ledger;
    if (ledger === undefined) return;
    const pending = ledger.pendingDebits;
    ledger.pendingDebits = [];
    // Each by itself: that one level cannot be reached does not keep another from being charged.
    await allDone(pending.map((one) => this.#flush(ledger, one)));
  }

  async #flush(ledger: LeaseLedger, { level, amounts }: PendingDebit): Promise<void> {
    const link = this.#linkAt(level);
    const askedMs = this.core.maker.now();
    const { outcome, ticket = PLAIN_TICKET } = await this.core.maker.client.debit(heldOf(link, PLAIN_TICKET), amounts);
    if (outcome === "applied") return this.#hold(ledger, level, amounts, ticket, askedMs);
    if (outcome === "unknown") {
      ledger.uncertain[level] = [...(ledger.uncertain[level] ?? []), ...amounts];
      return this.#tellNotStored(level, "an adjustment may not be stored");
    }
    this.#tellNotStored(level, "an adjustment could not be stored");
    if (outcome === "gone") return;
    throw new RateLimiterUnavailable(
      `The adjustment of ${link.bucket.entityId} on ${link.bucket.resource} could not be stored; ` +
        "the work is done, but its actual cost is not charged.",
    );
  }

  /** Gives back all that is held. For the lease, when it is rolled back. */
  protected async giveAllBack(): Promise<void> {
    if (this.#unmetered()) return;
    while (this.core.holds?.isRenewing()) await this.core.holds.settled();
    const ledger = this.#openLedger();
    ledger.pendingDebits = [];
    const all = ledger.held.slice();
    ledger.held.fill([]);
    await this.#giveBackHeld(all, "rollback");
  }

  /** Let through without being charged at all: there is nothing to adjust or give back. */
  #unmetered(): boolean {
    return this.core.degradedReason !== false && this.part.taken.length === 0 && this.#ledger === undefined;
  }

  /** The amounts by measure; undefined where the lease was let through during an outage: perhaps not even measures are known. */
  #checked(tokens: Tokens, use: AmountUse): Asked | undefined {
    if (this.core.status !== "open") throw closed(this.core.status);
    if (this.#unmetered()) return undefined;
    const asked = changedBy(tokens, use);
    checkCounted(
      asked,
      this.part.demands.map(({ link }) => link),
    );
    return asked;
  }

  /** What each level is charged of amounts by measure, by the limits that it was taken under. */
  #charges(asked: Asked): readonly (readonly Amount[])[] {
    return this.part.demands.map(({ link }) => chargedTo(link.charged, asked));
  }

  /** The same of a change: limits that the lease passed by are left out. */
  #charged(asked: Asked, change: "more" | "less" | "total"): readonly (readonly Amount[])[] {
    const charges = this.#charges(asked);
    if (charges.every((amounts) => amounts.length === 0)) return charges;
    const ledger = this.#openLedger();
    return charges.map((amounts, level) => chargedOf(ledger, level, amounts, change));
  }

  // Most leases are settled as they were taken; the ledger is made when one is not.
  #openLedger(): LeaseLedger {
    this.#ledger ??= ledgerOf(this.part);
    return this.#ledger;
  }

  /** `charges`: for each level. */
  async #debit(charges: readonly (readonly Amount[])[]): Promise<void> {
    if (charges.every((amounts) => amounts.length === 0)) return;
    const ledger = this.#openLedger();
    await allDone(
      this.part.demands.map(async ({ link }, level) => {
        const due = charges[level] ?? [];
        if (due.length === 0) return;
        const askedMs = this.core.maker.now();
        const { client } = this.core.maker;
        const { outcome, state, ticket = PLAIN_TICKET } = await client.debit(heldOf(link, PLAIN_TICKET), due);
        if (state !== undefined) ledger.seen[level] = state;
        // Perhaps stored counts as stored, but not as held: what may not have been taken must not be given back.
        if (outcome === "no" || outcome === "unknown") return this.#notStored(level, due, outcome);
        // The lease was closed while the store was asked. No later call would give this back.
        const back = [heldOf(link, ticket)];
        if (this.core.status === "rolledBack") return client.giveBack(back, [due], "rollback");
        this.#hold(ledger, level, due, ticket, askedMs);
        const slots = ledger.gaveSlotsBack ? slotsOf(ticket, due) : [];
        if (slots.length > 0) await client.giveBack(back, [slots], "settle");
      }),
    );
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

  /** `charges`: for each level. */
  async #giveBack(charges: readonly (readonly Amount[])[], reason: "release" | "adjust"): Promise<void> {
    if (charges.every((amounts) => amounts.length === 0)) return;
    while (this.core.holds?.isRenewing()) await this.core.holds.settled();
    const returns = takeReturns(this.#openLedger(), charges);
    this.core.holds?.gaveBack();
    await this.#giveBackHeld(returns, reason);
  }

  /** One give-back for each ticket of each level. */
  async #giveBackHeld(
    returns: readonly (readonly Holding[])[],
    reason: "release" | "adjust" | "rollback" | "settle",
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

  #unavailable(claims: readonly Demand[], cause: unknown): void {
    const { link } = this.part.demands[0] as Demand;
    const { entityId, resource } = link.bucket;
    const { outage, publisher } = this.core.maker;
    const decided = outage(claims, "the store was unavailable when more was consumed");
    if (typeof decided === "object") throw exceededBy(decided);
    if (decided === "block") {
      publisher.unavailable(link.bucket, cause);
      throw new RateLimiterUnavailable(
        `The store is unavailable, so no more was consumed for ${entityId} on ${resource}; the lease holds what it held before.`,
        { cause },
      );
    }
    this.core.degradedReason = decided;
    publisher.degraded(link.bucket, "store_unavailable", decided, cause);
  }
}
