import type { Tokens } from "../domain/amounts.ts";
import { LeaseClosed, RateLimiterUnavailable, ValidationError } from "../domain/errors.ts";
import { setRenewal } from "../domain/lease-renewal.ts";
import type { Availability } from "../engine/availability.ts";
import type { Lease, SettleOptions } from "../engine/lease.ts";
import type { LeaseResource, LeaseStatus } from "../engine/lease-resource.ts";
import type { LeaseView } from "../leases/lease-view.ts";
import { checkAlso, checkAmounts, checkNames } from "./check.ts";
import { newKey, type ServiceCalls } from "./http.ts";
import { inBackground } from "./in-background.ts";

/** What a lease was taken with. */
export interface Taken {
  readonly view: LeaseView;
  readonly calls: ServiceCalls;
  /** The path of the leases of the namespace. */
  readonly path: string;
  readonly holdMs: number;
  /** Read before it was asked for, by the client's clock: the hold cannot have begun earlier. */
  readonly askedAtMs: number;
  readonly signal: AbortSignal | undefined;
}

type Change = "adjust" | "consume" | "release";

/** Members that users see, whatever is behind them. */
type Public<Class> = { readonly [Name in keyof Class]: Class[Name] };

/** A lease that a service keeps. It ends by itself when its hold is over, so that a client that vanishes does not hold it for ever. */
export class ClientLease implements Public<Omit<Lease, "track">> {
  readonly #taken: Taken;
  #view: LeaseView;
  #status: LeaseStatus;
  #degraded: string | false;
  #settledWith: string | undefined;
  #heldUntilMs: number;
  /** Aborted when the lease expires. */
  readonly #expiry = new AbortController();
  /** Aborted when the lease ends in any way: nothing waits for its hold any more. */
  readonly #ended = new AbortController();
  #signal: AbortSignal | undefined;
  /** Changes are made one after the other, as the service would have to make them. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(taken: Taken) {
    const { view, askedAtMs, holdMs } = taken;
    this.#taken = taken;
    this.#view = view;
    this.#degraded = view.degraded;
    // What was let through during an outage is work all the same, and ends when it is settled.
    this.#status = view.degraded === false ? view.status : "open";
    this.#heldUntilMs = askedAtMs + holdMs;
    setRenewal(this, () => void this.#renew());
  }

  get status(): LeaseStatus {
    if (this.#isHeld() && this.#taken.calls.clock.now() >= this.#heldUntilMs) this.#end("expired");
    return this.#status;
  }

  get signal(): AbortSignal {
    if (this.#signal === undefined) {
      const { signal } = this.#taken;
      this.#signal = signal === undefined ? this.#expiry.signal : AbortSignal.any([signal, this.#expiry.signal]);
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

  get bypassed(): boolean {
    return this.#view.bypassed;
  }

  get degraded(): string | false {
    return this.#degraded;
  }

  get resources(): readonly string[] {
    return [this.#view.resource, ...Object.keys(this.#view.also)];
  }

  resource(name: string): LeaseResource {
    const { resources } = this;
    const place = resources.indexOf(name);
    if (place === 0) return this as unknown as LeaseResource;
    if (place < 0) {
      throw new ValidationError(
        "resource_unknown",
        `The lease holds nothing on ${name}; it was taken for ${resources.join(", ")}. Name it in \`also\`.`,
      );
    }
    const lease = this;
    const change = (what: Change) => (tokens: Tokens) => lease.#change(what, tokens, name);
    const other: Public<LeaseResource> = {
      get consumed() {
        return lease.#view.also[name] ?? {};
      },
      get remaining() {
        return lease.#remainingOn(place);
      },
      overdrawn: [],
      bypassed: false,
      ...{ adjust: change("adjust"), consume: change("consume"), release: change("release") },
    };
    return other as LeaseResource;
  }

  adjust(delta: Tokens): Promise<void> {
    return this.#change("adjust", delta, undefined);
  }

  consume(tokens: Tokens): Promise<void> {
    return this.#change("consume", tokens, undefined);
  }

  release(tokens: Tokens): Promise<void> {
    return this.#change("release", tokens, undefined);
  }

  async settle(totals?: Tokens, options?: SettleOptions): Promise<void> {
    if (totals === undefined && options === undefined) return this.#close("settled", {});
    const { also } = checkNames(options ?? {}, ["also"], "options_invalid", "The options of settle");
    const body = { consumed: checkAmounts(totals ?? {}, "settle"), also: checkAlso(also) };
    const by = JSON.stringify(body);
    if (this.status === "settled" && by === this.#settledWith) return;
    this.#requireOpen();
    this.#settledWith = by;
    return this.#close("settled", body);
  }

  rollback(): Promise<void> {
    return this.#close("rolledBack", undefined);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.status === "open") await this.rollback();
  }

  /** Begins the hold anew, where there is one. */
  async refresh(): Promise<void> {
    if (this.#isHeld()) await this.#extend().catch(() => {});
  }

  async #extend(): Promise<void> {
    const { calls, holdMs } = this.#taken;
    const heldUntilMs = calls.clock.now() + holdMs;
    await this.#send("extend", { holdMs }, undefined);
    this.#heldUntilMs = heldUntilMs;
  }

