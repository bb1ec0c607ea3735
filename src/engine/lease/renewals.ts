import { joinedTicket, type PeriodShare, PLAIN_TICKET, type Ticket } from "../../domain/bucket/give-back.ts";
import { type Amount, sumByLimit } from "../../domain/charge/amounts.ts";
import type { Held } from "../../ports/bucket-store.ts";
import type { Clock } from "../../ports/system.ts";
import type { StoreClient } from "../acquire/store-client.ts";
import { type LaterHold, LaterHolds } from "./later-holds.ts";

/** The result of a renewal, limit by limit. */
interface Renewal {
  /** The ticket of the renewed slots only. */
  readonly ticket: Ticket;
  /** The limits whose slots are lost; of these nothing was changed. */
  readonly lost: readonly string[];
  /** Why the store did not answer for some limits; their slots end as before. */
  readonly unanswered: { readonly cause: unknown } | undefined;
}

/** Holds slots of a bucket for as long again. If some are lost, each limit is renewed by itself. */
export async function renewed(
  client: Pick<StoreClient, "renew">,
  held: Held,
  amounts: readonly Amount[],
): Promise<Renewal> {
  const reply = await client.renew(held, amounts);
  if (reply.kind === "renewed") return { ticket: reply.ticket, lost: [], unanswered: undefined };
  if (reply.kind === "unavailable") return { ticket: PLAIN_TICKET, lost: [], unanswered: reply };
  if (amounts.length === 1) {
    return { ticket: PLAIN_TICKET, lost: amounts.map(({ limit }) => limit), unanswered: undefined };
  }
  const each: Renewal[] = [];
  for (const amount of amounts) each.push(await renewed(client, held, [amount]));
  return {
    ticket: { ...PLAIN_TICKET, pins: each.flatMap(({ ticket }) => ticket.pins) },
    lost: each.flatMap(({ lost }) => lost),
    unanswered: each.find(({ unanswered }) => unanswered !== undefined)?.unanswered,
  };
}

/** Slots that a lease holds in the slices of a ticket. */
export interface HeldSlots extends PeriodShare {
  /** Puts them into other slices: for each amount that of `after`. */
  move(after: Ticket): void;
}

/** The slots that a lease holds on one bucket. */
export interface BucketHold {
  readonly held: Omit<Held, "ticket">;
  /** The shortest time for which slots are held without a renewal. */
  readonly holdMs: number;
  /** The shortest time of slots of hard limits: only they can be lost. `Infinity`: there are none. */
  readonly hardHoldMs: number;
  /** The clock reading of the take, or of the last confirmed renewal. */
  confirmedMs: number;
  /** True: renewed until it is removed. False: only watched, and lost when its time is nearly up. */
  isKept: boolean;
  underWay: Promise<unknown> | undefined;
  /** The slots of some limits, by slices; undefined: of all. */
  slots(limits: readonly string[] | undefined): readonly HeldSlots[];
  /** The store has renewed these slots, together with those of other leases. The lease may have taken more meanwhile. */
  renewed(asked: readonly HeldSlots[], joined: Ticket, after: Ticket): void;
  /** The slots of these limits have expired, or were reset. */
  lost(limits: readonly string[]): void;
  /** The slots were not renewed in time and will expire soon. */
  late(): void;
}

type Renewed = Omit<Renewal, "ticket">;

const RENEWED: Renewed = { lost: [], unanswered: undefined };

/** The holds of one bucket, and when they are checked next. */
interface BucketEntry {
  readonly id: string;
  readonly holds: Set<BucketHold>;
  wakeMs: number;
  /** The earliest time of the next renewal after a failure. */
  retryMs: number;
  isRenewing: boolean;
}

/**
 * Renews slots while leases are kept: at each third of the hold, with one write for all leases of this process on a bucket. A hold that
 * could not be renewed is lost while an eighth of its time is left, so that its holder can stop.
 */
export class Renewals {
  readonly #client: Pick<StoreClient, "renew">;
  readonly #clock: Clock;
  readonly #buckets = new Map<string, BucketEntry>();
  /** Sorted by time. An entry that was moved up is in it twice. */
  readonly #queue: { readonly wakeMs: number; readonly entry: BucketEntry }[] = [];
  readonly #later = new LaterHolds();
  #sleep: { readonly untilMs: number; readonly end: AbortController } | undefined;

  constructor(client: Pick<StoreClient, "renew">, clock: Clock) {
    this.#client = client;
    this.#clock = clock;
  }

