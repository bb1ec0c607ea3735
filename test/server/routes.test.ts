import assert from "node:assert/strict";
import { test } from "node:test";
import { Validator } from "@seriousme/openapi-schema-validator";
import { Limit } from "../../src/entry/index.ts";
import { routes } from "../../src/server/routes.ts";
import { LIMITS, NS, problem, raw, serviceOf, tokenOf } from "./service-kit.ts";

test("the document is valid OpenAPI 3.1, has every route, and says what each may answer", async (t) => {
  const { call } = await serviceOf(t);
  const { body } = await call("GET", "/openapi.json");
  const result = await new Validator().validate(structuredClone(body));
  assert.ok(result.valid, JSON.stringify(result.errors));
  assert.equal(body.openapi, "3.1.0");
  const operations = Object.entries(body.paths as Record<string, Record<string, { operationId: string }>>).flatMap(
    ([path, methods]) =>
      Object.entries(methods).map(([method, { operationId }]) => ({ key: `${method} ${path}`, operationId })),
  );
  assert.deepEqual(
    operations.map(({ key }) => key).sort(),
    routes.map(({ method, path }) => `${method} ${path}`).sort(),
  );
  assert.equal(
    new Set(operations.map(({ operationId }) => operationId)).size,
    operations.length,
    "ids of operations differ",
  );
  const limit = body.paths[`/v1/namespaces/{namespace}/entities`].get.parameters.find(
    (each: { name: string }) => each.name === "limit",
  );
  assert.deepEqual([limit.schema.type, limit.schema.minimum, limit.schema.maximum], ["integer", 1, 1000]);
  assert.equal(body.components.schemas.AcquireRequest.additionalProperties, false);
});

test("namespaces are found by name, and by a part of it, page by page; a token finds its own", async (t) => {
  const own = tokenOf("own", { namespaces: ["team-3", "team-12", "gone"], scopes: ["read"] });
  const all = tokenOf("all");
  const { call, limiter } = await serviceOf(t, { tokens: [own.entry, all.entry] });
  for (let i = 0; i < 25; i++) await limiter.registerNamespace(`team-${i}`);
  const names = async (query: string, token: string) => {
    const { body } = await call("GET", `/v1/namespaces?${query}`, { token });
    return { names: body.items.map(({ name }: { name: string }) => name), cursor: body.cursor };
  };
  assert.deepEqual((await names("search=EAM-2", all.token)).names, [
    ...["team-2", "team-20", "team-21", "team-22", "team-23", "team-24"],
  ]);
  const found: string[] = [];
  for (let cursor = ""; ; ) {
    const page = await names(`search=-1&limit=2${cursor}`, all.token);
    assert.ok(page.names.length <= 2);
    found.push(...page.names);
    if (page.cursor === undefined) break;
    cursor = `&cursor=${encodeURIComponent(page.cursor)}`;
  }
  assert.deepEqual(found, ["team-1", ...Array.from({ length: 10 }, (_, i) => `team-1${i}`)]);
  assert.deepEqual((await names("name=team-3", all.token)).names, ["team-3"]);
  assert.deepEqual((await names("name=team", all.token)).names, []);
  assert.deepEqual((await names("search=team", own.token)).names, ["team-12", "team-3"]);
  assert.deepEqual((await names("name=team-3", own.token)).names, ["team-3"]);
  for (const name of ["team-4", "gone"]) assert.deepEqual((await names(`name=${name}`, own.token)).names, [], name);
});

