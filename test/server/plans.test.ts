import assert from "node:assert/strict";
import { test } from "node:test";
import { Limit } from "../../src/entry/index.ts";
import { LIMITS, NS, problem, serviceOf } from "./service-kit.ts";

test("plans are made, listed, changed, given to entities and deleted", async (t) => {
  const { call } = await serviceOf(t);
  const made = await call("POST", `${NS}/plans`, { body: { id: "gold", metadata: { price: "10" } } });
  assert.deepEqual([made.status, made.body.name, made.body.version], [201, "gold", 1]);
  assert.equal(made.headers.get("location"), `${NS}/plans/gold`);
  assert.equal((await call("POST", `${NS}/plans`, { body: { id: "gold" } })).body.code, "plan_exists");
  const changed = await call("PATCH", `${NS}/plans/gold`, { body: { name: "Gold", version: 1 } });
  assert.deepEqual([changed.status, changed.body.name, changed.body.version], [200, "Gold", 2]);
  assert.deepEqual((await call("GET", `${NS}/plans/gold`)).body, changed.body);
  assert.deepEqual((await call("GET", `${NS}/plans`)).body.items, [changed.body]);
  const missing = await call("POST", `${NS}/entities`, { body: { id: "a", planId: "golf" } });
  assert.deepEqual([missing.status, missing.body.code], [404, "plan_not_found"]);
  const entity = await call("POST", `${NS}/entities`, { body: { id: "a", planId: "gold" } });
  assert.deepEqual([entity.status, entity.body.planId], [201, "gold"]);
  const members = await call("GET", `${NS}/entities?planId=gold`);
  assert.deepEqual(
    members.body.items.map(({ id }: { id: string }) => id),
    ["a"],
  );
  assert.deepEqual((await call("DELETE", `${NS}/plans/gold`)).body.code, "plan_in_use");
  assert.equal((await call("PATCH", `${NS}/entities/a`, { body: { planId: null } })).body.planId, undefined);
  assert.equal((await call("DELETE", `${NS}/plans/gold`)).status, 204);
  assert.equal((await call("GET", `${NS}/plans/gold`)).status, 404);
});

test("limits of a plan, their options, and whether a set changed anything", async (t) => {
  const { call } = await serviceOf(t);
  await call("POST", `${NS}/plans`, { body: { id: "gold" } });
  const body = { limits: LIMITS, inherit: true, appliesTo: "callers" };
  const first = await call("PUT", `${NS}/limits?planId=gold`, { body });
  assert.deepEqual([first.status, first.body.changed, first.body.level], [200, true, "planDefault"]);
  assert.deepEqual([first.body.planId, first.body.inherit, first.body.appliesTo], ["gold", true, "callers"]);
  assert.equal((await call("PUT", `${NS}/limits?planId=gold`, { body })).body.changed, false);
  const absent = { limits: LIMITS.slice(0, 1), ifAbsent: true };
  assert.equal((await call("PUT", `${NS}/limits?planId=gold`, { body: absent })).body.changed, false);
  assert.equal((await call("PUT", `${NS}/limits?planId=gold&resource=api`, { body: absent })).body.changed, true);
  assert.equal((await call("GET", `${NS}/limits?planId=gold&resource=api`)).body.level, "plan");
  await call("POST", `${NS}/entities`, { body: { id: "a", planId: "gold" } });
  const effective = await call("GET", `${NS}/limits/effective?entityId=a&resource=api`);
  assert.equal(effective.body.source, "plan");
  assert.deepEqual(Object.values(effective.body.sources), ["plan"]);
  assert.equal((await call("PUT", `${NS}/limits?planId=golf`, { body })).body.code, "plan_not_found");
  assert.equal((await call("PUT", `${NS}/limits?planId=gold&entityId=a`, { body })).status, 400);
  assert.equal((await call("DELETE", `${NS}/limits?planId=gold`)).status, 204);
  assert.equal((await call("GET", `${NS}/limits?planId=gold`)).status, 404);
});

test("who has totals only reads them as totals, granted and refused", async (t) => {
  const { call } = await serviceOf(t);
  await call("PUT", `${NS}/totals?entityId=broke`, { body: { limits: ["usd:1,reset=monthly"] } });
  const body = { entityId: "broke", resource: "new", consume: { usd: 1 }, holdMs: 0 };
  const granted = await call("POST", `${NS}/acquire`, { body });
  assert.equal(granted.status, 200);
  assert.match(granted.headers.get("ratelimit-policy") ?? "", /^"\*\/usd";q=1/);
  const refused = await call("POST", `${NS}/acquire`, { body });
  assert.equal(refused.status, 429);
  assert.match(refused.headers.get("ratelimit") ?? "", /^"\*\/usd";r=0/);
  assert.deepEqual(refused.body["violated-policies"], ["*/usd"]);
  assert.match(refused.body.detail, /^Rate limit exceeded for broke over all resources: usd; retry in /);
});

