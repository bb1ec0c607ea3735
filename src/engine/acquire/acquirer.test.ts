import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "../../../test/properties.ts";
import { type AcquireRequest, Limit, type Outcome, RateLimiter } from "../../entry/index.ts";
import { openMemory } from "../../entry/memory.ts";
import type { BucketsMaybeInPlace } from "../../ports/bucket-store.ts";
import type { ScopedStore, Store } from "../../ports/store.ts";
import { overriding } from "../../testing/fault-store.ts";
import { SimulatedClock } from "../../testing/simulated-clock.ts";

const T0 = Date.UTC(2026, 2, 15, 12);

function withScope(store: Store, change: (scope: ScopedStore) => Partial<ScopedStore>): Store {
  return overriding(store, {
    scope: (namespaceId) => {
      const scope = store.scope(namespaceId);
      return { ...scope, ...change(scope) };
    },
  });
}

/** The shortest way never takes: every attempt goes through all steps. */
const byAllSteps = (store: Store) =>
  withScope(store, ({ buckets }) => ({
    buckets: overriding<BucketsMaybeInPlace>(buckets, { takeOne: () => undefined }),
  }));

/** Every answer is a promise, as over a network. */
const later = (store: Store) =>
  withScope(byAllSteps(store), ({ buckets, config }) => ({
    buckets: overriding<BucketsMaybeInPlace>(buckets, {
      takeOne: () => undefined,
      take: async (claims, context) => buckets.take(claims, context),
    }),
    config: overriding(config, { resolve: async (entityId, resource) => config.resolve(entityId, resource) }),
  }));

const WAYS: readonly (readonly [
  name: string,
  store: (memory: Store) => Store,
  ask: (limiter: RateLimiter, request: AcquireRequest) => Promise<Outcome> | Outcome,
])[] = [
  ["async", (store) => store, (limiter, request) => limiter.tryAcquire(request)],
  ["sync", (store) => store, (limiter, request) => limiter.tryAcquireSync(request)],
  ["async, all steps", byAllSteps, (limiter, request) => limiter.tryAcquire(request)],
  ["sync, all steps", byAllSteps, (limiter, request) => limiter.tryAcquireSync(request)],
  ["all answers later", later, (limiter, request) => limiter.tryAcquire(request)],
];

async function openAll() {
  return Promise.all(
    WAYS.map(async ([name, change, ask]) => {
      const clock = new SimulatedClock(T0);
      const limiter = await RateLimiter.open({ store: change(openMemory()), clock });
      await limiter.setResourceDefaults("api", [Limit.perMinute("rpm", 60), Limit.perMinute("tpm", 6_000)]);
      await limiter.setResourceDefaults("gpu", [Limit.perMinute("slots", 6, { soft: true })]);
      await limiter.createEntity({ id: "team" });
      await limiter.createEntity({ id: "key", parentId: "team", cascade: true });
      return { name, clock, limiter, ask: (request: AcquireRequest) => ask(limiter, request) };
    }),
  );
}

async function outcomeOf(ask: () => Promise<Outcome> | Outcome): Promise<unknown> {
  try {
    const outcome = await ask();
    return outcome.ok ? { ...outcome.lease.consumed, overdrawn: outcome.lease.overdrawn } : outcome;
  } catch (error) {
    return (error as Error).message;
  }
}

const requests: fc.Arbitrary<AcquireRequest> = fc.record(
  {
    entityId: fc.constantFrom("solo", "key", "team"),
    resource: fc.constantFrom("api", "api", "gpu", "nowhere"),
    consume: fc.dictionary(fc.constantFrom("rpm", "tpm", "slots"), fc.integer({ min: -1, max: 70 }), { maxKeys: 2 }),
    also: fc.constantFrom({ gpu: { slots: 1 } }, { gpu: { slots: 9 } }),
    limits: fc.constant([Limit.perMinute("rpm", 90)]),
  },
  { requiredKeys: ["entityId", "resource", "consume"] },
);