test("namespaces are made, listed, hidden, recovered and purged", async (t) => {
  const { call } = await serviceOf(t);
  const made = await call("POST", "/v1/namespaces", { body: { name: "tenant-b" } });
  assert.deepEqual([made.status, made.body.name, made.body.status], [201, "tenant-b", "active"]);
  const again = await call("POST", "/v1/namespaces", { body: { name: "tenant-b" } });
  assert.deepEqual([again.status, again.body.id], [200, made.body.id]);
  await call("POST", "/v1/namespaces/tenant-b/entities", { body: { id: "a" } });
  assert.deepEqual((await call("GET", "/v1/namespaces")).body.items.map(({ name }: { name: string }) => name).sort(), [
    "default",
    "tenant-b",
  ]);
  const deleted = await call("DELETE", "/v1/namespaces/tenant-b");
  assert.deepEqual([deleted.status, deleted.body.status], [200, "deleted"]);
  problem(await call("GET", "/v1/namespaces/tenant-b/entities"), 404, "namespace_not_found");
  problem(await call("DELETE", "/v1/namespaces/tenant-b"), 404, "namespace_not_found");
  assert.deepEqual(
    (await call("GET", "/v1/orphans")).body.items.map(({ id }: { id: string }) => id),
    [made.body.id],
  );
  assert.equal((await call("POST", `/v1/orphans/${made.body.id}/recover`)).body.status, "active");
  assert.equal((await call("GET", "/v1/namespaces/tenant-b/entities/a")).status, 200);
  await call("DELETE", "/v1/namespaces/tenant-b");
  // A new one of the same name is another: what a limiter remembered of the old one must not count.
  assert.equal((await call("POST", "/v1/namespaces", { body: { name: "tenant-b" } })).status, 201);
  problem(await call("GET", "/v1/namespaces/tenant-b/entities/a"), 404, "entity_not_found");
  problem(await call("POST", `/v1/orphans/${made.body.id}/recover`), 409, "namespace_name_taken");
  const purged = await call("POST", `/v1/orphans/${made.body.id}/purge`);
  assert.deepEqual([purged.status, purged.body.done], [200, true]);
  problem(await call("DELETE", "/v1/namespaces/default"), 400, "namespace_default");
});

test("entities are made, changed by version, moved, listed by pages and removed", async (t) => {
  const { call } = await serviceOf(t);
  const made = await call("POST", `${NS}/entities`, {
    body: { id: "proj-1", name: "Production", metadata: { team: "a" } },
  });
  assert.deepEqual([made.status, made.headers.get("location")], [201, `${NS}/entities/proj-1`]);
  for (const id of ["key-1", "key-2", "key-3"])
    await call("POST", `${NS}/entities`, { body: { id, parentId: "proj-1" } });
  problem(await call("POST", `${NS}/entities`, { body: { id: "key-1" } }), 409, "entity_exists");
  const kept = await call("POST", `${NS}/entities`, { body: { id: "key-1", name: "Other", ifAbsent: true } });
  assert.deepEqual([kept.status, kept.body.name, kept.body.version], [200, "key-1", 1]);
  const absent = await call("POST", `${NS}/entities`, { body: { id: "key-9", ifAbsent: true } });
  assert.deepEqual([absent.status, absent.headers.get("location")], [201, `${NS}/entities/key-9`]);
  assert.equal((await call("DELETE", `${NS}/entities/key-9`)).status, 204);
  problem(await call("POST", `${NS}/entities`, { body: { id: "x", parentId: "nope" } }), 404, "parent_not_found");
  problem(await call("POST", `${NS}/entities`, { body: { id: "a b" } }), 400, "entity_id_invalid");
  const changed = await call("PATCH", `${NS}/entities/key-1`, { body: { name: "Key", version: 1 } });
  assert.deepEqual([changed.body.name, changed.body.version], ["Key", 2]);
  problem(await call("PATCH", `${NS}/entities/key-1`, { body: { name: "Other", version: 1 } }), 409, "entity_changed");
  const root = await call("PATCH", `${NS}/entities/key-1`, { body: { parentId: null } });
  assert.equal("parentId" in root.body, false);
  const first = await call("GET", `${NS}/entities?limit=2`);
  assert.equal(first.body.items.length, 2);
  const rest = await call("GET", `${NS}/entities?limit=1000&cursor=${encodeURIComponent(first.body.cursor)}`);
  assert.deepEqual([...first.body.items, ...rest.body.items].map(({ id }) => id).sort(), [
    "key-1",
    "key-2",
    "key-3",
    "proj-1",
  ]);
  assert.equal("cursor" in rest.body, false);
  assert.deepEqual(
    (await call("GET", `${NS}/entities/proj-1/children`)).body.items.map(({ id }: { id: string }) => id),
    ["key-2", "key-3"],
  );
  problem(await call("GET", `${NS}/entities/nope/children`), 404, "entity_not_found");
  problem(await call("DELETE", `${NS}/entities/proj-1`), 409, "entity_has_children");
  const removed = await call("DELETE", `${NS}/entities/key-1`);
  assert.deepEqual([removed.status, removed.body], [204, ""]);
  problem(await call("GET", `${NS}/entities/key-1`), 404, "entity_not_found");
});

