import assert from "node:assert/strict";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { describe, type TestContext, test } from "node:test";
import {
  CHANNELS,
  type DegradedEvent,
  type Lease,
  Limit,
  type OpenOptions,
  RateLimitExceeded,
  RateLimiter,
  RateLimiterUnavailable,
  ValidationError,
} from "../../src/entry/index.ts";
import { openMemory } from "../../src/entry/memory.ts";
import { createService } from "../../src/entry/server.ts";
import { FaultStore } from "../../src/testing/fault-store.ts";
import { SeededRandom } from "../../src/testing/random.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { EVERY_STORE } from "./every-store.ts";

const T0 = Date.UTC(2026, 2, 15, 12);
const HOUR_MS = 3_600_000;
const asked = { entityId: "key-1", resource: "api", consume: { rpm: 1 } } as const;

/** Of the faults there are, those after which nothing was applied. */
class Refusing extends SeededRandom {
  override pick<One>(some: readonly One[]): One {
    return some[0] as One;
  }
}

/** A limiter that has read its limits, on a store that is then down until it is told otherwise. */
async function open(t: TestContext, openStore = EVERY_STORE[0]?.[1], options: Partial<OpenOptions> = {}) {
  const clock = new SimulatedClock(T0);
  const opened = openStore?.(clock, t);
  assert.ok(opened !== undefined);
  const rates = { take: 0, resolve: 0, look: 0, debit: 0, credit: 0, lease: 0, key: 0 };
  const store = new FaultStore(opened.store, { rates, random: new Refusing(1) });
  const limiter = await RateLimiter.open({
    store,
    clock,
    ...opened.options,
    onUnavailable: { share: 1 / 8 },
    ...options,
  });
  const set = (value: number) => {
    for (const call of Object.keys(rates) as (keyof typeof rates)[]) rates[call] = value;
  };
  return { clock, limiter, store, down: () => set(1), up: () => set(0) };
}

async function grants(limiter: RateLimiter, times: number, request = asked): Promise<number> {
  let granted = 0;
  for (let i = 0; i < times; i++) if ((await limiter.tryAcquire(request)).ok) granted++;
  return granted;
}

