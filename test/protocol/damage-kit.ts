import assert from "node:assert/strict";
import { Limit, LimiterError, type RateLimiter } from "../../src/entry/index.ts";

export const HOUR_MS = 3_600_000;
export const T0 = Date.UTC(2026, 2, 10, 9);
export const EVER = { fromMs: 0, toMs: 4_000_000_000_000 } as const;
export const damagedKey = { entityId: "a", resource: "llm" } as const;

/** A key below a project, with limits of every kind; taken from in two hours, topped up, one lease still open. */
export async function setUp(limiter: RateLimiter, advance: (ms: number) => Promise<unknown>) {
  await limiter.setResourceDefaults("llm", [
    Limit.perMinute("rpm", 100, { schedule: [{ cron: "* 22-23 * * *", scale: 0.5 }] }),
    Limit.quota("day", 1_000, { reset: { cron: "0 0 * * *" } }),
    Limit.perMinute("soft", 5, { soft: true }),
  ]);
  await limiter.createEntity({ id: "p" });
  for (const id of ["a", "b"]) await limiter.createEntity({ id, parentId: "p", metadata: { team: "x" } });
  const consume = { rpm: 1, day: 1, soft: 9 };
  await limiter.acquire({ ...damagedKey, consume });
  await limiter.topUp({ ...damagedKey, amounts: { day: 5 }, idempotencyKey: "order-1" });
  await advance(HOUR_MS);
  await limiter.acquire({ entityId: "b", resource: "llm", consume });
  return limiter.acquire({ ...damagedKey, consume });
}

/** Every public call that reads or writes a bucket, its configuration or its usage; all errors must be ours, with a code. */
export async function callAll(
  limiter: RateLimiter,
  lease: Awaited<ReturnType<typeof setUp>>,
): Promise<readonly (readonly [call: string, error: LimiterError])[]> {
  const errors: [string, LimiterError][] = [];
  const told = async (call: string, work: () => Promise<unknown>) => {
    try {
      await work();
    } catch (error) {
      const shown = error instanceof Error ? (error.stack ?? error.message) : String(error);
      assert.ok(error instanceof LimiterError, `${call} throws what is none of ours: ${shown}`);
      assert.match(error.code, /^[a-z_]+$/, call);
      assert.doesNotThrow(() => JSON.stringify([error.toJSON(), error.toProblem()]));
      errors.push([call, error]);
    }
  };
  const all = async (list: AsyncIterable<unknown>) => {
    for await (const _ of list);
  };
  const consume = { rpm: 1, day: 1, soft: 1 };
  await told("tryAcquire", () => limiter.tryAcquire({ ...damagedKey, consume }));
  await told("tryAcquire atomic", () => limiter.tryAcquire({ ...damagedKey, consume, atomic: true }));
  await told("of another key", () => limiter.tryAcquire({ entityId: "b", resource: "llm", consume: { rpm: 1 } }));
  await told("available", () => limiter.available(damagedKey));
  await told("timeUntilAvailable", () => limiter.timeUntilAvailable({ ...damagedKey, consume }));
  await told("explain", () => limiter.explain({ ...damagedKey, consume }));
  await told("listBuckets", () => all(limiter.listBuckets({ resource: "llm" })));
  await told("resourceCapacity", () => limiter.resourceCapacity("llm", "rpm"));
  for (const window of ["hourly", "daily", "monthly"] as const) {
    await told(`usage ${window}`, () => all(limiter.usage({ window, ...EVER })));
    await told(`usage of the key ${window}`, () => all(limiter.usage({ ...damagedKey, window, ...EVER })));
  }
  await told("usageSummary", () => limiter.usageSummary({ ...damagedKey, window: "hourly", ...EVER }));
  await told("exportUsage", () => all(limiter.exportUsage({ window: "hourly", ...EVER, format: "csv" })));
  await told("setAccess", () => limiter.setAccess(damagedKey, "enforce"));
  await told("getPolicy", () => limiter.getPolicy(damagedKey));
  await told("getEntity", () => limiter.getEntity("a"));
  await told("listEntities", () => all(limiter.listEntities()));
  await told("audit", () => all(limiter.auditEvents({ entityId: "a" })));
  await told("adjust", () => lease.adjust({ rpm: 1 }));
  await told("consume", () => lease.consume({ rpm: 1 }));
  await told("rollback", () => lease.rollback());
  await told("topUp", () => limiter.topUp({ ...damagedKey, amounts: { day: 1 } }));
  await told("topUp repeated", () => limiter.topUp({ ...damagedKey, amounts: { day: 5 }, idempotencyKey: "order-1" }));
  await told("resetBucket of a limit", () => limiter.resetBucket({ ...damagedKey, limits: ["rpm"] }));
  return errors;
}

/** The damaged bucket can be reset, by this limiter and at once, and is then as any other. */
export async function resetWorks(limiter: RateLimiter): Promise<void> {
  const { repeated } = await limiter.resetBucket({ ...damagedKey, idempotencyKey: "mend" });
  assert.equal(repeated, false);
  assert.equal((await limiter.resetBucket({ ...damagedKey, idempotencyKey: "mend" })).repeated, true);
  const [rpm, day] = await limiter.available(damagedKey);
  assert.deepEqual([rpm?.available, day?.available], [100, 1_000]);
  const outcome = await limiter.tryAcquire({ ...damagedKey, consume: { rpm: 1, day: 1, soft: 1 } });
  assert.ok(outcome.ok);
  await outcome.lease.rollback();
  for await (const event of limiter.auditEvents({ entityId: "a" })) {
    assert.equal(event.action, "bucket_reset", "the newest event is that of the reset");
    break;
  }
}
