import { joinedTicket, type PeriodShare, type Ticket } from "../../domain/bucket/give-back.ts";
import type { Amount } from "../../domain/charge/amounts.ts";
import type { Held } from "../../ports/bucket-store.ts";
import type { Clock } from "../../ports/system.ts";
import type { StoreClient } from "../acquire/store-client.ts";
import { type LaterHold, LaterHolds } from "./later-holds.ts";
import { type Renewal, renewed } from "./renewal.ts";

/** Slots that a lease holds in the slices of a ticket. */
export interface HeldSlots extends PeriodShare {
  /** Puts them into other slices: for each amount that of `after`. */
  move(after: Ticket): void;
}

/** What a lease holds of slots on one bucket. */
export interface BucketHold {
  readonly held: Omit<Held, "ticket">;
  /** For how long they are held without a renewal: the shortest time of any. */
  readonly holdMs: number;
  /** The same of those whose limits are hard: only they can be lost. `Infinity`: there are none. */
  readonly hardHoldMs: number;
  /** The reading of the take, or of the last renewal that the store confirmed. */
  confirmedMs: number;
  /** Renewed until it is removed; otherwise only watched, and lost when its time is nearly up. */
  isKept: boolean;
  /** A renewal that the store has not answered yet. */
  underWay: Promise<unknown> | undefined;
  /** What is held, by slices: of some limits; undefined: of all. */
  slots(limits: readonly string[] | undefined): readonly HeldSlots[];
  /** The store has renewed these slots, together with those of other leases. More may have been taken meanwhile. */
  renewed(asked: readonly HeldSlots[], joined: Ticket, after: Ticket): void;
  /** Those of these limits are another's, or were reset. */
  lost(limits: readonly string[]): void;
  /** They may soon be another's: none was renewed in time. */
  late(): void;
}

/** What became of a renewal that was asked for: the limits that are lost, and why the store did not answer, where it did not. */
type Renewed = Omit<Renewal, "ticket">;

const RENEWED: Renewed = { lost: [], unanswered: undefined };

/** Holds of one bucket, and when they are looked at next. */
interface BucketEntry {
  readonly id: string;
  readonly holds: Set<BucketHold>;
  wakeMs: number;
  /** Not before: after a renewal that failed. */
  retryMs: number;
  isRenewing: boolean;
}

/**
 * Renews slots for as long as leases are kept: at each third of the hold, with one write for all leases of this process on a bucket. A
 * hold that could not be renewed is lost before its time is up, so that its holder has an eighth of it left to stop.
 */
export class Renewals {
  readonly #client: Pick<StoreClient, "renew">;
  readonly #clock: Clock;
  readonly #buckets = new Map<string, BucketEntry>();
  /** By when they wake, the next one first. An entry that was moved up is in it twice. */
  readonly #queue: { readonly wakeMs: number; readonly entry: BucketEntry }[] = [];
  readonly #later = new LaterHolds();
  #sleep: { readonly untilMs: number; readonly end: AbortController } | undefined;

  constructor(client: Pick<StoreClient, "renew">, clock: Clock) {
    this.#client = client;
    this.#clock = clock;
  }

  /** Looks after a hold until it is removed, or lost. */
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
   * Has a hold that began at a reading looked after (`add`) once one is to be renewed. Most are over by then, and cost nothing but this.
   * `holdMs`: the shortest time for which something of it is held.
   */
  later(beganMs: number, holdMs: number, lookAfter: () => void): LaterHold {
    const dueMs = beganMs + Math.floor(holdMs / 3);
    const hold = this.#later.add(dueMs, lookAfter);
    if (this.#sleep === undefined || dueMs < this.#sleep.untilMs) this.#sleepAgain();
    return hold;
  }

  /** Its bucket is forgotten when it would have been looked at: one that is used all the time is not scheduled each time. */
  remove(hold: BucketHold): void {
    const entry = this.#buckets.get(hold.held.bucket.id);
    if (entry === undefined) return;
    entry.holds.delete(hold);
    const isScheduled = entry.isRenewing || entry.wakeMs < Number.POSITIVE_INFINITY;
    if (entry.holds.size === 0 && !isScheduled) this.#buckets.delete(entry.id);
  }

  /** Renews some holds of one bucket now: of each limit all of them or none. `limits`: only those of these; undefined: of all. */
  async renew(holds: readonly BucketHold[], limits: readonly string[] | undefined): Promise<Renewed> {
    // One at a time: a second would name slices that the first has left, and move what others hold there.
    for (let busy = underWay(holds); busy !== undefined; busy = underWay(holds)) await busy.catch(() => {});
    const asked = holds.map((hold) => hold.slots(limits));
    const parts = asked.flat();
    const [first] = holds;
    if (first === undefined || parts.length === 0) return RENEWED;
    const joined = joinedTicket(parts);
    const { held } = first;
    const askedMs = this.#clock.now();
    const call = renewed(this.#client, { ...held, ticket: joined }, summed(parts));
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
    // What was not asked for, or not answered, is held from before; so is what one of several leases has lost.
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
    // Nearly always it is the last one: holds of one length are due in the order in which they begin.
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
    // What is renewed belongs to work that keeps the process alive by itself.
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
    // All of them, also those that are not due: leases of a bucket are renewed together.
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
    // Without holds it is forgotten then.
    if (entry.holds.size === 0) nextMs = this.#clock.now() + 1;
    this.#wakeAt(entry, nextMs);
  }

  /** All that are kept, also those that are not due yet: from then on they are due together. */
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
    // Of one of them they are lost, and nothing says of which: each is asked for by itself.
    if (holds.length > 1) {
      for (const hold of holds) if (entry.holds.has(hold)) await this.#renewTogether(entry, [hold], lost);
      return;
    }
    for (const hold of holds) if (entry.holds.has(hold)) hold.lost(lost);
  }
}

/** Between the first try and the loss it is tried six times more. */
const RETRIES = 12;

function renewalMs({ confirmedMs, holdMs }: BucketHold): number {
  return confirmedMs + Math.floor(holdMs / 3);
}

/** When its holder must be told to stop: an eighth of its time is left, also for clocks that differ. */
function lossMs({ confirmedMs, hardHoldMs }: BucketHold): number {
  return confirmedMs + Math.floor((hardHoldMs * 7) / 8);
}

function dueMs(hold: BucketHold): number {
  return hold.isKept ? renewalMs(hold) : lossMs(hold);
}

function underWay(holds: readonly BucketHold[]): Promise<unknown> | undefined {
  return holds.find((hold) => hold.underWay !== undefined)?.underWay;
}

/** Those that are renewed for the same time. */
function byOwnHold(holds: readonly BucketHold[]): readonly (readonly BucketHold[])[] {
  const groups = new Map<number | undefined, BucketHold[]>();
  for (const hold of holds) {
    const group = groups.get(hold.held.holdMs);
    if (group === undefined) groups.set(hold.held.holdMs, [hold]);
    else group.push(hold);
  }
  return [...groups.values()];
}

function summed(parts: readonly PeriodShare[]): readonly Amount[] {
  const sums = new Map<string, number>();
  for (const { amounts } of parts) {
    for (const { limit, milli } of amounts) sums.set(limit, (sums.get(limit) ?? 0) + milli);
  }
  return Array.from(sums, ([limit, milli]) => ({ limit, milli }));
}
