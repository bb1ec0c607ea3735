import type { Tokens } from "../domain/charge/amounts.ts";
import type { Limit } from "../domain/limits/limit.ts";
import { RateLimiterUnavailable } from "../domain/names/errors.ts";
import { entityIdOf, resourceOf } from "../domain/names/text-names.ts";
import type { Acquirer } from "../engine/acquire/acquirer.ts";
import type { Acquiring, Outcome } from "../engine/acquire/acquiring.ts";
import type { AcquireRequest } from "../engine/acquire/request.ts";
import type { Lease } from "../engine/lease/lease.ts";
import { partsIfLimiter } from "../engine/limiter/limiter-parts.ts";
import { exceededBy, inShadow } from "../engine/refusal/refused.ts";
import type { MaybePromise } from "../ports/bucket-store.ts";
import { type Answer, answerOf, fieldsOf, keyMissing } from "./answer.ts";
import { keyOfAddress } from "./client-address.ts";
import { tellDegraded } from "./degraded.ts";
import {
  type CheckedOptions,
  checkOptions,
  costOf,
  type RateLimitOptions,
  type RequestOutcome,
  requireFunction,
} from "./options.ts";
import { RequestLease } from "./request-lease.ts";

type Fields = Readonly<Record<string, string>>;

/**
 * - `skipped`: not limited at all.
 * - `passed`: it goes on without a lease, in shadow mode or during an outage.
 * - `granted`: it goes on with a lease, which `close` ends. `close` must be called, may be called again, and never throws.
 * - `refused`: it is answered, and the handler does not run.
 * - `gone`: the client left while the request waited. Nothing was taken, and no answer is read.
 */
export type Decision =
  | { readonly kind: "skipped" }
  | { readonly kind: "passed"; readonly headers: Fields }
  | {
      readonly kind: "granted";
      readonly headers: Fields;
      readonly lease: Lease;
      readonly close: (outcome: RequestOutcome) => Promise<void>;
    }
  | { readonly kind: "refused"; readonly answer: Answer }
  | { readonly kind: "gone" };

/** Facts about a request that a framework is asked for only if they are needed. */
export interface Arrival {
  address(): string | null | undefined;
  /** The header field `x-request-id`: the name of the request in events and in the refusal log. */
  requestId?(): string | readonly string[] | null | undefined;
  /** A signal that is aborted when the client leaves. */
  signal?(): AbortSignal;
  /** True if the client has left before it had the whole answer. Absent: the outcome that the framework reports is right. */
  hasLeft?(): boolean;
  /** The longest that the request can wait, in ms; absent: as long as the options say. */
  waitMaxMs?(): number;
}

/** A request that goes on when it is decided. It is one object, because functions would be made anew for every request. */
export interface Arriving extends Arrival {
  proceed(decision: Decision): void;
  failed(error: unknown): void;
}

/** The request of a middleware none of whose options is a function. */
interface FixedCost {
  readonly resource: string;
  readonly limits: readonly Limit[] | undefined;
  readonly consume: Tokens;
  readonly leavePercent: number | undefined;
}

/** One request with the facts that decide it. */
interface Asking<In> {
  readonly input: In;
  readonly arrival: Arrival;
  readonly shadow: boolean;
  readonly limiter: Acquiring;
}

/** Decides about the requests of one middleware. */
export class Gate<In> {
  readonly #options: CheckedOptions<In>;
  /** True if requests differ only in their entity. */
  readonly #isFixed: boolean;
  #limiter: Acquiring | Promise<Acquiring>;
  /** The acquirer of a limiter of this process; undefined for a client. */
  #acquirer: Acquirer | undefined;

  constructor(options: CheckedOptions<In>) {
    this.#options = options;
    const { resource, limits, consume, leavePercent } = options;
    this.#isFixed = ![resource, limits, consume, leavePercent].some((each) => typeof each === "function");
    this.#limiter = options.limiter;
    if (!isPromise(options.limiter)) {
      this.#acquirer = partsIfLimiter(options.limiter)?.acquirer;
      return;
    }
    // A limiter that could not be opened fails the requests that need it, not the process.
    options.limiter.then(
      (opened) => {
        this.#limiter = opened;
        this.#acquirer = partsIfLimiter(opened)?.acquirer;
      },
      () => {},
    );
  }

