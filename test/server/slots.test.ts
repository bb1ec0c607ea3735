import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { ClientLimiter } from "../../src/client/client.ts";
import { HoldLost } from "../../src/entry/errors.ts";
import { Limit } from "../../src/entry/index.ts";
import { here } from "../cli/in-process.ts";
import { NS, problem, serviceOf } from "./service-kit.ts";

const take = { entityId: "key-1", resource: "gpt-4", consume: { rpm: 1, parallel: 1 } };

async function withSlots(t: TestContext, holdMs = 60_000) {
  const opened = await serviceOf(t);
  const { limiter, call } = opened;
  await limiter.setResourceDefaults("gpt-4", [
    Limit.perMinute("rpm", 100),
    Limit.concurrent("parallel", 2, { holdMs }),
  ]);
  const free = async () => (await limiter.available(take)).find(({ limit }) => limit === "parallel")?.available;
  const acquire = (more: object = {}) => call("POST", `${NS}/acquire`, { body: { ...take, ...more } });
  return { ...opened, free, acquire };
}

test("a limit on how many are at once is set as JSON and as text, and shown as it was set", async (t) => {
  const { call } = await serviceOf(t);
  const limits = [
    { name: "parallel", capacity: 10, refillAmount: 0, refillPeriodMs: 1000, holdMs: 60_000 },
    "jobs:4@5m,counts=requests",
  ];
  const set = await call("PUT", `${NS}/limits?resource=gpu`, { body: { limits } });
  assert.equal(set.status, 200, JSON.stringify(set.body));
  const jobs = {
    name: "jobs",
    counts: "requests",
    capacity: 4,
    refillAmount: 0,
    refillPeriodMs: 1000,
    holdMs: 300_000,
  };
  assert.deepEqual((await call("GET", `${NS}/limits?resource=gpu`)).body.limits, [limits[0], jobs]);
  const wrong = { ...jobs, holdMs: 1_500 };
  problem(await call("PUT", `${NS}/limits?resource=gpu`, { body: { limits: [wrong] } }), 400, "limit_invalid");
});

test("a lease holds its slots for as long as it lives, and its header fields have no window for them", async (t) => {
  const { acquire, free, call, clock } = await withSlots(t);
  const taken = await acquire();
  assert.equal(taken.status, 201);
  assert.equal(taken.body.expiresAtMs, clock.now() + 60_000);
  assert.equal(taken.headers.get("ratelimit-policy"), '"rpm";q=100;w=60, "parallel";q=2');
  assert.equal(taken.headers.get("ratelimit"), '"rpm";r=99;t=1, "parallel";r=1');
  problem(await acquire({ holdMs: 60_001 }), 400, "hold_too_long");
  problem(await acquire({ holdMs: 0 }), 400, "hold_needed");
  await acquire();
  const refused = await acquire();
  problem(refused, 429, "rate_limit_exceeded");
  assert.match(refused.headers.get("ratelimit") ?? "", /"parallel";r=0;t=60/);
  const settled = await call("POST", `${NS}/leases/${taken.body.leaseId}/settle`, { body: {} });
  assert.deepEqual([settled.status, settled.body.status, await free()], [200, "settled", 1]);
});

test("an extension renews slots; where they were forgotten it is 409, and counted", async (t) => {
  const { acquire, call, clock, limiter } = await withSlots(t);
  const { leaseId } = (await acquire()).body;
  await clock.advance(50_000);
  const extended = await call("POST", `${NS}/leases/${leaseId}/extend`, { body: { holdMs: 60_000 } });
  assert.deepEqual([extended.status, extended.body.expiresAtMs], [200, clock.now() + 60_000]);
  const cut = await call("POST", `${NS}/leases/${leaseId}/extend`, { body: { holdMs: 90_000 } });
  assert.ok(cut.status === 200 && cut.body.expiresAtMs < clock.now() + 90_000, "its slots end earlier");
  await limiter.resetBucket({ entityId: "key-1", resource: "gpt-4", limits: ["parallel"] });
  problem(await call("POST", `${NS}/leases/${leaseId}/extend`, { body: { holdMs: 60_000 } }), 409, "hold_lost");
  const metrics = (await call("GET", "/metrics")).body as string;
  assert.match(metrics, /^zael_holds_lost_total\{resource="gpt-4",namespace="default"\} 1$/m);
});

test("a client asks for no longer than slots are held, renews them, and hears when they are lost", async (t) => {
  const { url, limiter, free, clock } = await withSlots(t, 30_000);
  const client = new ClientLimiter({ url }, clock);
  const lease = await client.acquire(take);
  assert.equal(lease.holdsUntilMs, clock.now() + 30_000);
  await clock.advance(20_000);
  assert.equal(await lease.renew(), true);
  assert.equal(lease.holdsUntilMs, clock.now() + 30_000);
  await limiter.resetBucket({ entityId: "key-1", resource: "gpt-4", limits: ["parallel"] });
  assert.equal(await lease.renew(), false);
  assert.ok(lease.signal.aborted && lease.signal.reason instanceof HoldLost);
  assert.match(String(lease.degraded), /held no more/);
  await lease.settle();
  assert.equal(await free(), 2);
  await assert.rejects(client.acquire({ ...take, holdMs: 60_000 }), { code: "hold_too_long" });
  await client.close();
});

test("a client's lease that takes a slot later lives as long as that slot, and its end waits for its renewal", async (t) => {
  const { url, clock, free } = await withSlots(t);
  const client = new ClientLimiter({ url, holdMs: 300_000 }, clock);
  const lease = await client.acquire({ entityId: "key-1", resource: "gpt-4", consume: { rpm: 1 } });
  assert.equal(lease.holdsUntilMs, clock.now() + 300_000);
  await lease.consume({ parallel: 1 });
  assert.ok((lease.holdsUntilMs ?? 0) <= clock.now() + 75_000);
  assert.equal(await free(), 1);
  await clock.advance(20_000);
  await Promise.all([lease.renew(), lease.settle()]);
  assert.equal(await free(), 2);
  await client.close();
});

test("the command line holds a slot for as long as it is told, shows it, and else gives it back at once", async (t) => {
  const { url, free } = await withSlots(t);
  const run = async (...args: string[]) => {
    const { code, stdout, stderr } = await here([...args, "--url", url]);
    assert.equal(code, 0, stderr);
    return stdout;
  };
  assert.match(await run("acquire", "key-1", "gpt-4", "-c", "rpm=1,parallel=1", "--allow-unknown"), /^Granted\.\n/);
  assert.equal(await free(), 2);
  const held = await run(
    "acquire",
    "key-1",
    "gpt-4",
    "-c",
    "rpm=1,parallel=1",
    "--hold-ms",
    "30000",
    "--allow-unknown",
  );
  assert.match(held, /^Granted, and held\.\n/);
  assert.equal(await free(), 1);
  const told = await run("explain", "key-1", "gpt-4");
  assert.match(told, /^parallel {2}concurrent {2}1 of 2 free, 1 held, next free by \d\d:\d\d:\d\d UTC$/m);
});
