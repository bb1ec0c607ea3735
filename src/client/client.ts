import { ValidationError } from "../domain/names/errors.ts";
import { shown } from "../domain/names/shown.ts";
import type { Outcome } from "../engine/acquire/outcome.ts";
import type { Lease } from "../engine/lease/lease.ts";
import type { Limiter } from "../engine/limiter/limiter.ts";
import type { RequestQuestion } from "../engine/limiter/question.ts";
import type { Clock } from "../ports/system.ts";
import { ServiceCalls } from "./http.ts";
import { addMethods, OPERATIONS } from "./operations.ts";
import { type ClientOptions, checkOptions } from "./options.ts";
import { at } from "./path.ts";
import type { ClientRequest } from "./request.ts";
import { take } from "./taking.ts";

/** By what a client asks its service, for other parts of this package: not a member, for those are the public interface. */
export let callsOf: (client: ClientLimiter) => ServiceCalls;

type SameMethods = Pick<Limiter, keyof typeof OPERATIONS>;

/** The methods that are made of rows, one for each operation. */
export interface ClientLimiter extends SameMethods {}

/** The limiter of a running service, by `fetch` alone: the same names, values and errors as the library has. */
// biome-ignore lint/suspicious/noUnsafeDeclarationMerging: its methods are made of rows, one for each name of the interface.
export class ClientLimiter {
  static {
    callsOf = (client) => client.#calls;
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
    // Without amounts a request is asked about that names none; an explanation would be of no request at all.
    const { outcome, retryAfterMs } = await this.explain({ ...question, consume: question?.consume ?? {} });
    return outcome === "granted" ? 0 : retryAfterMs;
  }

  /** Whether the service and its store respond. Never throws. */
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
