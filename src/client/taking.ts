import { RateLimiterUnavailable } from "../domain/errors.ts";
import type { Refusal } from "../engine/refusal.ts";
import type { LeaseView } from "../leases/lease-view.ts";
import { newKey, type ServiceAnswer, type ServiceCalls } from "./http.ts";
import { ClientLease } from "./lease.ts";
import { carryOver } from "./problem.ts";
import { bodyOf, type ClientRequest } from "./request.ts";

type Attempt = { readonly ok: true; readonly lease: LeaseView } | Omit<Refusal, "levels">;

/** Takes tokens at the service. */
export class Taking {
  readonly #calls: ServiceCalls;
  readonly #ns: string;

  constructor(calls: ServiceCalls, ns: string) {
    this.#calls = calls;
    this.#ns = ns;
  }

  /** The lease, or throws why there is none. */
  async acquire(request: ClientRequest): Promise<ClientLease> {
    return this.#take<LeaseView, ClientLease>("acquire", request, ({ body }, leaseOf) => leaseOf(body));
  }

  /** The lease, or why there is none. */
  attempt(request: ClientRequest): Promise<ClientLease | Refusal> {
    return this.#take<Attempt, ClientLease | Refusal>("try", request, ({ body, headers }, leaseOf) => {
      if (body.ok) return leaseOf(body.lease);
      const levels = [...new Set([request.entityId, ...body.statuses.map(({ entityId }) => entityId)])];
      const refusal = { ...body, levels };
      carryOver(refusal, headers, this.#calls.clock.now());
      return refusal;
    });
  }

  async #take<Body, Outcome>(
    route: "acquire" | "try",
    request: ClientRequest,
    outcomeOf: (answer: ServiceAnswer<Body>, leaseOf: (view: LeaseView) => ClientLease) => Outcome,
  ): Promise<Outcome | ClientLease> {
    const { options, clock } = this.#calls;
    const { body, signal, waitMs } = bodyOf(request, options);
    signal?.throwIfAborted();
    const { holdMs } = body;
    const askedAtMs = clock.now();
    const given = { calls: this.#calls, path: `${this.#ns}/leases`, holdMs, askedAtMs, signal };
    const finish = async (answer: ServiceAnswer<Body>): Promise<Outcome> => {
      const outcome = outcomeOf(answer, (view) => {
        const lease = new ClientLease({ ...given, view });
        carryOver(lease, answer.headers, clock.now());
        return lease;
      });
      // So long on the way, with waits and repeats, that the hold would soon be over by this clock.
      if (outcome instanceof ClientLease && clock.now() - askedAtMs > holdMs / 3) await outcome.refresh();
      return outcome;
    };
    const answering = this.#calls.answer<Body>("POST", `${this.#ns}/${route}`, {
      body,
      headers: { "idempotency-key": newKey() },
      repeats: "take",
      // What waits is told that nobody wants it any more; a take that was begun is brought to its end.
      ...(waitMs === undefined ? {} : { waitMs, signal }),
    });
    try {
      return await finish(await (signal === undefined ? answering : unlessAborted(signal, answering)));
    } catch (error) {
      if (signal?.aborted) {
        // The service may have taken all the same.
        answering.then(async (late) => {
          const outcome = await finish(late);
          if (outcome instanceof ClientLease) await outcome.rollback();
        }).catch(() => {});
      }
      if (options.onUnavailable !== "allow" || !(error instanceof RateLimiterUnavailable)) throw error;
      return new ClientLease({ ...given, view: letThrough(request, options.namespace, error.message) });
    }
  }
}

function unlessAborted<Value>(signal: AbortSignal, work: Promise<Value>): Promise<Value> {
  return new Promise((resolve, reject) => {
    const aborted = () => reject(signal.reason);
    signal.addEventListener("abort", aborted);
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", aborted));
  });
}

/** A lease that charges nothing. */
function letThrough({ entityId, resource, consume = {}, also = {} }: ClientRequest, namespace: string, degraded: string) {
  const nothingOf = (amounts: object) => Object.fromEntries(Object.keys(amounts).map((name) => [name, 0]));
  const view: LeaseView = {
    ...{ leaseId: null, namespace, entityId, resource, status: "settled", consumed: nothingOf(consume), degraded },
    also: Object.fromEntries(Object.entries(also).map(([name, amounts]) => [name, nothingOf(amounts)])),
    ...{ overdrawn: [], bypassed: false, expiresAtMs: null, onExpiry: "charge", limits: [] },
  };
  return view;
}
