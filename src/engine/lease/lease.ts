import type { Tokens } from "../../domain/charge/amounts.ts";
import { canonical } from "../../domain/lease/canonical.ts";
import type { Calendar } from "../../domain/limits/calendar.ts";
import { ValidationError } from "../../domain/names/errors.ts";
import { KnownNames } from "../../domain/names/known-names.ts";
import { shown } from "../../domain/names/names.ts";
import type { MaybePromise } from "../../ports/bucket-store.ts";
import { allDone } from "../acquire/all-done.ts";
import type { LeaseCore, LeaseMaker } from "./lease-core.ts";
import { LeaseHolds, type SlotHolder } from "./lease-holds.ts";
import { closed } from "./lease-ledger.ts";
import { type LeasePart, shortestHoldMs } from "./lease-part.ts";
import { LeaseResource, type LeaseStatus, slotHolderOf } from "./lease-resource.ts";
import { type TrackOptions, track } from "./track.ts";

/** Options of `settle`. */
export interface SettleOptions {
  /** Totals by measure on further resources of the lease, by resource. Default: none. */
  readonly also?: Readonly<Record<string, Tokens>>;
}

const SETTLE_OPTIONS = new KnownNames<SettleOptions>({ also: true });
const TRACK = new KnownNames<TrackOptions<never>>({ usageOf: true, outputOf: true });

/** What a lease was made of, for other parts of this package: not a member, for those are the public interface. */
export let partsOfLease: (lease: Lease) => readonly LeasePart[];

/** The calendar by which its quotas reset. */
export let calendarOfLease: (lease: Lease) => Calendar;

/** Settles an open lease that has nothing to store, and says so; false: nothing was done. */
export let settledAtOnce: (lease: Lease) => boolean;

/**
 * Tokens that were taken for a piece of work. Correct them while it runs. `settle` keeps them, `rollback` gives all of
 * them back. `await using lease = …` rolls back unless the lease was settled, as a database transaction does.
 */
