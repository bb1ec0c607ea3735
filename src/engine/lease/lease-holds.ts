import type { BucketKey } from "../../domain/bucket/bucket-key.ts";
import { isSlotPin, pinOf, type SlotPin, type Ticket } from "../../domain/bucket/give-back.ts";
import { slotsOf, ticketAfter } from "../../domain/bucket/slot-time.ts";
import { type Holding, withRenewed } from "../../domain/lease/holding.ts";
import { HoldLost, RateLimiterUnavailable } from "../../domain/names/errors.ts";
import { given } from "../../domain/names/given.ts";
import type { MaybePromise } from "../../ports/bucket-store.ts";
import type { Demand } from "../acquire/request.ts";
import { type EventPublisher, reasonOf } from "../limiter/event-publisher.ts";
import { isHardIn, type LeasePart, slotHoldMs } from "./lease-part.ts";
import type { BucketHold, HeldSlots, Renewals } from "./renewals.ts";

interface HoldsMaker {
  readonly renewals: Renewals;
  readonly publisher: EventPublisher;
  now(): number;
}

/** Access to the holdings of a lease on one of its resources. */
export interface SlotHolder {
  readonly part: LeasePart;
  /** False: nothing but the take has happened, and that took no slots. */
  mayHoldSlots(): boolean;
  holdingsAt(level: number): readonly Holding[];
  replaceAt(level: number, holdings: readonly Holding[]): void;
}

/** Called when slots of a lease are lost. */
type TellLost = (reason: string) => void;

/**
 * The slots of a lease: their expiry, their renewal, and the signal of their loss. Everything that a lease takes comes in here, with its
 * take (the constructor) or later (`taken`). Slots of soft and shadow limits are renewed with the others, but their loss is not signalled.
 */
export class LeaseHolds {
  readonly #maker: HoldsMaker;
  readonly #holders: readonly SlotHolder[];
  readonly #tellLost: TellLost;
  readonly #byBucket = new Map<string, BucketHold>();
  /** Holds of which all was given back or lost. A bucket that takes again reuses its hold, because a renewal may still refer to it. */
  readonly #empty = new Set<BucketHold>();
  /** Holds without slots of a hard limit. */
  readonly #withoutHard = new Set<BucketHold>();
  /** Made when the signal is first read, or aborted. */
  #lost: AbortController | undefined;
  #signal: AbortSignal | undefined;
  #phase: "unwatched" | "watched" | "kept" | "ended" = "unwatched";

  constructor(maker: HoldsMaker, holders: readonly SlotHolder[], tellLost: TellLost) {
    this.#maker = maker;
    this.#holders = holders;
    this.#tellLost = tellLost;
    for (const { part } of holders) this.taken(part.takenAtMs);
  }

