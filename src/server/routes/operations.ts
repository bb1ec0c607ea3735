import type { OperationResult } from "../../engine/acquire/policies.ts";
import { idempotencyKeyOf } from "../idempotency.ts";
import { given } from "../page.ts";
import { type Call, NS, type Route, route } from "../route.ts";
import type { RouteResponse } from "../route-response.ts";
import { resetBody, topUpBody } from "../schemas/input.ts";
import * as output from "../schemas/output.ts";

const answers = {
  200: { description: "What the operation did.", schema: output.operation, headers: ["Idempotency-Replayed"] },
};

/** What an operator does to a bucket. */
export const operationRoutes: readonly Route[] = [
  route({
    method: "post",
    path: `${NS}/top-up`,
    scope: "admin",
    summary: "Top up a bucket",
    note: "Adds tokens.",
    body: topUpBody,
    idempotent: true,
    answers,
    refusals: [422],
    handle: async (call) => operated(await call.storedLeases.topUp(ofCaller(call))),
  }),
  route({
    method: "post",
    path: `${NS}/reset`,
    scope: "admin",
    summary: "Reset a bucket",
    note: "Fills it and forgives its debt.",
    body: resetBody,
    idempotent: true,
    answers,
    refusals: [422],
    handle: async (call) => operated(await call.storedLeases.reset(ofCaller(call))),
  }),
];

/** With the key of the request, which is its caller's alone. */
function ofCaller<Body extends object>({ body, request, caller }: Call<unknown, Body>) {
  return { ...given({ ...body, idempotencyKey: idempotencyKeyOf(request) }), principal: caller.id };
}

function operated({
  result,
  replayed,
}: {
  readonly result: OperationResult;
  readonly replayed: boolean;
}): RouteResponse {
  return { status: 200, body: result, ...(replayed ? { headers: { "idempotency-replayed": "true" } } : {}) };
}