test("limits are set, read and deleted at four levels, and the narrowest is in force", async (t) => {
  const { call } = await serviceOf(t);
  const limits = [{ name: "rpm", capacity: 5, refillAmount: 5, refillPeriodMs: 60_000 }];
  const levels = [
    ["", "system"],
    ["?resource=api/v1", "resource"],
    ["?entityId=key-1", "entityDefault"],
    ["?entityId=key-1&resource=api/v1", "entity"],
  ] as const;
  const effective = () => call("GET", `${NS}/limits/effective?entityId=key-1&resource=api/v1`);
  assert.deepEqual((await effective()).body, { limits: [], source: "none", sources: {} });
  for (const [query, level] of levels) {
    problem(await call("GET", `${NS}/limits${query}`), 404, "limits_not_found");
    const set = await call("PUT", `${NS}/limits${query}`, { body: { limits } });
    assert.deepEqual([set.status, set.body.level, set.body.limits], [200, level, limits]);
    const { changed, ...stored } = set.body;
    assert.equal(changed, true);
    assert.deepEqual((await call("GET", `${NS}/limits${query}`)).body, stored);
    assert.deepEqual((await effective()).body, { limits, source: level, sources: { rpm: level } });
  }
  assert.deepEqual((await call("GET", `${NS}/entities/key-1/limits`)).body.items.length, 2);
  assert.deepEqual((await call("GET", `${NS}/resources`)).body.items.sort(), ["api/v1", "gpt-4"]);
  for (const [query] of levels) {
    assert.equal((await call("DELETE", `${NS}/limits${query}`)).status, 204);
    problem(await call("DELETE", `${NS}/limits${query}`), 404, "limits_not_found");
  }
  const outage = await call("PUT", `${NS}/limits`, { body: { limits: [], onUnavailable: "allow" } });
  assert.deepEqual([outage.body.limits, outage.body.onUnavailable], [[], "allow"]);
  problem(
    await call("PUT", `${NS}/limits?resource=x`, { body: { limits, onUnavailable: "allow" } }),
    400,
    "request_invalid",
  );
  problem(await call("PUT", `${NS}/limits`, { body: { limits: [] } }), 400, "limits_empty");
  problem(
    await call("PUT", `${NS}/limits`, { body: { limits: [{ ...limits[0], capacity: 1.5 }] } }),
    400,
    "limit_invalid",
  );
});

test("a limit in a body may be the text that the command line takes", async (t) => {
  const { call } = await serviceOf(t);
  const texts = ["rpm:100,counts=requests", "tpm:10k/min:20k", "month:2M,reset=monthly,counts=tpm"];
  const rpm = { name: "rpm", counts: "requests", capacity: 100, refillAmount: 100, refillPeriodMs: 60_000 };
  const tpm = { name: "tpm", capacity: 20_000, refillAmount: 10_000, refillPeriodMs: 60_000 };
  const set = await call("PUT", `${NS}/limits?resource=gpt-4`, { body: { limits: texts } });
  assert.equal(set.status, 200);
  assert.deepEqual(set.body.limits.slice(0, 2), [rpm, tpm]);
  assert.deepEqual(set.body.limits[2].reset, { cron: "0 0 1 * *", tz: "UTC" });
  const again = await call("PUT", `${NS}/limits?resource=gpt-4`, { body: { limits: [rpm, ...texts.slice(1)] } });
  assert.deepEqual([again.body.changed, again.body.limits], [false, set.body.limits]);
  const totals = await call("PUT", `${NS}/totals?entityId=key-1`, { body: { limits: ["usd:5,reset=daily"] } });
  assert.deepEqual([totals.status, totals.body.limits[0].capacity], [200, 5]);
  const take = { entityId: "key-2", resource: "own", holdMs: 0, limits: ["rpm:1/day"], consume: { rpm: 1 } };
  assert.equal((await call("POST", `${NS}/acquire`, { body: take })).status, 200);
  assert.equal((await call("POST", `${NS}/acquire`, { body: take })).status, 429);
  const wrong = await call("PUT", `${NS}/limits?resource=gpt-4`, { body: { limits: ["rpm:100/fortnight"] } });
  problem(wrong, 400, "limit_invalid");
  assert.match(wrong.body.detail, /the period is "fortnight"; give AMOUNT\/PERIOD with s, min, h or day/);
  problem(await call("PUT", `${NS}/limits?resource=gpt-4`, { body: { limits: ["rpm"] } }), 400, "limit_invalid");
});

