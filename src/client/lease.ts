import type { Tokens } from "../domain/charge/amounts.ts";
import { HoldLost, LeaseClosed, RateLimiterUnavailable, ValidationError } from "../domain/names/errors.ts";
import type { Lease, LeasePlace, SettleOptions } from "../engine/lease/lease.ts";
import type { LeaseResource, LeaseStatus } from "../engine/lease/lease-resource.ts";
import { type TrackOptions, track } from "../engine/lease/track.ts";
import type { Availability } from "../engine/limiter/question.ts";
import type { LeasePartView, LeaseView } from "../leases/lease-view.ts";
import { alsoRule, asGiven, checkAmounts, checkNames, type Rules } from "./check.ts";
import { at, inBackground, keyField, type ServiceCalls } from "./http.ts";

interface Taken {
  readonly view: LeaseView;
  readonly calls: ServiceCalls;
  readonly holdMs: number;
  /** Read before it was asked for, by the client's clock: the hold cannot have begun earlier. */
  readonly askedAtMs: number;
  readonly signal: AbortSignal | undefined;
}

type Change = "adjust" | "consume" | "release";

/** Members that users see, whatever is behind them. */
type Public<Class> = { readonly [Name in keyof Class]: Class[Name] };

const TRACK: Rules<TrackOptions<never>> = { usageOf: asGiven, outputOf: asGiven };

/** A timer has no more. */
const TIMER_MAX_MS = 2_147_483_647;