  /** Whether the service holds it. */
  #isHeld(): boolean {
    return this.#status === "open" && this.#view.leaseId !== null;
  }

  #requireOpen(): void {
    if (this.status !== "open") throw closed(this.#status);
  }

  /** What limits held after the take, on one of the resources. Totals come with the resource that they were taken with. */
  #remainingOn(place: number): readonly Availability[] {
    const { resources } = this;
    let at = 0;
    return this.#taken.view.limits.filter(({ resource }) => {
      at = Math.max(at, resources.indexOf(resource));
      return at === place;
    });
  }

  async #change(what: Change, tokens: Tokens, resource: string | undefined): Promise<void> {
    this.#requireOpen();
    checkAmounts(tokens, what);
    // Let through during an outage: there is nothing to charge or to give back.
    if (this.#view.leaseId === null) return;
    const name = what === "adjust" ? "delta" : "amounts";
    const body = resource === undefined ? { [name]: tokens } : { [name]: {}, also: { [resource]: tokens } };
    try {
      await this.#inTurn(what, body, newKey());
    } catch (error) {
      const isLetThrough = what === "consume" && this.#taken.calls.options.onUnavailable === "allow";
      if (!isLetThrough || !(error instanceof RateLimiterUnavailable)) throw error;
      this.#degraded = error.message;
    }
  }

  async #close(status: "settled" | "rolledBack", body: object | undefined): Promise<void> {
    if (this.status === "expired") throw closed("expired");
    if (this.#status !== "open") return;
    const isHeld = this.#isHeld();
    // At once: what is asked of the lease meanwhile comes too late.
    this.#end(status);
    if (!isHeld) return;
    try {
      await this.#inTurn(status === "settled" ? "settle" : "rollback", body, undefined);
    } catch (error) {
      // Nothing was stored, or nobody knows; the same may be sent again.
      if (!(error instanceof LeaseClosed)) this.#status = "open";
      throw error;
    }
  }

  #inTurn(what: string, body: object | undefined, key: string | undefined): Promise<void> {
    const send = async () => {
      this.#view = await this.#send(what, body, key);
    };
    const sent = this.#last.then(send, send);
    this.#last = sent.catch(() => {});
    return sent;
  }

  async #send(what: string, body: object | undefined, key: string | undefined): Promise<LeaseView> {
    const { calls, path } = this.#taken;
    try {
      const { body: view } = await calls.answer<LeaseView>("POST", `${path}/${this.#view.leaseId}/${what}`, {
        body,
        ...(key === undefined ? {} : { headers: { "idempotency-key": key } }),
        repeats: "lease",
      });
      return view;
    } catch (error) {
      if (error instanceof LeaseClosed) this.#end(error.leaseStatus ?? "expired");
      throw error;
    }
  }

  #end(status: LeaseStatus): void {
    this.#status = status;
    this.#ended.abort();
    if (status === "expired") this.#expiry.abort(closed(status));
  }

  /** Ends it when its hold is over. */
  async #watch(): Promise<void> {
    const { clock } = this.#taken.calls;
    while (this.#isHeld()) {
      const heldUntilMs = this.#heldUntilMs;
      const leftMs = heldUntilMs - clock.now();
      await this.#pause(Math.min(leftMs, TIMER_MAX_MS));
      // Not by another look at the clock: it may have been put back meanwhile.
      const isOver = leftMs <= TIMER_MAX_MS && heldUntilMs === this.#heldUntilMs;
      if (isOver && this.#isHeld()) this.#end("expired");
    }
  }

  /** Extends it whenever a third of the hold has passed. After a failure it is tried again, until the lease expires. */
  async #renew(): Promise<void> {
    while (this.#isHeld()) {
      await this.#pause(this.#taken.holdMs / 3);
      if (this.status === "open") await this.refresh();
    }
  }

  #pause(ms: number): Promise<void> {
    return inBackground(this.#taken.calls.clock, ms, this.#ended.signal).catch(() => {});
  }
}

/** A timer has no more. */
const TIMER_MAX_MS = 2_147_483_647;

const HOW = { open: "", settled: "been settled", rolledBack: "been rolled back", expired: "expired" } as const;

function closed(status: LeaseStatus): LeaseClosed {
  const leaseStatus = status === "open" ? "expired" : status;
  return new LeaseClosed("lease_closed", `The lease has ${HOW[leaseStatus]}; acquire a new one.`, { leaseStatus });
}
