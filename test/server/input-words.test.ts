import assert from "node:assert/strict";
import { test } from "node:test";
import { NS, problem, serviceOf, tokenOf } from "./service-kit.ts";

test("a wrong body is told what is wrong in plain words, the misspelled name first", async (t) => {
  const { call } = await serviceOf(t);
  const take = { entityId: "key-1", resource: "gpt-4", consume: { rpm: 1 } };
  for (const [path, body, detail] of [
    [
      "acquire",
      { entity: "key-1", resource: "gpt-4", consume: {} },
      "/entity: it is unknown; did you mean entityId? And 1 more.",
    ],
    ["acquire", { ...take, resource: undefined }, "/resource: it is missing; give a string."],
    ["acquire", { ...take, consume: { rpm: "1" } }, '/consume/rpm: it is "1"; give a number.'],
    ["acquire", { ...take, consume: [] }, "/consume: it is []; give an object of names and values."],
    ["acquire", { ...take, atomic: 1 }, "/atomic: it is 1; give true or false."],
    ["acquire", { ...take, wait: { max: 5, maxMs: 1 } }, "/wait/max: it is unknown; did you mean maxMs?"],
    ["acquire", { ...take, wait: { maxMs: 60_000 } }, "/wait/maxMs: it is 60000; give at most 30000."],
    ["acquire", { ...take, holdMs: -1 }, "/holdMs: it is -1; give at least 0."],
    ["acquire", { ...take, requestId: "r".repeat(300) }, "/requestId: it has 300 characters; give at most 256."],
    ["acquire", { ...take, onExpiry: "keep" }, '/onExpiry: it is "keep"; give "charge" or "refund".'],
    [
      "top-up",
      { entityId: "key-1", resource: "gpt-4" },
      "/amounts: it is missing; give an object of names and values.",
    ],
  ] as const) {
    const answer = await call("POST", `${NS}/${path}`, { body });
    problem(answer, 400, "request_invalid");
    assert.equal(answer.body.detail, detail);
  }
  const rpm = { name: "rpm", capacity: 1, refillAmount: 1, refillPeriodMs: 60_000 };
  for (const [limits, detail] of [
    [[{ ...rpm, capcity: 5 }], "/limits/0/capcity: it is unknown; did you mean capacity?"],
    [[{ ...rpm, reset: 5 }], "/limits/0/reset: it is 5; give an object or a string."],
    [
      [{ ...rpm, reset: { corn: "0 0 * * *", cron: "0 0 * * *" } }],
      "/limits/0/reset/corn: it is unknown; did you mean cron?",
    ],
  ] as const) {
    const answer = await call("PUT", `${NS}/limits?resource=gpt-4`, { body: { limits } });
    problem(answer, 400, "request_invalid");
    assert.equal(answer.body.detail, detail);
  }
  const asked = await call("GET", `${NS}/usage?window=weekly`);
  assert.equal(asked.body.detail, '?window: it is "weekly"; give "hourly", "daily" or "monthly".');
});

test("who lacks a scope reads a sentence with the route", async (t) => {
  const { token, entry } = tokenOf("reader", { scopes: ["acquire"] });
  const { call } = await serviceOf(t, { tokens: [entry] });
  const headers = { authorization: `Bearer ${token}` };
  const answer = await call("PUT", `${NS}/limits?resource=gpt-4`, { headers, body: { limits: [] } });
  problem(answer, 403, "insufficient_scope");
  assert.equal(
    answer.body.detail,
    "The token reader lacks the scope admin, which PUT /v1/namespaces/{namespace}/limits needs.",
  );
});
