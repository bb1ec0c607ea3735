import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { Limit, type OpenOptions, RateLimiter, type UsageSnapshot } from "../../src/entry/index.ts";
import { openMemory } from "../../src/entry/memory.ts";
import { deepTest } from "../deep-test.ts";

// What a limiter holds is bounded by what is in use, on the stores that keep everything themselves.

const NOON = Date.UTC(2026, 5, 15, 12);
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

const stores: Readonly<Record<string, (t: TestContext) => string>> = {
  memory: () => "memory",
  sqlite: (t) => {
    const folder = mkdtempSync(join(tmpdir(), "zae-limiter-growth-"));
    t.after(() => rmSync(folder, { recursive: true, force: true }));
    return `sqlite:${join(folder, "limiter.db")}`;
  },
};

async function opened(t: TestContext, store: string, options: Partial<OpenOptions>) {
  const clock = { nowMs: NOON, now: () => clock.nowMs };
  const limiter = await RateLimiter.open({ store, namespace: "default", clock, denyMemoryMs: 0, ...options });
  t.after(() => limiter.close());
  await limiter.setSystemDefaults([Limit.perSecond("rps", 1_000)]);
  const take = (entityId: string) => limiter.tryAcquireSync({ entityId, resource: "api", consume: { rps: 1 } });
  return { limiter, clock, take };
}

async function everything(limiter: RateLimiter): Promise<UsageSnapshot[]> {
  const found: UsageSnapshot[] = [];
  for await (const snapshot of limiter.usage({ window: "hourly" })) found.push(snapshot);
  return found;
}