test("a request has the same outcome by every way through the engine", async () => {
  const step = fc.record({ afterMs: fc.integer({ min: 0, max: 15_000 }), request: requests });
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 20 }), async (steps) => {
      const all = await openAll();
      for (const { afterMs, request } of steps) {
        const outcomes: unknown[] = [];
        for (const { clock, ask } of all) {
          await clock.advance(afterMs);
          outcomes.push(await outcomeOf(() => ask(request)));
        }
        for (const [i, outcome] of outcomes.entries()) assert.deepEqual(outcome, outcomes[0], WAYS[i]?.[0]);
      }
    }),
    { numRuns: 100 },
  );
});

test("a request that is no request is an error by every way, and never thrown where a promise is due", async () => {
  for (const { limiter, name } of await openAll()) {
    for (const wrong of [null, undefined, 5, "acquire"]) {
      const request = wrong as unknown as AcquireRequest;
      await assert.rejects(limiter.tryAcquire(request), { code: "request_invalid" }, name);
      assert.throws(() => limiter.tryAcquireSync(request), { code: "request_invalid" }, name);
    }
  }
});

test("limits that change each time they are applied are given up on, not tried for ever", async () => {
  const unstable = (store: Store) =>
    withScope(store, ({ buckets }) => ({
      buckets: overriding<BucketsMaybeInPlace>(buckets, {
        takeOne: () => undefined,
        take: () => "stale",
        takeSync: () => "stale",
      }),
    }));
  const limiter = await RateLimiter.open({ store: unstable(openMemory()) });
  await limiter.setResourceDefaults("api", [Limit.perMinute("rpm", 60)]);
  const request = { entityId: "solo", resource: "api", consume: { rpm: 1 } };
  await assert.rejects(limiter.tryAcquire(request), { name: "ConflictError", code: "config_unstable" });
  assert.throws(() => limiter.tryAcquireSync(request), { code: "config_unstable" });
});

test("a synchronous request that only its parent is charged for is decided where no number tells of changed configuration", async () => {
  const unnumbered = (store: Store) =>
    withScope(store, ({ config }) => ({ config: overriding(config, { generation: () => undefined }) }));
  const limiter = await RateLimiter.open({ store: unnumbered(openMemory()) });
  await limiter.createEntity({ id: "team" });
  await limiter.createEntity({ id: "key", parentId: "team", cascade: true });
  await limiter.setLimits("team", [Limit.perMinute("tpm", 6_000)]);
  await limiter.setLimits("key", [Limit.perMinute("rpm", 60)]);
  const request = { entityId: "key", resource: "api", consume: { tpm: 1 } };
  for (const outcome of [limiter.tryAcquireSync(request), await limiter.tryAcquire(request)]) assert.ok(outcome.ok);
});

test("where only an answer tells of changed configuration nobody is told off by what is remembered of it", async () => {
  const memory = openMemory();
  let reads = 0;
  const remote = withScope(later(memory), ({ config }) => ({
    config: overriding(config, {
      generation: () => undefined,
      resolveSync: undefined as never,
      resolve: async (entityId, resource) => {
        reads++;
        return config.resolve(entityId, resource);
      },
    }),
  }));
  const [limiter, other] = [await RateLimiter.open({ store: remote }), await RateLimiter.open({ store: memory })];
  await other.setResourceDefaults("api", [Limit.perMinute("rpm", 60)]);
  const ask = (measure: string) => limiter.tryAcquire({ entityId: "solo", resource: "api", consume: { [measure]: 1 } });
  assert.ok((await ask("rpm")).ok);
  await other.setResourceDefaults("api", [Limit.perMinute("rpm", 60), Limit.perMinute("tpm", 100)]);
  assert.ok((await ask("tpm")).ok);
  reads = 0;
  assert.ok((await ask("tpm")).ok);
  assert.equal(reads, 0);
  // It is read once to be certain, and then told.
  await assert.rejects(ask("tokens"), { code: "limit_unknown" });
  assert.equal(reads, 1);
});
