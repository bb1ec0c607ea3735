import type { BucketKey } from "../../domain/bucket/bucket-key.ts";
import { isSlotPin, pinOf, type SlotPin, type Ticket } from "../../domain/bucket/give-back.ts";
import { slotsOf, ticketAfter } from "../../domain/bucket/renew-slots.ts";
import { type Holding, withRenewed } from "../../domain/lease/holding.ts";
import { isHard } from "../../domain/limits/limit.ts";
import { HoldLost, RateLimiterUnavailable } from "../../domain/names/errors.ts";
import type { Demand } from "../acquire/request.ts";
import { type EventPublisher, reasonOf } from "../limiter/event-publisher.ts";
import { type LeasePart, slotHoldMs } from "./lease-part.ts";
import type { BucketHold, HeldSlots, Renewals } from "./renewals.ts";

/** What holds need of the limiter that gave the lease. */
interface HoldsMaker {
  readonly renewals: Renewals;
  readonly publisher: EventPublisher;
  now(): number;
}

/** Where a lease keeps what it holds on one of its resources. */
export interface SlotHolder {
  readonly part: LeasePart;
  /** False: nothing but the take has happened to it, and that took none. Then what it holds is not looked up. */
  mayHoldSlots(): boolean;
  holdingsAt(level: number): readonly Holding[];
  replaceAt(level: number, holdings: readonly Holding[]): void;
}

/** What a lease tells when slots of it are lost. */
type TellLost = (reason: string) => void;

/**
 * The slots of a lease: until when they are held, who renews them, and who hears that they are lost. Everything that a lease takes comes in
 * here, with its take (the constructor) or later (`taken`). Slots of limits that refuse nothing are renewed with the others, and nobody
 * hears of them.
 */
export class LeaseHolds {
  readonly #maker: HoldsMaker;
  readonly #holders: readonly SlotHolder[];
  readonly #tellLost: TellLost;
  readonly #byBucket = new Map<string, BucketHold>();
  /** Those of which everything was given back or lost. One that takes again is the same: a renewal may still wait for its turn with it. */
  readonly #empty = new Set<BucketHold>();
  /** Those that hold nothing of a limit that refuses. */
  readonly #withoutHard = new Set<BucketHold>();
  /** Made when somebody listens, or has to hear of it. */
  #lost: AbortController | undefined;
  #signal: AbortSignal | undefined;
  #phase: "unwatched" | "watched" | "kept" | "ended" = "unwatched";

  constructor(maker: HoldsMaker, holders: readonly SlotHolder[], tellLost: TellLost) {
    this.#maker = maker;
    this.#holders = holders;
    this.#tellLost = tellLost;
    for (const { part } of holders) this.taken(part.takenAtMs);
  }