  /** Watches a hold until it is removed or lost. */
  add(hold: BucketHold): void {
    const { id } = hold.held.bucket;
    let entry = this.#buckets.get(id);
    if (entry === undefined) {
      entry = { id, holds: new Set(), wakeMs: Number.POSITIVE_INFINITY, retryMs: 0, isRenewing: false };
      this.#buckets.set(id, entry);
    }
    entry.holds.add(hold);
    this.#wakeAt(entry, dueMs(hold));
  }

  /**
   * Calls `lookAfter`, which adds the hold, once a hold is due for renewal. Most holds are over by then and cost nothing more.
   * `holdMs` is the shortest time for which slots of it are held.
   */
  later(beganMs: number, holdMs: number, lookAfter: () => void): LaterHold {
    const dueMs = beganMs + Math.floor(holdMs / 3);
    const hold = this.#later.add(dueMs, lookAfter);
    if (this.#sleep === undefined || dueMs < this.#sleep.untilMs) this.#sleepAgain();
    return hold;
  }

  /** The bucket is dropped at its next check: a bucket that is used all the time is not scheduled each time. */
  remove(hold: BucketHold): void {
    const entry = this.#buckets.get(hold.held.bucket.id);
    if (entry === undefined) return;
    entry.holds.delete(hold);
    const isScheduled = entry.isRenewing || entry.wakeMs < Number.POSITIVE_INFINITY;
    if (entry.holds.size === 0 && !isScheduled) this.#buckets.delete(entry.id);
  }

  /** Renews holds of one bucket now, of each limit all or none. `limits` selects limits; undefined: all. */
  async renew(holds: readonly BucketHold[], limits: readonly string[] | undefined): Promise<Renewed> {
    // One at a time: a second renewal would name slices that the first has left, and move slots of others there.
    for (let busy = underWay(holds); busy !== undefined; busy = underWay(holds)) await busy.catch(() => {});
    const asked = holds.map((hold) => hold.slots(limits));
    const parts = asked.flat();
    const [first] = holds;
    if (first === undefined || parts.length === 0) return RENEWED;
    const joined = joinedTicket(parts);
    const { held } = first;
    const askedMs = this.#clock.now();
    const call = renewed(
      this.#client,
      { ...held, ticket: joined },
      sumByLimit(parts.flatMap(({ amounts }) => amounts)),
    );
    for (const hold of holds) hold.underWay = call;
    let renewal: Renewal;
    try {
      renewal = await call;
    } catch (cause) {
      return { lost: [], unanswered: { cause } };
    } finally {
      for (const hold of holds) if (hold.underWay === call) hold.underWay = undefined;
    }
    const { ticket, lost, unanswered } = renewal;
    // A hold is confirmed only if all its limits were asked for and answered, and no other lease in the call lost slots.
    const isAll = limits === undefined && unanswered === undefined && (lost.length === 0 || holds.length === 1);
    for (const [i, hold] of holds.entries()) {
      hold.renewed(asked[i] ?? [], joined, ticket);
      if (isAll) hold.confirmedMs = Math.max(hold.confirmedMs, askedMs);
    }
    return { lost, unanswered };
  }

  #wakeAt(entry: BucketEntry, wakeMs: number): void {
    if (entry.wakeMs <= wakeMs) return;
    entry.wakeMs = wakeMs;
    this.#put({ wakeMs, entry });
    if (this.#sleep === undefined || wakeMs < this.#sleep.untilMs) this.#sleepAgain();
  }

  #put(one: { readonly wakeMs: number; readonly entry: BucketEntry }): void {
    // Nearly always the last place: holds of one length are due in the order in which they begin.
    let at = this.#queue.length;
    while (at > 0 && (this.#queue[at - 1] as { wakeMs: number }).wakeMs > one.wakeMs) at--;
    this.#queue.splice(at, 0, one);
  }

  #sleepAgain(): void {
    this.#sleep?.end.abort();
    this.#sleep = undefined;
    const untilMs = Math.min(this.#queue[0]?.wakeMs ?? Number.POSITIVE_INFINITY, this.#later.nextMs);
    if (untilMs === Number.POSITIVE_INFINITY) return;
    const end = new AbortController();
    this.#sleep = { untilMs, end };
    const ms = Math.max(0, untilMs - this.#clock.now());
    const clock = this.#clock;
    // In the background: the work that holds the slots keeps the process alive.
    const slept = clock.sleepInBackground?.(ms, end.signal) ?? clock.sleep(ms, end.signal);
    slept.then(
      () => {
        if (this.#sleep?.end === end) this.#wake();
      },
      () => {},
    );
  }

  #wake(): void {
    const nowMs = this.#clock.now();
    // All of them, even those that are not due: leases of a bucket are renewed together.
    if ((this.#queue[0]?.wakeMs ?? Number.POSITIVE_INFINITY) <= nowMs || this.#later.nextMs <= nowMs)
      this.#later.lookAtAll();
    this.#sleep = undefined;
    let count = 0;
    while (count < this.#queue.length && (this.#queue[count] as { wakeMs: number }).wakeMs <= nowMs) count++;
    for (const { wakeMs, entry } of this.#queue.splice(0, count)) {
      if (entry.wakeMs !== wakeMs) continue;
      entry.wakeMs = Number.POSITIVE_INFINITY;
      this.#lookAfter(entry, nowMs);
    }
    if (this.#sleep === undefined) this.#sleepAgain();
  }

  #lookAfter(entry: BucketEntry, nowMs: number): void {
    if (entry.holds.size === 0) {
      this.#buckets.delete(entry.id);
      return;
    }
    let isDue = false;
    for (const hold of [...entry.holds]) {
      if (nowMs >= lossMs(hold)) {
        entry.holds.delete(hold);
        hold.late();
      } else if (hold.isKept && nowMs >= renewalMs(hold)) isDue = true;
    }
    if (isDue && !entry.isRenewing && nowMs >= entry.retryMs) void this.#renewAll(entry);
    this.#scheduleNext(entry);
  }

  #scheduleNext(entry: BucketEntry): void {
    let nextMs = Number.POSITIVE_INFINITY;
    for (const hold of entry.holds) {
      const busy = entry.isRenewing || !hold.isKept;
      nextMs = Math.min(nextMs, lossMs(hold), busy ? nextMs : Math.max(renewalMs(hold), entry.retryMs));
    }
    // An entry without holds is dropped at its next check.
    if (entry.holds.size === 0) nextMs = this.#clock.now() + 1;
    this.#wakeAt(entry, nextMs);
  }

  /** Renews all kept holds, even those that are not due yet: from then on they are due together. */
  async #renewAll(entry: BucketEntry): Promise<void> {
    entry.isRenewing = true;
    entry.retryMs = 0;
    try {
      const kept = [...entry.holds].filter(({ isKept }) => isKept);
      for (const holds of byOwnHold(kept)) {
        // Leases may have been closed while others were renewed.
        await this.#renewTogether(
          entry,
          holds.filter((hold) => entry.holds.has(hold)),
          undefined,
        );
      }
    } finally {
      entry.isRenewing = false;
      this.#scheduleNext(entry);
    }
  }

  async #renewTogether(
    entry: BucketEntry,
    holds: readonly BucketHold[],
    limits: readonly string[] | undefined,
  ): Promise<void> {
    const { lost, unanswered } = await this.renew(holds, limits);
    if (unanswered !== undefined) {
      const shortestMs = Math.min(...holds.map(({ holdMs }) => holdMs));
      entry.retryMs = this.#clock.now() + Math.ceil(shortestMs / RETRIES);
    }
    if (lost.length === 0) return;
    // One of the leases has lost slots, and the answer does not say which: renew each by itself.
    if (holds.length > 1) {
      for (const hold of holds) if (entry.holds.has(hold)) await this.#renewTogether(entry, [hold], lost);
      return;
    }
    for (const hold of holds) if (entry.holds.has(hold)) hold.lost(lost);
  }
}

/** A failed renewal is tried again after a twelfth of the hold: six times before the loss. */
const RETRIES = 12;

function renewalMs({ confirmedMs, holdMs }: BucketHold): number {
  return confirmedMs + Math.floor(holdMs / 3);
}

/** The holder must stop when an eighth of the time is left: a reserve for clocks that differ. */
function lossMs({ confirmedMs, hardHoldMs }: BucketHold): number {
  return confirmedMs + Math.floor((hardHoldMs * 7) / 8);
}

function dueMs(hold: BucketHold): number {
  return hold.isKept ? renewalMs(hold) : lossMs(hold);
}

function underWay(holds: readonly BucketHold[]): Promise<unknown> | undefined {
  return holds.find((hold) => hold.underWay !== undefined)?.underWay;
}

/** Groups holds that are renewed for the same time. */
function byOwnHold(holds: readonly BucketHold[]): readonly (readonly BucketHold[])[] {
  const groups = new Map<number | undefined, BucketHold[]>();
  for (const hold of holds) {
    const group = groups.get(hold.held.holdMs);
    if (group === undefined) groups.set(hold.held.holdMs, [hold]);
    else group.push(hold);
  }
  return [...groups.values()];
}
