import { howLeavingOut } from "../domain/charge/amounts.ts";
import { RateLimiterUnavailable, ValidationError } from "../domain/names/errors.ts";
import { shown } from "../domain/names/shown.ts";
import type { Outcome } from "../engine/acquire/acquiring.ts";
import type { Lease } from "../engine/lease/lease.ts";
import type { Limiter } from "../engine/limiter/limiter.ts";
import type { RequestQuestion } from "../engine/limiter/question.ts";
import type { Refusal } from "../engine/refusal/refusal.ts";
import type { LeaseView } from "../leases/lease-view.ts";
import type { Clock } from "../ports/system.ts";
import { isRecord } from "./check.ts";
import { at, carryOver, keyField, type ServiceAnswer, ServiceCalls } from "./http.ts";
import { ClientLease } from "./lease.ts";
import { addMethods, OPERATIONS } from "./operations.ts";
import { type ClientOptions, type ClientRequest, checkOptions, checkRequest } from "./options.ts";

type Answer = LeaseView | { readonly ok: true; readonly lease: LeaseView } | Omit<Refusal, "levels">;

/** Takes tokens at the service: a lease, or with `try` why there is none. */
async function take(
  calls: ServiceCalls,
  route: "acquire" | "try",
  request: ClientRequest,
): Promise<ClientLease | Refusal> {
  try {
    return await taken(calls, route, request, calls.options.holdMs);
  } catch (error) {
    // Slots are held for a shorter time than a client that does not say asks for.
    const { code, holdMs } = error as { readonly code?: string; readonly holdMs?: number };
    if (code !== "hold_too_long" || !holdMs || request.holdMs !== undefined) throw error;
    return taken(calls, route, request, holdMs);
  }
}

/** `holdMs`: where the request does not say. */
async function taken(
  calls: ServiceCalls,
  route: "acquire" | "try",
  request: ClientRequest,
  ownHoldMs: number,
): Promise<ClientLease | Refusal> {
  const { options, clock } = calls;
  const { signal, ...asked } = checkRequest(request);
  const { entityId, resource, consume, wait, holdMs = ownHoldMs, onExpiry = options.onExpiry } = asked;
  signal?.throwIfAborted();
  const askedAtMs = clock.now();
  const leaseOf = (view: LeaseView) => new ClientLease({ view, calls, holdMs, askedAtMs, signal });
  const outcomeOf = async ({ body, headers }: ServiceAnswer<Answer>) => {
    if ("statuses" in body) {
      const levels = [...new Set([entityId, ...body.statuses.map((status) => status.entityId)])];
      return carryOver({ ...body, levels }, headers, clock.now());
    }
    const lease = carryOver(leaseOf("lease" in body ? body.lease : body), headers, clock.now());
    // The answer took so long, with waits and repeats, that the hold would soon be over by this clock.
    if (clock.now() - askedAtMs > holdMs / 3) await lease.refresh();
    return lease;
  };
  const answering = calls.answer<Answer>("POST", at`${route}`, {
    body: { ...asked, holdMs, onExpiry, uncounted: howLeavingOut(request) },
    headers: keyField(),
    repeats: "take",
    // An abort ends a wait; a take that was begun is completed.
    ...(wait && { waitMs: wait.maxMs, signal }),
  });
  try {
    return await outcomeOf(await unlessAborted(signal, answering));
  } catch (error) {
    if (signal?.aborted) answering.then(outcomeOf).then(giveBack, () => {});
    if (options.onUnavailable === "block" || !(error instanceof RateLimiterUnavailable)) throw error;
    // A lease that charges nothing.
    const consumed = Object.fromEntries(Object.keys(consume ?? {}).map((name) => [name, 0]));
    return leaseOf({
      ...{
        leaseId: null,
        entityId,
        resource,
        consumed,
        degraded: error.message,
        also: {},
        overdrawn: [],
        shadowed: [],
        limits: [],
      },
      bypassed: false,
    } as unknown as LeaseView);
  }
}

/** The service took, but no caller waits for it any more. */
function giveBack(outcome: ClientLease | Refusal): void {
  if ("rollback" in outcome) outcome.rollback().catch(() => {});
}

