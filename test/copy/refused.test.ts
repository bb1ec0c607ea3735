import assert from "node:assert/strict";
import { test } from "node:test";
import { copyStore } from "../../src/entry/copy.ts";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { openMemory } from "../../src/entry/memory.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { memoryPlace, START_MS, sqlitePlace, tellStory } from "./kit.ts";

const clock = new SimulatedClock(START_MS);

test("a target that has anything is refused, and nothing is written", async (t) => {
  const from = await (await memoryPlace(t)).open(clock);
  await from.createEntity({ id: "a" });
  const things: readonly ((to: RateLimiter) => Promise<unknown>)[] = [
    (to) => to.createEntity({ id: "b" }),
    (to) => to.createPlan({ id: "p" }),
    (to) => to.setResourceDefaults("api", [Limit.perMinute("rpm", 1)]),
    (to) => to.setAccess({ entityId: "b" }, "disabled"),
    (to) => to.acquire({ entityId: "b", resource: "api", limits: [Limit.perMinute("rpm", 1)], consume: { rpm: 1 } }),
  ];
  for (const make of things) {
    const to = await (await sqlitePlace(t)).open(clock);
    await make(to);
    await assert.rejects(copyStore({ from, to }), { code: "target_not_empty" });
    await assert.rejects(to.getEntity("a"), { code: "entity_not_found" });
  }
});

test("a namespace that only remembers what it had is empty", async (t) => {
  const from = await (await memoryPlace(t)).open(clock);
  await from.setResourceDefaults("api", [Limit.perMinute("rpm", 5)]);
  const to = await (await sqlitePlace(t)).open(clock);
  await to.setResourceDefaults("api", [Limit.perMinute("rpm", 1)]);
  await to.deleteResourceDefaults("api");
  const { namespaces } = await copyStore({ from, to });
  assert.deepEqual(
    namespaces.map(({ active, differences }) => ({ active, differences })),
    [{ active: true, differences: [] }],
  );
  const { limits } = await to.resolveLimits("anybody", "api");
  assert.deepEqual(
    limits.map(({ name, capacity }) => [name, capacity]),
    [["rpm", 5]],
  );
});

test("all active namespaces are copied, or those that are named", async (t) => {
  const from = await (await memoryPlace(t)).open(clock);
  for (const name of ["one", "two", "gone"]) {
    await from.registerNamespace(name);
    await from.namespace(name).createEntity({ id: `of-${name}` });
  }
  await from.deleteNamespace("gone");
  const to = await (await sqlitePlace(t)).open(clock);
  const dry = await copyStore({ from, to, dryRun: true });
  assert.deepEqual(
    dry.namespaces.map(({ name, copied, active }) => [name, copied.entities, active]),
    [
      ["default", 0, false],
      ["one", 1, false],
      ["two", 1, false],
    ],
  );
  assert.equal(dry.dryRun, true);
  await assert.rejects(to.getNamespace("one"), { code: "namespace_not_found" });
  const named = await copyStore({ from, to, namespaces: ["two"] });
  assert.deepEqual(
    named.namespaces.map(({ name, active }) => [name, active]),
    [["two", true]],
  );
  assert.equal((await to.namespace("two").getEntity("of-two")).id, "of-two");
  const events = await to.namespace("two").auditEvents({ limit: 1 });
  assert.equal(events.events[0]?.action, "namespace_copied");
  await assert.rejects(copyStore({ from, to, namespaces: ["gone"] }), { code: "namespace_not_found" });
  await assert.rejects(copyStore({ from, to }), { code: "target_not_empty" });
});

test("both sides are two stores, and the options are known", async (t) => {
  const store = openMemory();
  const from = await RateLimiter.open({ store, clock });
  const again = await RateLimiter.open({ store, clock });
  await assert.rejects(copyStore({ from, to: again }), { code: "stores_same" });
  const to = await (await memoryPlace(t)).open(clock);
  await assert.rejects(copyStore({ from, to, resume: "no" as never }), { code: "option_invalid" });
  await assert.rejects(copyStore({ from, to, namespaces: [] }), { code: "option_invalid" });
  await assert.rejects(copyStore({ from, to, froze: true } as never), { code: "option_unknown" });
  await assert.rejects(copyStore({ from: {} as never, to }), { code: "limiter_invalid" });
});

test("a target whose clock is behind refills nothing until it has caught up", async (t) => {
  const fromClock = new SimulatedClock(START_MS);
  const from = await (await memoryPlace(t)).open(fromClock);
  await tellStory(from, fromClock);
  const place = await sqlitePlace(t);
  const behind = new SimulatedClock(fromClock.now() - 60_000);
  const to = await place.open(behind);
  const left = (limiter: RateLimiter) => limiter.available({ entityId: "globex", resource: "chat" });
  await copyStore({ from, to });
  const before = await left(from);
  assert.deepEqual(await left(to), before);
  await behind.advance(60_000);
  assert.deepEqual(await left(to), before);
  await behind.advance(5_000);
  await fromClock.advance(5_000);
  assert.deepEqual(await left(to), await left(from));
});
