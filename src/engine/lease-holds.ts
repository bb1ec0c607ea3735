import type { BucketKey } from "../domain/bucket-key.ts";
import { HoldLost, RateLimiterUnavailable } from "../domain/errors.ts";
import { isSlotPin, pinOf, type SlotPin, type Ticket } from "../domain/give-back.ts";
import { type Holding, withRenewed } from "../domain/holding.ts";
import { slotsOf, ticketAfter } from "../domain/renew-slots.ts";
import { type EventPublisher, reasonOf } from "./event-publisher.ts";
import { type LeasePart, slotHoldMs } from "./lease-part.ts";
import type { BucketHold, HeldSlots, Renewals } from "./renewals.ts";
import type { Demand } from "./request.ts";

/** What holds need of the limiter that gave the lease. */
interface HoldsMaker {
  readonly renewals: Renewals;
  readonly publisher: EventPublisher;
  now(): number;
}

/** Where a lease keeps what it holds on one of its resources. */
export interface SlotHolder {
  readonly part: LeasePart;
  /** False: nothing but the take has happened to it, and that took none. */
  readonly mayHoldSlots: boolean;
  holdingsAt(level: number): readonly Holding[];
  replaceAt(level: number, holdings: readonly Holding[]): void;
}

/** What a lease tells when slots of it are lost. */
type TellLost = (reason: string) => void;

/** The slots of a lease: until when they are held, who renews them, and who hears that they are lost. Only leases with slots have it. */
export class LeaseHolds {
  readonly #maker: HoldsMaker;
  readonly #holders: readonly SlotHolder[];
  readonly #tellLost: TellLost;
  readonly #byBucket = new Map<string, BucketHold>();
  /** Made when somebody listens, or has to hear of it. */
  #lost: AbortController | undefined;
  #signal: AbortSignal | undefined;
  #phase: "unwatched" | "watched" | "kept" | "ended" = "unwatched";

  constructor(maker: HoldsMaker, holders: readonly SlotHolder[], tellLost: TellLost) {
    this.#maker = maker;
    this.#holders = holders;
    this.#tellLost = tellLost;
    for (const { part } of holders) this.#add(part.takenAtMs);
  }

  /** When the first of them ends unless it is renewed; undefined where none are held. */
  get untilMs(): number | undefined {
    const ends = [...this.#byBucket.values()].filter((hold) => hold.slots().length > 0).map(untilMs);
    return ends.length === 0 ? undefined : Math.min(...ends);
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

  /** More was taken: of buckets that it held no slots of, perhaps. */
  taken(): void {
    this.#add(this.#maker.now());
  }

  /** Renews all of them now. False: some are lost. Throws `RateLimiterUnavailable` where the store did not answer. */
  async renew(): Promise<boolean> {
    const holds = [...this.#byBucket.values()];
    const renewed = await Promise.all(holds.map((hold) => this.#maker.renewals.renew([hold])));
    for (const [i, one] of renewed.entries()) if (one === "lost") (holds[i] as BucketHold).lost("gone");
    for (const [i, one] of renewed.entries()) {
      if (typeof one === "object") throw notRenewed((holds[i] as BucketHold).held.bucket, one.cause);
    }
    return !renewed.includes("lost");
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
    this.#maker.renewals.add(hold);
  }

  #add(confirmedMs: number): void {
    for (const holder of this.#holders) {
      for (const demand of holder.part.demands) {
        const { id } = demand.bucket;
        if (demand.bypass || this.#byBucket.has(id)) continue;
        const hold = this.#holdOn(demand, confirmedMs);
        if (hold.slots().length === 0) continue;
        this.#byBucket.set(id, hold);
        this.#lookAfter(hold);
      }
    }
  }

  #holdOn({ bucket, set, origin, holdMs: ownMs }: Demand, confirmedMs: number): BucketHold {
    const held = { bucket, set, origin, bypass: false, ...(ownMs === undefined ? {} : { holdMs: ownMs }) };
    // A total is charged by all resources of the lease: each holds its part of it.
    const places = this.#holders.flatMap((holder) =>
      holder.part.demands.flatMap((demand, level) => (demand.bucket.id === bucket.id ? [{ holder, level }] : [])),
    );
    const slots = () =>
      // What was closed is given back, or about to be: it must not be moved any more.
      this.#phase === "ended"
        ? []
        : places.flatMap(({ holder, level }) =>
            holder.holdingsAt(level).flatMap((holding) => slotsIn(holding, holder, level)),
          );
    const hold: BucketHold = {
      held,
      confirmedMs,
      isKept: false,
      underWay: undefined,
      slots,
      get holdMs() {
        const times = slots().flatMap(({ ticket }) =>
          ticket.pins.filter(isSlotPin).map((pin) => slotHoldMs(pin, set.limits, ownMs, hold.confirmedMs)),
        );
        return Math.max(0, Math.min(...times));
      },
      renewed: (asked, joined, after) => {
        for (const slots of asked) slots.move(ticketAfter(slots.ticket, joined, after));
      },
      lost: (why) => this.#lose(hold, why),
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
    this.#maker.publisher.degraded(bucket, reasonOf(lost), lost);
    this.#lost.abort(lost);
  }
}

function notRenewed({ entityId, resource }: BucketKey, cause: unknown): RateLimiterUnavailable {
  return new RateLimiterUnavailable(
    `The store is unavailable for ${entityId} on ${resource}, so slots were not renewed; they are held as long as before. Try again.`,
    { cause },
  );
}

function untilMs(hold: BucketHold): number {
  return hold.confirmedMs + hold.holdMs;
}

/** The slots of a holding. */
function slotsIn({ ticket, held }: Holding, holder: SlotHolder, level: number): readonly HeldSlots[] {
  const amounts = slotsOf(ticket, held);
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