test("access and cascade are set and taken back where they are said", async (t) => {
  const { call } = await serviceOf(t);
  const take = { entityId: "key-1", resource: "gpt-4", consume: { rpm: 1 }, holdMs: 0 };
  const set = await call("PUT", `${NS}/access?entityId=key-1&resource=gpt-4`, { body: { access: "disabled" } });
  assert.deepEqual([set.status, set.body], [204, ""]);
  problem(await call("POST", `${NS}/acquire`, { body: take }), 403, "resource_disabled");
  assert.equal((await call("GET", `${NS}/limits?entityId=key-1&resource=gpt-4`)).body.access, "disabled");
  await call("PUT", `${NS}/access?entityId=key-1&resource=gpt-4`, { body: { access: "bypass" } });
  const bypassed = await call("POST", `${NS}/acquire`, { body: take });
  assert.deepEqual([bypassed.status, bypassed.body.bypassed], [200, true]);
  await call("PUT", `${NS}/access?entityId=key-1&resource=gpt-4`, { body: { access: "inherit" } });
  assert.equal((await call("POST", `${NS}/acquire`, { body: take })).body.bypassed, false);
  assert.equal((await call("PUT", `${NS}/cascade?entityId=key-1`, { body: { cascade: false } })).status, 204);
  assert.equal((await call("PUT", `${NS}/cascade?entityId=key-1`, { body: { cascade: "inherit" } })).status, 204);
  problem(await call("PUT", `${NS}/access`, { body: { access: "disabled" } }), 400, "scope_missing");
  problem(await call("PUT", `${NS}/access?entityId=a`, { body: { access: "off" } }), 400, "request_invalid");
});

test("refusals: counted once for each request that ended refused, by window and added up", async (t) => {
  const { call, limiter } = await serviceOf(t);
  await limiter.setResourceDefaults("gpt-4", [Limit.perDay("rpd", 1), Limit.perDay("tpd", 5)]);
  const take = (entityId: string, consume: object, more: object = {}) =>
    call("POST", `${NS}/acquire`, { body: { entityId, resource: "gpt-4", consume, holdMs: 0, ...more } });
  assert.equal((await take("key-1", { rpd: 1, tpd: 5 })).status, 200);
  assert.equal((await take("key-1", { rpd: 1 })).status, 429);
  assert.equal((await take("key-1", { rpd: 1 }, { wait: { maxMs: 0 } })).status, 429);
  assert.equal((await take("key-1", { tpd: 1 })).status, 429);
  const about = { entityId: "key-1", resource: "gpt-4", level: "key-1", total: false, window: "monthly" };
  const counts = await call("GET", `${NS}/refusals?window=monthly`);
  const start = counts.body.items[0].windowStartMs;
  assert.deepEqual(counts.body.items, [
    { ...about, limit: "rpd", windowStartMs: start, count: 2 },
    { ...about, limit: "tpd", windowStartMs: start, count: 1 },
  ]);
  const first = await call("GET", `${NS}/refusals?window=monthly&limit=1`);
  assert.deepEqual(first.body.items, counts.body.items.slice(0, 1));
  const cursor = encodeURIComponent(first.body.cursor);
  const rest = await call("GET", `${NS}/refusals?window=monthly&limit=1&cursor=${cursor}`);
  assert.deepEqual(rest.body, { items: counts.body.items.slice(1) });
  const named = await call("GET", `${NS}/refusals?window=monthly&limit=tpd&pageSize=5&entityId=key-1&resource=gpt-4`);
  assert.deepEqual(named.body, { items: counts.body.items.slice(1) });
  const totals = await call("GET", `${NS}/refusals/totals?by=limit&top=1`);
  assert.deepEqual(totals.body, { items: [{ limit: "rpd", count: 2 }] });
  const logged = await call("GET", `${NS}/refusals/log?entityId=key-1&pageSize=2`);
  assert.deepEqual(
    logged.body.items.map((one: { limit: string; requested: number; available: number; capacity: number }) => [
      ...[one.limit, one.requested, one.available, one.capacity],
    ]),
    [
      ["tpd", 1, 0, 5],
      ["rpd", 1, 0, 1],
    ],
  );
  const oldest = await call("GET", `${NS}/refusals/log?pageSize=2&cursor=${encodeURIComponent(logged.body.cursor)}`);
  assert.deepEqual([oldest.body.items.length, "cursor" in oldest.body], [1, false]);
  // The id of the request is that of the answer, where the caller gave none.
  assert.match(oldest.body.items[0].requestId, /^[\w.:-]+$/);
  for (const wrong of ["pageSize=1001", "window=hourly", "fromMs=x", "by=limit"]) {
    problem(await call("GET", `${NS}/refusals/log?${wrong}`), 400, "request_invalid");
  }
  problem(await call("GET", `${NS}/refusals/log?cursor=x`), 400, "cursor_invalid");
  problem(await call("GET", `${NS}/refusals`), 400, "request_invalid");
  problem(await call("GET", `${NS}/refusals?window=monthly&limit=5000`), 400, "request_invalid");
  problem(await call("GET", `${NS}/refusals?window=monthly&cursor=x`), 400, "cursor_invalid");
  problem(await call("GET", `${NS}/refusals/totals?by=level`), 400, "request_invalid");
});