test("totals of an entity, a plan and everybody", async (t) => {
  const { call } = await serviceOf(t);
  await call("POST", `${NS}/plans`, { body: { id: "gold" } });
  for (const [query, level] of [
    ["?entityId=acme", "entityTotal"],
    ["?planId=gold", "planTotal"],
    ["", "systemTotal"],
  ] as const) {
    assert.equal((await call("GET", `${NS}/totals${query}`)).status, 404);
    const set = await call("PUT", `${NS}/totals${query}`, { body: { limits: LIMITS, appliesTo: "callers" } });
    assert.deepEqual([set.status, set.body.level, set.body.changed], [200, level, true]);
    const { changed: _, ...stored } = set.body;
    assert.deepEqual((await call("GET", `${NS}/totals${query}`)).body, stored);
    assert.equal((await call("DELETE", `${NS}/totals${query}`)).status, 204);
  }
});

test("all levels of an entity, a plan or a resource in one answer; what says nothing is there, empty", async (t) => {
  const { call } = await serviceOf(t);
  const levels = async (query: string) => {
    const { status, body } = await call("GET", `${NS}/limits/levels${query}`);
    assert.equal(status, 200);
    const items = body.items as { level: string; limits: unknown[] }[];
    return [body.planId, ...items.map(({ level, limits }) => `${level} ${limits.length}`)];
  };
  assert.deepEqual(await levels(""), [undefined, "system 0", "systemTotal 0"]);
  assert.deepEqual(await levels("?entityId=nobody"), [
    ...[undefined, "entityDefault 0", "system 0", "entityTotal 0", "systemTotal 0"],
  ]);
  await call("POST", `${NS}/plans`, { body: { id: "gold" } });
  await call("POST", `${NS}/entities`, { body: { id: "a", planId: "gold" } });
  await call("PUT", `${NS}/limits?planId=gold`, { body: { limits: LIMITS, inherit: true } });
  await call("PUT", `${NS}/totals?entityId=a`, { body: { limits: LIMITS } });
  const count = LIMITS.length;
  assert.deepEqual(await levels("?entityId=a&resource=api"), [
    ...["gold", "entity 0", "entityDefault 0", "plan 0", `planDefault ${count}`, "resource 0", "system 0"],
    ...[`entityTotal ${count}`, "planTotal 0", "systemTotal 0"],
  ]);
  assert.deepEqual((await levels("?planId=gold")).slice(0, 2), ["gold", `planDefault ${count}`]);
  assert.equal((await call("GET", `${NS}/limits/levels?planId=golf`)).body.code, "plan_not_found");
});

test("the next resets of a quota are told before it is set, and what is wrong with one is no error", async (t) => {
  const { call } = await serviceOf(t);
  const monthly = await call("GET", `${NS}/limits/resets?cron=monthly&tz=Europe/Berlin`);
  assert.deepEqual([monthly.status, monthly.body.cron, monthly.body.nextMs.length], [200, "0 0 1 * *", 3]);
  const [first, second] = monthly.body.nextMs as number[];
  const days = ((second as number) - (first as number)) / 86_400_000;
  assert.ok(days > 27 && days < 32, `${days} days`);
  for (const query of ["cron=montly", "cron=0 25 * * *", "cron=daily&tz=Mars/Olympus"]) {
    const { status, body } = await call("GET", `${NS}/limits/resets?${query}`);
    assert.deepEqual([status, body.nextMs], [200, []], query);
    assert.match(body.problem, /montly|25|Mars/);
  }
});