for (const [name, storeOf] of Object.entries(stores)) {
  test(`${name}: usage is kept as long as was asked for, and no longer`, async (t) => {
    const { limiter, clock, take } = await opened(t, storeOf(t), { usage: { keepMs: 3 * DAY_MS } });
    for (let i = 0; i < 200; i++) take(`id-${i}`);
    const rest = async () => (await everything(limiter)).filter(({ entityId }) => entityId !== "busy").length;
    const busy = (nowMs: number) => {
      clock.nowMs = nowMs;
      for (let i = 0; i < 2_000; i++) take("busy");
    };
    busy(NOON + 3 * DAY_MS);
    assert.equal(await rest(), 200);
    busy(NOON + 3 * DAY_MS + HOUR_MS);
    assert.equal(await rest(), 0);
  });

  test(`${name}: by default usage of the day before yesterday is gone on memory, and there for 400 days in a file`, async (t) => {
    const { limiter, clock, take } = await opened(t, storeOf(t), {});
    take("early");
    const has = async (nowMs: number) => {
      clock.nowMs = nowMs;
      for (let i = 0; i < 2_000; i++) take("busy");
      return (await everything(limiter)).some(({ entityId }) => entityId === "early");
    };
    assert.equal(await has(NOON + 2 * DAY_MS), true);
    assert.equal(await has(NOON + 2 * DAY_MS + HOUR_MS), name !== "memory");
    assert.equal(await has(NOON + 400 * DAY_MS), name !== "memory");
    assert.equal(await has(NOON + 400 * DAY_MS + HOUR_MS), false);
  });

  test(`${name}: with usage: false nothing is counted, and asking for it is an error rather than zeros`, async (t) => {
    const { limiter, take } = await opened(t, storeOf(t), { usage: false });
    assert.equal(take("key").ok, true);
    const lease = await limiter.acquire({ entityId: "key", resource: "api", consume: { rps: 10 } });
    await lease.adjust({ rps: 5 });
    await lease.rollback();
    assert.equal((await limiter.available({ entityId: "key", resource: "api" }))[0]?.available, 999);
    await assert.rejects(async () => limiter.usage({ window: "hourly" }), { code: "usage_not_kept" });
    await assert.rejects(() => limiter.usageSummary({ window: "daily" }), {
      code: "usage_not_kept",
      message: /usage: false.*keepMs/,
    });
  });

  test(`${name}: audit events go when their time is over`, async (t) => {
    const { limiter, clock, take } = await opened(t, storeOf(t), { auditKeepMs: DAY_MS });
    for (let i = 0; i < 100; i++) await limiter.createEntity({ id: `id-${i}` });
    clock.nowMs += DAY_MS;
    await limiter.createEntity({ id: "later" });
    assert.equal((await limiter.auditEvents({ limit: 1_000 })).events.length, 102);
    clock.nowMs += 1;
    for (let i = 0; i < 2_000; i++) take("busy");
    for (let i = 0; i < 10; i++) await limiter.createEntity({ id: `new-${i}` });
    const { events } = await limiter.auditEvents({ limit: 1_000 });
    assert.deepEqual(
      events.map(({ entityId }) => entityId),
      [...Array.from({ length: 10 }, (_, i) => `new-${9 - i}`), "later"],
    );
  });

  test(`${name}: days to keep usage for are refused, naming the option that says it here; nonsense is told first`, async (t) => {
    const { limiter } = await opened(t, storeOf(t), {});
    const before = [await limiter.getSystemDefaults(), await limiter.auditEvents()];
    const limits = [Limit.perMinute("rpm", 7)];
    await assert.rejects(limiter.setSystemDefaults(limits, { usageKeptDays: 30 }), {
      code: "usage_kept_days_unsupported",
      message: /`usage: \{ keepMs: 2592000000 \}`/,
      httpStatus: 400,
    });
    for (const usageKeptDays of [0, -1, 1.5, 3651, Number.NaN, "30", null, 30n] as never[]) {
      await assert.rejects(limiter.setSystemDefaults(limits, { usageKeptDays }), {
        code: "usage_kept_days_invalid",
        message: /give whole days, from 1 to 3650/,
      });
    }
    await assert.rejects(limiter.setSystemDefaults(limits, { usageKeepDays: 30 } as never), {
      code: "option_unknown",
      message: /did you mean `usageKeptDays`/,
    });
    await assert.rejects(limiter.setResourceDefaults("api", limits, { usageKeptDays: 30 } as never), {
      code: "option_unknown",
    });
    assert.deepEqual([await limiter.getSystemDefaults(), await limiter.auditEvents()], before);
  });

  // A file is slower, and goes by the same memory.
  const declare = name === "memory" ? test : deepTest;
  declare(`${name}: of 20,000 ids in use, configuration is read once for each`, async (t) => {
    const { limiter } = await opened(t, storeOf(t), { timeoutMs: 60_000 });
    const take = (i: number) => limiter.tryAcquire({ entityId: `id-${i}`, resource: "api", consume: { rps: 1 } });
    for (let round = 0; round < 2; round++) await Promise.all(Array.from({ length: 20_000 }, (_, i) => take(i)));
    assert.equal(limiter.cacheStats().misses, 20_000);
  });

  test(`${name}: a retention that makes no sense is refused, and so is one for a store that is open`, async (t) => {
    const store = storeOf(t);
    const wrong: [Partial<OpenOptions>, RegExp][] = [
      [{ usage: true as never }, /usage is true; give false or \{ keepMs \}/],
      [{ usage: { keepMs: 0 } }, /usage\.keepMs is 0; give whole milliseconds/],
      [{ usage: { keepMS: 5 } as never }, /usage is .*keepMS.*; give false or \{ keepMs \}/],
      [{ auditKeepMs: 0.5 }, /auditKeepMs is 0\.5/],
    ];
    for (const [options, message] of wrong) {
      await assert.rejects(RateLimiter.open({ store, namespace: "default", ...options }), {
        code: "option_invalid",
        message,
      });
    }
    await assert.rejects(RateLimiter.open({ store: openMemory(), usage: false }), {
      code: "option_invalid",
      message: /where "memory" is opened/,
    });
  });
}

test("memory: the usage of twenty thousand ids is listed once each, in order, also while more come", async (t) => {
  const { limiter, take } = await opened(t, "memory", {});
  for (let i = 0; i < 20_000; i++) take(`id-${i}`);
  const found: string[] = [];
  for await (const { entityId } of limiter.usage({ window: "hourly", limit: 100 })) {
    found.push(entityId);
    if (found.length % 1_000 === 0) take(`new-${found.length}`);
  }
  const old = found.filter((id) => id.startsWith("id-"));
  assert.equal(old.length, 20_000);
  assert.deepEqual(old, [...new Set(old)].sort());
});

// In `npm test`, X18 of test/defects/defects.test.ts has it.
deepTest("what is remembered of configuration is bounded, however many ids come", async (t) => {
  const { limiter } = await opened(t, "memory", {});
  for (let i = 0; i < 210_000; i++) {
    limiter.tryAcquireSync({ entityId: `id-${i}`, resource: "api", consume: { rps: 1 } });
  }
  const { size } = limiter.cacheStats();
  assert.ok(size >= 100_000 && size <= 200_000, `${size} entries`);
});
