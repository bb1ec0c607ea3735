import { leavingOut } from "../../domain/charge/amounts.ts";
import { grantHeaders, refusalHeaders } from "../../domain/charge/rate-limit-headers.ts";
import { given } from "../../domain/names/given.ts";
import type { OperationResult } from "../../engine/acquire/policies.ts";
import { type AcquireRequest, HELD_AT_MOST } from "../../engine/acquire/request.ts";
import type { CorrectionRequest, CorrectionResult } from "../../engine/acquire/without-lease.ts";
import { settledAtOnce } from "../../engine/lease/lease.ts";
import type { Refusal } from "../../engine/refusal/refusal.ts";
import { exceededBy, standingsIn } from "../../engine/refusal/refused.ts";
import type { LeaseRequest } from "../../leases/lease-request.ts";
import type { Answered } from "../../leases/stored-leases.ts";
import { answerAtOnce } from "../at-once.ts";
import { leaveOf, requireScope } from "../caller.ts";
import type { RouteResponse } from "../problem.ts";
import { givenLimits, idempotencyKeyOf, replayedFields } from "../read-input.ts";
import { type Call, type Route, route } from "../route.ts";
import {
  also,
  amounts,
  entity,
  leavePercent,
  limitInput,
  name,
  onResource,
  strictObject,
  told,
} from "../schemas/input.ts";
import * as output from "../schemas/output.ts";
import { z } from "../vendor.ts";

const GRANT_HEADERS = ["RateLimit-Policy", "RateLimit", "Idempotency-Replayed"];

const acquireBody = strictObject({
  entityId: told(name, "The entity that asks."),
  resource: told(name, "The resource that it asks for."),
  consume: told(
    amounts,
    "Whole tokens by measure. `requests` is 1 unless it is named. May be left out if a limit counts requests.",
  ).optional(),
  also: also.optional(),
  limits: told(z.array(limitInput), "Limits in place of the stored ones; needs the scope admin.").optional(),
  wait: told(
    strictObject({ maxMs: told(z.number().min(0).max(30_000), "At most 30,000.") }),
    "How long to wait for tokens, in ms. Default: no wait.",
  ).optional(),
  uncounted: told(
    z.enum(["ignore", "report"]),
    "What happens with measures that no limit counts. `ignore`: they are left out. `report`: they are left out, and `--unnamed-limits` of the service says whether that is logged, or refused after all. Default: they are an error (`limit_unknown`).",
  ).optional(),
  leavePercent: leavePercent.optional(),
  atomic: told(z.boolean(), "Whether all levels are taken from in one transaction. Default: false.").optional(),
  requestId: told(
    z.string().max(256),
    "A name of the request, for events. Default: the id of the HTTP request.",
  ).optional(),
  holdMs: told(
    z.int().min(0),
    "How long the lease lives, and with it the slots of concurrent limits: at most the shortest `holdMs` of theirs. 0: charged at once, no lease; not with slots. Else 1,000 to `--hold-max-ms` of the service. Default: `--hold-ms` of the service, or the shortest `holdMs` of its concurrent limits if that is shorter.",
  ).optional(),
  onExpiry: told(
    z.enum(["charge", "refund"]),
    "What happens to the tokens if the lease expires. Default: `--on-expiry` of the service.",
  ).optional(),
}).openapi("AcquireRequest", {
  example: { entityId: "key-1", resource: "gpt-4", consume: { rpm: 1, tpm: 500 }, holdMs: 30_000 },
});

export const takingRoutes: readonly Route[] = [
  route("POST acquire", "Take tokens", {
    note: "Takes from every limit of the entity and its parents, or from none. The tokens are held by a lease until it is settled or expires. A refusal is 429.",
    scope: "acquire",
    body: acquireBody,
    idempotent: true,
    ok: [
      "Taken, without a lease: holdMs was 0, or the request was let through in an outage.",
      output.lease,
      ...GRANT_HEADERS,
    ],
    created: ["Taken and held in a lease.", output.lease, "Location", ...GRANT_HEADERS],
    refusals: [422, 429],
    handle: acquire,
  }),
  route("POST try", "Try to take tokens", {
    note: "The same as acquire, but a refusal is an answer of 200 with `ok: false`.",
    scope: "acquire",
    body: acquireBody,
    idempotent: true,
    ok: ["Granted or refused, with the reason.", output.attempt, ...GRANT_HEADERS, "Retry-After"],
    refusals: [422],
    handle: attempt,
  }),
];

const correctionBody = strictObject({
  entityId: entity,
  resource: onResource,
  amounts: told(amounts, "Whole tokens by measure."),
  also: also.optional(),
}).openapi("Correction", { example: { entityId: "key-1", resource: "gpt-4", amounts: { tpm: 120 } } });

const CORRECTED = ["What it did.", output.correction, "Idempotency-Replayed"] as const;

/** Corrections by amounts that are known only afterwards, without a lease. */
export const correctionRoutes: readonly Route[] = [
  route("POST charge", "Charge without a lease", {
    note: "Debits in full, into debt if need be, and never refused.",
    scope: "acquire",
    body: correctionBody,
    idempotent: true,
    ok: CORRECTED,
    refusals: [422],
    handle: async (call) => correctionResponse(await call.limiter.charge(correctionOf(call))),
  }),
  route("POST give-back", "Give back without a lease", {
    note: "Gives back at most what is missing to the capacity, of a quota what its period has used. Needs the scope refund, too.",
    scope: "acquire",
    body: correctionBody,
    idempotent: true,
    ok: CORRECTED,
    refusals: [422],
    handle: async (call) => {
      requireScope(call.caller, "refund", () => "a give-back without a lease");
      return correctionResponse(await call.limiter.giveBack(correctionOf(call)));
    },
  }),
];

