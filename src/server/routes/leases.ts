import { grantHeaders } from "../../domain/charge/rate-limit-headers.ts";
import type { Answered } from "../../leases/stored-leases.ts";
import { leaveOf } from "../caller.ts";
import { idempotencyKeyOf } from "../idempotency.ts";
import { given, listOf, pageOf, pageResponse } from "../page.ts";
import { type Call, NS, type Route, route } from "../route.ts";
import type { RouteResponse } from "../route-response.ts";
import { adjustBody, amountsBody, bucketsQuery, extendBody, settleBody } from "../schemas/input.ts";
import * as output from "../schemas/output.ts";

const ONE = `${NS}/leases/{id}`;
const AS_IT_IS = { 200: { description: "The lease.", schema: output.lease } };
const KEYED = { 200: { ...AS_IT_IS[200], headers: ["Idempotency-Replayed"] } };

export const leaseRoutes: readonly Route[] = [
  route({
    method: "get",
    path: `${NS}/leases`,
    scope: "read",
    summary: "List open leases",
    query: bucketsQuery,
    answers: { 200: { description: "The open leases.", schema: listOf(output.lease) } },
    handle: async ({ storedLeases, query: { entityId, resource, ...page } }) =>
      pageResponse(await storedLeases.list({ ...given({ entityId, resource }), ...pageOf(page) })),
  }),
  route({
    method: "get",
    path: ONE,
    scope: "acquire",
    summary: "Show a lease",
    answers: AS_IT_IS,
    handle: async ({ storedLeases, id }) => ({
      status: 200,
      body: await storedLeases.get(id),
    }),
  }),
  route({
    method: "post",
    path: `${ONE}/settle`,
    scope: "acquire",
    endsLeases: true,
    summary: "Settle a lease",
    note: "Ends it. `consumed` has the totals that the work came to; the difference is charged or given back, and never refused. Slots are given back.",
    body: settleBody,
    answers: AS_IT_IS,
    handle: async ({ storedLeases, id, body }) => ({
      status: 200,
      body: await storedLeases.settle(id, given(body)),
    }),
  }),
  route({
    method: "post",
    path: `${ONE}/adjust`,
    scope: "acquire",
    summary: "Adjust a lease",
    note: "Charges or gives back a difference. A charge may go into debt.",
    body: adjustBody,
    idempotent: true,
    answers: KEYED,
    refusals: [422],
    handle: async (call) => keyedResponse(await call.storedLeases.adjust(call.id, keyed(call)), {}),
  }),
  route({
    method: "post",
    path: `${ONE}/consume`,
    scope: "acquire",
    summary: "Take more with a lease",
    note: "Refused with 429 if the tokens are not there; then nothing is taken. It leaves what the lease has to leave, or what the token has to, whichever is more.",
    body: amountsBody,
    idempotent: true,
    answers: { 200: { ...AS_IT_IS[200], headers: ["RateLimit-Policy", "RateLimit", "Idempotency-Replayed"] } },
    refusals: [422, 429],
    handle: async (call) => {
      const leaving = given({ leavePercent: leaveOf(call.caller, undefined) });
      const answered = await call.storedLeases.consume(call.id, { ...keyed(call), ...leaving });
      return keyedResponse(answered, grantHeaders(answered.standings, call.service.settings.units));
    },
  }),
  route({
    method: "post",
    path: `${ONE}/release`,
    scope: "acquire",
    endsLeases: true,
    summary: "Release tokens of a lease",
    note: "Gives back at most the tokens that it holds.",
    body: amountsBody,
    idempotent: true,
    answers: KEYED,
    refusals: [422],
    handle: async (call) => keyedResponse(await call.storedLeases.release(call.id, keyed(call)), {}),
  }),
  route({
    method: "post",
    path: `${ONE}/extend`,
    scope: "acquire",
    endsLeases: true,
    summary: "Extend a lease",
    note: "It expires `holdMs` from now, or with its slots if they end earlier: `expiresAtMs` says when. Slots of concurrent limits are renewed with it; if they are gone, the answer is 409 `hold_lost`.",
    body: extendBody,
    answers: AS_IT_IS,
    handle: async ({ storedLeases, id, body }) => ({
      status: 200,
      body: await storedLeases.extend(id, body),
    }),
  }),
  route({
    method: "post",
    path: `${ONE}/rollback`,
    scope: "acquire",
    endsLeases: true,
    summary: "Roll a lease back",
    note: "Gives everything back and ends it.",
    answers: AS_IT_IS,
    handle: async ({ storedLeases, id }) => ({
      status: 200,
      body: await storedLeases.rollback(id),
    }),
  }),
];

/** The body as `StoredLeases` takes it, with the key of the request, which is its caller's alone. */
function keyed<Body extends object>({ body, request, caller }: Call<unknown, Body>) {
  return given({ ...body, idempotencyKey: idempotencyKeyOf(request), keyOwner: caller.id });
}

function keyedResponse({ lease, replayed }: Answered, headers: Readonly<Record<string, string>>): RouteResponse {
  return { status: 200, body: lease, headers: replayed ? { ...headers, "idempotency-replayed": "true" } : headers };
}
