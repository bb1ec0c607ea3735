import { RateLimiterUnavailable, ResourceDisabled } from "../../domain/names/errors.ts";
import type { AcquireEndedEvent, Events } from "../../ports/events.ts";
import type { Clock } from "../../ports/system.ts";
import type { Outcome } from "./outcome.ts";
import type { AcquireRequest } from "./request.ts";

type Result = AcquireEndedEvent["result"];

interface WatchDeps {
  readonly events: Events;
  readonly clock: Clock;
  readonly namespace: string;
  readonly storeName: string;
}

/** Publishes what became of whole requests: how each ended, how long it took, how long it waited, the lease that it got. */
export class AcquireWatch {
  readonly #deps: WatchDeps;
  readonly #ended: Events["acquireEnded"];
  readonly #opened: Events["leaseOpened"];
  readonly #disabled: Events["disabled"];

  constructor(deps: WatchDeps) {
    this.#deps = deps;
    this.#ended = deps.events.acquireEnded;
    this.#opened = deps.events.leaseOpened;
    this.#disabled = deps.events.disabled;
  }

  /** Whether somebody listens. Every take asks, so that one to which nobody listens is neither timed nor wrapped. */
  get isActive(): boolean {
    return this.#ended.active || this.#opened.active || this.#disabled.active;
  }

  /** Runs a request whose caller gets the lease. */
  acquire(request: AcquireRequest, work: () => Promise<Outcome>): Promise<Outcome> {
    return this.run(request, work, (outcome) => this.#answered(request, outcome));
  }

  /** The same without a promise. */
  acquireSync(request: AcquireRequest, work: () => Outcome): Outcome {
    const startedMs = this.#steadyMs();
    try {
      const outcome = work();
      this.#end(request, this.#answered(request, outcome), startedMs, undefined);
      return outcome;
    } catch (error) {
      this.#threw(request, error, startedMs);
      throw error;
    }
  }

  /** Runs a request. `resultOf` says what its answer means; undefined: it is not told, as the repeat of one that was. */
  async run<Answer>(
    request: AcquireRequest,
    work: () => Promise<Answer>,
    resultOf: (answer: Answer) => Result | undefined,
  ): Promise<Answer> {
    const startedMs = this.#steadyMs();
    try {
      const answer = await work();
      this.#end(request, resultOf(answer), startedMs, undefined);
      return answer;
    } catch (error) {
      this.#threw(request, error, startedMs);
      throw error;
    }
  }

  waitBegan(request: AcquireRequest): void {
    const { waitBegan } = this.#deps.events;
    if (waitBegan.active) waitBegan.publish(this.#on(request));
  }

  waitEnded(request: AcquireRequest, waitedMs: number): void {
    const { waitEnded } = this.#deps.events;
    if (waitEnded.active) waitEnded.publish({ ...this.#on(request), waitedMs });
  }

  #answered(request: AcquireRequest, outcome: Outcome): Result {
    if (!outcome.ok) return "refused";
    if (this.#opened.active) {
      const { namespace } = this.#deps;
      const { entityId, resource } = request;
      this.#opened.publish({ namespace, entityId, resource, lease: outcome.lease });
    }
    return "acquired";
  }

  #threw(request: AcquireRequest, error: unknown, startedMs: number): void {
    if (error instanceof ResourceDisabled && this.#disabled.active) {
      this.#disabled.publish({ ...this.#on(request), level: error.level });
    }
    const result = resultOfError(request, error);
    this.#end(request, result, startedMs, result === "canceled" ? undefined : error);
  }

  /** What is not valid has no result and is not told: nothing of it can be trusted to be a name. */
  #end(request: AcquireRequest, result: Result | undefined, startedMs: number, error: unknown): void {
    if (result === undefined || !this.#ended.active) return;
    // The clock of a test may be stepped back.
    const durationMs = Math.max(0, this.#steadyMs() - startedMs);
    const told = { ...this.#on(request), result, durationMs, store: this.#deps.storeName };
    this.#ended.publish(error === undefined ? told : { ...told, error });
  }

  #steadyMs(): number {
    const { clock } = this.#deps;
    return clock.steadyMs === undefined ? clock.now() : clock.steadyMs();
  }

  #on({ entityId, resource, requestId }: AcquireRequest) {
    const { namespace } = this.#deps;
    return requestId === undefined ? { namespace, entityId, resource } : { namespace, entityId, resource, requestId };
  }
}

function resultOfError(request: AcquireRequest, error: unknown): Result | undefined {
  if (error instanceof ResourceDisabled) return "disabled";
  if (error instanceof RateLimiterUnavailable) return "unavailable";
  // An abort reaches the caller as the reason of its signal, whatever that is.
  const signal = request?.signal;
  return signal?.aborted && error === signal.reason ? "canceled" : undefined;
}
