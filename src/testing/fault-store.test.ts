import assert from "node:assert/strict";
import { test } from "node:test";
import { claim, kinds, T0, TestedNamespace } from "../../test/kit/contract-kit.ts";
import { Limit } from "../domain/limits/limit.ts";
import { RateLimiterUnavailable } from "../domain/names/errors.ts";
import { openMemory } from "../entry/memory.ts";
import { type Fault, FaultStore } from "./fault-store.ts";
import { SeededRandom } from "./random.ts";

const rpm = [Limit.perMinute("rpm", 10)];
const FAULTS: readonly Fault[] = ["refused", "lostBefore", "lostAfter"];

async function faulty(options: ConstructorParameters<typeof FaultStore>[1] = {}) {
  const inner = openMemory();
  const faults = new FaultStore(inner, options);
  return { faults, place: await TestedNamespace.in(faults), behind: await TestedNamespace.in(inner) };
}

test("a take that fails says unavailable, and only a lost answer has taken", async () => {
  for (const fault of FAULTS) {
    const { faults, place, behind } = await faulty();
    faults.failNext("take", fault);
    assert.deepEqual(kinds(await place.take([claim("a", rpm, { rpm: 4 })], T0)), ["unavailable"]);
    const state = await behind.state("a");
    assert.equal(state !== undefined, fault === "lostAfter");
    assert.deepEqual(kinds(await place.take([claim("a", rpm, { rpm: 4 })], T0)), ["taken"]);
  }
});

test("a write that fails says whether it may have been applied, and only a lost answer was", async () => {
  for (const fault of FAULTS) {
    const { faults, place, behind } = await faulty();
    await place.take([claim("a", rpm, { rpm: 4 })], T0);
    for (const call of ["debit", "credit"] as const) {
      const before = await behind.level("a", "rpm", T0);
      faults.failNext(call, fault);
      const reply = await place[call](claim("a", rpm, {}), { rpm: 1 }, T0);
      assert.equal(reply.kind, "unavailable");
      assert.equal(reply.applied, fault === "refused" ? "no" : "unknown");
      assert.equal((await behind.level("a", "rpm", T0)) !== before, fault === "lostAfter");
    }
  }
});

test("reads and changes that fail throw, and only a lost answer has changed anything", async () => {
  for (const fault of FAULTS) {
    const { faults, place, behind } = await faulty();
    faults.failNext("resolve", fault);
    await assert.rejects(async () => place.scope.config.resolve("a", "api"), RateLimiterUnavailable);
    faults.failNext("change", fault);
    await assert.rejects(async () => place.set({ level: "system" }, rpm), RateLimiterUnavailable);
    assert.equal((await behind.scope.config.resolve("a", "api")).source === "system", fault === "lostAfter");
  }
});

test("an ordered fault waits until as many calls of its kind have passed", async () => {
  const { faults, place } = await faulty();
  faults.failNext("take", "refused", 2);
  const asked = [];
  for (let i = 0; i < 4; i++) asked.push(...kinds(await place.take([claim("a", rpm, { rpm: 1 })], T0)));
  assert.deepEqual(asked, ["taken", "taken", "unavailable", "taken"]);
});

test("split, a call answers each claim, and others may come between", async () => {
  const { place, behind } = await faulty({ split: true });
  await behind.take([claim("parent", rpm, { rpm: 10 })], T0);
  const answers = await place.take([claim("child", rpm, { rpm: 1 }), claim("parent", rpm, { rpm: 1 })], T0);
  assert.deepEqual(kinds(answers), ["taken", "short"]);
  assert.equal(await behind.level("child", "rpm", T0), 9_000);
  assert.equal(place.scope.config.generation(), undefined);
});

test("after a crash nothing reaches the store and nobody is answered, whatever was under way", async () => {
  let apply = () => {};
  const pause = () =>
    new Promise<void>((resolve) => {
      apply = resolve;
    });
  const { faults, behind } = await faulty();
  const line = new FaultStore(faults, { pause });
  const { buckets } = line.scope("default");
  const context = { nowMs: T0, timeoutMs: 1_000, generation: undefined, atomic: false };
  const hung = [buckets.take([claim("a", rpm, { rpm: 1 })], context)];
  line.crash();
  apply();
  hung.push(buckets.take([claim("a", rpm, { rpm: 1 })], context));
  const nothing = new Promise((resolve) => setImmediate(() => resolve("nothing")));
  assert.equal(await Promise.race([...hung, nothing]), "nothing");
  assert.equal(await behind.state("a"), undefined);
});

test("by seed, calls fail about as often as asked, and the same ones again", async () => {
  const outcomes = async () => {
    const { place } = await faulty({ random: new SeededRandom(3), rates: { take: 0.2 } });
    const told = [];
    for (let i = 0; i < 200; i++) told.push(...kinds(await place.take([claim("a", rpm, { rpm: 0 })], T0)));
    return told;
  };
  const told = await outcomes();
  const failed = told.filter((kind) => kind === "unavailable").length;
  assert.ok(failed > 20 && failed < 60, `${failed} of 200`);
  assert.deepEqual(await outcomes(), told);
});