/** A lease that a service keeps. It ends by itself when its hold is over, so that a client that vanishes does not hold it for ever. */
export class ClientLease implements Public<Lease> {
  readonly #taken: Taken;
  readonly #calls: ServiceCalls;
  #view: LeaseView;
  #status: LeaseStatus;
  #degraded: string | false;
  #settledWith: string | undefined;
  #isKept = false;
  #heldUntilMs: number;
  /** The hold may have begun so much later than when it was asked for. */
  #slackMs: number;
  #signal: AbortSignal | undefined;
  /** Aborted when the lease expires. */
  readonly #expiry = new AbortController();
  /** The length of the hold, from the last answer that set it. */
  #spanMs: number;
  /** Aborted when it ends at another time than was thought. */
  #naps = new AbortController();
  /** Aborted when the lease ends in any way: nothing waits for its hold any more. */
  readonly #ended = new AbortController();
  /** Changes are made one after the other, as the service would have to make them. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(taken: Taken) {
    const { view, calls, askedAtMs, holdMs } = taken;
    this.#taken = taken;
    this.#calls = calls;
    this.#view = view;
    this.#degraded = view.degraded;
    // Work that was let through during an outage ends when it is settled, too.
    this.#status = view.degraded ? "open" : view.status;
    this.#spanMs = holdMs;
    this.#heldUntilMs = askedAtMs + holdMs;
    this.#slackMs = calls.clock.now() - askedAtMs;
  }

  get status(): LeaseStatus {
    if (this.#isHeld() && this.#calls.clock.now() >= this.#heldUntilMs) this.#end("expired");
    return this.#status;
  }

  get signal(): AbortSignal {
    if (!this.#signal) {
      const [own, given] = [this.#expiry.signal, this.#taken.signal];
      this.#signal = given ? AbortSignal.any([given, own]) : own;
      this.#watch();
    }
    return this.#signal;
  }

  get consumed(): Readonly<Record<string, number>> {
    return this.#view.consumed;
  }

  get remaining(): readonly Availability[] {
    return this.#remainingOn(0);
  }

  get overdrawn(): readonly string[] {
    return this.#view.overdrawn;
  }

  get shadowed(): readonly string[] {
    return this.#view.shadowed;
  }

  get bypassed(): boolean {
    return this.#view.bypassed;
  }

  get degraded(): string | false {
    return this.#degraded;
  }

  get resources(): readonly string[] {
    return [this.#view.resource, ...Object.keys(this.#view.also)];
  }

  get parts(): readonly LeasePlace[] {
    return this.#parts.map(({ entityId, resource }) => ({ entityId, resource }));
  }

  resource(name: string): LeaseResource {
    return this.part({ entityId: this.#view.entityId, resource: name });
  }

  part({ entityId, resource }: LeasePlace): LeaseResource {
    const lease = this;
    const place = this.parts.findIndex((part) => part.entityId === entityId && part.resource === resource);
    if (place < 0) {
      const what = entityId === this.#view.entityId ? resource : `${entityId} on ${resource}`;
      throw new ValidationError("resource_unknown", `The lease holds nothing on ${what}; name it in also.`);
    }
    const change = (what: Change) => (tokens: Tokens) => lease.#change(what, tokens, { entityId, resource });
    const other: Public<LeaseResource> = {
      get consumed() {
        return lease.#parts[place]?.consumed ?? {};
      },
      remaining: this.#remainingOn(place),
      ...{ overdrawn: [], shadowed: [], bypassed: false },
      ...{ adjust: change("adjust"), consume: change("consume"), release: change("release") },
    };
    return (place ? other : lease) as LeaseResource;
  }

  adjust(delta: Tokens): Promise<void> {
    return this.#change("adjust", delta);
  }

  consume(tokens: Tokens): Promise<void> {
    return this.#change("consume", tokens);
  }

  release(tokens: Tokens): Promise<void> {
    return this.#change("release", tokens);
  }

  async settle(totals?: Tokens, options?: SettleOptions): Promise<void> {
    if (!totals && !options) return this.#close("settled", {});
    const by = JSON.stringify([totals, options]);
    if (this.status === "settled" && by === this.#settledWith) return;
    this.#requireOpen();
    const { also } = checkNames(options ?? {}, { also: alsoRule }, "options", "settle");
    const body = { consumed: checkAmounts(totals ?? {}, "settle"), also };
    this.#settledWith = by;
    return this.#close("settled", body);
  }

  rollback(): Promise<void> {
    return this.#close("rolledBack");
  }

  track<Chunk>(stream: ReadableStream<Chunk>, options?: TrackOptions<Chunk>): ReadableStream<Chunk>;
  track<Chunk>(stream: AsyncIterable<Chunk>, options?: TrackOptions<Chunk>): AsyncIterableIterator<Chunk>;
  track<Chunk>(
    stream: ReadableStream<Chunk> | AsyncIterable<Chunk>,
    options: TrackOptions<Chunk> = {},
  ): ReadableStream<Chunk> | AsyncIterableIterator<Chunk> {
    return track(this, stream, checkNames(options, TRACK as Rules<TrackOptions<Chunk>>, "options", "track"));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.status === "open") await this.rollback();
  }

  get holdsUntilMs(): number | undefined {
    return this.#isHeld() ? this.#heldUntilMs : undefined;
  }

  async renew(): Promise<boolean> {
    this.#requireOpen();
    if (!this.#isHeld()) return true;
    try {
      await this.#inTurn("extend", { holdMs: this.#taken.holdMs });
    } catch (error) {
      if (error instanceof HoldLost) this.#lose(error);
      else if (!(error instanceof LeaseClosed)) throw error;
      return false;
    }
    return true;
  }

  keep(): void {
    this.#requireOpen();
    if (this.#isKept) return;
    this.#isKept = true;
    void this.#keepOn();
  }

  /** Begins the hold anew, where there is one. What fails may be tried again until it is over. */
  async refresh(): Promise<void> {
    if (this.#isHeld()) await this.renew().catch(() => {});
  }

  /** True while the service holds it. */
  #isHeld(): boolean {
    return this.#status === "open" && this.#view.leaseId !== null;
  }

  #requireOpen(): void {
    if (this.status !== "open") throw closed(this.#status);
  }