test("what is stored for everybody is one list: the system, its totals, and every resource", async (t) => {
  const { call, limiter } = await serviceOf(t);
  const list = async (query = "") => (await call("GET", `${NS}/limits/defaults${query}`)).body;
  const levels = async () => (await list()).items.map(({ level }: { level: string }) => level);
  assert.deepEqual(await levels(), ["resource"]);
  await limiter.setSystemDefaults(LIMITS);
  await limiter.setSystemTotals(LIMITS);
  await limiter.setResourceDefaults("api", LIMITS.slice(0, 1), { appliesTo: "callers" });
  await limiter.setAccess({ resource: "closed" }, "disabled");
  assert.deepEqual(await levels(), ["system", "systemTotal", "resource", "resource"]);
  const first = await list("?limit=1");
  assert.deepEqual(first.items[2], {
    level: "resource",
    resource: "api",
    limits: LIMITS.slice(0, 1),
    appliesTo: "callers",
  });
  const next = await list(`?limit=1&cursor=${encodeURIComponent(first.cursor)}`);
  assert.deepEqual(
    next.items.map(({ resource }: { resource: string }) => resource),
    ["gpt-4"],
  );
});

test("limits are changed only while they are what was read: If-Match, or nothing is changed and 412 tells what is there", async (t) => {
  const { call, limiter } = await serviceOf(t);
  const body = { limits: LIMITS };
  const other = { limits: LIMITS.slice(0, 1) };
  for (const path of [
    ...[`${NS}/limits?entityId=a`, `${NS}/limits?entityId=a&resource=api`, `${NS}/limits?resource=api`, `${NS}/limits`],
    ...[`${NS}/totals?entityId=a`, `${NS}/totals`],
  ]) {
    const put = (sent: object, headers: Record<string, string>) => call("PUT", path, { body: sent, headers });
    problem(await put(body, { "if-match": '"nothing"' }), 412, "limits_changed");
    problem(await put(body, { "if-match": "*" }), 412, "limits_changed");
    const made = await put(body, { "if-none-match": "*" });
    assert.deepEqual([made.status, made.body.changed], [200, true]);
    const tag = made.headers.get("etag") ?? "";
    assert.match(tag, /^"[\w-]{22}"$/);
    assert.equal((await call("GET", path)).headers.get("etag"), tag);
    problem(await put(other, { "if-none-match": "*" }), 412, "limits_changed");

    const changed = await put(other, { "if-match": `"else", ${tag}` });
    assert.equal(changed.body.changed, true);
    const late = await put(body, { "if-match": tag });
    problem(late, 412, "limits_changed");
    assert.deepEqual(late.body.current.limits, other.limits);
    assert.equal(late.headers.get("etag"), changed.headers.get("etag"));
    assert.deepEqual((await call("GET", path)).body.limits, other.limits, "nothing was changed");
    assert.equal((await put(other, { "if-match": "*" })).body.changed, false);
    problem(await put(body, { "if-match": `W/${changed.headers.get("etag")}` }), 412, "limits_changed");

    problem(await call("DELETE", path, { headers: { "if-match": tag } }), 412, "limits_changed");
    const gone = await call("DELETE", path, { headers: { "if-match": changed.headers.get("etag") ?? "" } });
    assert.equal(gone.status, 204);
    assert.equal((await call("GET", path)).status, 404);
  }
  problem(await call("PUT", `${NS}/limits`, { body, headers: { "if-match": "abc" } }), 400, "request_invalid");
  problem(await call("PUT", `${NS}/limits`, { body, headers: { "if-none-match": '"a"' } }), 400, "request_invalid");
  const both = { "if-match": "*", "if-none-match": "*" };
  problem(await call("PUT", `${NS}/limits`, { body, headers: both }), 400, "request_invalid");
  // The order of limits is nobody's change, and neither the trail nor anybody who listens heard of what was refused.
  await limiter.setSystemDefaults(LIMITS);
  const { etag } = (await call("GET", `${NS}/limits/levels`)).body.items[0];
  await limiter.setSystemDefaults(LIMITS.toReversed());
  assert.equal((await call("GET", `${NS}/limits`)).headers.get("etag"), etag);
  const trail = (await call("GET", `${NS}/audit?entityId=$SYSTEM`)).body.items;
  assert.equal(trail.length, 7, trail.map(({ action }: { action: string }) => action).join());
});

test("of two who change the same limits at once by what they read, one is told that it lost", async (t) => {
  const { call, limiter } = await serviceOf(t);
  await limiter.setResourceDefaults("api", LIMITS);
  const tag = (await call("GET", `${NS}/limits?resource=api`)).headers.get("etag") ?? "";
  const answers = await Promise.all(
    [1, 2, 3].map((rate) =>
      call("PUT", `${NS}/limits?resource=api`, {
        body: { limits: [Limit.perMinute("rpm", rate)] },
        headers: { "if-match": tag },
      }),
    ),
  );
  assert.deepEqual(answers.map(({ status }) => status).toSorted(), [200, 412, 412]);
});