test("looking changes nothing: available, explain, buckets, usage, audit", async (t) => {
  const { call, limiter } = await serviceOf(t);
  await limiter.createEntity({ id: "proj-1" });
  await limiter.createEntity({ id: "key-1", parentId: "proj-1" });
  await limiter.acquire({ entityId: "key-1", resource: "gpt-4", consume: { rpm: 1, tpm: 500 } });
  const available = await call("GET", `${NS}/available?entityId=key-1&resource=gpt-4`);
  assert.deepEqual(
    available.body.items.map((one: { entityId: string; limit: string; available: number }) => [
      one.entityId,
      one.limit,
      one.available,
    ]),
    [
      ["key-1", "rpm", 99],
      ["key-1", "tpm", 19_500],
      ["proj-1", "rpm", 99],
      ["proj-1", "tpm", 19_500],
    ],
  );
  problem(await call("GET", `${NS}/available?entityId=key-1&resource=other`), 400, "limits_missing");
  const explained = await call("POST", `${NS}/explain`, {
    body: { entityId: "key-1", resource: "gpt-4", consume: { tpm: 20_000 } },
  });
  assert.deepEqual([explained.body.outcome, explained.body.levels.length], ["refused", 2]);
  const never = await call("POST", `${NS}/explain`, {
    body: { entityId: "key-1", resource: "gpt-4", consume: { tpm: 99_999 } },
  });
  assert.deepEqual([never.body.outcome, never.body.retryAfterMs], ["never", null]);
  const at = { entityId: "key-1", resource: "gpt-4", atMs: Date.now() };
  const then = await call("POST", `${NS}/explain`, { body: at });
  assert.deepEqual([then.body.outcome, then.body.levels.length, then.body.refusals], ["past", 2, []]);
  problem(await call("POST", `${NS}/explain`, { body: { ...at, consume: { tpm: 1 } } }), 400, "option_invalid");
  const buckets = await call("GET", `${NS}/buckets?resource=gpt-4&limit=1`);
  assert.deepEqual(buckets.body.items[0].limits[1], {
    limit: "tpm",
    counts: "tpm",
    available: 19_500,
    capacity: 20_000,
    kind: "drip",
    soft: false,
    shadow: false,
  });
  assert.equal((await call("GET", `${NS}/buckets?entityId=nobody`)).body.items.length, 0);
  const usage = await call("GET", `${NS}/usage?window=hourly&entityId=key-1`);
  assert.deepEqual(usage.body.items[0].counters, { rpm: 1, tpm: 500 });
  assert.equal((await call("GET", `${NS}/usage/summary?window=daily`)).body.requests >= 1, true);
  const totals = (await call("GET", `${NS}/usage/totals?window=daily&by=entity`)).body.items;
  assert.ok(totals.some(({ entityId }: { entityId: string }) => entityId === "key-1"));
  problem(await call("GET", `${NS}/usage/totals?window=daily`), 400, "request_invalid");
  const exported = (query: string) => call("GET", `${NS}/usage/export?window=hourly${query}`);
  const csv = await exported("&entityId=key-1");
  assert.match(csv.headers.get("content-type") ?? "", /^text\/csv/);
  assert.match(csv.headers.get("content-disposition") ?? "", /attachment; filename="usage.csv"/);
  assert.match(csv.body, /^entityId,resource,window.*\nkey-1,gpt-4,hourly,.*,1,rpm,1(,0)+\nkey-1,.*,tpm,500(,0)+\n$/);
  const lines = (await exported("&format=ndjson")).body.trim().split("\n");
  assert.deepEqual(lines.map((line: string) => JSON.parse(line).entityId).sort(), ["key-1", "proj-1"]);
  assert.deepEqual((await exported("&format=json&entityId=key-1")).body.items, usage.body.items);
  assert.equal((await call("HEAD", `${NS}/usage/export?window=daily`)).status, 200);
  problem(await exported("&format=xml"), 400, "request_invalid");
  problem(await exported("&fromMs=1700000000"), 400, "instant_invalid");
  problem(await call("GET", `${NS}/usage?window=weekly`), 400, "request_invalid");
  const audit = await call("GET", `${NS}/audit?limit=1`);
  assert.deepEqual([audit.body.items[0].action, typeof audit.body.cursor], ["entity_created", "string"]);
});