/** Changes that an operator makes to a bucket. */
export const operationRoutes: readonly Route[] = [
  route("POST top-up", "Top up a bucket", {
    note: "Adds tokens.",
    scope: "admin",
    body: strictObject({
      entityId: entity,
      resource: onResource,
      amounts: told(amounts, "Whole tokens by limit."),
    }).openapi({ example: { entityId: "key-1", resource: "gpt-4", amounts: { month: 100_000 } } }),
    idempotent: true,
    ok: ["What the operation did.", output.operation, "Idempotency-Replayed"],
    refusals: [422],
    handle: async (call) => operationResponse(await call.storedLeases.topUp(operationOf(call))),
  }),
  route("POST reset", "Reset a bucket", {
    note: "Fills it and forgives its debt.",
    scope: "admin",
    body: strictObject({
      entityId: entity,
      resource: onResource,
      limits: told(z.array(z.string()), "Names of limits. Default: all limits of the bucket.").optional(),
    }).openapi({ example: { entityId: "key-1", resource: "gpt-4" } }),
    idempotent: true,
    ok: ["What the operation did.", output.operation, "Idempotency-Replayed"],
    refusals: [422],
    handle: async (call) => operationResponse(await call.storedLeases.reset(operationOf(call))),
  }),
];

type TakeCall = Call<undefined, z.output<typeof acquireBody>>;

async function acquire(call: TakeCall): Promise<RouteResponse> {
  const { namespace, storedLeases } = call;
  const { request, isAtOnce } = leaseRequestOf(call);
  const taken = isAtOnce ? await takeAtOnce(call, request) : await storedLeases.acquire(request);
  if ("statuses" in taken) throw exceededBy(taken);
  const { lease } = taken;
  if (lease.leaseId === null) return { status: 200, body: lease, headers: headersOf(taken, call) };
  const location = `/v1/namespaces/${namespace}/leases/${lease.leaseId}`;
  return { status: 201, body: lease, headers: { location, ...headersOf(taken, call) } };
}

async function attempt(call: TakeCall): Promise<RouteResponse> {
  const { service, storedLeases } = call;
  const { request, isAtOnce } = leaseRequestOf(call);
  const taken = isAtOnce ? await takeAtOnce(call, request) : await storedLeases.tryAcquire(request);
  if (!("statuses" in taken)) {
    return { status: 200, body: { ok: true, lease: taken.lease }, headers: headersOf(taken, call) };
  }
  const { ok, statuses, primary, retryAfterMs } = taken;
  const headers = refusalHeaders(taken, standingsIn(taken), service.settings.units);
  return { status: 200, body: { ok, statuses, primary, retryAfterMs }, headers };
}

/** The request as the library takes it. A request that is charged at once and has no key needs no record. */
function leaseRequestOf(call: TakeCall): { readonly request: LeaseRequest; readonly isAtOnce: boolean } {
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
    ...given({ limits: limits && givenLimits(call.limiter, limits), signal: wait && call.signal(wait.maxMs) }),
    ...(isAtOnce ? {} : given({ holdMs, onExpiry, idempotencyKey, keyOwner: caller.id })),
  };
  return { request: { ...request, ...further } as LeaseRequest, isAtOnce };
}

async function takeAtOnce(call: TakeCall, request: AcquireRequest): Promise<Answered | Refusal> {
  const { service, namespace, limiter, body } = call;
  // Nothing is held afterwards: slots need a lease, and are refused here.
  const atOnce = { ...request, [HELD_AT_MOST]: 0 };
  const outcome = await limiter.tryAcquire(atOnce);
  if (!outcome.ok) return outcome;
  if (!settledAtOnce(outcome.lease)) await outcome.lease.settle();
  const about = { namespace, entityId: request.entityId, onExpiry: body.onExpiry ?? service.settings.onExpiry };
  return answerAtOnce(outcome.lease, about, service.calendar);
}

function headersOf({ standings, replayed }: Answered, { service }: TakeCall): Readonly<Record<string, string>> {
  return replayedFields(replayed, grantHeaders(standings, service.settings.units));
}

/** The body of an operation, with the idempotency key; a key is of one principal. */
function operationOf<Body extends object>({ body, request, caller }: Call<unknown, Body>) {
  return { ...given({ ...body, idempotencyKey: idempotencyKeyOf(request) }), principal: caller.id };
}

/** The body of a correction, with the idempotency key; a key is of one caller. */
function correctionOf({ body, request, caller }: Call<undefined, z.output<typeof correctionBody>>): CorrectionRequest {
  return given({ ...body, idempotencyKey: idempotencyKeyOf(request), keyOwner: caller.id }) as CorrectionRequest;
}

function correctionResponse({ repeated, ...body }: CorrectionResult): RouteResponse {
  return { status: 200, body: { ...body, repeated }, headers: replayedFields(repeated, {}) };
}

function operationResponse(done: { readonly result: OperationResult; readonly replayed: boolean }): RouteResponse {
  return { status: 200, body: done.result, headers: replayedFields(done.replayed, {}) };
}
