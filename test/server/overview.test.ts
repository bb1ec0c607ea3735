import assert from "node:assert/strict";
import { test } from "node:test";
import { LimiterClient } from "../../src/entry/client.ts";
import { RateLimiter } from "../../src/entry/index.ts";
import { openMemory } from "../../src/entry/memory.ts";
import { createService } from "../../src/entry/server.ts";
import { FaultStore } from "../../src/testing/fault-store.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { clientOf, eventsOf, LIMITS, NS, problem, serviceOf, tokenOf } from "./service-kit.ts";

const take = { entityId: "key-1", resource: "gpt-4", consume: { rpm: 60 }, holdMs: 0 };

test("the route answers the overview of the library, and of the service what did not work", async (t) => {
  const { call, limiter, url, clock } = await serviceOf(t);
  await call("POST", `${NS}/acquire`, { body: take });
  await call("POST", `${NS}/acquire`, { body: take });
  const { status, body } = await call("GET", `${NS}/overview`);
  assert.equal(status, 200);
  assert.deepEqual(body, { ...(await limiter.overview()), degraded: [] });
  assert.deepEqual(
    [body.hours.at(-1)?.refused, body.refusedMost[0]?.entityId, body.refusedMost[0]?.count],
    [1, "key-1", 1],
  );
  await using client = new LimiterClient({ url });
  assert.deepEqual(await client.overview(), body);
  // It is worked out at most every ten seconds.
  await call("POST", `${NS}/acquire`, { body: take });
  await clock.advance(9_999);
  assert.deepEqual((await call("GET", `${NS}/overview`)).body, body);
  await clock.advance(1);
  const later = (await call("GET", `${NS}/overview`)).body;
  assert.deepEqual([later.atMs, later.refusedMost[0].count], [body.atMs + 10_000, 2]);
  problem(await call("GET", `${NS}/overview?entityId=a`), 400, "request_invalid");
  problem(await call("GET", "/v1/namespaces/nobody/overview"), 404, "namespace_not_found");
});

test("a token without `read` gets no overview", async (t) => {
  const [reader, taker] = [tokenOf("r", { scopes: ["read"] }), tokenOf("t", { scopes: ["acquire"] })];
  const { call } = await serviceOf(t, { tokens: [reader.entry, taker.entry] });
  assert.equal((await call("GET", `${NS}/overview`, { token: reader.token })).status, 200);
  problem(await call("GET", `${NS}/overview`, { token: taker.token }), 403, "insufficient_scope");
});

test("what did not work is told for an hour, once a minute, of this namespace", async (t) => {
  const clock = new SimulatedClock(1_800_000_000_000);
  const store = new FaultStore(openMemory(), {});
  const limiter = await RateLimiter.open({ store, onUnavailable: "allow", clock, configTtlMs: 3_600_000 });
  await limiter.setResourceDefaults("gpt-4", LIMITS);
  await limiter.registerNamespace("other");
  const service = await createService({ limiter, log: () => {} });
  const { url } = await service.listen({ port: 0 });
  t.after(async () => {
    await service.close();
    await limiter.close();
  });
  const call = clientOf(url);
  const fail = async () => {
    store.failNext("take", "refused");
    assert.match((await call("POST", `${NS}/acquire`, { body: take })).body.degraded, /unavailable/);
  };
  const seen = async (path = NS) =>
    (await call("GET", `${path}/overview`)).body.degraded as { atMs: number; reason: string }[];
  const atMs = clock.now();
  await fail();
  await fail();
  assert.equal((await seen()).length, 1);
  assert.equal((await seen())[0]?.atMs, atMs);
  assert.match((await seen())[0]?.reason ?? "", /unavailable/);
  assert.deepEqual(await seen("/v1/namespaces/other"), []);
  await clock.advance(60_000);
  await fail();
  assert.deepEqual(
    (await seen()).map((fault) => fault.atMs - atMs),
    [60_000, 0],
  );
  await clock.advance(3_540_000);
  assert.equal((await seen()).length, 1);
  await clock.advance(60_000);
  assert.deepEqual(await seen(), []);
});

test("a stream that names the type gets the requests of each second, and no other stream does", {
  timeout: 60_000,
}, async (t) => {
  const { call, url } = await serviceOf(t);
  const counted = await eventsOf(url, `${NS}/events?types=requests`);
  const all = await eventsOf(url, `${NS}/events`);
  await counted.next("hello");
  for (let i = 0; i < 3; i++) await call("POST", `${NS}/acquire`, { body: take });
  const sum = { granted: 0, refused: 0 };
  while (sum.granted + sum.refused < 3) {
    const { granted, refused } = ((await counted.next("requests")) as { data: unknown }).data as typeof sum;
    sum.granted += granted;
    sum.refused += refused;
  }
  assert.deepEqual(sum, { granted: 1, refused: 2 });
  const heard = [];
  for (let i = 0; i < 4; i++) heard.push((await all.next("hello", "acquired", "refused", "requests"))?.event);
  assert.deepEqual(heard, ["hello", "acquired", "refused", "refused"]);
  counted.leave();
  all.leave();
});