test("the summary of usage has each request once beside what every level was charged, in every window", async (t) => {
  const { call, limiter, clock } = await serviceOf(t);
  await limiter.createEntity({ id: "org" });
  await limiter.createEntity({ id: "proj", parentId: "org" });
  await limiter.createEntity({ id: "key", parentId: "proj" });
  const take = (entityId: string, tpm: number) =>
    limiter.acquire({ entityId, resource: "gpt-4", consume: { rpm: 1, tpm } }).then((lease) => lease.settle());
  for (let hour = 0; hour < 2; hour++) {
    for (const [id, tpm] of [
      ["key", 100],
      ["key", 10],
      ["proj", 1],
      ["stranger", 5],
    ] as const) {
      await take(id, tpm);
    }
    clock.advance(3_600_000);
  }
  const summary = async (query: string) => (await call("GET", `${NS}/usage/summary?window=hourly${query}`)).body;
  const all = await summary("");
  // Key and project and organisation: 2 x 3 + 1 x 2 + 1 an hour.
  assert.deepEqual([all.requests, all.total.tpm], [18, 2 * (330 + 2 + 5)]);
  assert.deepEqual(all.once, { requests: 8, total: { rpm: 8, tpm: 2 * 116 } });
  assert.deepEqual((await summary("&entityId=proj")).once, { requests: 6, total: { rpm: 6, tpm: 222 } });
  assert.deepEqual((await summary("&resource=nothing")).once, { requests: 0, total: {} });
});

test("top-up and reset answer the library's result", async (t) => {
  const { call, limiter } = await serviceOf(t);
  await limiter.acquire({ entityId: "key-1", resource: "gpt-4", consume: { tpm: 500 } });
  const topped = await call("POST", `${NS}/top-up`, {
    body: { entityId: "key-1", resource: "gpt-4", amounts: { tpm: 100 } },
  });
  assert.deepEqual(topped.body, { entityId: "key-1", resource: "gpt-4", amounts: { tpm: 100 }, repeated: false });
  const reset = await call("POST", `${NS}/reset`, { body: { entityId: "key-1", resource: "gpt-4", limits: ["tpm"] } });
  assert.equal(reset.status, 200);
  assert.equal(
    (await call("GET", `${NS}/available?entityId=key-1&resource=gpt-4`)).body.items[1].available,
    LIMITS[1]?.capacity,
  );
  problem(
    await call("POST", `${NS}/reset`, { body: { entityId: "key-1", resource: "gpt-4", limits: ["nope"] } }),
    400,
    "limit_unknown",
  );
});

test("charges and give-backs without a lease are the library's; a repeat under a key says so", async (t) => {
  const { call, limiter } = await serviceOf(t);
  const left = async (entityId: string) => (await limiter.available({ entityId, resource: "gpt-4" }))[1]?.available;
  const on = { entityId: "key-1", resource: "gpt-4" };
  const body = { ...on, amounts: { tpm: 500 }, also: [{ entityId: "key-2", resource: "gpt-4", consume: { tpm: 20 } }] };
  const charge = () => call("POST", `${NS}/charge`, { body, headers: { "idempotency-key": "report-1" } });
  assert.deepEqual((await charge()).body, { ...on, amounts: { tpm: 500 }, repeated: false });
  const again = await charge();
  assert.deepEqual([again.body.repeated, again.headers.get("idempotency-replayed")], [true, "true"]);
  assert.deepEqual([await left("key-1"), await left("key-2")], [19_500, 19_980]);
  const back = await call("POST", `${NS}/give-back`, { body: { ...body, amounts: { tpm: 700 } } });
  assert.deepEqual(back.body, { ...on, amounts: { tpm: 500 }, repeated: false });
  assert.deepEqual([await left("key-1"), await left("key-2")], [20_000, 20_000]);
  problem(await call("POST", `${NS}/charge`, { body: { ...on, amounts: { tpn: 1 } } }), 400, "limit_unknown");
});