  /** Decides, and calls back with the decision or the error: at once if nothing had to be waited for. */
  whenDecided(input: In, arriving: Arriving): void {
    let decided: MaybePromise<Decision>;
    try {
      decided = this.decide(input, arriving);
    } catch (error) {
      arriving.failed(error);
      return;
    }
    if (isPromise(decided)) onceDecided(decided, arriving);
    else arriving.proceed(decided);
  }

  /**
   * Takes what the request costs. Throws, or rejects with, errors that functions of the options throw, and errors of the program. Only
   * promises are awaited: each wait would cost every request one more turn of the queue.
   */
  decide(input: In, arrival: Arrival): MaybePromise<Decision> {
    const { skip, shadow } = this.#options;
    const limiter = this.#limiter;
    if (skip !== undefined || typeof shadow === "function" || isPromise(limiter)) return this.#decide(input, arrival);
    return this.#keyed({ input, arrival, shadow, limiter });
  }

  async #decide(input: In, arrival: Arrival): Promise<Decision> {
    const { skip, shadow: mode } = this.#options;
    if (await skip?.(input)) return SKIPPED;
    const shadow = typeof mode === "function" ? await mode(input) : mode;
    return this.#keyed({ input, arrival, shadow, limiter: await this.#limiter });
  }

  #keyed(asking: Asking<In>): MaybePromise<Decision> {
    const { key } = this.#options;
    const text = key === undefined ? keyOfAddress(asking.arrival.address()) : key(asking.input);
    return isPromise(text) ? text.then((known) => this.#named(known, asking)) : this.#named(text, asking);
  }

  #named(text: string | null | undefined, asking: Asking<In>): MaybePromise<Decision> {
    const { shadow } = asking;
    if (text === undefined || text === null || text === "") return this.#failed(keyMissing(), shadow);
    let entityId: string;
    try {
      entityId = entityIdOf(text);
    } catch (error) {
      return this.#failed(error, shadow);
    }
    const requestId = asking.arrival.requestId?.();
    if (!this.#isFixed) {
      return this.#asked(entityId, asking.input).then((asked) => this.#take(named(asked, requestId), asking));
    }
    const request = named(this.#fixed(entityId), requestId);
    const isPlain = !shadow && this.#options.wait === undefined;
    const granted = isPlain ? this.#acquirer?.attemptAtOnce(request) : undefined;
    if (granted !== undefined) return this.#granted(granted.lease, request, asking);
    return this.#take(request, asking);
  }

  async #take(asked: AcquireRequest, asking: Asking<In>): Promise<Decision> {
    const { arrival, shadow, limiter } = asking;
    const request = this.#waiting(asked, arrival, shadow);
    let outcome: Outcome;
    try {
      outcome = await limiter.tryAcquire(request);
    } catch (error) {
      if (request.signal?.aborted) return GONE;
      const { onUnavailable } = this.#options;
      if (onUnavailable !== "allow" || !(error instanceof RateLimiterUnavailable)) return this.#failed(error, shadow);
      tellDegraded(limiter, request, "other", "a request passed uncounted", error);
      return PASSED;
    }
    if (outcome.ok) return this.#granted(outcome.lease, request, asking);
    return this.#refused(outcome, limiter, request, shadow);
  }

  #fixed(entityId: string): AcquireRequest {
    return requestOf(entityId, this.#options as FixedCost);
  }

  async #asked(entityId: string, input: In): Promise<AcquireRequest> {
    const { resource: named, limits: listed, consume: given, leavePercent: left } = this.#options;
    const resource = typeof named === "function" ? resourceOf(await named(input)) : named;
    const limits = typeof listed === "function" ? await listed(input) : listed;
    const consume = typeof given === "function" ? await given(input) : (given ?? costOf(limits));
    const leavePercent = typeof left === "function" ? await left(input) : left;
    return requestOf(entityId, { resource, limits, consume, leavePercent });
  }

  #waiting(asked: AcquireRequest, arrival: Arrival, shadow: boolean): AcquireRequest {
    const { wait } = this.#options;
    if (shadow) return inShadow(asked);
    if (wait === undefined) return asked;
    const maxMs = Math.max(0, Math.min(wait.maxMs, arrival.waitMaxMs?.() ?? wait.maxMs));
    const signal = arrival.signal?.();
    return signal === undefined ? { ...asked, wait: { maxMs } } : { ...asked, wait: { maxMs }, signal };
  }

  #granted(lease: Lease, request: AcquireRequest, { limiter, arrival, shadow }: Asking<In>): MaybePromise<Decision> {
    const options = this.#options;
    const open = new RequestLease(lease, limiter, this.#acquirer?.listeners.lifecycle, request, options, arrival);
    if (lease.degraded !== false && options.onUnavailable === "block" && !shadow) {
      const error = new RateLimiterUnavailable(`The store is unavailable: ${lease.degraded}.`);
      return open.close({ kind: "error", error }).then(() => this.#failed(error, shadow));
    }
    return { kind: "granted", headers: fieldsOf(lease, options.form), lease, close: open.close };
  }

  async #refused(
    refused: Exclude<Outcome, { ok: true }>,
    limiter: Acquiring,
    request: AcquireRequest,
    shadow: boolean,
  ): Promise<Decision> {
    const { onRefused, form } = this.#options;
    const refusal = exceededBy(refused);
    const { entityId, resource } = request;
    try {
      await onRefused?.({ refusal, shadow, entityId, resource });
    } catch (error) {
      tellDegraded(limiter, request, "other", "onRefused threw", error);
    }
    if (!shadow) return this.#failed(refusal, shadow);
    const { "retry-after": _, ...headers } = fieldsOf(refusal, form);
    return { kind: "passed", headers };
  }

  /** Turns an error into a decision. In shadow mode a request passes in spite of errors that callers cause, and of outages. */
  #failed(error: unknown, shadow: boolean): Decision {
    const answer = answerOf(error, this.#options);
    if (answer === undefined) throw error;
    return shadow ? PASSED : { kind: "refused", answer };
  }
}

