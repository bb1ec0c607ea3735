import assert from "node:assert/strict";
import { test } from "node:test";
import { openMemory } from "../src/adapters/memory/store.ts";
import { Limit, RateLimitExceeded, type RateLimiter, RateLimiterUnavailable, ValidationError } from "../src/entry/index.ts";
import { FaultStore } from "../src/testing/fault-store.ts";
import { held, lease, MINUTE_MS, open, processes, rpm } from "./defects/kit.ts";

// Defects of the original (reference/original-core.md, section 6), each as the symptom a caller saw. Those that only exist
// on DynamoDB wait for that store: W2, W4-W7, W16, W17, W22-W24, W27. W37 is tested beside the SQLite store.
//
// | here                     | defects                                                                        |
// | ------------------------ | ------------------------------------------------------------------------------ |
// | defects-w.test.ts        | W1 W3 W8 W9 W10 W11 W12 W13a-e W14 W15 W18 W19 W20 W21 W25 W26                  |
// | defects-names.test.ts    | W28 W29 W30 W31 W32 W33 W34 W35 W36 W38 W39 W40                                 |
// | defects-x.test.ts        | X7 X8 X12 X13 X16 X18 X25 of reference/original-0.17-core.md, section 5          |

test("W1: a child whose parent is exhausted is told so, with both statuses as they stood before", async () => {
  const { limiter } = await open();
  await family(limiter, { child: 100, parent: 10 });
  await lease(limiter, "child", { rpm: 8 });
  const error = await limiter.acquire({ entityId: "child", resource: "api", consume: { rpm: 5 } }).catch((e) => e);
  assert.ok(error instanceof RateLimitExceeded, String(error));
  assert.deepEqual(
    error.statuses.map(({ entityId, available, exceeded }) => [entityId, available, exceeded]),
    [
      ["child", 92, false],
      ["parent", 2, true],
    ],
  );
  assert.equal(error.primary.entityId, "parent");
  assert.equal(error.retryAfterMs, 18_000);
});

test("W3: a limit added to a live bucket neither locks its entity out nor poisons the bucket", async () => {
  const { limiter } = await open();
  await limiter.setLimits("a", rpm(10));
  await lease(limiter, "a", { rpm: 4 });
  await limiter.setLimits("a", [...rpm(10), Limit.perMinute("tpm", 100)]);
  // Once without the new limit, once with it.
  await lease(limiter, "a", { rpm: 1 });
  await lease(limiter, "a", { rpm: 1, tpm: 60 });
  assert.deepEqual(await held(limiter, "a"), { rpm: 4, tpm: 40 });
});

test("W8: adjusting or rolling back after the entity was deleted does not poison it for those who come later", async () => {
  const { limiter } = await open();
  await limiter.setSystemDefaults([...rpm(10), Limit.perMinute("tpm", 100)]);
  for (const close of ["rollback", "settle"] as const) {
    await limiter.createEntity({ id: "a" });
    const open = await limiter.acquire({ entityId: "a", resource: "api", consume: { rpm: 3 } });
    await limiter.deleteEntity("a");
    await open.adjust({ tpm: 5, rpm: -1 });
    await open[close]();
    await limiter.createEntity({ id: "a" });
    await lease(limiter, "a", { rpm: 1, tpm: 1 });
    const left = await held(limiter, "a");
    assert.ok(left.rpm !== undefined && left.rpm <= 10 && left.rpm >= 6, JSON.stringify(left));
    await limiter.deleteEntity("a");
    assert.deepEqual(await limiter.resourceCapacity("api", "rpm").then(({ entities }) => entities), []);
  }
});

test("W9: two clients, one five seconds ahead, taking in turn get the capacity and five seconds' refill, no more", async () => {
  const { clock, limiters } = await processes([0, 5_000]);
  await limiters[0]!.setSystemDefaults(rpm(60));
  let granted = 0;
  for (let i = 0; i < 400; i++) {
    const outcome = await limiters[i % 2]!.tryAcquire({ entityId: "a", resource: "api", consume: { rpm: 1 } });
    if (outcome.ok) granted++;
    await clock.advance(1);
  }
  assert.equal(granted, 65);
});