  /** When the first of them ends unless it is renewed; undefined where none are held. */
  get untilMs(): number | undefined {
    const firstMs = Math.min(...Array.from(this.#byBucket.values(), (hold) => hold.confirmedMs + hold.hardHoldMs));
    return firstMs === Number.POSITIVE_INFINITY ? undefined : firstMs;
  }

  /** The request's signal, which is aborted when slots are lost, too. */
  signal(ofRequest: AbortSignal | undefined): AbortSignal {
    if (this.#signal === undefined) {
      this.#lost ??= new AbortController();
      this.#signal = ofRequest === undefined ? this.#lost.signal : AbortSignal.any([ofRequest, this.#lost.signal]);
    }
    if (this.#phase === "unwatched") this.#watch("watched");
    return this.#signal;
  }

  /** Renews them from now on, until the lease is closed. */
  keep(): void {
    if (this.#phase === "unwatched" || this.#phase === "watched") this.#watch("kept");
  }

  /** Something was taken, by a reading: its slots are looked after, also on buckets that it held some of before. */
  taken(readingMs: number): void {
    for (const holder of this.#holders) {
      if (!holder.mayHoldSlots()) continue;
      for (const demand of holder.part.demands) {
        const { id } = demand.bucket;
        const hold = this.#byBucket.get(id) ?? this.#holdOn(demand, readingMs);
        if (demand.bypass || hold.slots(undefined).length === 0) continue;
        // What is taken first of slots that can be lost is held from now on, whatever was held of others before.
        const isFirstHard = this.#withoutHard.has(hold) && hasHard(hold);
        if (this.#empty.delete(hold) || isFirstHard) hold.confirmedMs = readingMs;
        this.#byBucket.set(id, hold);
        this.#noteHard(hold);
        this.#lookAfter(hold);
      }
    }
  }

  /** Something was given back: a bucket that it holds nothing of is not looked after any more. */
  gaveBack(): void {
    for (const hold of this.#byBucket.values()) {
      this.#dropIfEmpty(hold);
      this.#noteHard(hold);
    }
  }

  /** Renews all of them now. False: some are lost. Throws `RateLimiterUnavailable` where the store did not answer. */
  async renew(): Promise<boolean> {
    const holds = [...this.#byBucket.values()];
    const hard = holds.map(hasHard);
    const renewed = await Promise.all(holds.map((hold) => this.#maker.renewals.renew([hold], undefined)));
    for (const [i, { lost }] of renewed.entries()) if (lost.length > 0) (holds[i] as BucketHold).lost(lost);
    for (const [i, { unanswered }] of renewed.entries()) {
      if (unanswered !== undefined && hard[i]) throw notRenewed((holds[i] as BucketHold).held.bucket, unanswered.cause);
    }
    return !renewed.some(({ lost }, i) => lost.some((limit) => isHardIn((holds[i] as BucketHold).held, limit)));
  }

  /**
   * Whether a renewal is under way. What is given back must name the slices that it is in, so whoever gives back waits (`settled`), and asks
   * again: another renewal may have been waiting, too.
   */
  isRenewing(): boolean {
    for (const hold of this.#byBucket.values()) if (hold.underWay !== undefined) return true;
    return false;
  }

  /** Resolves when the renewals of now are over. */
  async settled(): Promise<void> {
    for (const hold of this.#byBucket.values()) await hold.underWay?.catch(() => {});
  }

  /** The lease is closed. */
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
    // What can neither be renewed nor be lost has no time at which it would be looked at.
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
    const held = { bucket, set, origin, bypass: false, ...(ownMs === undefined ? {} : { holdMs: ownMs }) };
    // A total is charged by all resources of the lease: each holds its part of it.
    const places = this.#holders.flatMap((holder) =>
      holder.part.demands.flatMap((demand, level) => (demand.bucket.id === bucket.id ? [{ holder, level }] : [])),
    );
    const lost = new Set<string>();
    const slots = (limits: readonly string[] | undefined) => {
      // What was closed is given back, or about to be: it must not be moved any more.
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
        return shortestMs(({ limit }) => isHardIn(held, limit));
      },
      renewed: (asked, joined, after) => {
        for (const slots of asked) slots.move(ticketAfter(slots.ticket, joined, after));
      },
      lost: (limits) => {
        for (const { ticket } of slots(limits)) for (const pin of ticket.pins) lost.add(sliceOf(pin as SlotPin));
        this.#dropIfEmpty(hold);
        if (limits.some((limit) => isHardIn(held, limit))) this.#lose(hold, "gone");
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

/** Whether slots of a limit that refuses are among them. */
function hasHard({ hardHoldMs }: BucketHold): boolean {
  return hardHoldMs < Number.POSITIVE_INFINITY;
}

/** Whether a limit refuses: only then it matters to the work whether its slots are held. One that is not known by its name does. */
function isHardIn({ set }: BucketHold["held"], name: string): boolean {
  const limit = set.limits.find((one) => one.name === name);
  return limit === undefined || isHard(limit);
}

function sliceOf({ limit, place, endMs, resets }: SlotPin): string {
  return `${limit} ${place} ${endMs} ${resets}`;
}

/** The slots of a holding, those in slices that are wanted. */
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