export class Lease<Measure extends string = string> extends LeaseResource<Measure> {
  static {
    partsOfLease = (lease) =>
      lease.#others === undefined
        ? [lease.part]
        : [lease.part, ...Array.from(lease.#others.values(), (other) => other.ownPart)];
    calendarOfLease = (lease) => lease.core.maker.calendar;
    settledAtOnce = (lease) => {
      // What a client gave is no lease of this class.
      if (!(#others in lease) || lease.#others !== undefined || lease.hasChanged) return false;
      lease.#close("settled");
      return true;
    };
  }

  readonly #others: ReadonlyMap<string, OtherResource> | undefined;
  #isKept = false;

  /** @internal */
  // One by one, not in an object: it would be made for every take.
  constructor(
    maker: LeaseMaker,
    part: LeasePart,
    others: readonly LeasePart[],
    degradedReason: string | false,
    signal: AbortSignal | undefined,
  ) {
    super(
      {
        maker,
        status: "open",
        settledWith: undefined,
        degradedReason,
        signal,
        holds: undefined,
        keepsLater: undefined,
      },
      part,
    );
    this.#others =
      others.length === 0
        ? undefined
        : new Map(others.map((other) => [other.resource, new OtherResource(this.core, other, () => this.#holds())]));
  }

  /** Whether it is open, settled or rolled back. */
  get status(): LeaseStatus {
    return this.core.status;
  }

  /**
   * Aborted with the signal of the request. Pass it on: `fetch(url, { signal })`. Of a lease that has slots of hard limits, or comes to
   * have some, it is aborted with `HoldLost`, too, when they could not be renewed in time: 7/8 of their time after the last renewal.
   */
  get signal(): AbortSignal {
    // A limit may hold slots that held none when this lease was taken, so whoever asks has the signal that hears of them.
    const holds = this.#holds();
    if (holds !== undefined) return holds.signal(this.core.signal);
    // Not one for all leases: who listens to it and never stops would be kept for ever.
    this.core.signal ??= new AbortController().signal;
    return this.core.signal;
  }

  /** Why the store could not count this work: it passed without being charged, or charged in part. Otherwise `false`. */
  get degraded(): string | false {
    return this.core.degradedReason;
  }

  /**
   * Until when the slots of this lease are held, in ms since 1970, unless they are renewed or given back. Absent: it holds none.
   */
  get holdsUntilMs(): number | undefined {
    return this.core.status === "open" ? this.#holdsOfSlots()?.untilMs : undefined;
  }

  /**
   * Holds the slots of this lease for as long again. False: they are lost, as their time was up or they were reset. `withLease` renews by
   * itself, and so does a lease after `keep`. Throws `RateLimiterUnavailable` where the store cannot be asked.
   */
  async renew(): Promise<boolean> {
    if (this.core.status !== "open") throw closed(this.core.status);
    return (await this.#holdsOfSlots()?.renew()) ?? true;
  }

  /** Renews the slots of this lease by itself until it is closed. Close it: a lease that is kept and forgotten holds them for ever. */
  keep(): void {
    this.#isKept = true;
    const { core } = this;
    // Most work is over long before its slots have to be renewed.
    const holdMs = this.isAsTaken && this.#others === undefined ? shortestHoldMs(this.part) : 0;
    if (core.holds !== undefined || core.status !== "open" || holdMs === 0) this.#holdsOfSlots()?.keep();
    else if (holdMs < Number.POSITIVE_INFINITY)
      core.keepsLater ??= core.maker.renewals.later(this.part.takenAtMs, holdMs, () => this.#holds());
  }

  /** Names of the resources that tokens were taken from, the first one first. */
  get resources(): readonly string[] {
    return [this.part.resource, ...(this.#others?.keys() ?? [])];
  }

  /** What the lease holds on one of several resources: `lease.resource("gpu-pool").adjust({ slots: -1 })`. */
  resource(name: string): LeaseResource {
    if (name === this.part.resource) return this;
    const other = this.#others?.get(name);
    if (other !== undefined) return other;
    throw this.#unknown(name);
  }

  /**
   * Keeps the tokens and closes the lease. With totals by measure, the lease is first charged or given back the
   * difference; it is never refused, and measures that are not named stay. `also` has the totals on further resources.
   * A second call with the same totals does nothing; one with other totals throws `LeaseClosed`. It throws if
   * something could not be stored; the other levels and resources are stored all the same. A measure that no limit
   * counts throws `limit_unknown`, and the lease stays open.
   */
  async settle(totals?: Tokens<Measure | "requests">, options?: SettleOptions): Promise<void> {
    if (totals !== undefined || options !== undefined) return this.#settleWith(totals ?? {}, options ?? {});
    if (this.core.status !== "open") return;
    this.#close("settled");
    if (this.#others !== undefined) return this.#flushAll();
    const kept = this.keepUsed();
    // A promise that an async function returns is waited for longer than one that it awaits.
    if (kept !== undefined) await kept;
  }

  async #settleWith(totals: Tokens, options: SettleOptions): Promise<void> {
    const { also = {} } = SETTLE_OPTIONS.check(options, "The options of settle");
    const by = canonical({ totals, also });
    if (this.core.status === "settled" && by === this.core.settledWith) return;
    const changes = this.#changesTo(totals, also);
    this.core.settledWith = by;
    // Closed at once: what is asked of the lease meanwhile comes too late.
    this.#close("settled");
    const changed = allDone(changes.map((change) => change()));
    const flush = () => this.#flushAll();
    await allDone<unknown>([changed, changed.then(flush, flush)]);
  }

  async #flushAll(): Promise<void> {
    const others = Array.from(this.#others?.values() ?? [], (other) => other.settle());
    await allDone([this.keepUsed(), ...others]);
  }

  /** Gives everything back, on every resource, and closes the lease. A second call does nothing. */
  async rollback(): Promise<void> {
    if (this.core.status !== "open") return;
    this.#close("rolledBack");
    if (this.#others === undefined) return this.giveAllBack();
    await allDone([this.giveAllBack(), ...Array.from(this.#others.values(), (other) => other.rollback())]);
  }

  /**
   * Passes a stream on, each chunk as it is and as soon as it is there, and settles the lease once: at the end, when
   * its reader leaves (`break`, `return()`, `cancel()`), when the stream fails, or when `lease.signal` is aborted. It
   * settles by what the chunks told (`usageOf`, `outputOf`), else as charged; a stream that fails before its first
   * chunk is given back. Read the stream while the lease is open, so within the body of `withLease`.
   */
  track<Chunk>(stream: ReadableStream<Chunk>, options?: TrackOptions<Chunk, Measure>): ReadableStream<Chunk>;
  track<Chunk>(stream: AsyncIterable<Chunk>, options?: TrackOptions<Chunk, Measure>): AsyncIterableIterator<Chunk>;
  track<Chunk>(
    stream: ReadableStream<Chunk> | AsyncIterable<Chunk>,
    options?: TrackOptions<Chunk, Measure>,
  ): ReadableStream<Chunk> | AsyncIterableIterator<Chunk> {
    return track(this, stream, TRACK.check(options ?? {}, "The options of track"));
  }

  protected slotHolds(): LeaseHolds | undefined {
    return this.#holds();
  }

  /** Undefined where it holds no slots. */
  #holdsOfSlots(): LeaseHolds | undefined {
    return this.core.holds !== undefined || this.#holders.some((one) => one.mayHoldSlots()) ? this.#holds() : undefined;
  }

  get #holders(): readonly SlotHolder[] {
    return [this, ...(this.#others?.values() ?? [])].map(slotHolderOf);
  }

  /** Made when it is first asked for; undefined once the lease is closed. */
  #holds(): LeaseHolds | undefined {
    const { core } = this;
    if (core.holds !== undefined || core.status !== "open") return core.holds;
    const tellLost = (reason: string) => {
      if (core.degradedReason === false) core.degradedReason = reason;
    };
    core.keepsLater?.remove();
    core.holds = new LeaseHolds(core.maker, this.#holders, tellLost);
    if (this.#isKept) core.holds.keep();
    return core.holds;
  }

  #close(status: "settled" | "rolledBack"): void {
    this.core.status = status;
    this.core.keepsLater?.remove();
    this.core.holds?.end();
    this.core.maker.publisher.leaseEnded(this, this.part, status, this.core.maker);
  }

  /** All is checked before anything is charged. */
  #changesTo(totals: Tokens, also: Readonly<Record<string, Tokens>>): readonly (() => Promise<void>)[] {
    if (typeof also !== "object" || also === null || Array.isArray(also)) {
      throw new ValidationError(
        "also_invalid",
        `also is ${shown(also)}; give an object of resources, { "gpu": { slots: 1 } }.`,
      );
    }
    const own = this.checkTotals(totals);
    const changes = own === undefined ? [] : [() => this.comeTo(own)];
    for (const [name, tokens] of Object.entries(also)) {
      const change = this.#other(name).changeTo(tokens);
      if (change !== undefined) changes.push(change);
    }
    return changes;
  }

  #other(name: string): OtherResource {
    const other = this.#others?.get(name);
    if (other !== undefined) return other;
    if (name !== this.part.resource) throw this.#unknown(name);
    throw new ValidationError(
      "also_invalid",
      `${name} is the lease's own resource; pass its totals in the first argument.`,
    );
  }

  #unknown(name: string): ValidationError {
    return new ValidationError(
      "resource_unknown",
      `The lease holds nothing on ${name}; it was taken for ${this.resources.join(", ")}. Name it in \`also\`.`,
    );
  }

  /** Rolls back unless it was settled: for `await using`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.rollback();
  }
}

class OtherResource extends LeaseResource {
  readonly #holdsOfLease: () => LeaseHolds | undefined;

  constructor(core: LeaseCore, part: LeasePart, holdsOfLease: () => LeaseHolds | undefined) {
    super(core, part);
    this.#holdsOfLease = holdsOfLease;
  }

  get ownPart(): LeasePart {
    return this.part;
  }

  settle(): MaybePromise<void> {
    return this.keepUsed();
  }

  changeTo(tokens: Tokens): (() => Promise<void>) | undefined {
    const totals = this.checkTotals(tokens);
    return totals && (() => this.comeTo(totals));
  }

  rollback(): Promise<void> {
    return this.giveAllBack();
  }

  protected slotHolds(): LeaseHolds | undefined {
    return this.#holdsOfLease();
  }
}