/** Makes the gate of a framework whose options may have a `handler` that answers refusals. */
export function gateWithHandler<In, Handler>(
  options: RateLimitOptions<In> & { readonly handler?: Handler },
): { readonly gate: Gate<In>; readonly handler: Handler | undefined } {
  const gate = new Gate(checkOptions<In>(options, ["handler"]));
  requireFunction("handler", options.handler);
  return { gate, handler: options.handler };
}

function onceDecided(decided: Promise<Decision>, arriving: Arriving): void {
  // Two functions, not a chain: an error of `proceed` must not reach `failed`.
  decided.then(
    (decision) => arriving.proceed(decision),
    (error) => arriving.failed(error),
  );
}

// The literals have the three or four names that nearly every request has, so that they share a shape.
function requestOf(entityId: string, { resource, limits, consume, leavePercent }: FixedCost): AcquireRequest {
  const request = limits === undefined ? { entityId, resource, consume } : { entityId, resource, consume, limits };
  return leavePercent === undefined ? request : { ...request, leavePercent };
}

/** A header field that is no id, or one of unusual length, names nothing. */
function named(request: AcquireRequest, requestId: ReturnType<NonNullable<Arrival["requestId"]>>): AcquireRequest {
  return typeof requestId === "string" && REQUEST_ID.test(requestId) ? { ...request, requestId } : request;
}

const REQUEST_ID = /^[\x21-\x7e]{1,128}$/;

const SKIPPED: Decision = { kind: "skipped" };
const PASSED: Decision = { kind: "passed", headers: {} };
const GONE: Decision = { kind: "gone" };

function isPromise<Value>(value: MaybePromise<Value>): value is Promise<Value> {
  return typeof (value as { then?: unknown } | null)?.then === "function";
}
