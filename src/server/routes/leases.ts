import type { Answered } from "../../leases/desk.ts";
import type { Answer } from "../answer.ts";
import { idempotencyKeyOf } from "../idempotency.ts";
import { given, listOf, pageAnswer, pageOf } from "../page.ts";
import { grantHeaders } from "../rate-limit-headers.ts";
import { NS, type Route, route } from "../route.ts";
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
    handle: async ({ desk, query: { entityId, resource, ...page } }) =>
      pageAnswer(await desk.list({ ...given({ entityId, resource }), ...pageOf(page) })),
  }),
  route({
    method: "get",
    path: ONE,
    scope: "acquire",
    summary: "Show a lease",
    answers: AS_IT_IS,
    handle: async ({ desk, id }) => ({
      status: 200,
      body: await desk.get(id),
    }),
  }),
  route({
    method: "post",
    path: `${ONE}/settle`,
    scope: "acquire",
    endsLeases: true,
    summary: "End a lease with the amounts actually used",
    body: settleBody,
    answers: AS_IT_IS,
    handle: async ({ desk, id, body }) => ({
      status: 200,
      body: await desk.settle(id, given(body)),
    }),
  }),
  route({
    method: "post",
    path: `${ONE}/adjust`,
    scope: "acquire",
    summary: "Charge or give back a difference, into debt if necessary",
    body: adjustBody,
    idempotent: true,
    answers: KEYED,
    refusals: [422],
    handle: async ({ desk, id, body, request }) => keyedAnswer(await desk.adjust(id, keyed(body, request)), {}),
  }),
  route({
    method: "post",
    path: `${ONE}/consume`,
    scope: "acquire",
    summary: "Take more tokens, if available",
    body: amountsBody,
    idempotent: true,
    answers: { 200: { ...AS_IT_IS[200], headers: ["RateLimit-Policy", "RateLimit", "Idempotency-Replayed"] } },
    refusals: [422, 429],
    handle: async ({ service, desk, id, body, request }) => {
      const answered = await desk.consume(id, keyed(body, request));
      return keyedAnswer(answered, grantHeaders(answered.standings, service.settings.units));
    },
  }),
  route({
    method: "post",
    path: `${ONE}/release`,
    scope: "acquire",
    endsLeases: true,
    summary: "Give back tokens, at most what is held",
    body: amountsBody,
    idempotent: true,
    answers: KEYED,
    refusals: [422],
    handle: async ({ desk, id, body, request }) => keyedAnswer(await desk.release(id, keyed(body, request)), {}),
  }),
  route({
    method: "post",
    path: `${ONE}/extend`,
    scope: "acquire",
    endsLeases: true,
    summary: "Extend a lease, from now",
    body: extendBody,
    answers: AS_IT_IS,
    handle: async ({ desk, id, body }) => ({
      status: 200,
      body: await desk.extend(id, body),
    }),
  }),
  route({
    method: "post",
    path: `${ONE}/rollback`,
    scope: "acquire",
    endsLeases: true,
    summary: "End a lease and give everything back",
    answers: AS_IT_IS,
    handle: async ({ desk, id }) => ({
      status: 200,
      body: await desk.rollback(id),
    }),
  }),
];

/** The body as the desk takes it, with the key of the request. */
export function keyed<Body extends object>(body: Body, request: Request) {
  return given({ ...body, idempotencyKey: idempotencyKeyOf(request) });
}

function keyedAnswer({ lease, replayed }: Answered, headers: Readonly<Record<string, string>>): Answer {
  return { status: 200, body: lease, headers: replayed ? { ...headers, "idempotency-replayed": "true" } : headers };
}
