import { howLeavingOut } from "../domain/charge/leaving-out.ts";
import { RateLimiterUnavailable } from "../domain/names/errors.ts";
import type { Refusal } from "../engine/refusal/refusal.ts";
import type { LeaseView } from "../leases/lease-view.ts";
import { keyField, type ServiceAnswer, type ServiceCalls } from "./http.ts";
import { ClientLease } from "./lease.ts";
import { at } from "./path.ts";
import { carryOver } from "./problem.ts";
import { type ClientRequest, checkRequest } from "./request.ts";

type Answer = LeaseView | { readonly ok: true; readonly lease: LeaseView } | Omit<Refusal, "levels">;

/** Takes tokens at the service: a lease, or with `try` why there is none. */
export async function take(
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
    // So long on the way, with waits and repeats, that the hold would soon be over by this clock.
    if (clock.now() - askedAtMs > holdMs / 3) await lease.refresh();
    return lease;
  };
  const answering = calls.answer<Answer>("POST", at`${route}`, {
    body: { ...asked, holdMs, onExpiry, uncounted: howLeavingOut(request) },
    headers: keyField(),
    repeats: "take",
    // What waits is told that nobody wants it any more; a take that was begun is brought to its end.
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

/** Nobody waits for it any more, but the service took all the same. */
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
