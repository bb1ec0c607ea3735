import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { Limit, type OpenOptions, type PastQuestion, RateLimiter } from "../../src/entry/index.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { tempFile } from "../sqlite/temp-store.ts";

const T0 = Date.UTC(2026, 2, 15, 12);
const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

const rpm = (n: number) => Limit.perMinute("rpm", n);
const tpm = (n: number) => Limit.perMinute("tpm", n);

async function opened(options: OpenOptions = {}) {
  const clock = new SimulatedClock(T0);
  const limiter = await RateLimiter.open({ store: "memory", clock, ...options });
  const at = async (atMs: number) => limiter.explain({ entityId: "key", resource: "api", atMs });
  const limitsAt = async (atMs: number) => {
    const { levels } = await at(atMs);
    return levels.flatMap(({ entityId, limits, totals }) =>
      [...limits, ...totals].map(({ definition, source, sinceMs, untilMs }) => {
        const span = [sinceMs, untilMs].map((ms) => (ms === undefined ? "" : String((ms - T0) / MINUTE_MS)));
        return `${entityId} ${definition.name}=${definition.capacity} ${source} ${span.join("-")}`;
      }),
    );
  };
  return { clock, limiter, at, limitsAt };
}

const stores = [
  ["memory", () => "memory"],
  ["SQLite", (t: TestContext) => `sqlite:${tempFile(t)}`],
] as const;

for (const [name, storeOf] of stores) {
  test(`on ${name}: access that has an end is shown until then, and the base from then on`, async (t) => {
    const { clock, limiter, at } = await opened({ store: storeOf(t) });
    t.after(() => limiter.close());
    const endMs = T0 + 10 * MINUTE_MS;
    await limiter.createEntity({ id: "key" });
    await limiter.setSystemDefaults([rpm(1)]);
    await limiter.setAccess({ resource: "api" }, "disabled");
    await limiter.setAccess({ entityId: "key" }, "bypass", { untilMs: endMs });
    const accessAt = async (atMs: number) => {
      const [level] = (await at(atMs)).levels;
      return [level?.access, level?.accessSource, level?.accessUntilMs];
    };
    // While it runs, and after it has ended and nobody has set anything since.
    for (const nowMs of [T0 + MINUTE_MS, endMs + MINUTE_MS]) {
      clock.set(nowMs);
      assert.deepEqual(await accessAt(endMs - 1), ["bypass", "entityDefault", endMs]);
      assert.deepEqual(await accessAt(endMs), ["disabled", "resource", undefined]);
    }
  });

  test(`on ${name}: limits, totals and sources are those of the instant, with their spans`, async (t) => {
    const { clock, limiter, limitsAt } = await opened({ store: storeOf(t) });
    t.after(() => limiter.close());
    await limiter.createEntity({ id: "org" });
    await limiter.createEntity({ id: "key", parentId: "org", cascade: true });
    await limiter.setSystemDefaults([rpm(1), tpm(100)]);
    await clock.advance(10 * MINUTE_MS);
    await limiter.setLimits("key", [rpm(5)], { inherit: true });
    await clock.advance(10 * MINUTE_MS);
    await limiter.setTotals("org", [Limit.quota("day", 50, { resetAfterMs: HOUR_MS })]);
    await clock.advance(10 * MINUTE_MS);
    await limiter.deleteLimits("key");
    await clock.advance(10 * MINUTE_MS);
    assert.deepEqual(await limitsAt(T0 - 1), []);
    assert.deepEqual(await limitsAt(T0 + 5 * MINUTE_MS), [
      "key rpm=1 system 0-10",
      "key tpm=100 system 0-",
      "org rpm=1 system 0-",
      "org tpm=100 system 0-",
    ]);
    assert.deepEqual(await limitsAt(T0 + 20 * MINUTE_MS), [
      "key rpm=5 entityDefault 10-30",
      "key tpm=100 system 0-",
      "org rpm=1 system 0-",
      "org tpm=100 system 0-",
      "org day=50 entityTotal 20-",
    ]);
    // The instant of a change is after it.
    assert.deepEqual((await limitsAt(T0 + 30 * MINUTE_MS)).slice(0, 2), [
      "key rpm=1 system 30-",
      "key tpm=100 system 0-",
    ]);
    assert.deepEqual((await limitsAt(T0 + 30 * MINUTE_MS - 1)).slice(0, 1), ["key rpm=5 entityDefault 10-30"]);
  });

  test(`on ${name}: the plan is the one that the entity had then, with what the plan said then`, async (t) => {
    const { clock, limiter, at, limitsAt } = await opened({ store: storeOf(t) });
    t.after(() => limiter.close());
    for (const id of ["free", "pro"]) await limiter.createPlan({ id });
    await limiter.setPlanLimits("free", [rpm(1)]);
    await limiter.setPlanLimits("pro", [rpm(10)]);
    await limiter.createEntity({ id: "key", planId: "free" });
    await clock.advance(10 * MINUTE_MS);
    await limiter.setPlanLimits("free", [rpm(2)]);
    await clock.advance(10 * MINUTE_MS);
    await limiter.updateEntity("key", { planId: "pro" });
    await clock.advance(10 * MINUTE_MS);
    await limiter.setPlanLimits("free", [rpm(3)]);
    await clock.advance(10 * MINUTE_MS);
    const plans = [];
    for (const minute of [5, 15, 25, 35]) {
      const { levels } = await at(T0 + minute * MINUTE_MS);
      plans.push([levels[0]?.planId, ...(await limitsAt(T0 + minute * MINUTE_MS))]);
    }
    assert.deepEqual(plans, [
      ["free", "key rpm=1 planDefault 0-10"],
      ["free", "key rpm=2 planDefault 10-20"],
      ["pro", "key rpm=10 planDefault 20-"],
      ["pro", "key rpm=10 planDefault 20-"],
    ]);
  });
}

