import { grantHeaders } from "../../domain/charge/rate-limit-headers.ts";
import { given } from "../../domain/names/given.ts";
import type { Answered } from "../../leases/stored-leases.ts";
import { leaveOf } from "../caller.ts";
import type { RouteResponse } from "../problem.ts";
import { idempotencyKeyOf, replayedFields } from "../read-input.ts";
import { type Call, pageOf, type Route, route } from "../route.ts";
import { also, amounts, bucketsQuery, strictObject, told } from "../schemas/input.ts";
import * as output from "../schemas/output.ts";
import { z } from "../vendor.ts";

const ONE_LEASE = ["The lease.", output.lease] as const;
const KEYED_LEASE = [...ONE_LEASE, "Idempotency-Replayed"] as const;

const amountsBody = strictObject({ amounts: told(amounts, "Whole tokens by measure."), also: also.optional() }).openapi(
  { example: { amounts: { tpm: 100 } } },
);

export const leaseRoutes: readonly Route[] = [
  route("GET leases", "List open leases", {
    scope: "read",
    query: bucketsQuery,
    pages: ["The open leases.", output.lease],
    run: ({ storedLeases, query: { entityId, resource, ...page } }) =>
      storedLeases.list({ ...given({ entityId, resource }), ...pageOf(page) }),
  }),
  route("GET leases/{id}", "Show a lease", {
    scope: "acquire",
    ok: ONE_LEASE,
    run: ({ storedLeases, id }) => storedLeases.get(id),
  }),
  route("POST leases/{id}/settle", "Settle a lease", {
    note: "Ends it. `consumed` has the totals that the work came to; the difference is charged or given back, and never refused. Slots are given back.",
    scope: "acquire",
    endsLeases: true,
    body: strictObject({
      consumed: told(
        amounts,
        "Totals by measure. A measure that is not named stays as it is charged. Default: all stay.",
      ).optional(),
      also: told(also, "Totals of further parts.").optional(),
    }).openapi({ example: { consumed: { tpm: 420 } } }),
    ok: ONE_LEASE,
    run: ({ storedLeases, id, body }) => storedLeases.settle(id, given(body)),
  }),
  route("POST leases/{id}/adjust", "Adjust a lease", {
    note: "Charges or gives back a difference. A charge may go into debt.",
    scope: "acquire",
    body: strictObject({
      delta: told(amounts, "Whole tokens by measure. Positive: charged. Negative: given back."),
      also: also.optional(),
    }).openapi({ example: { delta: { tpm: -80 } } }),
    idempotent: true,
    ok: KEYED_LEASE,
    refusals: [422],
    handle: async (call) => keyedResponse(await call.storedLeases.adjust(call.id, keyed(call)), {}),
  }),
  route("POST leases/{id}/consume", "Take more with a lease", {
    note: "Refused with 429 if the tokens are not there; then nothing is taken. It leaves what the lease has to leave, or what the token has to, whichever is more.",
    scope: "acquire",
    body: amountsBody,
    idempotent: true,
    ok: [...ONE_LEASE, "RateLimit-Policy", "RateLimit", "Idempotency-Replayed"],
    refusals: [422, 429],
    handle: async (call) => {
      const leaving = given({ leavePercent: leaveOf(call.caller, undefined) });
      const answered = await call.storedLeases.consume(call.id, { ...keyed(call), ...leaving });
      return keyedResponse(answered, grantHeaders(answered.standings, call.service.settings.units));
    },
  }),
  route("POST leases/{id}/release", "Release tokens of a lease", {
    note: "Gives back at most the tokens that it holds.",
    scope: "acquire",
    endsLeases: true,
    body: amountsBody,
    idempotent: true,
    ok: KEYED_LEASE,
    refusals: [422],
    handle: async (call) => keyedResponse(await call.storedLeases.release(call.id, keyed(call)), {}),
  }),
  route("POST leases/{id}/extend", "Extend a lease", {
    note: "It expires `holdMs` from now, or with its slots if they end earlier: `expiresAtMs` says when. Slots of concurrent limits are renewed with it; if they are gone, the answer is 409 `hold_lost`.",
    scope: "acquire",
    endsLeases: true,
    body: strictObject({
      holdMs: told(
        z.int().min(1_000),
        "Milliseconds from now. Slots of concurrent limits are renewed for as long, or for as long as their limits say now, if that is less.",
      ),
    }).openapi({ example: { holdMs: 60_000 } }),
    ok: ONE_LEASE,
    run: ({ storedLeases, id, body }) => storedLeases.extend(id, body),
  }),
  route("POST leases/{id}/rollback", "Roll a lease back", {
    note: "Gives everything back and ends it.",
    scope: "acquire",
    endsLeases: true,
    ok: ONE_LEASE,
    run: ({ storedLeases, id }) => storedLeases.rollback(id),
  }),
];

/** The body as `StoredLeases` takes it, with the idempotency key; a key is of one caller. */
function keyed<Body extends object>({ body, request, caller }: Call<unknown, Body>) {
  return given({ ...body, idempotencyKey: idempotencyKeyOf(request), keyOwner: caller.id });
}

/** A lease as the answer to a request that may be a repeat. */
function keyedResponse({ lease, replayed }: Answered, headers: Readonly<Record<string, string>>): RouteResponse {
  return { status: 200, body: lease, headers: replayedFields(replayed, headers) };
}
