import { leavingOut } from "../../domain/charge/leaving-out.ts";
import { grantHeaders, refusalHeaders } from "../../domain/charge/rate-limit-headers.ts";
import { type AcquireRequest, HELD_AT_MOST } from "../../engine/acquire/request.ts";
import { settledAtOnce } from "../../engine/lease/lease.ts";
import type { Refusal } from "../../engine/refusal/refusal.ts";
import { exceededBy, standingsIn } from "../../engine/refusal/refused.ts";
import type { LeaseRequest } from "../../leases/lease-request.ts";
import type { Answered } from "../../leases/stored-leases.ts";
import { answerAtOnce } from "../at-once.ts";
import { leaveOf, requireScope } from "../caller.ts";
import { givenLimits } from "../given-limits.ts";
import { idempotencyKeyOf } from "../idempotency.ts";
import { given } from "../page.ts";
import { type Call, NS, type Route, route } from "../route.ts";
import type { RouteResponse } from "../route-response.ts";
import { acquireBody } from "../schemas/input.ts";
import * as output from "../schemas/output.ts";
import type { z } from "../vendor.ts";

const GRANT_HEADERS = ["RateLimit-Policy", "RateLimit", "Idempotency-Replayed"];

export const takingRoutes: readonly Route[] = [
  route({
    method: "post",
    path: `${NS}/acquire`,
    scope: "acquire",
    summary: "Take tokens",
    note: "Takes from every limit of the entity and its parents, or from none. The tokens are held by a lease until it is settled or expires. A refusal is 429.",
    body: acquireBody,
    idempotent: true,
    answers: {
      200: {
        description: "Taken, without a lease: holdMs was 0, or the request was let through in an outage.",
        schema: output.lease,
        headers: GRANT_HEADERS,
      },
      201: { description: "Taken and held in a lease.", schema: output.lease, headers: ["Location", ...GRANT_HEADERS] },
    },
    refusals: [422, 429],
    handle: acquire,
  }),
  route({
    method: "post",
    path: `${NS}/try`,
    scope: "acquire",
    summary: "Try to take tokens",
    note: "The same as acquire, but a refusal is an answer of 200 with `ok: false`.",
    body: acquireBody,
    idempotent: true,
    answers: {
      200: {
        description: "Granted or refused, with the reason.",
        schema: output.attempt,
        headers: [...GRANT_HEADERS, "Retry-After"],
      },
    },
    refusals: [422],
    handle: attempt,
  }),
];

type TakeCall = Call<undefined, z.output<typeof acquireBody>>;

async function acquire(call: TakeCall): Promise<RouteResponse> {
  const { namespace, storedLeases } = call;
  const { request, isAtOnce } = requested(call);
  const taken = isAtOnce ? await takenAtOnce(call, request) : await storedLeases.acquire(request);
  if ("statuses" in taken) throw exceededBy(taken);
  const { lease } = taken;
  if (lease.leaseId === null) return { status: 200, body: lease, headers: headersOf(taken, call) };
  const location = `/v1/namespaces/${namespace}/leases/${lease.leaseId}`;
  return { status: 201, body: lease, headers: { location, ...headersOf(taken, call) } };
}

async function attempt(call: TakeCall): Promise<RouteResponse> {
  const { service, storedLeases } = call;
  const { request, isAtOnce } = requested(call);
  const taken = isAtOnce ? await takenAtOnce(call, request) : await storedLeases.tryAcquire(request);
  if (!("statuses" in taken)) {
    return { status: 200, body: { ok: true, lease: taken.lease }, headers: headersOf(taken, call) };
  }
  const { ok, statuses, primary, retryAfterMs } = taken;
  const headers = refusalHeaders(taken, standingsIn(taken), service.settings.units);
  return { status: 200, body: { ok, statuses, primary, retryAfterMs }, headers };
}

/** The request as the library takes it. What is charged at once and has no key needs no record. */
function requested(call: TakeCall): { readonly request: LeaseRequest; readonly isAtOnce: boolean } {
  const { body, caller, requestId } = call;
  const { entityId, resource, consume, also, limits, wait, atomic, holdMs, onExpiry, uncounted } = body;
  const leavePercent = leaveOf(caller, body.leavePercent);
  if (limits !== undefined) requireScope(caller, "admin", () => "`limits` in a request");
  const idempotencyKey = idempotencyKeyOf(call.request);
  const isAtOnce = holdMs === 0 && idempotencyKey === undefined;
  const asked = { entityId, resource, requestId: body.requestId ?? requestId };
  const named: LeaseRequest = consume === undefined ? asked : { ...asked, consume };
  const request = uncounted === undefined ? named : leavingOut(named, uncounted);
  const isPlain = also === undefined && limits === undefined && wait === undefined;
  if (isAtOnce && isPlain && atomic === undefined && leavePercent === undefined) return { request, isAtOnce };
  const further = {
    ...given({ also, wait, atomic, leavePercent }),
    ...(limits === undefined ? {} : { limits: givenLimits(call.limiter, limits) }),
    ...(wait === undefined ? {} : { signal: call.signal(wait.maxMs) }),
    ...(isAtOnce ? {} : given({ holdMs, onExpiry, idempotencyKey, keyOwner: caller.id })),
  };
  return { request: { ...request, ...further } as LeaseRequest, isAtOnce };
}

async function takenAtOnce(call: TakeCall, request: AcquireRequest): Promise<Answered | Refusal> {
  const { service, namespace, limiter, body } = call;
  // Nothing is held: what takes slots needs a lease.
  const atOnce = { ...request, [HELD_AT_MOST]: 0 };
  const outcome = await limiter.tryAcquire(atOnce);
  if (!outcome.ok) return outcome;
  if (!settledAtOnce(outcome.lease)) await outcome.lease.settle();
  const about = { namespace, entityId: request.entityId, onExpiry: body.onExpiry ?? service.settings.onExpiry };
  return answerAtOnce(outcome.lease, about, service.calendar);
}

function headersOf({ standings, replayed }: Answered, { service }: TakeCall): Readonly<Record<string, string>> {
  const headers = grantHeaders(standings, service.settings.units);
  return replayed ? { ...headers, "idempotency-replayed": "true" } : headers;
}
