import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { EVERY_STORE } from "./every-store.ts";

// All warnings of this process are counted: the test of their greatest number comes last. They need not be printed.
process.removeAllListeners("warning");

interface Warned extends Error {
  readonly code?: string;
}

/** What Node was told while the test runs; they come a turn later. */
function warnings(t: TestContext) {
  const heard: string[] = [];
  const hear = ({ code, message }: Warned) => {
    if (code === "ZAEL_LIMIT_UNNAMED") heard.push(message);
  };
  process.on("warning", hear);
  t.after(() => process.off("warning", hear));
  return async () => {
    await new Promise((resolve) => setImmediate(resolve));
    return heard.splice(0);
  };
}

const GPT = { resource: "gpt-4" } as const;

for (const [name, open] of EVERY_STORE) {
  test(`${name}: a hard limit that is left out is warned of once, at any level, totals too`, async (t) => {
    const heard = warnings(t);
    const clock = new SimulatedClock(1_800_000_000_000);
    const { store, options } = open(clock, t);
    const limiter = await RateLimiter.open({ ...options, store, clock });
    await limiter.createEntity({ id: "org" });
    for (const id of ["a", "b"]) await limiter.createEntity({ id, parentId: "org" });
    await limiter.setResourceDefaults("gpt-4", [
      Limit.perMinute("rpm", 100, { counts: "requests" }),
      Limit.perMinute("tpm", 1_000),
      Limit.perMinute("seen", 1_000, { soft: true }),
      Limit.perMinute("tried", 1_000, { shadow: true }),
    ]);
    await limiter.setLimits("org", [Limit.perMinute("images", 9)]);
    await limiter.setTotals("org", [Limit.quota("usd", 50, { reset: "monthly" })]);
    // A question takes nothing, and warns of nothing.
    await limiter.explain({ ...GPT, entityId: "a", consume: { tpm: 1 } });
    assert.deepEqual(await heard(), []);
    for (const entityId of ["a", "b", "a"]) await limiter.acquire({ ...GPT, entityId, consume: { tpm: 1 } });
    const [images = "", usd = "", ...others] = await heard();
    assert.match(images, /^The request of a for gpt-4 does not say how much images it uses: the limit images of org/);
    assert.match(usd, /how much usd it uses: the total usd of org counts it\. Name usd in consume, 0 if it uses none/);
    assert.deepEqual(others, []);
    const { levels } = await limiter.explain({ ...GPT, entityId: "a" });
    const said = levels.flatMap(({ entityId, limits, totals }) =>
      [...limits, ...totals].map(({ limit, neverCharged }) => [entityId, limit, neverCharged === true] as const),
    );
    const unused = said.filter(([, , never]) => never).map(([entityId, limit]) => `${entityId} ${limit}`);
    assert.deepEqual(unused, ["a seen", "a tried", "org images", "org usd"]);
    const listed = await limiter.listBuckets({ entityId: "a" });
    const never = listed.flatMap(({ limits }) => limits.filter(({ neverCharged }) => neverCharged));
    assert.deepEqual(
      never.map(({ limit }) => limit),
      ["seen", "tried"],
    );
    // Named with 0 it is named; what a lease takes later names what it likes.
    const named = { images: 0, usd: 0, tpm: 0 };
    const lease = await limiter.acquire({ ...GPT, entityId: "b", consume: named });
    await lease.consume({ usd: 1 });
    await lease.adjust({ tpm: 1 });
    await lease.settle({ usd: 2 });
    assert.deepEqual(await heard(), []);
    await limiter.setAccess({ entityId: "b" }, "bypass");
    await limiter.acquire({ ...GPT, entityId: "b", consume: { usd: 1, images: 0 } });
    assert.deepEqual(await heard(), [], "a level that is bypassed");
    // One limit for all who go by it.
    for (const entityId of ["a", "c"]) await limiter.acquire({ ...GPT, entityId, consume: { requests: 1 } });
    assert.equal((await heard()).length, 1);
    await limiter.close();
  });
}

test("a take of a chain of one warns on the fast path, by steps and by given limits alike", async (t) => {
  const heard = warnings(t);
  const limits = () => [Limit.perMinute("rpm", 9), Limit.perMinute("tpm", 9)];
  const ways: Record<string, (limiter: RateLimiter, consume: { rpm: number }) => unknown> = {
    acquire: (limiter, consume) => limiter.acquire({ ...GPT, entityId: "a", consume }),
    sync: (limiter, consume) => limiter.tryAcquireSync({ ...GPT, entityId: "a", consume }),
    steps: (limiter, consume) => limiter.acquire({ ...GPT, entityId: "a", consume, leavePercent: 1 }),
    given: (limiter, consume) => limiter.acquire({ ...GPT, entityId: "a", consume, limits: limits() }),
  };
  for (const [way, take] of Object.entries(ways)) {
    await using limiter = await RateLimiter.open({ store: "memory" });
    await limiter.setLimits("a", limits());
    for (let i = 0; i < 3; i++) await take(limiter, { rpm: 1 });
    const told = await heard();
    assert.equal(told.length, 1, way);
    assert.match(told[0] ?? "", /the limit tpm of a counts it/, way);
    await using silent = await RateLimiter.open({ store: "memory", unnamedLimits: "allow" });
    await silent.setLimits("a", limits());
    await take(silent, { rpm: 1 });
    await using strict = await RateLimiter.open({ store: "memory", strict: true });
    await strict.createEntity({ id: "a" });
    await strict.setLimits("a", limits());
    await assert.rejects(async () => take(strict, { rpm: 1 }), { code: "measure_missing" }, way);
    assert.deepEqual(await heard(), [], way);
  }
});

test("strict refuses what is unknown and what is unnamed, and an option beside it counts", async () => {
  const take = { entityId: "ghost", resource: "api", consume: { rpm: 1 } };
  const opened = async (options: object) => {
    const limiter = await RateLimiter.open({ store: "memory", strict: true, ...options });
    await limiter.setResourceDefaults("api", [Limit.perMinute("rpm", 9), Limit.perMinute("tpm", 9)]);
    return limiter;
  };
  await using strict = await opened({});
  await assert.rejects(strict.acquire(take), { code: "entity_not_found" });
  await using known = await opened({ unknownEntities: "allow" });
  await assert.rejects(known.acquire(take), { code: "measure_missing" });
  await using neither = await opened({ unknownEntities: "allow", unnamedLimits: "allow" });
  await neither.acquire(take);
  await assert.rejects(opened({ strict: "yes" }), { code: "option_invalid" });
});

test("a process warns a hundred times at most", async (t) => {
  const heard = warnings(t);
  await using limiter = await RateLimiter.open({ store: "memory" });
  const limits = [Limit.perMinute("rpm", 9), Limit.perMinute("tpm", 9)];
  for (let i = 0; i < 110; i++) {
    await limiter.setLimits(`key-${i}`, limits);
    await limiter.acquire({ ...GPT, entityId: `key-${i}`, consume: { rpm: 1 } });
  }
  const told = await heard();
  // Three a store and four ways were told above.
  assert.equal(told.length, 100 - 3 * EVERY_STORE.length - 4);
});