function unlessAborted<Value>(signal: AbortSignal | undefined, work: Promise<Value>): Promise<Value> {
  return new Promise((resolve, reject) => {
    const aborted = () => reject(signal?.reason);
    signal?.addEventListener("abort", aborted);
    work.then(resolve, reject).finally(() => signal?.removeEventListener("abort", aborted));
  });
}

/** The calls of a client, for other parts of this package. It is no member: those are public. */
export let callsOf: (client: ClientLimiter) => ServiceCalls;

/** The calls of what may be a client; undefined for a limiter on a store, and anything else. */
export let callsIfClient: (limiter: unknown) => ServiceCalls | undefined;

type SameMethods = Pick<Limiter, keyof typeof OPERATIONS>;

/** The methods that are made of rows, one for each operation. */
export interface ClientLimiter extends SameMethods {}

/** The limiter of a running service, by `fetch` alone: the same names, values and errors as the library has. */
// biome-ignore lint/suspicious/noUnsafeDeclarationMerging: its methods are made of rows, one for each name of the interface.
export class ClientLimiter {
  static {
    callsOf = (client) => client.#calls;
    callsIfClient = (limiter) => (isRecord(limiter) && #calls in limiter ? limiter.#calls : undefined);
    addMethods(ClientLimiter.prototype, OPERATIONS, callsOf);
  }

  readonly #calls: ServiceCalls;

  /** @internal */
  constructor(options: ClientOptions, clock: Clock) {
    this.#calls = new ServiceCalls(checkOptions(options), clock);
  }

  /** Takes the tokens and answers a lease, or throws `RateLimitExceeded`. Prefer `withLease`, which settles by itself. */
  async acquire<const Name extends string = string>(request: ClientRequest<Name>): Promise<Lease<Name>> {
    return (await take(this.#calls, "acquire", request as ClientRequest)) as unknown as Lease<Name>;
  }

  /**
   * Takes the tokens, or answers why it cannot. A refusal is a value; all other errors are thrown, as `acquire` throws
   * them.
   */
  async tryAcquire<const Name extends string = string>(request: ClientRequest<Name>): Promise<Outcome<Name>> {
    const outcome = await take(this.#calls, "try", request as ClientRequest);
    return "levels" in outcome ? outcome : { ok: true, lease: outcome as unknown as Lease<Name> };
  }

  /**
   * Takes the tokens and runs the function. When the function returns, its tokens stay taken; when it throws, they are
   * given back. The hold is renewed while the function runs. An abort reaches it as `lease.signal`, and so does a hold
   * that could not be renewed; if it returns all the same, its tokens stay taken.
   */
  async withLease<Value, const Name extends string = string>(
    request: ClientRequest<Name>,
    body: (lease: Lease<Name>) => Value | Promise<Value>,
  ): Promise<Value> {
    if (typeof body !== "function") {
      throw new ValidationError("body_missing", `The body of withLease is ${shown(body)}; give a function.`);
    }
    const lease = await this.acquire(request);
    lease.keep();
    let value: Value;
    try {
      request.signal?.throwIfAborted();
      value = await body(lease);
    } catch (error) {
      await lease.rollback().catch(() => {});
      throw error;
    }
    // The work is done, whatever became of the lease.
    await lease.settle().catch(() => {});
    return value;
  }

  /** Milliseconds until the amounts fit at every level: 0 if they fit now, `Infinity` if they never will or it is disabled. */
  async timeUntilAvailable(question: RequestQuestion): Promise<number> {
    // Without amounts, ask about a request that takes nothing. An explanation without `consume` would be of no request at all.
    const { outcome, retryAfterMs } = await this.explain({ ...question, consume: question?.consume ?? {} });
    return outcome === "granted" ? 0 : retryAfterMs;
  }

  /** Tells whether the service and its store respond. Never throws. */
  isAvailable(): Promise<boolean> {
    return this.#calls.answer("GET", at`/readyz`).then(
      () => true,
      () => false,
    );
  }

  /**
   * Closes the client: new calls throw `closed`. Open leases can still be settled and given back. The promise resolves
   * once all calls under way are answered.
   */
  close(): Promise<void> {
    return this.#calls.close();
  }

  /** Closes the client at the end of the block: `await using limiter = new LimiterClient({ url })`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
