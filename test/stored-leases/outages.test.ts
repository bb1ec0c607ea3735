import assert from "node:assert/strict";
import { describe, type TestContext, test } from "node:test";
import { CHANNELS, Limit, type OpenOptions, RateLimiterUnavailable } from "../../src/entry/index.ts";
import type { LeaseStore } from "../../src/ports/lease-store.ts";
import { type Fault, FaultStore, overriding } from "../../src/testing/fault-store.ts";
import { EVERY_STORE } from "../limiter/every-store.ts";
import { heard } from "../limiter/listening.ts";
import { FULL, openStoredLeases, openWorld, taking } from "./kit.ts";

const id = ({ lease }: { readonly lease: { readonly leaseId: string | null } }): string => lease.leaseId as string;
const TAKEN = { ...FULL, "key-1.tpm": 5_500, "proj-1.tpm": 8_500 };

for (const [name, openStore] of EVERY_STORE) {
  describe(`stored leases during an outage, on ${name}`, () => {
    /** Stored leases behind a line that fails when told. */
    async function open(t: TestContext, options: Pick<OpenOptions, "onUnavailable"> = {}) {
      const world = await openWorld(t, openStore);
      const line = new FaultStore(world.store, {});
      const faulty = await openStoredLeases(line, world.clock, { ...options, denyMemoryMs: 0 });
      // Limits are known already: what fails is what the story is about.
      await faulty.limiter.available({ entityId: "key-1", resource: "gpt-4" });
      const failing = (call: Parameters<FaultStore["failNext"]>[0], fault: Fault, times = 1) => {
        for (let i = 0; i < times; i++) line.failNext(call, fault);
      };
      return { ...world, faulty: faulty.storedLeases, failing };
    }

    test("an acquire whose store is down is unavailable, or let through without a lease", async (t) => {
      const blocked = await open(t);
      blocked.failing("take", "refused");
      await assert.rejects(blocked.faulty.acquire(taking({ tpm: 500 })), RateLimiterUnavailable);
      const allowed = await open(t, { onUnavailable: "allow" });
      allowed.failing("take", "refused");
      const { lease } = await allowed.faulty.acquire(taking({ tpm: 500 }));
      assert.deepEqual([lease.leaseId, lease.status, lease.expiresAtMs], [null, "settled", null]);
      assert.match(String(lease.degraded), /^the store was unavailable/);
      allowed.failing("key", "refused");
      const keyed = await allowed.faulty.acquire(taking({ tpm: 500 }, { idempotencyKey: "k" }));
      assert.match(String(keyed.lease.degraded), /^the store was unavailable/);
      assert.deepEqual(await allowed.left(), FULL, "nothing was charged, and nothing is remembered under the key");
      assert.equal((await allowed.faulty.acquire(taking({ tpm: 500 }, { idempotencyKey: "k" }))).replayed, false);
    });

    test("a lease that certainly could not be written is given back; one that may have been is not", async (t) => {
      const { faulty, failing, left, storedLeases, store } = await open(t);
      if (store.scope("default").leases.isWrittenByTake) return;
      failing("lease", "refused");
      await assert.rejects(faulty.acquire(taking({ tpm: 500 })), RateLimiterUnavailable);
      assert.deepEqual(await left(), FULL);
      failing("lease", "lostBefore", 10);
      await assert.rejects(faulty.acquire(taking({ tpm: 500 })), RateLimiterUnavailable);
      assert.deepEqual(await left(), TAKEN, "it counts as used");
      assert.equal((await storedLeases.list()).length, 0);
    });

    test("a percentage is told once the lease, or its change, is written", async (t) => {
      const { faulty, failing, limiter, store } = await open(t);
      if (store.tellsThresholds === undefined || store.scope("default").leases.isWrittenByTake) return;
      const events = heard(t, CHANNELS.threshold);
      const told = async () => {
        await store.scope("default").buckets.thresholdsTold?.();
        return events.splice(0).map(({ percent, used }) => [percent, used]);
      };
      await limiter.setResourceDefaults("gpt-4", [Limit.quota("tpm", 1_000, { reset: "daily", notifyAt: [50, 90] })]);
      failing("lease", "refused");
      await assert.rejects(faulty.acquire(taking({ tpm: 600 })), RateLimiterUnavailable);
      const leaseId = id(await faulty.acquire(taking({ tpm: 100 })));
      for (const change of [
        () => faulty.consume(leaseId, { amounts: { tpm: 500 } }),
        () => faulty.adjust(leaseId, { delta: { tpm: 500 } }),
      ]) {
        failing("lease", "refused");
        await assert.rejects(change(), RateLimiterUnavailable);
      }
      assert.deepEqual(await told(), []);
      await faulty.consume(leaseId, { amounts: { tpm: 400 } });
      assert.deepEqual(await told(), [[50, 500]]);
      failing("lease", "lostBefore", 10);
      await assert.rejects(faulty.acquire(taking({ tpm: 450 })), RateLimiterUnavailable);
      assert.deepEqual(await told(), [[90, 950]], "it counts as used");
    });

    test("a lost answer to the write of a lease is found out by sending it again", async (t) => {
      const { faulty, failing, left, storedLeases, store } = await open(t);
      if (store.scope("default").leases.isWrittenByTake) return;
      failing("lease", "lostAfter");
      const { lease } = await faulty.acquire(taking({ tpm: 500 }));
      assert.equal((await storedLeases.list()).length, 1);
      await storedLeases.rollback(id({ lease }));
      assert.deepEqual(await left(), FULL);
    });

    test("a lease that expired before its writer heard that it was stored is not given back twice", async (t) => {
      const { store, clock, storedLeases, left } = await open(t);
      if (store.scope("default").leases.isWrittenByTake) return;
      let attempts = 0;
      const slow = overriding(store, {
        scope: (namespaceId: string) => {
          const scope = store.scope(namespaceId);
          const create: LeaseStore["create"] = async (...args) => {
            const reply = await scope.leases.create(...args);
            if (++attempts > 1) return reply;
            await clock.advance(1_000);
            assert.equal(await storedLeases.expireDue(), 1);
            return { kind: "unavailable", applied: "unknown", cause: new Error("lost") };
          };
          return { ...scope, leases: overriding(scope.leases, { create }) };
        },
      });
      const { storedLeases: other } = await openStoredLeases(slow, clock);
      const { lease } = await other.acquire(taking({ tpm: 500 }, { holdMs: 1_000, onExpiry: "refund" }));
      assert.equal((await storedLeases.get(id({ lease }))).status, "expired");
      assert.equal(attempts, 2);
      assert.deepEqual(await left(), FULL);
    });

    test("a settle that certainly was not stored gives its debit back, and may be repeated", async (t) => {
      const { faulty, failing, left, storedLeases } = await open(t);
      const lease = id(await storedLeases.acquire(taking({ tpm: 500 })));
      failing("lease", "refused");
      await assert.rejects(faulty.settle(lease, { consumed: { tpm: 800 } }), RateLimiterUnavailable);
      assert.deepEqual(await left(), TAKEN);
      assert.equal((await storedLeases.get(lease)).status, "open");
      assert.deepEqual((await faulty.settle(lease, { consumed: { tpm: 800 } })).consumed, { tpm: 800 });
      assert.equal((await left())["key-1.tpm"], 5_200);
    });

    test("a debit that was not stored at one level is taken back at the others", async (t) => {
      const { faulty, failing, left, storedLeases, store } = await open(t);
      if (store.scope("default").leases.change !== undefined) return;
      const lease = id(await storedLeases.acquire(taking({ tpm: 500 })));
      failing("debit", "lostBefore");
      await assert.rejects(faulty.settle(lease, { consumed: { tpm: 800 } }), RateLimiterUnavailable);
      assert.deepEqual(await left(), TAKEN);
      assert.equal((await storedLeases.get(lease)).status, "open");
    });

    test("a settle whose answer was lost is found out, and credited once", async (t) => {
      const { faulty, failing, left, storedLeases } = await open(t);
      const lease = id(await storedLeases.acquire(taking({ tpm: 500 })));
      failing("lease", "lostAfter");
      assert.equal((await faulty.settle(lease, { consumed: { tpm: 100 } })).status, "settled");
      assert.equal((await left())["key-1.tpm"], 5_900);
      assert.equal((await storedLeases.settle(lease, { consumed: { tpm: 100 } })).status, "settled");
      assert.equal((await left())["key-1.tpm"], 5_900);
    });

    // What became of the two writes of the record; what the repeat finds is given back once, whoever repeats.
    const LOST: readonly (readonly Fault[])[] = [
      ["lostAfter", "lostAfter"],
      ["lostAfter", "lostBefore"],
      ["lostAfter", "refused"],
      ["lostBefore", "lostAfter"],
      ["lostBefore", "lostBefore"],
    ];
    for (const faults of LOST) {
      test(`a give-back whose answers were lost (${faults.join(", ")}) is made by the repeat, once`, async (t) => {
        for (const end of ["settle", "rollback"] as const) {
          const { faulty, failing, left, storedLeases } = await open(t);
          const lease = id(await storedLeases.acquire(taking({ tpm: 500 })));
          const ended = (by: typeof storedLeases) =>
            end === "settle" ? by.settle(lease, { consumed: { tpm: 100 } }) : by.rollback(lease);
          const after = end === "rollback" ? FULL : { ...FULL, "key-1.tpm": 5_900, "proj-1.tpm": 8_900 };
          for (const fault of faults) failing("lease", fault);
          await assert.rejects(ended(faulty), RateLimiterUnavailable);
          await ended(faulty);
          assert.deepEqual(await left(), after);
          for (const by of [storedLeases, faulty, storedLeases]) await ended(by);
          assert.equal(await faulty.expireDue(), 0);
          assert.deepEqual(await left(), after, "and not again");
        }
      });
    }

    test("what a lost answer owes is given back by another process, or by whoever looks for due leases", async (t) => {
      const { faulty, failing, left, storedLeases } = await open(t);
      const one = id(await storedLeases.acquire(taking({ tpm: 500 })));
      failing("lease", "lostAfter", 2);
      await assert.rejects(faulty.rollback(one), RateLimiterUnavailable);
      assert.equal((await storedLeases.rollback(one)).status, "rolledBack");
      assert.deepEqual(await left(), FULL, "the repeat was sent to another process");
      const two = id(await storedLeases.acquire(taking({ tpm: 500 })));
      failing("lease", "lostAfter", 2);
      await assert.rejects(faulty.rollback(two), RateLimiterUnavailable);
      await storedLeases.expireDue();
      assert.deepEqual(await left(), FULL, "nobody repeated anything");
      const three = id(await storedLeases.acquire(taking({ tpm: 500 })));
      failing("lease", "lostAfter");
      failing("lease", "refused");
      await assert.rejects(faulty.rollback(three), RateLimiterUnavailable);
      await faulty.expireDue();
      assert.deepEqual(await left(), FULL, "only the process that sent it knows of it");
      await Promise.all([storedLeases, faulty].map((by) => by.rollback(three)));
      await Promise.all([storedLeases, faulty].map((by) => by.expireDue()));
      assert.deepEqual(await left(), FULL);
    });

    test("of many that meet what a lost answer owes, one gives it back", async (t) => {
      const { faulty, failing, left, storedLeases } = await open(t);
      const lease = id(await storedLeases.acquire(taking({ tpm: 500 })));
      const held = id(await storedLeases.acquire(taking({ tpm: 700 })));
      failing("lease", "lostAfter", 2);
      await assert.rejects(faulty.release(lease, { amounts: { tpm: 200 } }), RateLimiterUnavailable);
      await Promise.all([
        ...[storedLeases, faulty, storedLeases].map((by) => by.expireDue()),
        ...[storedLeases, faulty].map((by) => by.settle(lease, { consumed: { tpm: 300 } })),
      ]);
      assert.equal((await left())["key-1.tpm"], 6_000 - 300 - 700);
      await storedLeases.rollback(held);
      assert.equal((await left())["key-1.tpm"], 5_700);
    });

    test("a change that was not applied, and whose answers were lost, is made by its repeat", async (t) => {
      const { faulty, failing, left, storedLeases } = await open(t);
      const lease = id(await storedLeases.acquire(taking({ tpm: 500 })));
      const release = { amounts: { tpm: 200 }, idempotencyKey: "k" };
      failing("lease", "lostBefore", 2);
      await assert.rejects(faulty.release(lease, release), RateLimiterUnavailable);
      assert.equal((await left())["key-1.tpm"], 5_500);
      assert.deepEqual((await faulty.release(lease, release)).lease.consumed, { tpm: 300 });
      assert.equal((await faulty.release(lease, release)).replayed, true);
      assert.equal((await left())["key-1.tpm"], 5_700);
    });

    test("a give-back whose answer was lost is not repeated", async (t) => {
      const { faulty, failing, left, storedLeases } = await open(t);
      const lease = id(await storedLeases.acquire(taking({ tpm: 500 })));
      failing("credit", "lostAfter", 2);
      assert.equal((await faulty.rollback(lease)).status, "rolledBack");
      assert.deepEqual(await left(), FULL);
    });
  });
}