  get #parts(): readonly LeasePartView[] {
    const { entityId, resource, consumed, also, parts } = this.#view;
    const further = Object.entries(also).map(([name, amounts]) => ({ entityId, resource: name, consumed: amounts }));
    return parts ?? [{ entityId, resource, consumed }, ...further];
  }

  /** The limits of one part after the take. Those of parents and totals come with the part that they were taken with. */
  #remainingOn(place: number): readonly Availability[] {
    const { limits, parts: several } = this.#taken.view;
    let at = 0;
    return limits.filter(({ entityId, resource }) => {
      // A parent's limit can begin a part, too, where all are of one entity.
      const isOf = (part: LeasePlace) => part.resource === resource && (!several || part.entityId === entityId);
      at = Math.max(at, this.#parts.findIndex(isOf));
      return at === place;
    });
  }

  async #change(what: Change, tokens: Tokens, part?: LeasePlace): Promise<void> {
    this.#requireOpen();
    checkAmounts(tokens, what);
    // Let through during an outage: there is nothing to charge or to give back.
    if (!this.#isHeld()) return;
    const own = part ? {} : tokens;
    // A service of an earlier version knows no list.
    const isOther = part && part.entityId !== this.#view.entityId;
    const also = isOther ? [{ ...part, consume: tokens }] : part && { [part.resource]: tokens };
    const body = { [what === "adjust" ? "delta" : "amounts"]: own, ...(also && { also }) };
    try {
      await this.#inTurn(what, body, keyField());
    } catch (error) {
      const isLetThrough = what === "consume" && this.#calls.options.onUnavailable === "allow";
      if (!isLetThrough || !(error instanceof RateLimiterUnavailable)) throw error;
      this.#degraded = error.message;
    }
  }

  async #close(status: "settled" | "rolledBack", body?: object): Promise<void> {
    if (this.status === "expired") throw closed("expired");
    if (this.#status !== "open") return;
    const isHeld = this.#isHeld();
    // End it now: later calls on the lease must fail.
    this.#end(status);
    if (!isHeld) return;
    try {
      await this.#inTurn(body ? "settle" : "rollback", body);
    } catch (error) {
      // Nothing was stored, or nobody knows; the same may be sent again.
      if (!(error instanceof LeaseClosed)) this.#status = "open";
      throw error;
    }
  }

  #inTurn(what: string, body?: object, headers?: Readonly<Record<string, string>>): Promise<void> {
    const send = async () => {
      const { clock } = this.#calls;
      const askedMs = clock.now();
      const { expiresAtMs: before } = this.#view;
      this.#view = await this.#send(what, body, headers);
      // It ends with its slots, some of which may be taken later, or held for less by now: how much earlier, the service says.
      const movedMs = Number(this.#view.expiresAtMs) - Number(before);
      if (what === "extend") {
        this.#holdFor(askedMs, Math.min(this.#taken.holdMs, this.#heldUntilMs + movedMs + this.#slackMs - askedMs));
        this.#slackMs = clock.now() - askedMs;
      } else if (movedMs < 0) this.#holdFor(askedMs, this.#heldUntilMs + movedMs - askedMs);
    };
    const sent = this.#last.then(send);
    this.#last = sent.catch(() => {});
    return sent;
  }

  #holdFor(fromMs: number, spanMs: number): void {
    this.#spanMs = spanMs;
    this.#heldUntilMs = fromMs + spanMs;
    this.#naps.abort();
  }

  async #send(what: string, body?: object, headers = {}): Promise<LeaseView> {
    try {
      const path = at`leases/${this.#view.leaseId as string}/${what}`;
      return (await this.#calls.answer<LeaseView>("POST", path, { body, headers, repeats: "lease" })).body;
    } catch (error) {
      if (error instanceof LeaseClosed) this.#end(error.leaseStatus ?? "expired");
      throw error;
    }
  }

  /** Its slots are, or may soon be, another's. What was charged can still be settled. */
  #lose(lost: HoldLost): void {
    this.#degraded ||= lost.message;
    this.#expiry.abort(lost);
  }

  #end(status: LeaseStatus): void {
    this.#status = status;
    this.#ended.abort();
    if (status === "expired") this.#expiry.abort(closed(status));
  }

  /** Ends it when its hold is over. */
  async #watch(): Promise<void> {
    while (this.#isHeld()) {
      const heldUntilMs = this.#heldUntilMs;
      const leftMs = heldUntilMs - this.#calls.clock.now();
      await this.#pause(Math.min(leftMs, TIMER_MAX_MS));
      // Not by another look at the clock: it may have been put back meanwhile.
      const isOver = leftMs <= TIMER_MAX_MS && heldUntilMs === this.#heldUntilMs;
      if (isOver && this.#isHeld()) this.#end("expired");
    }
  }

  /** Extends it whenever a third of the hold has passed. After a failure it is tried again, until the lease expires. */
  async #keepOn(): Promise<void> {
    while (this.status === "open" && this.#isHeld() && !this.#expiry.signal.aborted) {
      await this.#pause(this.#spanMs / 3);
      await this.refresh();
    }
  }

  #pause(ms: number): Promise<void> {
    if (this.#naps.signal.aborted) this.#naps = new AbortController();
    const signal = AbortSignal.any([this.#ended.signal, this.#naps.signal]);
    return inBackground(this.#calls.clock, ms, signal).catch(() => {});
  }
}

function closed(status: LeaseStatus): LeaseClosed {
  return new LeaseClosed("lease_closed", `The lease is ${status}; acquire a new one.`, {
    leaseStatus: status as "expired",
  });
}
