import assert from "node:assert/strict";
import { test } from "node:test";
import { Limit, RateLimiter, RateLimiterUnavailable } from "../../src/entry/index.ts";
import { openMemory } from "../../src/entry/memory.ts";
import type { Held, WriteReply } from "../../src/ports/bucket-store.ts";
import type { Store } from "../../src/ports/store.ts";
import { overriding } from "../../src/testing/fault-store.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";

const T0 = Date.UTC(2026, 2, 15, 12);

type Failure = { readonly throttled: true } | { readonly throws: Error } | { readonly after: Promise<void> };

/** Three resources of one lease; debits and credits of those in `down`, resources or entities, fail. */
async function open() {
  const clock = new SimulatedClock(T0);
  const down = new Map<string, Failure>();
  const limiter = await RateLimiter.open({ store: failing(openMemory(), down), clock });
  for (const resource of ["llm", "gpu", "net"]) {
    await limiter.setResourceDefaults(resource, [Limit.perDay("tokens", 1_000)]);
  }
  const lease = await limiter.acquire({
    ...{ entityId: "a", resource: "llm", consume: { tokens: 1 } },
    also: { gpu: { tokens: 1 }, net: { tokens: 1 } },
  });
  const left = async (resource: string) => (await limiter.available({ entityId: "a", resource }))[0]?.available;
  return { lease, down, left };
}

function failing(store: Store, down: ReadonlyMap<string, Failure>): Store {
  return overriding(store, {
    scope: (id) => {
      const scoped = store.scope(id);
      const { buckets } = scoped;
      const or = (held: Held, work: () => WriteReply | Promise<WriteReply>) => {
        const failure = down.get(held.bucket.resource) ?? down.get(held.bucket.entityId);
        if (failure === undefined) return work();
        if ("throws" in failure) throw failure.throws;
        if ("after" in failure) return failure.after.then(work);
        return { kind: "unavailable", applied: "no", cause: new Error("throttled") } as const;
      };
      return {
        ...scoped,
        buckets: overriding(buckets, {
          debit: (held, ...rest) => or(held, () => buckets.debit(held, ...rest)),
          credit: (held, ...rest) => or(held, () => buckets.credit(held, ...rest)),
        }),
      };
    },
  });
}

const THROTTLED = { throttled: true } as const;

test("settling charges every resource that can be reached, also when the first one cannot", async () => {
  const { lease, down, left } = await open();
  for (const resource of ["llm", "gpu", "net"]) {
    down.set(resource, THROTTLED);
    await lease.resource(resource).adjust({ tokens: 500 });
  }
  down.delete("gpu");
  down.delete("net");
  await assert.rejects(lease.settle(), (error: unknown) => {
    assert.ok(error instanceof RateLimiterUnavailable);
    assert.match(error.message, /^The adjustment of a on llm could not be stored;/);
    assert.equal(error.errors, undefined, "one thing failed");
    return true;
  });
  assert.deepEqual(await Promise.all([left("llm"), left("gpu"), left("net")]), [999, 499, 499]);
  assert.equal(lease.status, "settled");
});

test("settling that fails on several resources tells of each", async () => {
  const { lease, down, left } = await open();
  for (const resource of ["llm", "gpu", "net"]) {
    down.set(resource, THROTTLED);
    await lease.resource(resource).adjust({ tokens: 500 });
  }
  down.delete("gpu");
  await assert.rejects(lease.settle(), (error: unknown) => {
    assert.ok(error instanceof RateLimiterUnavailable);
    assert.equal(error.code, "unavailable");
    assert.match(error.message, /a on llm could not be stored.* a on net could not be stored/);
    assert.equal(error.errors?.length, 2);
    assert.equal(error.errors?.[0], error.cause);
    return true;
  });
  assert.equal(await left("gpu"), 499);
});

test("a rollback that fails on one resource has given back the others by the time it is told", async () => {
  const { lease, down, left } = await open();
  const broken = new TypeError("the item cannot be read");
  const answers = new Promise<void>((resolve) => setImmediate(resolve));
  down.set("llm", { throws: broken }).set("gpu", { after: answers });
  await assert.rejects(lease.rollback(), broken);
  assert.deepEqual(await Promise.all([left("llm"), left("gpu"), left("net")]), [999, 1_000, 1_000]);
});

test("disposing of a lease tells of every resource that could not be given back", async () => {
  const { lease, down, left } = await open();
  const broken = [new TypeError("llm cannot be read"), new TypeError("net cannot be read")] as const;
  down.set("llm", { throws: broken[0] }).set("net", { throws: broken[1] });
  await assert.rejects(lease[Symbol.asyncDispose](), (error: unknown) => {
    assert.ok(error instanceof AggregateError);
    assert.deepEqual(error.errors, broken);
    assert.equal(error.cause, broken[0]);
    return true;
  });
  assert.equal(await left("gpu"), 1_000);
});

test("what is released while a parent was not charged for it yet leaves both levels alike", async () => {
  const down = new Map<string, Failure>();
  const limiter = await RateLimiter.open({ store: failing(openMemory(), down), clock: new SimulatedClock(T0) });
  await limiter.setSystemDefaults([Limit.quota("tokens", 1_000, { reset: { cron: "0 0 1 * *" } })]);
  await limiter.createEntity({ id: "org" });
  await limiter.createEntity({ id: "key", parentId: "org", cascade: true });
  const left = async () => (await limiter.available({ entityId: "key", resource: "llm" })).map((one) => one.available);
  const lease = await limiter.acquire({ entityId: "key", resource: "llm", consume: { tokens: 10 } });
  down.set("org", THROTTLED);
  await lease.adjust({ tokens: 5 });
  down.clear();
  assert.deepEqual(await left(), [985, 990]);
  await lease.release({ tokens: 12 });
  await lease.settle();
  assert.deepEqual(await left(), [997, 997]);
});