for (const [name, openStore] of EVERY_STORE) {
  describe(`a share during an outage, on ${name}`, () => {
    test("is granted and no more, and says so; then the store decides again", async (t) => {
      const { limiter, clock, down, up } = await open(t, openStore);
      await limiter.setSystemDefaults([Limit.perMinute("rpm", 100)]);
      await limiter.available(asked);
      down();
      const first = await limiter.acquire(asked);
      assert.match(String(first.degraded), /^a share of 0\.125 in this process: the store was unavailable: /);
      assert.equal(await grants(limiter, 30), 11, "12 of 100, one is taken");
      const refused = await limiter.tryAcquire(asked);
      assert.ok(!refused.ok);
      // 12.5 a minute: rates are not rounded to whole tokens.
      assert.deepEqual([refused.primary.capacity, refused.retryAfterMs], [12, 1_000], "the store may be back by then");
      await clock.advance(4_799);
      assert.equal(await grants(limiter, 1), 0);
      await clock.advance(1);
      assert.equal(await grants(limiter, 2), 1);
      up();
      const [rpm] = await limiter.available(asked);
      assert.equal(rpm?.available, 100, "nothing is charged afterwards");
      assert.equal((await limiter.acquire(asked)).degraded, false);
    });

    test("keeps nobody asleep once the store is back: who waits asks again within a second", async (t) => {
      const { limiter, clock, down, up } = await open(t, openStore);
      await limiter.setSystemDefaults([Limit.perHour("rpm", 80)]);
      await limiter.available(asked);
      down();
      assert.equal(await grants(limiter, 20), 10);
      const granted: Lease[] = [];
      const waiting = limiter.acquire({ ...asked, wait: { maxMs: HOUR_MS } }).then((lease) => granted.push(lease));
      await clock.advance(90_000);
      assert.equal(granted.length, 0);
      up();
      await clock.advance(1_000);
      assert.equal(granted[0]?.degraded, false);
      await waiting;
    });

    test("goes on where the last outage ended, by configuration of before, however long it lasts", async (t) => {
      const { limiter, clock, down, up } = await open(t, openStore);
      await limiter.setSystemDefaults([Limit.quota("day", 80, { reset: "daily", counts: "rpm" })]);
      await limiter.available(asked);
      down();
      assert.equal(await grants(limiter, 20), 10);
      up();
      await clock.advance(HOUR_MS);
      assert.equal(await grants(limiter, 1), 1);
      down();
      assert.equal(await grants(limiter, 20), 0, "of this day nothing is left");
      await clock.advance(12 * HOUR_MS);
      assert.equal(await grants(limiter, 20), 10, "the limits were read half a day ago");
    });

    test("binds at every level, all or nothing, and what a lease of it gives back comes back", async (t) => {
      const { limiter, down } = await open(t, openStore);
      await limiter.createEntity({ id: "team" });
      await limiter.createEntity({ id: "key-1", parentId: "team", cascade: true });
      await limiter.setLimits("team", [Limit.perHour("rpm", 24)]);
      await limiter.setLimits("key-1", [Limit.perHour("rpm", 800)]);
      await limiter.available(asked);
      down();
      const lease = await limiter.acquire({ ...asked, consume: { rpm: 2 } });
      assert.deepEqual(
        lease.remaining.map(({ available }) => available),
        [98, 1],
      );
      await lease.consume({ rpm: 1 });
      await assert.rejects(lease.consume({ rpm: 1 }), RateLimitExceeded);
      assert.equal(await grants(limiter, 1), 0);
      await lease.rollback();
      assert.equal(await grants(limiter, 5), 3, "the key lost nothing to refusals, the team has 3 again");
    });

    test("decides what more an open lease takes", async (t) => {
      const { limiter, down } = await open(t, openStore);
      await limiter.setSystemDefaults([Limit.perHour("rpm", 16)]);
      const lease = await limiter.acquire(asked);
      down();
      await lease.consume({ rpm: 2 });
      assert.match(String(lease.degraded), /^a share of 0\.125 in this process: /);
      await assert.rejects(lease.consume({ rpm: 1 }), RateLimitExceeded);
    });
  });
}

test("a part below one token blocks, and so does more than the part and what no limits are known of", async (t) => {
  const { limiter, down } = await open(t);
  await limiter.setResourceDefaults("small", [Limit.perMinute("rpm", 7)]);
  await limiter.setResourceDefaults("api", [Limit.perMinute("rpm", 80), Limit.perMinute("soft", 1, { soft: true })]);
  for (const resource of ["small", "api"]) await limiter.available({ ...asked, resource });
  down();
  await assert.rejects(limiter.acquire({ ...asked, resource: "small" }), RateLimiterUnavailable);
  await assert.rejects(limiter.acquire({ ...asked, consume: { rpm: 11 } }), RateLimiterUnavailable);
  await assert.rejects(limiter.acquire({ ...asked, entityId: "key-2" }), RateLimiterUnavailable);
  const lease = await limiter.acquire({ ...asked, consume: { rpm: 10, soft: 5 } });
  assert.match(String(lease.degraded), /^a share/);
});

test("a rate below one token a second is still a rate", async (t) => {
  const { limiter, clock, down } = await open(t);
  await limiter.setSystemDefaults([Limit.perSecond("rpm", 4, { burst: 8 })]);
  await limiter.available(asked);
  down();
  assert.equal(await grants(limiter, 5), 1);
  await clock.advance(1_999);
  assert.equal(await grants(limiter, 5), 0);
  await clock.advance(1);
  assert.equal(await grants(limiter, 5), 1);
});

test("windows of a schedule have their part, too", async (t) => {
  const { limiter, clock, down } = await open(t);
  const schedule = [{ cron: "* 13 * * *", capacity: 800, refillAmount: 800 }];
  await limiter.setSystemDefaults([Limit.perHour("rpm", 80, { schedule })]);
  await limiter.available(asked);
  down();
  assert.equal(await grants(limiter, 200), 10);
  await clock.advance(1.5 * HOUR_MS);
  assert.equal(await grants(limiter, 200), 10 + 50 - 0, "full at one, then half of a hundred");
});

