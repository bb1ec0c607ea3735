import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { ConflictError, RateLimitExceeded, ValidationError } from "../../src/entry/index.ts";
import { FaultStore } from "../../src/testing/fault-store.ts";
import { EVERY_STORE } from "../limiter/every-store.ts";
import { DAY_MS, FULL, key1, openStoredLeases, openWorld, taking } from "./kit.ts";

const id = ({ lease }: { readonly lease: { readonly leaseId: string | null } }): string => lease.leaseId as string;
const isReused = (error: unknown) =>
  error instanceof ValidationError && error.code === "idempotency_key_reused" && error.httpStatus === 422;
const isInProgress = (error: unknown) =>
  error instanceof ConflictError && error.code === "idempotency_in_progress" && error.httpStatus === 409;

for (const [name, openStore] of EVERY_STORE) {
  describe(`idempotency keys on ${name}`, () => {
    test("a repeat gets the first answer, charges nothing, and may go to another process", async (t) => {
      const { storedLeases, store, clock, left, changes } = await openWorld(t, openStore);
      const { storedLeases: other } = await openStoredLeases(store, clock);
      const asked = taking({ rpm: 1, tpm: 500 }, { idempotencyKey: "order-7", requestId: "r1" });
      const first = await storedLeases.acquire(asked);
      await storedLeases.adjust(id(first), { delta: { tpm: 100 } });
      await clock.advance(DAY_MS - 1);
      const again = { ...asked, requestId: "r2", consume: { tpm: 500, rpm: 1 } };
      assert.deepEqual(await other.acquire(again), { ...first, replayed: true }, "as it was then, in whatever order");
      assert.equal((await left())["key-1.tpm"], 5_400);
      assert.equal(changes.filter(({ status }) => status === "open").length, 1);
      await clock.advance(1);
      const anew = await storedLeases.acquire(asked);
      assert.equal(anew.replayed, false, "forgotten after a day");
      assert.notEqual(id(anew), id(first));
    });

    test("the same key with another body, operation or lease is an error, and changes nothing", async (t) => {
      const { storedLeases, left } = await openWorld(t, openStore);
      const idempotencyKey = "order-7";
      const lease = id(await storedLeases.acquire(taking({ tpm: 500 }, { idempotencyKey })));
      const before = await left();
      for (const call of [
        () => storedLeases.acquire(taking({ tpm: 501 }, { idempotencyKey })),
        () => storedLeases.acquire(taking({ tpm: 500 }, { idempotencyKey, holdMs: 1_000 })),
        () => storedLeases.acquire(taking({ tpm: 500 }, { idempotencyKey, entityId: "proj-1" })),
        () => storedLeases.tryAcquire(taking({ tpm: 500 }, { idempotencyKey })),
        () => storedLeases.adjust(lease, { delta: { tpm: 500 }, idempotencyKey }),
        () => storedLeases.topUp({ ...key1, amounts: { tpm: 500 }, idempotencyKey }),
      ]) {
        await assert.rejects(call, isReused);
      }
      assert.deepEqual(await left(), before);
    });

    test("keys belong to a namespace", async (t) => {
      const { storedLeases, limiter, store, clock } = await openWorld(t, openStore);
      await limiter.registerNamespace("tenant-b");
      const { storedLeases: other, limiter: theirs } = await openStoredLeases(store, clock, { namespace: "tenant-b" });
      await theirs.setSystemDefaults((await limiter.getResourceDefaults("gpt-4")) as never);
      const asked = taking({ tpm: 500 }, { idempotencyKey: "k" });
      assert.notEqual(id(await other.acquire(asked)), id(await storedLeases.acquire(asked)));
    });

    test("only what was granted is remembered: after a refusal the same key may try again", async (t) => {
      const { storedLeases, left } = await openWorld(t, openStore);
      const held = id(await storedLeases.acquire(taking({ tpm: 6_000 })));
      const asked = taking({ tpm: 10 }, { idempotencyKey: "k" });
      await assert.rejects(storedLeases.acquire(asked), RateLimitExceeded);
      await assert.rejects(storedLeases.acquire(asked), RateLimitExceeded);
      const refused = await storedLeases.tryAcquire(taking({ tpm: 10 }, { idempotencyKey: "t" }));
      assert.ok("ok" in refused && !refused.ok);
      await assert.rejects(storedLeases.acquire(taking({ rmp: 1 }, { idempotencyKey: "w" })), ValidationError);
      await storedLeases.rollback(held);
      assert.equal((await storedLeases.acquire(asked)).replayed, false);
      assert.ok((await storedLeases.tryAcquire(taking({ tpm: 10 }, { idempotencyKey: "t" }))).ok);
      assert.equal((await storedLeases.acquire(taking({ rpm: 1 }, { idempotencyKey: "w" }))).replayed, false);
      assert.deepEqual(await left(), { ...FULL, "key-1.rpm": 59, "key-1.tpm": 5_980, "proj-1.tpm": 8_980 });
    });

    test("of many with one key at once one takes, and the others are told to come again or get its answer", async (t) => {
      const { storedLeases, store, clock, left } = await openWorld(t, openStore);
      const { storedLeases: other } = await openStoredLeases(store, clock);
      const asked = taking({ tpm: 500 }, { idempotencyKey: "k" });
      const all = await Promise.allSettled(
        Array.from({ length: 10 }, (_, i) => (i % 2 ? storedLeases : other).acquire(asked)),
      );
      const answers = all.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
      for (const one of all) if (one.status === "rejected") assert.ok(isInProgress(one.reason));
      assert.equal(answers.filter(({ replayed }) => !replayed).length, 1);
      assert.equal(new Set(answers.map(id)).size, 1);
      assert.equal((await left())["key-1.tpm"], 5_500);
      assert.equal((await other.acquire(asked)).replayed, true);
    });

    test("adjust, consume, release, top-up, reset and a hold of nothing are done once a key", async (t) => {
      const { storedLeases, left } = await openWorld(t, openStore);
      const lease = id(await storedLeases.acquire(taking({ tpm: 500 })));
      const twice = async (call: (idempotencyKey: string) => Promise<{ readonly replayed: boolean }>, key: string) => {
        const first = await call(key);
        assert.deepEqual(await call(key), { ...first, replayed: true });
        assert.equal(first.replayed, false);
      };
      await twice((idempotencyKey) => storedLeases.adjust(lease, { delta: { tpm: 100 }, idempotencyKey }), "a");
      await twice((idempotencyKey) => storedLeases.consume(lease, { amounts: { tpm: 300 }, idempotencyKey }), "c");
      await twice((idempotencyKey) => storedLeases.release(lease, { amounts: { tpm: 50 }, idempotencyKey }), "r");
      assert.deepEqual((await storedLeases.get(lease)).consumed, { tpm: 850 });
      await twice((idempotencyKey) => storedLeases.acquire(taking({ tpm: 150 }, { holdMs: 0, idempotencyKey })), "h");
      assert.equal((await left())["key-1.tpm"], 5_000);
      await twice((idempotencyKey) => storedLeases.topUp({ ...key1, amounts: { tpm: 7 }, idempotencyKey }), "t");
      assert.equal((await left())["key-1.tpm"], 5_007);
      await twice((idempotencyKey) => storedLeases.reset({ ...key1, idempotencyKey }), "x");
      assert.equal((await left())["key-1.tpm"], 6_000);
      // The repeat is answered also when the lease is closed by now.
      await storedLeases.settle(lease);
      assert.equal((await storedLeases.adjust(lease, { delta: { tpm: 100 }, idempotencyKey: "a" })).replayed, true);
    });

    test("where the first one died, its key is under way for 15 s, and then the next may begin", async (t) => {
      const { storedLeases, store, clock, left } = await openWorld(t, openStore);
      const line = new FaultStore(store, {
        // It dies when it takes.
        pause: async (call) => {
          if (call === "take") line.crash();
        },
      });
      const { storedLeases: dying } = await openStoredLeases(line, clock);
      const asked = taking({ tpm: 500 }, { idempotencyKey: "k" });
      void dying.acquire(asked);
      for (let i = 0; i < 50; i++) await new Promise((resolve) => setImmediate(resolve));
      await assert.rejects(storedLeases.acquire(asked), isInProgress);
      await clock.advance(14_999);
      await assert.rejects(storedLeases.acquire(asked), isInProgress);
      await clock.advance(1);
      assert.equal((await storedLeases.acquire(asked)).replayed, false);
      assert.equal((await left())["key-1.tpm"], 5_500);
    });

    test("a request that waits keeps its key for as long as it lives", async (t) => {
      const { storedLeases, clock } = await openWorld(t, openStore);
      const held = id(await storedLeases.acquire(taking({ tpm: 6_000 })));
      const asked = taking({ tpm: 10 }, { idempotencyKey: "k", wait: { maxMs: 30_000 } });
      const waiting = storedLeases.acquire(asked);
      for (let second = 0; second < 28; second++) await clock.advance(1_000);
      await assert.rejects(storedLeases.acquire(asked), isInProgress);
      await storedLeases.rollback(held);
      const first = await waiting;
      assert.deepEqual(await storedLeases.acquire(asked), { ...first, replayed: true });
    });
  });
}
