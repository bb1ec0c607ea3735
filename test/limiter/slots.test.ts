import assert from "node:assert/strict";
import { describe, type TestContext, test } from "node:test";
import { CHANNELS, HoldLost, Limit, RateLimiter, ValidationError } from "../../src/entry/index.ts";
import type { Store } from "../../src/ports/store.ts";
import { FaultStore } from "../../src/testing/fault-store.ts";
import { SeededRandom } from "../../src/testing/random.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { EVERY_STORE } from "./every-store.ts";

// At most N at once, as callers see it: who holds a slot, for how long, and what they hear of it.

const T0 = Date.UTC(2026, 2, 15, 12);
const ask = { entityId: "key-1", resource: "gpt-4" } as const;
const one = { ...ask, consume: { parallel: 1 } };
const parallel = (slots: number, holdMs = 60_000) => Limit.concurrent("parallel", slots, { holdMs });

for (const [name, openStore] of EVERY_STORE) {
  describe(`at most N at once on ${name}`, () => {
    async function open(t: TestContext, limits: readonly Limit[], wrap: (store: Store) => Store = (store) => store) {
      const clock = new SimulatedClock(T0);
      const store = wrap(openStore(clock, t).store);
      const limiter = await RateLimiter.open({ store, clock });
      t.after(() => limiter.close());
      await limiter.setResourceDefaults("gpt-4", limits);
      return { limiter, clock, store };
    }
    const free = async (limiter: RateLimiter) => (await limiter.available(ask))[0]?.available;

    test("settling gives the slots back and keeps the rates, rolling back gives back both", async (t) => {
      const { limiter } = await open(t, [parallel(2), Limit.perMinute("rpm", 10)]);
      const left = async () => (await limiter.available(ask)).map(({ available }) => available);
      const first = await limiter.acquire({ ...ask, consume: { parallel: 2, rpm: 3 } });
      assert.deepEqual(await left(), [0, 7]);
      assert.deepEqual(first.consumed, { parallel: 2, rpm: 3 });
      await first.settle();
      assert.deepEqual(await left(), [2, 7]);
      assert.deepEqual(first.consumed, { parallel: 2, rpm: 3 }, "that is what it took");
      const second = await limiter.acquire({ ...ask, consume: { parallel: 1, rpm: 3 } });
      await second.rollback();
      assert.deepEqual(await left(), [2, 7]);
    });

    test("withLease gives the slot back, however its function ends", async (t) => {
      const { limiter } = await open(t, [parallel(1)]);
      assert.equal(await limiter.withLease(one, async () => free(limiter)), 0);
      assert.equal(await free(limiter), 1);
      await assert.rejects(
        limiter.withLease(one, () => Promise.reject(new Error("no"))),
        /no/,
      );
      assert.equal(await free(limiter), 1);
    });

    test("a refusal says when slots end at the latest, and who comes then is let in", async (t) => {
      const { limiter, clock } = await open(t, [parallel(1)]);
      await limiter.acquire(one);
      await clock.advance(10_000);
      const refused = await limiter.tryAcquire(one);
      assert.ok(!refused.ok);
      assert.equal(refused.retryAfterMs, 50_000);
      const { kind, available, capacity, exceeded } = refused.primary;
      assert.deepEqual([kind, available, capacity, exceeded], ["concurrent", 0, 1, true]);
      const explained = await limiter.explain(one);
      const [limit] = explained.levels[0]?.limits ?? [];
      assert.deepEqual([limit?.kind, limit?.available, limit?.freesAtMs], ["concurrent", 0, T0 + 60_000]);
      assert.equal(limit?.changesAtMs, undefined);
      assert.equal(explained.outcome, "refused");
      assert.equal(await limiter.timeUntilAvailable(one), 50_000);
      await clock.advance(49_999);
      assert.equal((await limiter.tryAcquire(one)).ok, false);
      await clock.advance(1);
      assert.equal((await limiter.tryAcquire(one)).ok, true);
      await assert.rejects(limiter.acquire({ ...ask, consume: { parallel: 2 } }), { code: "amount_above_capacity" });
    });

    test("a body of withLease holds its slot for as long as it runs", async (t) => {
      const { limiter, clock } = await open(t, [parallel(1)]);
      let end = () => {};
      const body = limiter.withLease(
        one,
        (lease) =>
          new Promise<string>((resolve) => {
            end = () => resolve(`${lease.signal.aborted} ${lease.degraded}`);
          }),
      );
      for (let minutes = 0; minutes < 5; minutes++) {
        await clock.advance(60_000);
        assert.equal((await limiter.tryAcquire(one)).ok, false);
      }
      end();
      assert.equal(await body, "false false");
      assert.equal((await limiter.tryAcquire(one)).ok, true);
      // Nothing is renewed after its end.
      await clock.advance(75_000);
      assert.equal(await free(limiter), 1);
    });

    test("a lease of acquire ends by itself unless it is renewed or kept", async (t) => {
      const { limiter, clock } = await open(t, [parallel(3)]);
      const forgotten = await limiter.acquire(one);
      const renewed = await limiter.acquire(one);
      const kept = await limiter.acquire(one);
      kept.keep();
      assert.equal(forgotten.holdsUntilMs, T0 + 60_000);
      await clock.advance(40_000);
      assert.equal(await renewed.renew(), true);
      assert.equal(renewed.holdsUntilMs, T0 + 100_000);
      await clock.advance(30_000);
      assert.equal(await free(limiter), 1, "the one that was forgotten");
      assert.equal(await forgotten.renew(), false);
      assert.ok(forgotten.signal.aborted && forgotten.signal.reason instanceof HoldLost);
      assert.equal(forgotten.signal.reason.code, "hold_lost");
      assert.equal(forgotten.signal.reason.httpStatus, 409);
      assert.match(String(forgotten.degraded), /held no more/);
      await clock.advance(60_000);
      assert.equal(await free(limiter), 2);
      await kept.settle();
      assert.equal(kept.holdsUntilMs, undefined);
      assert.equal(await free(limiter), 3);
      await assert.rejects(kept.renew(), { code: "lease_closed" });
      const without = await limiter.acquire({ ...ask, consume: { rpm: 1 }, limits: [Limit.perMinute("rpm", 5)] });
      assert.deepEqual([without.holdsUntilMs, await without.renew()], [undefined, true]);
      without.keep();
    });

    test("slots that a kept lease takes later, on another level, are renewed from then on", async (t) => {
      const { limiter, clock } = await open(t, [parallel(1)]);
      await limiter.createEntity({ id: "org" });
      await limiter.createEntity({ id: ask.entityId, parentId: "org", cascade: true });
      await limiter.setLimits("org", [Limit.concurrent("gpu", 1, { holdMs: 3_000 })], { resource: "gpt-4" });
      const lease = await limiter.acquire(one);
      lease.keep();
      await clock.advance(10_000);
      await lease.consume({ gpu: 1 });
      const gpus = async () => (await limiter.available({ entityId: "org", resource: "gpt-4" }))[0]?.available;
      for (let seconds = 0; seconds < 12; seconds++) {
        await clock.advance(1_000);
        assert.deepEqual([await gpus(), await free(limiter), lease.degraded], [0, 0, false], `second ${seconds}`);
      }
      await lease.settle();
      assert.deepEqual([await gpus(), await free(limiter)], [1, 1]);
    });

    for (const began of ["nothing", "a slot", "a slot that it gave back", "a rate that became slots"]) {
      test(`a kept lease that began with ${began} keeps the slot that it takes later`, async (t) => {
        const limits = [parallel(2, 9_000), Limit.perMinute("rpm", 10)];
        const wasRate = began === "a rate that became slots";
        const { limiter, clock } = await open(
          t,
          wasRate ? [Limit.perMinute("parallel", 2), ...limits.slice(1)] : limits,
        );
        const consume = began === "nothing" || wasRate ? { rpm: 1 } : { rpm: 1, parallel: 1 };
        const lease = await limiter.acquire({ ...ask, consume });
        lease.keep();
        const { signal } = lease;
        if (wasRate) await limiter.setResourceDefaults(ask.resource, limits);
        await limiter.acquire(one).then((other) => other.keep());
        await clock.advance(4_000);
        if (began !== "nothing" && !wasRate) await lease.release({ parallel: 1 });
        if (began === "a slot") await lease.consume({ parallel: 1 });
        await clock.advance(6_000);
        if (began !== "a slot") await lease.consume({ parallel: 1 });
        for (let s = 0; s < 30; s++) {
          assert.equal((await limiter.tryAcquire(one)).ok, false, `it holds it ${s} s later`);
          await clock.advance(1_000);
        }
        assert.deepEqual([lease.degraded, signal.aborted, lease.signal === signal], [false, false, true]);
        await limiter.resetBucket({ ...ask, limits: ["parallel"] });
        await clock.advance(4_000);
        assert.ok(signal.reason instanceof HoldLost, "who had the signal before hears that it is lost");
      });
    }

    test("the hold of a request holds for what its lease takes later, and for what further resources take of a total", async (t) => {
      const { limiter } = await open(t, [parallel(2, 600_000), Limit.perMinute("rpm", 10)]);
      const later = await limiter.acquire({ ...ask, consume: { rpm: 1 }, holdMs: 5_000 });
      await later.consume({ parallel: 1 });
      assert.equal(later.holdsUntilMs, T0 + 5_000);
      await limiter.setResourceDefaults("pool", [Limit.perMinute("gpu", 10)]);
      const atOnce = Limit.concurrent("atOnce", 2, { holdMs: 600_000, counts: "gpu" });
      // Both resources charge the total, or the further one alone.
      for (const [entityId, totals] of [
        ["key-2", [Limit.perMinute("rpm", 10), atOnce]],
        ["key-3", [atOnce]],
      ] as const) {
        await limiter.setTotals(entityId, totals);
        const request = { ...ask, entityId, consume: { rpm: 1 }, also: { pool: { gpu: 1 } }, holdMs: 5_000 };
        assert.equal((await limiter.acquire(request)).holdsUntilMs, T0 + 5_000);
      }
    });

    for (const kind of ["hard", "shadow", "soft"] as const) {
      test(`slots of a ${kind} limit that are lost lose no others`, async (t) => {
        const trial = Limit.concurrent("trial", 5, { holdMs: 9_000, ...(kind === "hard" ? {} : { [kind]: true }) });
        const { limiter, clock } = await open(t, [parallel(1, 9_000), trial]);
        const lease = await limiter.acquire({ ...ask, consume: { parallel: 1, trial: 1 } });
        const other = await limiter.acquire({ ...ask, consume: { trial: 1 } });
        for (const one of [lease, other]) one.keep();
        const { signal } = lease;
        await limiter.resetBucket({ ...ask, limits: ["trial"] });
        await limiter.acquire({ ...ask, consume: { trial: 1 } }).then((third) => third.keep());
        assert.equal(await lease.renew(), kind !== "hard");
        for (let s = 0; s < 20; s++) {
          await clock.advance(1_000);
          assert.equal((await limiter.tryAcquire(one)).ok, false, `it is held ${s} s later`);
        }
        assert.equal(signal.aborted, kind === "hard");
        const [, left] = await limiter.available(ask);
        assert.equal(left?.available, 4, "of what was lost the one that is held is kept");
        await lease.settle();
        assert.equal(await free(limiter), 1);
      });
    }

    test("the signal of a lease that nobody renews is aborted at seven eighths of its hold", async (t) => {
      const { limiter, clock } = await open(t, [parallel(1)]);
      const lease = await limiter.acquire(one);
      const { signal } = lease;
      await clock.advance(52_499);
      assert.equal(signal.aborted, false);
      await clock.advance(1);
      assert.ok(signal.aborted && signal.reason instanceof HoldLost);
      assert.match(String(lease.degraded), /not renewed in time/);
      await lease.settle();
      assert.equal(await free(limiter), 1, "it was still held, and is given back");
      const closed = await limiter.acquire(one);
      const never = closed.signal;
      await closed.settle();
      await clock.advance(120_000);
      assert.equal(never.aborted, false, "never after the lease was closed");
    });

    test("an abort of the request reaches a lease with slots, too", async (t) => {
      const { limiter } = await open(t, [parallel(1)]);
      const abort = new AbortController();
      const lease = await limiter.acquire({ ...one, signal: abort.signal });
      abort.abort(new Error("stop"));
      assert.match(String(lease.signal.reason), /stop/);
      await lease.rollback();
    });

    test("while the store cannot be reached renewals are tried again, and in the end the body is told", async (t) => {
      let faults: FaultStore | undefined;
      const { limiter, clock } = await open(t, [parallel(1)], (store) => {
        faults = new FaultStore(store, { random: new SeededRandom(1) });
        return faults;
      });
      const ends: (() => void)[] = [];
      const told: string[] = [];
      const stop = (event: unknown) => told.push((event as { reason: string }).reason);
      const { subscribe, unsubscribe } = await import("node:diagnostics_channel");
      subscribe(CHANNELS.degraded, stop);
      t.after(() => unsubscribe(CHANNELS.degraded, stop));
      const body = () =>
        limiter.withLease(
          one,
          (lease) =>
            new Promise<string | false>((resolve) => {
              lease.signal.addEventListener("abort", () => ends.shift()?.());
              ends.push(() => resolve(lease.degraded));
            }),
        );
      const first = body();
      await clock.advance(1);
      for (let i = 0; i < 3; i++) faults?.failNext("renew", "lostBefore");
      await clock.advance(51_000);
      assert.equal(ends.length, 1, "a later try has renewed it");
      ends.shift()?.();
      assert.equal(await first, false);
      const second = body();
      await clock.advance(1);
      for (let i = 0; i < 50; i++) faults?.failNext("renew", "lostBefore");
      await clock.advance(52_500);
      assert.match(String(await second), /not renewed in time/);
      assert.equal(told.filter((reason) => /not renewed in time/.test(reason)).length, 1);
    });

    test("all leases of a process on a bucket are renewed with one write a third of the hold", async (t) => {
      let renewals = 0;
      const { limiter, clock } = await open(t, [parallel(100)], (store) => counting(store, () => renewals++));
      const leases = [];
      for (let i = 0; i < 30; i++) {
        leases.push(await limiter.acquire(one));
        leases.at(-1)?.keep();
        await clock.advance(1_000);
      }
      renewals = 0;
      await clock.advance(60_000);
      assert.ok(renewals >= 3 && renewals <= 4, `${renewals} renewals in a minute`);
      assert.equal(await free(limiter), 70);
      await Promise.all(leases.map((lease) => lease.settle()));
      assert.equal(await free(limiter), 100);
      renewals = 0;
      await clock.advance(60_000);
      assert.equal(renewals, 0);
    });

    test("one lost hold does not keep others from being renewed", async (t) => {
      const { limiter, clock } = await open(t, [parallel(5, 20_000)]);
      const lost = await limiter.acquire({ ...one, holdMs: 20_000 });
      const { signal } = lost;
      lost.keep();
      await limiter.resetBucket({ ...ask, limits: ["parallel"] });
      const kept = await limiter.acquire(one);
      kept.keep();
      await clock.advance(7_000);
      assert.ok(signal.aborted);
      assert.equal(kept.signal.aborted, false);
      await clock.advance(60_000);
      assert.equal(kept.signal.aborted, false);
      assert.equal(await free(limiter), 4);
      await lost.rollback();
      assert.equal(await free(limiter), 4, "it frees nobody else's slot");
    });

    test("a request may hold for less, and for no longer than its limits", async (t) => {
      const { limiter, clock } = await open(t, [parallel(1)]);
      for (const holdMs of [999, 1_000.5, "60", -1, Number.NaN]) {
        const given = { ...one, holdMs: holdMs as number };
        await assert.rejects(limiter.acquire(given), { name: "ValidationError", code: "hold_invalid" });
      }
      await assert.rejects(limiter.acquire({ ...one, holdMs: 60_001 }), { code: "hold_too_long" });
      const lease = await limiter.acquire({ ...one, holdMs: 5_000 });
      assert.equal(lease.holdsUntilMs, T0 + 5_000);
      await clock.advance(15_000);
      assert.equal(await free(limiter), 1);
      const kept = await limiter.acquire({ ...one, holdMs: 5_000 });
      kept.keep();
      await clock.advance(30_000);
      assert.equal(await free(limiter), 0);
      await kept.settle();
    });

    test("a lease takes more slots or is refused, gives some back, and owes none", async (t) => {
      const { limiter } = await open(t, [parallel(3), Limit.perMinute("rpm", 10)]);
      const lease = await limiter.acquire({ ...ask, consume: { parallel: 1, rpm: 1 } });
      await lease.consume({ parallel: 2 });
      await assert.rejects(lease.consume({ parallel: 1 }), { name: "RateLimitExceeded" });
      await assert.rejects(lease.adjust({ parallel: 1 }), { name: "ValidationError", code: "adjust_concurrent" });
      await lease.adjust({ parallel: -1, rpm: 2 });
      assert.equal(await free(limiter), 1);
      await lease.release({ parallel: 1 });
      assert.equal(await free(limiter), 2);
      await lease.settle({ rpm: 5 });
      assert.deepEqual(
        (await limiter.available(ask)).map(({ available }) => available),
        [3, 5],
      );
    });

    test("slots cannot be bought, and a reset forgets them only by name", async (t) => {
      const { limiter } = await open(t, [parallel(2), Limit.perMinute("rpm", 10)]);
      const bought = limiter.topUp({ ...ask, amounts: { parallel: 1 } });
      await assert.rejects(bought, (error) => error instanceof ValidationError && error.code === "top_up_concurrent");
      await limiter.acquire({ ...ask, consume: { parallel: 2, rpm: 10 } });
      await limiter.resetBucket(ask);
      assert.deepEqual(
        (await limiter.available(ask)).map(({ available }) => available),
        [0, 10],
      );
      await limiter.resetBucket({ ...ask, limits: ["parallel"] });
      assert.equal(await free(limiter), 2);
      const events = [];
      for await (const { details } of limiter.auditEvents({ entityId: "key-1" })) events.push(details.limits);
      assert.deepEqual(events, [["parallel"], ["rpm"]]);
    });

    test("every request holds a slot without naming it, where the limit counts requests", async (t) => {
      const busy = Limit.concurrent("busy", 1, { counts: "requests" });
      const { limiter } = await open(t, [
        busy,
        Limit.perMinute("tpm", 100),
        Limit.perMinute("rpm", 9, { counts: "requests" }),
      ]);
      const lease = await limiter.acquire({ ...ask, consume: { tpm: 10 } });
      assert.equal((await limiter.tryAcquire({ ...ask, consume: { tpm: 1 } })).ok, false);
      await lease.settle({ tpm: 20, requests: 3 });
      assert.deepEqual(lease.consumed, { requests: 3, tpm: 20 });
      assert.deepEqual(
        (await limiter.available(ask)).map(({ available }) => available),
        [1, 80, 6],
      );
    });

    test("slots of every level, of further resources and of totals are held, renewed and given back", async (t) => {
      const { limiter, clock } = await open(t, [parallel(5), Limit.perMinute("rpm", 100)]);
      await limiter.setResourceDefaults("tools", [parallel(4)]);
      await limiter.createEntity({ id: "org" });
      await limiter.createEntity({ id: "key-1", parentId: "org", cascade: true });
      await limiter.setTotals("org", [Limit.concurrent("parallel", 6), Limit.perMinute("rpm", 1_000)]);
      const levels = async () =>
        (await Promise.all(["gpt-4", "tools"].map((resource) => limiter.available({ entityId: "key-1", resource }))))
          .flat()
          .map(({ entityId, resource, limit, available }) => `${entityId}/${resource}/${limit} ${available}`)
          .sort();
      const before = await levels();
      const lease = await limiter.acquire({
        ...ask,
        consume: { parallel: 2, rpm: 1 },
        also: { tools: { parallel: 3 } },
      });
      lease.keep();
      await clock.advance(200_000);
      const during = await levels();
      assert.ok(during.includes("org/*/parallel 1") && during.includes("key-1/tools/parallel 1"), String(during));
      await lease.settle({ rpm: 11 });
      await clock.advance(1);
      const after = await levels();
      const spent = (text: string) => !text.includes("/rpm ");
      assert.deepEqual(after.filter(spent), before.filter(spent));
    });

    test("who waits is let in by a give-back of this process at once", async (t) => {
      const { limiter, clock } = await open(t, [parallel(1)]);
      const first = await limiter.acquire(one);
      const waiting = limiter.acquire({ ...one, wait: { maxMs: 30_000 } });
      await clock.advance(100);
      await first.settle();
      await clock.advance(0);
      const second = await waiting;
      assert.equal(second.holdsUntilMs, T0 + 100 + 60_000);
    });

    test("who waits asks again for what other processes give back, within a second", async (t) => {
      const { limiter, clock, store } = await open(t, [parallel(1)]);
      const wrapped = new FaultStore(store, { random: new SeededRandom(1) });
      const other = await RateLimiter.open({ store: wrapped, clock });
      const first = await other.acquire(one);
      const waiting = limiter.acquire({ ...one, wait: { maxMs: 30_000 } });
      await clock.advance(5_000);
      await first.settle();
      await clock.advance(1_000);
      const lease = await waiting;
      assert.ok(lease.status === "open");
    });

    test("that slots were short is remembered for a tenth of a second", async (t) => {
      let takes = 0;
      const clock = new SimulatedClock(T0);
      const store = counting(
        openStore(clock, t).store,
        () => {},
        () => takes++,
      );
      const limiter = await RateLimiter.open({ store, clock, denyMemoryMs: 1_000 });
      t.after(() => limiter.close());
      await limiter.setResourceDefaults("gpt-4", [parallel(1), Limit.perMinute("rpm", 1)]);
      await limiter.acquire(one);
      await limiter.tryAcquire(one);
      takes = 0;
      await clock.advance(99);
      assert.equal((await limiter.tryAcquire(one)).ok, false);
      assert.equal(takes, 0);
      await clock.advance(1);
      assert.equal((await limiter.tryAcquire(one)).ok, false);
      assert.equal(takes, 1);
    });

    test("usage has the slots that were granted and how long they were held", async (t) => {
      const { limiter, clock } = await open(t, [parallel(2)]);
      const lease = await limiter.acquire(one);
      await clock.advance(1_500);
      await lease.settle();
      await (await limiter.acquire(one)).rollback();
      const total = await limiter.usageSummary({ ...ask, window: "hourly", fromMs: T0, toMs: T0 + 3_600_000 });
      assert.deepEqual([total.total, total.heldMs], [{ parallel: 1 }, { parallel: 1_500 }]);
    });
  });
}

/** The store, and how often it is asked to renew and to take. */
function counting(store: Store, renews: () => void, takes: () => void = () => {}): Store {
  const scope: Store["scope"] = (id) => {
    const scoped = store.scope(id);
    const buckets = new Proxy(scoped.buckets, {
      get(target, name) {
        const value = Reflect.get(target, name);
        if (name === "takeOne") return undefined;
        if (typeof value !== "function") return value;
        return (...args: unknown[]) => {
          if (name === "renew") renews();
          if (name === "take" || name === "takeSync") takes();
          return Reflect.apply(value, target, args);
        };
      },
    });
    return { ...scoped, buckets };
  };
  return new Proxy(store, {
    get(target, name) {
      if (name === "scope") return scope;
      const value = Reflect.get(target, name);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}