test("limiters on one store share the share", async (t) => {
  const { limiter, store, clock, down } = await open(t);
  await limiter.setSystemDefaults([Limit.perHour("rpm", 80)]);
  const other = await RateLimiter.open({ store, clock, onUnavailable: { share: 1 / 8 } });
  for (const one of [limiter, other]) await one.available(asked);
  down();
  assert.equal((await grants(limiter, 6)) + (await grants(other, 6)), 10);
});

test("a request that waits is let in when its share has refilled", async (t) => {
  const { limiter, clock, down } = await open(t);
  await limiter.setSystemDefaults([Limit.perMinute("rpm", 80)]);
  await limiter.available(asked);
  down();
  assert.equal(await grants(limiter, 11), 10);
  const waiting = limiter.tryAcquire({ ...asked, wait: { maxMs: 10_000 } });
  await clock.advance(6_000);
  const outcome = await waiting;
  assert.ok(outcome.ok);
  assert.match(String(outcome.lease.degraded), /^a share/);
});

test("a service answers what its share grants without a lease, and 429 when it is used up", async (t) => {
  const { limiter, down } = await open(t);
  await limiter.setSystemDefaults([Limit.perHour("rpm", 16)]);
  await limiter.available(asked);
  const service = await createService({ limiter, open: true, dashboard: false, log: () => {} });
  t.after(() => service.close());
  const post = (headers: Record<string, string>) =>
    service.fetch(
      new Request("http://localhost/v1/namespaces/default/acquire", {
        method: "POST",
        headers: { "content-type": "application/json", ...headers },
        body: JSON.stringify(asked),
      }),
    );
  assert.equal((await post({})).status, 201);
  down();
  const answered = await post({});
  const first = (await answered.json()) as { leaseId: string | null; degraded: string };
  assert.equal(answered.status, 200, JSON.stringify(first));
  assert.equal(first.leaseId, null);
  assert.match(first.degraded, /^a share of 0\.125 in this process: /);
  const statuses = [(await post({ "idempotency-key": "k" })).status, (await post({})).status];
  assert.deepEqual(statuses, [200, 429]);
});

test("leases of a share are told as degraded, and nothing of them as usage", async (t) => {
  const { limiter, down } = await open(t);
  await limiter.setSystemDefaults([Limit.perHour("rpm", 80)]);
  await limiter.available(asked);
  const degraded: DegradedEvent[] = [];
  const used: unknown[] = [];
  const channels = [CHANNELS.acquired, CHANNELS.charged, CHANNELS.gaveBack];
  const hear = (event: unknown) => used.push(event);
  const hearDegraded = (event: unknown) => degraded.push(event as DegradedEvent);
  subscribe(CHANNELS.degraded, hearDegraded);
  for (const channel of channels) subscribe(channel, hear);
  t.after(() => {
    unsubscribe(CHANNELS.degraded, hearDegraded);
    for (const channel of channels) unsubscribe(channel, hear);
  });
  down();
  const lease = await limiter.acquire(asked);
  await lease.adjust({ rpm: 2 });
  assert.deepEqual(lease.consumed, { rpm: 3 });
  await lease.rollback();
  assert.deepEqual(used, []);
  assert.equal(degraded.length, 1);
  assert.match(String(degraded[0]?.reason), /^a share of 0\.125 in this process: /);
});

test("a share is above 0 and at most 1", async () => {
  for (const share of [0, -1, 1.01, Number.NaN, "1/8", undefined, null]) {
    await assert.rejects(
      RateLimiter.open({ store: openMemory(), onUnavailable: { share } as never }),
      (error) => error instanceof ValidationError && error.code === "on_unavailable_invalid",
      String(share),
    );
  }
  await assert.rejects(RateLimiter.open({ store: openMemory(), onUnavailable: null as never }), {
    code: "on_unavailable_invalid",
  });
  for (const share of [1, 0.001])
    await (await RateLimiter.open({ store: openMemory(), onUnavailable: { share } })).close();
});
