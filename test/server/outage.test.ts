import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { RateLimiter } from "../../src/entry/index.ts";
import { openMemory } from "../../src/entry/memory.ts";
import { createService } from "../../src/entry/server.ts";
import { FaultStore } from "../../src/testing/fault-store.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { clientOf, LIMITS, NS, problem } from "./service-kit.ts";

const take = { entityId: "key-1", resource: "gpt-4", consume: { rpm: 1 } };

/** A service on a store whose calls fail when told to, and a clock that can be made to run. */
async function serviceOn(t: TestContext, onUnavailable: "allow" | "block") {
  const clock = new SimulatedClock(1_800_000_000_000);
  const store = new FaultStore(openMemory(), {});
  let eachReadingMs = 0;
  let lateMs = 0;
  const limiter = await RateLimiter.open({
    store,
    onUnavailable,
    clock: {
      now: () => {
        lateMs += eachReadingMs;
        return clock.now() + lateMs;
      },
      sleep: (ms, signal) => clock.sleep(ms, signal),
    },
  });
  await limiter.setResourceDefaults("gpt-4", LIMITS);
  const service = await createService({ limiter, log: () => {} });
  const { url, close } = await service.listen({ port: 0 });
  t.after(async () => {
    await close();
    await limiter.close();
  });
  const runs = (ms: number) => {
    eachReadingMs = ms;
  };
  return { store, limiter, call: clientOf(url), runs };
}

test("while the store is down and nothing else is said, an acquire is 503 with a time to come again", async (t) => {
  const { store, call, limiter } = await serviceOn(t, "block");
  for (const holdMs of [0, 5_000]) {
    store.failNext("take", "refused");
    const answer = await call("POST", `${NS}/acquire`, { body: { ...take, holdMs } });
    problem(answer, 503, "unavailable");
    assert.ok(Number(answer.headers.get("retry-after")) >= 1);
  }
  assert.equal((await limiter.available(take))[0]?.available, 100);
});

test("where an outage lets work through, an acquire is 200, without a lease, and says why", async (t) => {
  const { store, call, limiter } = await serviceOn(t, "allow");
  for (const holdMs of [0, 5_000]) {
    store.failNext("take", "refused");
    const { status, body } = await call("POST", `${NS}/acquire`, { body: { ...take, holdMs } });
    assert.equal(status, 200);
    assert.match(body.degraded, /the store was unavailable/);
    assert.equal(body.id, undefined, "there is nothing to settle");
  }
  // The next one finds it well again.
  const { status, body } = await call("POST", `${NS}/acquire`, { body: { ...take, holdMs: 5_000 } });
  assert.deepEqual([status, body.degraded], [201, false]);
  assert.equal((await limiter.available(take))[0]?.available, 99);
});

test("a purge that takes longer than 20 s answers how far it came, and goes on with the next call", async (t) => {
  const { call, runs } = await serviceOn(t, "block");
  const { body: made } = await call("POST", "/v1/namespaces", { body: { name: "team" } });
  for (const id of ["a", "b"]) await call("POST", "/v1/namespaces/team/entities", { body: { id } });
  assert.equal((await call("DELETE", "/v1/namespaces/team")).status, 200);
  runs(15_000);
  const cut = await call("POST", `/v1/orphans/${made.id}/purge`);
  runs(0);
  assert.deepEqual([cut.status, cut.body.done], [200, false]);
  assert.ok(cut.body.records >= 2, `${cut.body.records}`);
  const { status, body } = await call("POST", `/v1/orphans/${made.id}/purge`);
  assert.deepEqual([status, body.done], [200, true]);
  problem(await call("POST", `/v1/orphans/${made.id}/purge`), 404, "namespace_not_found");
});