test("a take for several entities shows its parts, and its header fields name none of them", async (t) => {
  const { call, limiter } = await serviceOf(t);
  const other = { entityId: "key-2", resource: "gpt-4" };
  const also = [{ ...other, consume: { tpm: 20 } }];
  for (const holdMs of [0, 30_000]) {
    const taken = await call("POST", `${NS}/acquire`, {
      body: { entityId: "key-1", resource: "gpt-4", consume: { tpm: 5 }, also, holdMs },
    });
    const parts = [
      { entityId: "key-1", resource: "gpt-4", consumed: { tpm: 5 } },
      { ...other, consumed: { tpm: 20 } },
    ];
    assert.deepEqual([taken.body.parts, taken.body.also], [parts, {}]);
    const policies = taken.headers.get("ratelimit-policy") ?? "";
    assert.match(policies, /^"rpm";.*, "tpm";.*, "gpt-4\/rpm";.*, "gpt-4\/tpm";/);
    assert.doesNotMatch(policies, /key-/);
    if (holdMs === 0) continue;
    const settle = { consumed: { tpm: 6 }, also: [{ ...other, consume: { tpm: 0 } }] };
    const settled = await call("POST", `${NS}/leases/${taken.body.leaseId}/settle`, { body: settle });
    assert.deepEqual(settled.body.parts[1], { ...other, consumed: { tpm: 0 } });
  }
  const most = { entityId: "key-1", resource: "gpt-4", consume: { tpm: 1 }, holdMs: 0 };
  const refused = await call("POST", `${NS}/acquire`, {
    body: { ...most, also: [{ ...other, consume: { tpm: 19_981 } }] },
  });
  problem(refused, 429, "rate_limit_exceeded");
  assert.deepEqual(refused.body["violated-policies"], ["gpt-4/tpm"]);
  problem(await call("POST", `${NS}/acquire`, { body: { ...most, also: [most] } }), 400, "request_invalid");
  problem(
    await call("POST", `${NS}/acquire`, { body: { ...most, also: [{ entityId: "key-1", resource: "gpt-4" }] } }),
    400,
    "also_invalid",
  );
  assert.equal((await limiter.available({ entityId: "key-1", resource: "gpt-4" }))[1]?.available, 20_000 - 11);
});

test("what is unknown or given twice is 400 and says where; bodies that are none are body_invalid", async (t) => {
  const { call, port } = await serviceOf(t);
  for (const [method, path, body, pointer] of [
    ["GET", `${NS}/entities?limt=1`, undefined, "?limt"],
    ["GET", `${NS}/entities?limit=1&limit=2`, undefined, "?limit"],
    ["GET", `${NS}/entities?limit=0`, undefined, "?limit"],
    ["GET", `${NS}/entities?limit=1001`, undefined, "?limit"],
    ["GET", `${NS}/entities?limit=1e2`, undefined, "?limit"],
    ["GET", "/healthz?x", undefined, "?x"],
    ["GET", `${NS}/available?entityId=a`, undefined, "?resource"],
    ["POST", `${NS}/entities`, { id: "a", nmae: "x" }, "/nmae"],
    ["POST", `${NS}/entities`, { id: 5 }, "/id"],
    ["POST", `${NS}/acquire`, { entityId: "a", resource: "b", consume: { "a/b~c": "1" } }, "/consume/a~1b~0c"],
    ["POST", `${NS}/acquire`, { entityId: "a", resource: "b", consume: {}, wait: { maxMs: 30_001 } }, "/wait/maxMs"],
    ["POST", `${NS}/leases/l_x/rollback`, { why: "x" }, "/why"],
  ] as const) {
    const answer = await call(method, path, body === undefined ? {} : { body });
    problem(answer, 400, "request_invalid");
    assert.equal(answer.body.errors[0].pointer, pointer, JSON.stringify(answer.body));
  }
  for (const body of ["", "{", "[]", "null", "5", '"x"', '{"id":"a","__proto__":{"x":1}}']) {
    problem(await call("POST", `${NS}/entities`, { body }), 400, "body_invalid");
  }
  assert.equal((await call("POST", `${NS}/leases/l_x/rollback`, { body: {} })).body.code, "lease_not_found");
  const said = await raw(
    port,
    `GET ${NS}/entities?x=%zz HTTP/1.1\r\nHost: localhost:${port}\r\nConnection: close\r\n\r\n`,
  );
  assert.match(said, /^HTTP\/1\.1 400 /);
});

