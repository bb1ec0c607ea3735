import assert from "node:assert/strict";
import { test } from "node:test";
import { Limit } from "../../src/entry/index.ts";
import { NS, problem, raw, serviceOf, tokenOf } from "./service-kit.ts";

const MANIFEST = {
  owner: "platform",
  resources: { api: { limits: { rpm: 100 } } },
  entities: { acme: { name: "Acme" } },
};

test("a manifest is planned, applied, compared and exported over HTTP, each by its scope", async (t) => {
  const ci = tokenOf("ci", { namespaces: ["default"], scopes: ["admin"] });
  const reader = tokenOf("reader", { namespaces: ["default"], scopes: ["read"] });
  const { call, limiter } = await serviceOf(t, { tokens: [ci.entry, reader.entry] });
  const body = { manifest: MANIFEST };
  for (const path of ["plan", "apply"]) {
    problem(await call("POST", `${NS}/manifest/${path}`, { body, token: reader.token }), 403, "insufficient_scope");
  }
  for (const path of ["drift", "export"]) {
    problem(await call("GET", `${NS}/manifest/${path}`, { token: ci.token }), 403, "insufficient_scope");
  }
  const elsewhere = "/v1/namespaces/other/manifest/plan";
  problem(await call("POST", elsewhere, { body, token: ci.token }), 403, "namespace_forbidden");
  const drift = () => call("GET", `${NS}/manifest/drift?owner=platform`, { token: reader.token });
  problem(await drift(), 404, "manifest_not_applied");

  const planned = await call("POST", `${NS}/manifest/plan`, { body, token: ci.token });
  assert.deepEqual([planned.status, planned.body.summary.create, "refusal" in planned.body], [200, 2, false]);
  assert.deepEqual([...(await limiter.listEntities())], [], "a plan only reads");
  const { changes } = planned.body;
  const applied = await call("POST", `${NS}/manifest/apply`, { body: { ...body, changes }, token: ci.token });
  assert.deepEqual([applied.status, applied.body.complete, applied.body.changes.length], [200, true, 2]);
  assert.deepEqual((await limiter.auditEvents()).events.map(({ principal }) => principal).slice(0, 2), ["ci", "ci"]);
  assert.deepEqual((await drift()).body.drift, []);
  await limiter.setResourceDefaults("api", [Limit.perMinute("rpm", 1)]);
  assert.equal((await drift()).body.drift.length, 1);

  const owned = await call("GET", `${NS}/manifest/export?owner=platform`, { token: reader.token });
  assert.deepEqual(owned.body, {
    document: {
      ...{ namespace: "default", owner: "platform" },
      ...{ resources: { api: { limits: { rpm: "1/min" } } }, entities: { acme: { name: "Acme" } } },
    },
    warnings: [],
  });
  const whole = await call("GET", `${NS}/manifest/export`, { token: reader.token });
  assert.deepEqual(
    [whole.body.document.owner, Object.keys(whole.body.document.resources)],
    ["platform", ["api", "gpt-4"]],
  );
  // Without the changes that were shown, it makes those that there are.
  const again = await call("POST", `${NS}/manifest/apply`, { body, token: ci.token });
  assert.deepEqual(
    again.body.changes.map(({ action, done }: { action: string; done: boolean }) => [action, done]),
    [["update", true]],
  );
});

test("what cannot be applied: a plan says why, an apply is refused, and nothing is changed", async (t) => {
  const { call, limiter } = await serviceOf(t);
  const post = (path: string, body: object) => call("POST", `${NS}/manifest/${path}`, { body });
  assert.equal((await post("apply", { manifest: MANIFEST })).status, 200);
  const events = (await limiter.auditEvents()).events.length;
  const empty = { owner: "platform", resources: {} };
  const theirs = { owner: "other", resources: { api: { limits: { rpm: 1 } } } };
  for (const [manifest, code] of [
    [empty, "deletions_need_prune"],
    [theirs, "owned_by_other"],
  ] as const) {
    const plan = await post("plan", { manifest });
    assert.deepEqual([plan.status, plan.body.refusal.code], [200, code]);
    problem(await post("apply", { manifest }), 409, code);
    problem(await post("apply", { manifest, changes: plan.body.changes }), 409, code);
  }
  for (const [body, status, code] of [
    [{ manifest: { ...MANIFEST, namespace: "other" } }, 400, "namespace_mismatch"],
    [{ manifest: MANIFEST, owner: "other" }, 400, "owner_mismatch"],
    [{ manifest: MANIFEST, owner: "a b" }, 400, "entity_id_invalid"],
    [{ manifest: empty, keep: true, prune: true }, 400, "options_invalid"],
    [{ manifest: { entities: { c: { parent: "nobody" } } } }, 404, "parent_not_found"],
    [{ manifest: "resources: {}" }, 400, "request_invalid"],
    [{ manifset: {} }, 400, "request_invalid"],
    [{}, 400, "request_invalid"],
  ] as const) {
    for (const path of ["plan", "apply"]) problem(await post(path, body), status, code);
  }
  problem(
    await call("POST", "/v1/namespaces/gone/manifest/plan", { body: { manifest: empty } }),
    404,
    "namespace_not_found",
  );
  const pruned = { manifest: empty, prune: true };
  // Changes that were not shown, and what is no change.
  problem(await post("apply", { ...pruned, changes: [] }), 409, "plan_outdated");
  const [first, second] = (await post("plan", pruned)).body.changes;
  problem(
    await post("apply", { ...pruned, changes: [{ ...first, after: { name: 1 } }, second] }),
    409,
    "plan_outdated",
  );
  const odd = { ...second, before: {} };
  problem(await post("apply", { ...pruned, changes: [first, odd] }), 400, "plan_invalid");
  problem(await post("apply", { ...pruned, changes: [{ action: "delete" }] }), 400, "request_invalid");
  await limiter.setTotals("acme", [Limit.perMinute("rpm", 1)]);
  problem(await post("apply", pruned), 409, "entity_in_use");
  await limiter.deleteTotals("acme");
  assert.equal((await limiter.auditEvents()).events.length, events + 2);
  problem(await call("GET", `${NS}/manifest/drift?owner=nobody`), 404, "manifest_not_applied");
  problem(await call("GET", `${NS}/manifest/export?owner=nobody`), 404, "manifest_not_applied");
  problem(await call("GET", `${NS}/manifest/export?owned=yes`), 400, "request_invalid");
  await post("apply", { manifest: { owner: "other", resources: { b: { limits: { rpm: 1 } } } } });
  problem(await call("GET", `${NS}/manifest/export`), 409, "owners_several");
});

