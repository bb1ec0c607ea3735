import { bucketKey } from "../../domain/bucket/bucket-key.ts";
import type { Also, Tokens } from "../../domain/charge/amounts.ts";
import { canonical } from "../../domain/lease/idempotency.ts";
import type { Calendar } from "../../domain/limits/schedule.ts";
import { ValidationError } from "../../domain/names/errors.ts";
import { KnownNames } from "../../domain/names/known-names.ts";
import type { MaybePromise } from "../../ports/bucket-store.ts";
import { alsoOf } from "../acquire/also.ts";
import { allDone, allEnded } from "../acquire/store-calls.ts";
import { LeaseHolds, type SlotHolder } from "./lease-holds.ts";
import { closed, type LeaseCore, type LeaseMaker } from "./lease-ledger.ts";
import { type LeasePart, shortestHoldMs } from "./lease-part.ts";
import { LeaseResource, type LeaseStatus, slotHolderOf } from "./lease-resource.ts";
import { type TrackOptions, track } from "./track.ts";

/** Options of `settle`. */
export interface SettleOptions {
  /** Totals by measure of further parts: by resource of the lease's own entity, or as a list of parts. Default: none. */
  readonly also?: Also;
}

const SETTLE_OPTIONS = new KnownNames<SettleOptions>({ also: true });
const TRACK = new KnownNames<TrackOptions<never>>({ usageOf: true, outputOf: true });

/** The parts of a lease, for other code of this package. Not a member: members are the public interface. */
export let partsOfLease: (lease: Lease) => readonly LeasePart[];

/** The calendar of the lease's quotas. */
export let calendarOfLease: (lease: Lease) => Calendar;

/** Settles an open lease that has nothing to store. False: nothing was done. */
export let settledAtOnce: (lease: Lease) => boolean;

/** Settles a lease, as its method does: synchronously if the store is. */
export let settleNow: (lease: Lease, totals: Tokens | undefined) => MaybePromise<unknown>;

/**
 * Tokens that were taken for a piece of work. Correct them while it runs. `settle` keeps them, `rollback` gives all of
 * them back. `await using lease = …` rolls back unless the lease was settled, as a database transaction does.
 */