test("the refusals of that minute stand beside the limits that made them", async () => {
  const { clock, limiter, at } = await opened();
  await limiter.setLimits("key", [rpm(1)]);
  const ask = (entityId: string, requestId: string) =>
    limiter.tryAcquire({ entityId, resource: "api", consume: { rpm: 1 }, requestId });
  await limiter.setLimits("other", [rpm(1)]);
  for (const entityId of ["key", "other"]) await ask(entityId, "first");
  await clock.advance(3 * MINUTE_MS - 1);
  await ask("key", "granted again");
  await ask("key", "too early");
  await clock.advance(1);
  await ask("key", "in that minute");
  await ask("other", "granted");
  await ask("other", "of somebody else");
  await clock.advance(59_999);
  const { outcome, refusals, knownFromMs } = await at(T0 + 3 * MINUTE_MS + 30_000);
  assert.deepEqual([outcome, knownFromMs], ["past", undefined]);
  assert.deepEqual(
    refusals?.map(({ requestId, atMs }) => [requestId, atMs]),
    [["in that minute", T0 + 3 * MINUTE_MS]],
  );
  assert.deepEqual(
    (await at(T0 + 2 * MINUTE_MS)).refusals?.map(({ requestId }) => requestId),
    ["too early"],
  );
});

test("beyond the eight changes that are kept it says since when it knows", async () => {
  const { clock, limiter, at } = await opened();
  for (let i = 0; i < 9; i++) {
    await limiter.setLimits("key", [rpm(i + 1)]);
    await clock.advance(MINUTE_MS);
  }
  // The first change of nine is forgotten: the one before the second is the oldest that is known.
  const before = await at(T0);
  assert.equal(before.knownFromMs, T0 + MINUTE_MS);
  assert.deepEqual(
    before.levels[0]?.limits.map(({ definition, sinceMs, untilMs }) => [definition.capacity, sinceMs, untilMs]),
    [[1, undefined, T0 + MINUTE_MS]],
  );
  assert.equal((await at(T0 + MINUTE_MS)).knownFromMs, undefined);
});

test("an instant ahead shows what applies then as far as it is known, and has no refusals", async () => {
  const { limiter, at } = await opened();
  await limiter.setLimits("key", [rpm(5)]);
  const { outcome, levels, refusals } = await at(T0 + HOUR_MS);
  assert.deepEqual([outcome, levels[0]?.limits.length, refusals], ["ahead", 1, []]);
});

test("what cannot be told of another time is refused, and so is an instant that is none", async () => {
  const { limiter } = await opened();
  await limiter.setLimits("key", [rpm(5)]);
  const about = { entityId: "key", resource: "api" };
  const wrong = [
    [{ ...about, atMs: T0, consume: { rpm: 1 } }, "option_invalid"],
    [{ ...about, atMs: T0, leavePercent: 10 }, "option_invalid"],
    [{ ...about, atMs: T0, limits: [rpm(1)] }, "option_invalid"],
    [{ ...about, atMs: 1_773_576_000 }, "instant_invalid"],
    [{ ...about, atMs: T0 + 0.5 }, "instant_invalid"],
    [{ ...about, atMs: Number.NaN }, "instant_invalid"],
    [{ ...about, atMs: T0 + 367 * 24 * HOUR_MS }, "instant_invalid"],
    [{ ...about, entityId: "a b", atMs: T0 }, "entity_id_invalid"],
  ] as const;
  for (const [question, code] of wrong) {
    await assert.rejects(async () => limiter.explain(question as PastQuestion), { code }, JSON.stringify(question));
  }
});

test("who keeps no log explains without refusals", async () => {
  for (const options of [{ refusalLog: false }, { countRefusals: false }, { usage: false }] as const) {
    const { limiter, at } = await opened(options);
    await limiter.setLimits("key", [rpm(5)]);
    assert.equal("refusals" in (await at(T0)), false);
  }
});