test("W10: ten a day drip in although a limit of one a second beside it is taken from all the time", async () => {
  const { limiter, clock } = await open();
  await limiter.setSystemDefaults([Limit.perSecond("rps", 1), Limit.perDay("rpd", 10)]);
  await lease(limiter, "a", { rpd: 10 });
  for (let s = 0; s < 8_640; s += 8) {
    await clock.advance(8_000);
    await lease(limiter, "a", { rps: 1 });
  }
  assert.equal((await held(limiter, "a")).rpd, 1);
});

test("W11: an outage in the middle of an acquire follows onUnavailable, wherever it happens", async () => {
  for (const call of ["resolve", "take"] as const) {
    const { limiter: allows, faults } = await open({ onUnavailable: "allow" });
    await allows.setSystemDefaults(rpm(10));
    faults.failNext(call, "refused");
    const granted = await lease(allows, "a", { rpm: 1 });
    assert.match(String(granted.degraded), /unavailable/);

    const { limiter: blocks, faults: others } = await open({ onUnavailable: "block" });
    await blocks.setSystemDefaults(rpm(10));
    others.failNext(call, "refused");
    await assert.rejects(lease(blocks, "a", { rpm: 1 }), RateLimiterUnavailable);
  }
});

test("W11: a programming error is nobody's outage, and lets nobody in", async () => {
  const store = openMemory();
  const broken = {
    ...store,
    scope: (id: string) => ({
      ...store.scope(id),
      buckets: Object.assign(Object.create(store.scope(id).buckets), {
        take: async () => {
          throw new TypeError("a bug");
        },
      }),
    }),
  };
  const { limiter } = await open({ onUnavailable: "allow" }, broken);
  await limiter.setSystemDefaults(rpm(10));
  await assert.rejects(lease(limiter, "a", { rpm: 1 }), TypeError);
});

test("W12: changed limits of every level reach a live bucket, and keep what was used", async () => {
  const { limiters } = await processes([0, 0]);
  const [writer, reader] = limiters as [RateLimiter, RateLimiter];
  const levels: ((limits: Limit[]) => Promise<void>)[] = [
    (limits) => writer.setSystemDefaults(limits),
    (limits) => writer.setResourceDefaults("api", limits),
    (limits) => writer.setLimits("a", limits),
    (limits) => writer.setLimits("a", limits, { resource: "api" }),
  ];
  for (const [i, set] of levels.entries()) {
    await set(rpm(100 + i));
    if (i === 0) await lease(reader, "a", { rpm: 60 });
    else await lease(reader, "a", { rpm: 0 });
    // Lowered: what is above the new capacity is gone, and does not come back when it is raised again.
    await set(rpm(20));
    assert.equal((await held(reader, "a")).rpm, i === 0 ? 20 : 19 - (i - 1));
    await assert.rejects(lease(reader, "a", { rpm: 21 }), ValidationError);
    await lease(reader, "a", { rpm: 1 });
  }
});

test("W13a: what was not consumed at the start can be adjusted, on the first call as on later ones", async () => {
  const { limiter } = await open();
  await limiter.setSystemDefaults([...rpm(100), Limit.perMinute("tpm", 1_000)]);
  for (let call = 1; call <= 3; call++) {
    const open = await limiter.acquire({ entityId: "a", resource: "api", consume: { rpm: 1, tpm: 0 } });
    await open.adjust({ tpm: 200 });
    assert.deepEqual(open.consumed, { rpm: 1, tpm: 200 });
    await open.settle();
    assert.equal((await held(limiter, "a")).tpm, 1_000 - 200 * call);
  }
});

test("W13b: a debt refuses those who name its limit, also with nothing, and nobody else", async () => {
  const { limiter } = await open();
  await limiter.setSystemDefaults([...rpm(100), Limit.perMinute("tpm", 1_000)]);
  const open1 = await limiter.acquire({ entityId: "a", resource: "api", consume: { rpm: 1 } });
  await open1.adjust({ tpm: 1_500 });
  for (let call = 1; call <= 2; call++) {
    await lease(limiter, "a", { rpm: 1 });
    await assert.rejects(lease(limiter, "a", { rpm: 1, tpm: 0 }), RateLimitExceeded);
  }
});