test("a manifest that is wrong is 400 with every problem and its path", async (t) => {
  const { call } = await serviceOf(t);
  const manifest = {
    resources: { "a/b": { limts: { rpm: 1 } }, b: { limits: { rpm: 10.5, q: "5,reset=* * 31 2 *" } } },
  };
  for (const path of ["plan", "apply"]) {
    const answer = await call("POST", `${NS}/manifest/${path}`, { body: { manifest } });
    problem(answer, 400, "manifest_invalid");
    assert.deepEqual(
      answer.body.problems.map(({ code, path: at, line }: { code: string; path: string; line: number }) => [
        code,
        at,
        line,
      ]),
      [
        ["key_unknown", "/resources/a~1b/limts", 0],
        ["value_invalid", "/resources/b/limits/rpm", 0],
        ["cron_invalid", "/resources/b/limits/q", 0],
      ],
    );
    assert.match(answer.body.detail, /^\/resources\/a~1b\/limts: unknown key "limts"; did you mean "limits"\?\n/);
  }
  problem(await call("POST", `${NS}/manifest/plan`, { body: { manifest: {} } }), 400, "manifest_invalid");
  const deep = `{"manifest":{"resources":${'{"a":'.repeat(50_000)}1${"}".repeat(50_000)}}}`;
  problem(await call("POST", `${NS}/manifest/plan`, { body: deep }), 400, "manifest_invalid");
});

test("a manifest may be larger than other bodies, up to 4 MiB; beyond that it is 413 before it is read", async (t) => {
  const { call, port, limiter } = await serviceOf(t, { bodyMax: 1_000 });
  const names = Array.from({ length: 2_000 }, (_, i) => [`key-${i}`, { create: false, limits: { rpm: 5 } }]);
  const body = { manifest: { entities: Object.fromEntries(names) } };
  assert.ok(JSON.stringify(body).length > 65_536);
  const planned = await call("POST", `${NS}/manifest/plan`, { body });
  assert.deepEqual([planned.status, planned.body.summary.create], [200, 2_000]);
  problem(await call("POST", `${NS}/entities`, { body: { id: "x".repeat(1_000) } }), 413, "body_too_large");
  const head = `POST ${NS}/manifest/apply HTTP/1.1\r\nHost: localhost:${port}\r\nContent-Type: application/json\r\n`;
  const told = await raw(port, `${head}Content-Length: 4194305\r\n\r\n{`, /body_too_large.*\}/s);
  assert.match(
    told,
    /^HTTP\/1\.1 413 [\s\S]*more than 4194304 bytes; send less, or start the service with a larger --body-max/,
  );
  const chunk = "x".repeat(1_000_000);
  const chunks = `${chunk.length.toString(16)}\r\n${chunk}\r\n`.repeat(5);
  assert.match(
    await raw(port, `${head}Transfer-Encoding: chunked\r\n\r\n${chunks}`, /body_too_large/),
    /^HTTP\/1\.1 413 /,
  );
  assert.deepEqual([...(await limiter.listEntitiesWithLimits("gpt-4"))], []);
});

test("an apply works for some seconds at a time, and one that fails tells what it has made", async (t) => {
  const { call, limiter, clock } = await serviceOf(t);
  const create = limiter.createEntity.bind(limiter);
  t.mock.method(limiter, "createEntity", async (...given: Parameters<typeof create>) => {
    await clock.advance(5_000);
    return create(...given);
  });
  const body = { manifest: { entities: { a: { name: "A" }, b: { name: "B" } } } };
  const apply = (sent: object) => call("POST", `${NS}/manifest/apply`, { body: sent });
  const shown = { ...body, changes: (await call("POST", `${NS}/manifest/plan`, { body })).body.changes };
  const ids: string[] = [];
  for (let part = 0, complete = false; !complete; part++) {
    assert.ok(part < 3);
    const answer = await apply(shown);
    ids.push(...answer.body.changes.map(({ entityId }: { entityId: string }) => entityId));
    complete = answer.body.complete;
  }
  assert.deepEqual(ids, ["a", "b"]);
  // Somebody sets limits while the first entity is made: they are not overwritten.
  t.mock.method(limiter, "createEntity", async (...given: Parameters<typeof create>) => {
    await limiter.setResourceDefaults("r", [Limit.perMinute("rpm", 3)]);
    return create(...given);
  });
  const failed = await apply({
    manifest: { owner: "o", entities: { d: { name: "D" } }, resources: { r: { limits: { rpm: 9 } } } },
  });
  problem(failed, 409, "plan_outdated");
  assert.deepEqual(
    failed.body.made.map(({ entityId, done }: { entityId: string; done: boolean }) => [entityId, done]),
    [["d", true]],
  );
  assert.match(failed.body.detail, /1 change was made before/);
});