export class Lease<Measure extends string = string> extends LeaseResource<Measure> {
  static {
    partsOfLease = (lease) =>
      lease.#others === undefined
        ? [lease.own]
        : [lease.own, ...Array.from(lease.#others.values(), (other) => other.ownPart)];
    calendarOfLease = (lease) => lease.core.maker.calendar;
    settledAtOnce = (lease) => {
      // A lease of a `LimiterClient` is not of this class.
      if (!(#others in lease) || lease.#others !== undefined || lease.hasChanged) return false;
      lease.#close("settled");
      return true;
    };
    settleNow = (lease, totals) => (totals === undefined ? lease.#keepTaken() : lease.#settleWith(totals, {}));
  }

  /** The further parts by bucket. */
  readonly #others: ReadonlyMap<string, OtherPart> | undefined;
  #isKept = false;

  /** @internal */
  // Single arguments: an object would be allocated for every take.
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
        : new Map(others.map((other) => [idOf(other), new OtherPart(this.core, other, () => this.#holds())]));
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
    // A later `consume` may take slots, so the signal must be able to report their loss.
    const holds = this.#holds();
    if (holds !== undefined) return holds.signal(this.core.signal);
    // Not one signal for all leases: listeners that are never removed would stay for ever.
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
    // Most work ends long before its slots have to be renewed.
    const holdMs = this.isAsTaken && this.#others === undefined ? shortestHoldMs(this.own) : 0;
    if (core.holds !== undefined || core.status !== "open" || holdMs === 0) this.#holdsOfSlots()?.keep();
    else if (holdMs < Number.POSITIVE_INFINITY)
      core.keepsLater ??= core.maker.renewals.later(this.own.takenAtMs, holdMs, () => this.#holds());
  }

  /** Names of the resources that tokens of the entity were taken from, the first one first. */
  get resources(): readonly string[] {
    const own = this.parts.filter(({ entityId }) => entityId === this.own.entityId);
    return own.map(({ resource }) => resource);
  }

  /** The entities and resources that tokens were taken from, those of the request first, then those of `also` in their order. */
  get parts(): readonly LeasePlace[] {
    const parts = [this.own, ...Array.from(this.#others?.values() ?? [], ({ ownPart }) => ownPart)];
    return parts.map(({ entityId, resource }) => ({ entityId, resource }));
  }

  /** What the lease holds on one of several resources of its entity: `lease.resource("gpu-pool").adjust({ slots: -1 })`. */
  resource(name: string): LeaseResource {
    if (name === this.own.resource) return this;
    const other = this.#others?.get(idOf({ entityId: this.own.entityId, resource: name }));
    if (other !== undefined) return other;
    throw this.#unknown(name);
  }

  /** What the lease holds of one of several entities: `lease.part({ entityId: "team-1", resource: "gpt-4" }).consumed`. */
  part(place: LeasePlace): LeaseResource {
    const { entityId, resource } = PLACE.check(place, "The place of a part");
    if (entityId === this.own.entityId) return this.resource(resource);
    const other = this.#others?.get(idOf({ entityId, resource }));
    if (other !== undefined) return other;
    throw this.#unknown(`${entityId} on ${resource}`);
  }

  /**
   * Keeps the tokens and closes the lease. With totals by measure, the lease is first charged or given back the
   * difference; it is never refused, and measures that are not named stay. `also` has the totals on further resources.
   * A second call with the same totals does nothing; one with other totals throws `LeaseClosed`. It throws if
   * something could not be stored; the other levels and resources are stored all the same. A measure that no limit
   * counts throws `limit_unknown`, and the lease stays open.
   */
  async settle(totals?: Tokens<Measure | "requests">, options?: SettleOptions): Promise<void> {
    const isAsTaken = totals === undefined && options === undefined;
    const settled = isAsTaken ? this.#keepTaken() : this.#settleWith(totals ?? {}, options ?? {});
    // Awaited rather than returned: a returned promise takes more microtasks.
    if (settled !== undefined) await settled;
  }

  #keepTaken(): MaybePromise<unknown> {
    if (this.core.status !== "open") return;
    this.#close("settled");
    return this.#others === undefined ? this.keepUsed() : this.#flushAll();
  }

  #settleWith(totals: Tokens, options: SettleOptions): MaybePromise<unknown> {
    const { also = NO_PARTS } = SETTLE_OPTIONS.check(options, "The options of settle");
    if (this.core.status === "settled" && isSettledWith(this.core.settledWith, { totals, also })) return;
    const changes = this.#changesTo(totals, also);
    this.core.settledWith = JSON.stringify({ totals, also });
    // Closed at once: later calls on the lease come too late.
    this.#close("settled");
    const changed = allDone(changes);
    const flush = () => this.#flushAll();
    return changed instanceof Promise ? allEnded([changed, changed.then(flush, flush)]) : flush();
  }

  #flushAll(): MaybePromise<unknown> {
    const others = Array.from(this.#others?.values() ?? [], (other) => () => other.settle());
    return allDone([() => this.keepUsed(), ...others]);
  }

  /** Gives everything back, on every resource, and closes the lease. A second call does nothing. */
  async rollback(): Promise<void> {
    if (this.core.status !== "open") return;
    this.#close("rolledBack");
    if (this.#others === undefined) return this.giveAllBack();
    const others = Array.from(this.#others.values(), (other) => () => other.rollback());
    await allDone([() => this.giveAllBack(), ...others]);
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

  /** Undefined if it holds no slots. */
  #holdsOfSlots(): LeaseHolds | undefined {
    return this.core.holds !== undefined || this.#holders.some((one) => one.mayHoldSlots()) ? this.#holds() : undefined;
  }

  get #holders(): readonly SlotHolder[] {
    return [this, ...(this.#others?.values() ?? [])].map(slotHolderOf);
  }

  /** Made on first use; undefined once the lease is closed. */
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
    this.core.maker.publisher.leaseEnded(this, this.own, status, this.core.maker);
  }

  /** Checks everything before anything is charged. */
  #changesTo(totals: Tokens, also: Also): readonly (() => MaybePromise<unknown>)[] {
    const own = this.checked(totals, "settle");
    const changes = own === undefined ? [] : [() => this.comeTo(own)];
    const { entityId, resource } = this.own;
    for (const { consume = {}, ...place } of alsoOf({ entityId, resource, also })) {
      const other = this.#others?.get(idOf(place));
      if (other === undefined) throw this.#unknown(placeText(place, entityId));
      const change = other.changeTo(consume);
      if (change !== undefined) changes.push(change);
    }
    return changes;
  }

  #unknown(what: string): ValidationError {
    const { entityId } = this.own;
    const known = this.parts.map((place) => placeText(place, entityId)).join(", ");
    return new ValidationError(
      "resource_unknown",
      `The lease holds nothing on ${what}; it was taken for ${known}. Name it in \`also\`.`,
    );
  }

  /** Rolls back unless it was settled: for `await using`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.rollback();
  }
}

/** The entity and the resource of a part of a lease. */
export interface LeasePlace {
  /** The entity. */
  readonly entityId: string;
  /** The resource. */
  readonly resource: string;
}

const PLACE = new KnownNames<LeasePlace>({ entityId: true, resource: true });
const NO_PARTS: Also = Object.freeze([]);

/**
 * True if a lease was settled with the same totals. It keeps the text of them as they were given: they become canonical where somebody
 * settles again.
 */
function isSettledWith(text: string | undefined, by: { readonly totals: Tokens; readonly also: Also }): boolean {
  return text !== undefined && canonical(JSON.parse(text)) === canonical(by);
}

function idOf({ entityId, resource }: LeasePlace): string {
  return bucketKey(entityId, resource).id;
}

/** A part for messages; of the lease's own entity by its resource. */
function placeText({ entityId, resource }: LeasePlace, own: string): string {
  return entityId === own ? resource : `${entityId} on ${resource}`;
}

class OtherPart extends LeaseResource {
  readonly #holdsOfLease: () => LeaseHolds | undefined;

  constructor(core: LeaseCore, part: LeasePart, holdsOfLease: () => LeaseHolds | undefined) {
    super(core, part);
    this.#holdsOfLease = holdsOfLease;
  }

  get ownPart(): LeasePart {
    return this.own;
  }

  settle(): MaybePromise<unknown> {
    return this.keepUsed();
  }

  changeTo(tokens: Tokens): (() => MaybePromise<unknown>) | undefined {
    const totals = this.checked(tokens, "settle");
    return totals && (() => this.comeTo(totals));
  }

  rollback(): Promise<void> {
    return this.giveAllBack();
  }

  protected slotHolds(): LeaseHolds | undefined {
    return this.#holdsOfLease();
  }
}