test("W13c: limits given in a request count, also where the bucket is alive", async () => {
  const { limiter } = await open();
  await limiter.setSystemDefaults(rpm(100));
  for (const entityId of ["new", "alive"]) {
    if (entityId === "alive") await lease(limiter, entityId, { rpm: 1 });
    const limits = rpm(5);
    const request = { entityId, resource: "api", limits };
    assert.equal((await limiter.tryAcquire({ ...request, consume: { rpm: 5 } })).ok, true);
    assert.equal((await limiter.tryAcquire({ ...request, consume: { rpm: 1 } })).ok, false);
  }
});

test("W13d, W13e: wrong and unknown names are refused on the first call and on all later ones", async () => {
  const { limiter } = await open();
  await limiter.setSystemDefaults(rpm(100));
  for (let call = 1; call <= 2; call++) {
    await assert.rejects(lease(limiter, "a", { rmp: 1 }), isInvalid("limit_unknown"));
    await assert.rejects(lease(limiter, "not an id", { rpm: 1 }), isInvalid("entity_id_invalid"));
    await lease(limiter, "a", { rpm: 1 });
  }
});

test("W14: amounts that are negative, broken, or no numbers take nothing and mint nothing", async () => {
  const { limiter } = await open();
  await limiter.setSystemDefaults(rpm(10));
  await lease(limiter, "a", { rpm: 1 });
  for (const amount of [-500, 0.0001, Number.NaN, Number.POSITIVE_INFINITY, "1", null, 2 ** 53]) {
    await assert.rejects(lease(limiter, "a", { rpm: amount as number }), isInvalid("amount_invalid"));
  }
  await assert.rejects(lease(limiter, "a", { wcu: 1 }), isInvalid("limit_unknown"));
  assert.deepEqual(await held(limiter, "a"), { rpm: 9 });
});

test("W14: an amount that can never be granted is said to be so, and not to be waited for", async () => {
  const { limiter } = await open();
  await family(limiter, { child: 200, parent: 100 });
  const never = { entityId: "child", resource: "api", consume: { rpm: 150 } };
  await assert.rejects(limiter.acquire(never), isInvalid("amount_above_capacity"));
  assert.equal(await limiter.timeUntilAvailable(never), Number.POSITIVE_INFINITY);
});

test("W15: of many who race for a new child below a new parent, as many as fit get in", async () => {
  const { limiters } = await processes([0, 0, 0]);
  await family(limiters[0]!, { child: 10, parent: 10 });
  const asks = Array.from({ length: 24 }, (_, i) =>
    limiters[i % 3]!.tryAcquire({ entityId: "child", resource: "api", consume: { rpm: 1 } }),
  );
  assert.equal((await Promise.all(asks)).filter(({ ok }) => ok).length, 10);
});

test("W18: when the parent cannot be reached the child gets back what was taken from it", async () => {
  const { limiter } = await open({}, new FaultStore(openMemory(), {}), { split: true });
  await family(limiter.limiter ?? limiter, { child: 10, parent: 10 });
});

test("W19: a rollback after the bucket has filled up again does not lift it above its capacity", async () => {
  const { limiter, clock } = await open();
  await limiter.setSystemDefaults(rpm(10));
  const open1 = await limiter.acquire({ entityId: "a", resource: "api", consume: { rpm: 9 } });
  await clock.advance(MINUTE_MS);
  await open1.rollback();
  assert.deepEqual(await held(limiter, "a"), { rpm: 10 });
  await lease(limiter, "a", { rpm: 10 });
  await assert.rejects(lease(limiter, "a", { rpm: 1 }), RateLimitExceeded);
});

async function family(limiter: RateLimiter, rates: { child: number; parent: number }): Promise<void> {
  await limiter.createEntity({ id: "parent" });
  await limiter.createEntity({ id: "child", parentId: "parent", cascade: true });
  await limiter.setLimits("parent", rpm(rates.parent));
  await limiter.setLimits("child", rpm(rates.child));
}

function isInvalid(code: string): (error: unknown) => boolean {
  return (error) => error instanceof ValidationError && error.code === code;
}