  /** The first expiry of slots; undefined if none are held. */
  get untilMs(): number | undefined {
    const firstMs = Math.min(...Array.from(this.#byBucket.values(), (hold) => hold.confirmedMs + hold.hardHoldMs));
    return firstMs === Number.POSITIVE_INFINITY ? undefined : firstMs;
  }

  /** The request's signal, aborted when slots are lost, too. */
  signal(ofRequest: AbortSignal | undefined): AbortSignal {
    if (this.#signal === undefined) {
      this.#lost ??= new AbortController();
      this.#signal = ofRequest === undefined ? this.#lost.signal : AbortSignal.any([ofRequest, this.#lost.signal]);
    }
    if (this.#phase === "unwatched") this.#watch("watched");
    return this.#signal;
  }

  /** Renews the slots from now on, until the lease is closed. */
  keep(): void {
    if (this.#phase === "unwatched" || this.#phase === "watched") this.#watch("kept");
  }

  /** Watches the slots of a take at this clock reading, also on buckets of which the lease held some before. */
  taken(readingMs: number): void {
    for (const holder of this.#holders) {
      if (!holder.mayHoldSlots()) continue;
      for (const demand of holder.part.demands) {
        const { id } = demand.bucket;
        const hold = this.#byBucket.get(id) ?? this.#holdOn(demand, readingMs);
        if (demand.bypass || hold.slots(undefined).length === 0) continue;
        // The first slots of a hard limit are held from now on, whatever the hold had of others before.
        const isFirstHard = this.#withoutHard.has(hold) && hasHard(hold);
        if (this.#empty.delete(hold) || isFirstHard) hold.confirmedMs = readingMs;
        this.#byBucket.set(id, hold);
        this.#noteHard(hold);
        this.#lookAfter(hold);
      }
    }
  }

  /** Stops watching buckets of which all was given back. */
  gaveBack(): void {
    for (const hold of this.#byBucket.values()) {
      this.#dropIfEmpty(hold);
      this.#noteHard(hold);
    }
  }

  /** Renews all slots now. False: some are lost. Throws `RateLimiterUnavailable` if the store did not answer. */
  async renew(): Promise<boolean> {
    const holds = [...this.#byBucket.values()];
    const hard = holds.map(hasHard);
    const renewed = await Promise.all(holds.map((hold) => this.#maker.renewals.renew([hold], undefined)));
    for (const [i, { lost }] of renewed.entries()) if (lost.length > 0) (holds[i] as BucketHold).lost(lost);
    for (const [i, { unanswered }] of renewed.entries()) {
      if (unanswered !== undefined && hard[i]) throw notRenewed((holds[i] as BucketHold).held.bucket, unanswered.cause);
    }
    return !renewed.some(({ lost }, i) =>
      lost.some((limit) => isHardIn((holds[i] as BucketHold).held.set.limits, limit)),
    );
  }

  /**
   * Does work once no renewal is under way, at once if none is. A give-back must name the slices of its slots, which a renewal changes.
   */
  afterRenewals<Value>(work: () => MaybePromise<Value>): MaybePromise<Value> {
    return this.#isRenewing() ? this.#whenRenewed(work) : work();
  }

  async #whenRenewed<Value>(work: () => MaybePromise<Value>): Promise<Value> {
    // Another renewal may have been waiting, too.
    while (this.#isRenewing()) await this.#presentRenewals();
    return work();
  }

  #isRenewing(): boolean {
    for (const hold of this.#byBucket.values()) if (hold.underWay !== undefined) return true;
    return false;
  }

  async #presentRenewals(): Promise<void> {
    for (const hold of this.#byBucket.values()) await hold.underWay?.catch(() => {});
  }

  end(): void {
    this.#phase = "ended";
    for (const hold of this.#byBucket.values()) this.#maker.renewals.remove(hold);
  }

  #watch(phase: "watched" | "kept"): void {
    this.#phase = phase;
    for (const hold of this.#byBucket.values()) this.#lookAfter(hold);
  }

  #lookAfter(hold: BucketHold): void {
    if (this.#phase !== "watched" && this.#phase !== "kept") return;
    hold.isKept = this.#phase === "kept";
    // A hold that is neither renewed nor can be lost is never due.
    if (hold.isKept || hasHard(hold)) this.#maker.renewals.add(hold);
  }

  #noteHard(hold: BucketHold): void {
    if (hasHard(hold)) this.#withoutHard.delete(hold);
    else this.#withoutHard.add(hold);
  }

  #dropIfEmpty(hold: BucketHold): void {
    if (hold.slots(undefined).length > 0) return;
    this.#empty.add(hold);
    this.#maker.renewals.remove(hold);
  }

  #holdOn({ bucket, set, origin, holdMs: ownMs }: Demand, confirmedMs: number): BucketHold {
    const held = { bucket, set, origin, bypass: false, ...given({ holdMs: ownMs }) };
    // All resources of the lease charge the total: each holds its part.
    const places = this.#holders.flatMap((holder) =>
      holder.part.demands.flatMap((demand, level) => (demand.bucket.id === bucket.id ? [{ holder, level }] : [])),
    );
    const lost = new Set<string>();
    const slots = (limits: readonly string[] | undefined) => {
      // The slots of a closed lease are being given back and must not move any more.
      if (this.#phase === "ended") return [];
      const isWanted = (pin: SlotPin) => (limits?.includes(pin.limit) ?? true) && !lost.has(sliceOf(pin));
      return places.flatMap(({ holder, level }) =>
        holder.holdingsAt(level).flatMap((holding) => slotsIn(holding, holder, level, isWanted)),
      );
    };
    const shortestMs = (isCounted: (pin: SlotPin) => boolean) => {
      const pins = slots(undefined).flatMap(({ ticket }) => ticket.pins.filter(isSlotPin).filter(isCounted));
      const times = pins.map((pin) => slotHoldMs(pin, set.limits, ownMs, hold.confirmedMs));
      return Math.max(0, Math.min(...times));
    };
    const hold: BucketHold = {
      held,
      confirmedMs,
      isKept: false,
      underWay: undefined,
      slots,
      get holdMs() {
        return shortestMs(() => true);
      },
      get hardHoldMs() {
        return shortestMs(({ limit }) => isHardIn(set.limits, limit));
      },
      renewed: (asked, joined, after) => {
        for (const slots of asked) slots.move(ticketAfter(slots.ticket, joined, after));
      },
      lost: (limits) => {
        for (const { ticket } of slots(limits)) for (const pin of ticket.pins) lost.add(sliceOf(pin as SlotPin));
        this.#dropIfEmpty(hold);
        if (limits.some((limit) => isHardIn(set.limits, limit))) this.#lose(hold, "gone");
      },
      late: () => this.#lose(hold, "late"),
    };
    return hold;
  }

  #lose({ held: { bucket } }: BucketHold, why: "gone" | "late"): void {
    this.#lost ??= new AbortController();
    if (this.#phase === "ended" || this.#lost.signal.aborted) return;
    const whose = `of ${bucket.entityId} on ${bucket.resource}`;
    const lost = new HoldLost(
      why === "gone"
        ? `The slots ${whose} are held no more: their time was up, or they were reset. Stop the work, and acquire again.`
        : `The slots ${whose} were not renewed in time, and end soon. Stop the work, or renew in time: keep() does.`,
    );
    this.#tellLost(reasonOf(lost));
    this.#maker.publisher.degraded(bucket, "other", reasonOf(lost), lost);
    this.#lost.abort(lost);
  }
}

function notRenewed({ entityId, resource }: BucketKey, cause: unknown): RateLimiterUnavailable {
  return new RateLimiterUnavailable(
    `The store is unavailable for ${entityId} on ${resource}, so slots were not renewed; they are held as long as before. Try again.`,
    { cause },
  );
}

/** True if the hold has slots of a hard limit. */
function hasHard({ hardHoldMs }: BucketHold): boolean {
  return hardHoldMs < Number.POSITIVE_INFINITY;
}

function sliceOf({ limit, place, endMs, resets }: SlotPin): string {
  return `${limit} ${place} ${endMs} ${resets}`;
}

/** The slots of a holding in the wanted slices. */
function slotsIn(
  { ticket, held }: Holding,
  holder: SlotHolder,
  level: number,
  isWanted: (pin: SlotPin) => boolean,
): readonly HeldSlots[] {
  const amounts = slotsOf(ticket, held).filter(({ limit }) => isWanted(pinOf(ticket, limit) as SlotPin));
  if (amounts.length === 0) return [];
  const pins = amounts.map(({ limit }) => pinOf(ticket, limit) as SlotPin);
  const move = (after: Ticket) => {
    for (const [i, { limit, milli }] of amounts.entries()) {
      const [from, to] = [pins[i] as SlotPin, pinOf(after, limit) as SlotPin];
      if (from !== to) holder.replaceAt(level, withRenewed(holder.holdingsAt(level), { from, to, milli }));
    }
  };
  return [{ ticket: { ...ticket, pins, overdrawn: [], opened: [] }, amounts, move }];
}