test("HEAD works where GET does, another method is 405 with Allow, and another path 404", async (t) => {
  const { call, url } = await serviceOf(t);
  for (const path of ["/healthz", "/v1/me", `${NS}/entities`, "/metrics", "/openapi.json", "/", `${NS}/events`]) {
    const head = await fetch(new URL(path, url), { method: "HEAD" });
    assert.deepEqual([head.status, await head.text()], [200, ""], path);
  }
  for (const [method, path, allow] of [
    ["DELETE", "/healthz", "GET, HEAD"],
    ["PUT", `${NS}/entities/a`, "GET, HEAD, PATCH, DELETE"],
    ["GET", `${NS}/acquire`, "POST"],
    ["POST", `${NS}/limits`, "GET, HEAD, PUT, DELETE"],
    ["POST", "/", "GET, HEAD"],
    ["PROPFIND", "/v1/me", "GET, HEAD"],
  ] as const) {
    const answer = await call(method, path);
    problem(answer, 405, "method_not_allowed");
    assert.equal(answer.headers.get("allow"), allow);
  }
  for (const path of ["/v1", "/v2/me", `${NS}`.replace("default", "a/b/c"), `${NS}/leases/x/y`, "/assets/nope.js"]) {
    const answer = await call("GET", path);
    problem(answer, 404, "route_unknown");
  }
});

test("X-Request-Id is taken over where it is safe, else made; never twice", async (t) => {
  const { call } = await serviceOf(t);
  const given = await call("GET", "/v1/me", { headers: { "x-request-id": "abc-1.2:3_4" } });
  assert.equal(given.headers.get("x-request-id"), "abc-1.2:3_4");
  for (const id of ["a b", "x".repeat(65), "<script>"]) {
    const made = await call("GET", "/nope", { headers: { "x-request-id": id } });
    assert.notEqual(made.headers.get("x-request-id"), id);
    assert.equal(made.body.requestId, made.headers.get("x-request-id"));
  }
  const ids = await Promise.all(
    Array.from({ length: 50 }, async () => (await call("GET", "/v1/me")).headers.get("x-request-id")),
  );
  assert.equal(new Set(ids).size, 50);
});

test("metrics are Prometheus text with what happened in it", async (t) => {
  const { call } = await serviceOf(t);
  const body = { entityId: "key-1", resource: "gpt-4", consume: { rpm: 60 }, holdMs: 0 };
  await call("POST", `${NS}/acquire`, { body });
  await call("POST", `${NS}/acquire`, { body });
  const lease = await call("POST", `${NS}/acquire`, { body: { ...body, consume: { tpm: 10 }, holdMs: 5_000 } });
  const mid = (await call("GET", "/metrics")).body;
  assert.match(mid, /^zae_limiter_active_leases\{resource="gpt-4",namespace="default"\} 1$/m);
  await call("POST", `${NS}/leases/${lease.body.leaseId}/rollback`);
  const { headers, body: text } = await call("GET", "/metrics");
  assert.match(headers.get("content-type") ?? "", /^text\/plain; version=0\.0\.4/);
  for (const line of [
    /^zae_limiter_info\{version="[^"]+",store="memory"\} 1$/m,
    /^zae_limiter_requests_total\{result="acquired",resource="gpt-4",namespace="default"\} 2$/m,
    /^zae_limiter_requests_total\{result="refused",resource="gpt-4",namespace="default",limit="rpm",level="0"\} 1$/m,
    /^zae_limiter_tokens_total\{direction="taken",limit="rpm",resource="gpt-4",namespace="default"\} 60$/m,
    /^zae_limiter_tokens_total\{direction="given_back",limit="tpm",resource="gpt-4",namespace="default"\} 10$/m,
    /^zae_limiter_active_leases\{resource="gpt-4",namespace="default"\} 0$/m,
    /^zae_limiter_lease_duration_seconds_count\{resource="gpt-4",namespace="default",status="rolledBack"\} 1$/m,
    /^zae_limiter_acquire_duration_seconds_bucket\{result="acquired",store="memory",namespace="default",le="\+Inf"\} 2$/m,
    /^# TYPE zae_limiter_acquire_duration_seconds histogram$/m,
  ]) {
    assert.match(text, line);
  }
});
