import assert from "node:assert/strict";
import { test } from "node:test";
import { LimiterClient } from "../../src/entry/client.ts";
import { ResourceDisabled } from "../../src/entry/index.ts";
import { NS, problem, serviceOf, tokenOf } from "./service-kit.ts";

const KEY = { entityId: "key-1", resource: "gpt-4" } as const;

test("a frozen namespace answers 403 with the reason, and its leases end as ever", async (t) => {
  const { call } = await serviceOf(t);
  const take = { ...KEY, consume: { rpm: 2 }, holdMs: 60_000 };
  const open = [];
  for (let i = 0; i < 3; i++) open.push((await call("POST", `${NS}/acquire`, { body: take })).body.leaseId);
  const reason = "moving to another store";
  const frozen = await call("POST", `${NS}/freeze`, { body: { reason } });
  assert.deepEqual([frozen.status, frozen.body], [200, { name: "default", frozen: true, changed: true }]);
  assert.equal((await call("POST", `${NS}/freeze`, { body: { reason } })).body.changed, false);
  for (const [path, body] of [
    [`${NS}/acquire`, take],
    [`${NS}/try`, take],
    [`${NS}/leases/${open[0]}/consume`, { amounts: { rpm: 1 } }],
    [`${NS}/top-up`, { ...KEY, amounts: { rpm: 1 } }],
    [`${NS}/reset`, KEY],
  ] as const) {
    const refused = await call("POST", path, { body });
    problem(refused, 403, "namespace_frozen");
    assert.deepEqual([refused.body.reason, refused.body.level], [reason, "system"], path);
    assert.match(refused.body.detail, /frozen \(moving to another store\).*unfreeze it with POST \S+\/unfreeze/);
  }
  const delta = await call("POST", `${NS}/leases/${open[0]}/adjust`, { body: { delta: { rpm: 1 } } });
  assert.equal(delta.status, 200);
  assert.equal((await call("POST", `${NS}/leases/${open[0]}/settle`, { body: {} })).body.status, "settled");
  assert.equal((await call("POST", `${NS}/leases/${open[1]}/rollback`)).body.status, "rolledBack");
  assert.equal((await call("POST", `${NS}/leases/${open[2]}/release`, { body: { amounts: { rpm: 1 } } })).status, 200);
  assert.deepEqual((await call("GET", `${NS}/access?entityId=key-1`)).body, { frozen: { reason } });
  const { body: shown } = await call("GET", NS);
  assert.deepEqual([shown.name, shown.status, shown.frozen], ["default", "active", { reason }]);
  assert.deepEqual((await call("GET", "/v1/namespaces?frozen=true")).body.items, [shown]);
  const explained = await call("POST", `${NS}/explain`, { body: { ...KEY, consume: { rpm: 1 } } });
  assert.deepEqual([explained.body.outcome, explained.body.frozen], ["disabled", { reason }]);
  const tag = (await call("PUT", `${NS}/limits`, { body: { limits: ["rpm:7"] } })).headers.get("etag") ?? "";
  assert.equal("frozen" in (await call("GET", `${NS}/limits`)).body, false, "it is no part of a level");
  const warm = await call("POST", `${NS}/unfreeze`);
  assert.deepEqual([warm.status, warm.body], [200, { name: "default", frozen: false, changed: true }]);
  assert.equal("frozen" in (await call("GET", NS)).body, false);
  problem(await call("GET", "/v1/namespaces/nobody"), 404, "namespace_not_found");
  const deleted = await call("DELETE", `${NS}/limits`, { headers: { "if-match": tag } });
  assert.equal(deleted.status, 204, "nor of its tag");
  assert.equal((await call("POST", `${NS}/acquire`, { body: take })).status, 201);
  problem(await call("POST", `${NS}/freeze`, { body: { reason: "" } }), 400, "option_invalid");
  problem(await call("POST", `${NS}/freeze`, { body: { why: "x" } }), 400, "request_invalid");
  problem(await call("POST", "/v1/namespaces/nobody/freeze", { body: {} }), 404, "namespace_not_found");
});

test("who may not administer a namespace does not freeze it; the log names the token that did", async (t) => {
  const [admin, user, other] = [
    tokenOf("ops"),
    tokenOf("app", { scopes: ["acquire", "read"] }),
    tokenOf("else", { namespaces: ["elsewhere"] }),
  ];
  const { call, limiter } = await serviceOf(t, { tokens: [admin.entry, user.entry, other.entry] });
  for (const [{ token }, status] of [
    [user, 403],
    [other, 403],
  ] as const) {
    for (const path of ["freeze", "unfreeze"]) {
      assert.equal((await call("POST", `${NS}/${path}`, { body: {}, token })).status, status);
    }
  }
  assert.equal((await call("POST", `${NS}/freeze`, { body: {}, token: admin.token })).status, 200);
  const [event] = (await limiter.auditEvents({ limit: 1 })).events;
  assert.deepEqual([event?.action, event?.principal, event?.details], ["namespace_frozen", "ops", {}]);
});

test("a client freezes, is refused with the library's error, and unfreezes", async (t) => {
  const { url } = await serviceOf(t);
  const client = new LimiterClient({ url });
  const lease = await client.acquire({ ...KEY, consume: { rpm: 1 } });
  const reason = "month end";
  assert.equal(await client.freezeNamespace("default", { reason }), true);
  assert.equal(await client.freezeNamespace("default", { reason }), false);
  for (const refused of [client.acquire({ ...KEY, consume: { rpm: 1 } }), lease.consume({ rpm: 1 })]) {
    const error = await refused.catch((thrown: unknown) => thrown);
    assert.ok(error instanceof ResourceDisabled, String(error));
    assert.deepEqual([error.code, error.reason, error.httpStatus], ["namespace_frozen", reason, 403]);
  }
  await lease.settle();
  assert.deepEqual(await client.getPolicy({ entityId: "key-1" }), { frozen: { reason } });
  assert.deepEqual((await client.explain(KEY)).frozen, { reason });
  assert.equal(await client.unfreezeNamespace("default"), true);
  assert.equal(await client.unfreezeNamespace("default"), false);
  assert.deepEqual(await client.getPolicy({ entityId: "key-1" }), {});
  await assert.rejects(client.unfreezeNamespace("default", { reason } as never), { code: "option_unknown" });
  await assert.rejects(client.freezeNamespace("default", { principal: "me" }), { code: "option_unknown" });
  await assert.rejects(client.freezeNamespace("nobody"), { code: "namespace_not_found" });
});
