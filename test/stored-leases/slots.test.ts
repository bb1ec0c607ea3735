import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Limit } from "../../src/entry/index.ts";
import { EVERY_STORE } from "../limiter/every-store.ts";
import { openStoredLeases, openWorld, still, T0, taking } from "./kit.ts";

const id = ({ lease }: { readonly lease: { readonly leaseId: string | null } }): string => lease.leaseId as string;
const isCode = (code: string, status: number) => (error: unknown) => {
  const { code: is, httpStatus } = error as { code: string; httpStatus: number };
  assert.deepEqual({ code: is, httpStatus }, { code, httpStatus: status });
  return true;
};

type Opened = Awaited<ReturnType<typeof openWorld>>;

/** Two at once of the key for a minute, three of the project for two. */
async function withSlots({ limiter }: Opened): Promise<void> {
  await limiter.setResourceDefaults("gpt-4", [still("rpm", 60), Limit.concurrent("parallel", 2, { holdMs: 60_000 })]);
  await limiter.setLimits("proj-1", [Limit.concurrent("parallel", 3, { holdMs: 120_000 })], { resource: "gpt-4" });
}

const one = (more: object = {}) => taking({ rpm: 1, parallel: 1 }, more);

const freeIn = async ({ limiter }: Opened): Promise<readonly number[]> => {
  const all = await limiter.available({ entityId: "key-1", resource: "gpt-4" });
  return all.map(({ available }) => available);
};

for (const [name, openStore] of EVERY_STORE) {
  describe(`slots of stored leases on ${name}`, () => {
    test("the hold of a lease is that of its slots: the shortest of its limits', where the request says nothing", async (t) => {
      const world = await openWorld(t, openStore);
      await withSlots(world);
      const { lease } = await world.storedLeases.acquire(one());
      assert.equal(lease.expiresAtMs, T0 + 60_000);
      assert.deepEqual(await freeIn(world), [59, 1, 2]);
      assert.equal((await world.storedLeases.acquire(taking({ rpm: 1 }))).lease.expiresAtMs, T0 + 300_000);
    });

    test("a request may hold for a shorter time, not for a longer one, and not for none", async (t) => {
      const world = await openWorld(t, openStore);
      await withSlots(world);
      const { storedLeases } = world;
      assert.equal((await storedLeases.acquire(one({ holdMs: 10_000 }))).lease.expiresAtMs, T0 + 10_000);
      await assert.rejects(storedLeases.acquire(one({ holdMs: 60_001 })), isCode("hold_too_long", 400));
      await assert.rejects(storedLeases.acquire(one({ holdMs: 0 })), isCode("hold_needed", 400));
      await assert.rejects(storedLeases.tryAcquire(one({ holdMs: 0 })), isCode("hold_needed", 400));
      assert.deepEqual(await freeIn(world), [59, 1, 2], "nothing was taken");
      await storedLeases.acquire(taking({ rpm: 1 }, { holdMs: 0 }));
    });

    test("a lease that is settled gives its slots back and keeps the rest; one that is rolled back gives back both", async (t) => {
      const world = await openWorld(t, openStore);
      await withSlots(world);
      const { storedLeases } = world;
      const [first, second] = [await storedLeases.acquire(one()), await storedLeases.acquire(one())];
      await assert.rejects(storedLeases.acquire(one()), isCode("rate_limit_exceeded", 429));
      assert.deepEqual((await storedLeases.settle(id(first), { consumed: { rpm: 3 } })).consumed, {
        rpm: 3,
        parallel: 0,
      });
      assert.deepEqual(await freeIn(world), [56, 1, 2]);
      await storedLeases.rollback(id(second));
      assert.deepEqual(await freeIn(world), [57, 2, 3]);
      const { total } = await world.limiter.usageSummary({ window: "hourly", entityId: "key-1" });
      assert.deepEqual(total, { parallel: 1, rpm: 3 }, "one slot was used, and the rate of one request");
    });

    test("a lease takes more slots until its end, gives some back, and owes none", async (t) => {
      const world = await openWorld(t, openStore);
      await withSlots(world);
      const { storedLeases, clock } = world;
      const lease = id(await storedLeases.acquire(one()));
      await assert.rejects(storedLeases.adjust(lease, { delta: { parallel: 1 } }), isCode("adjust_concurrent", 400));
      await clock.advance(20_000);
      await storedLeases.consume(lease, { amounts: { parallel: 1 } });
      await assert.rejects(
        storedLeases.consume(lease, { amounts: { parallel: 1 } }),
        isCode("rate_limit_exceeded", 429),
      );
      assert.deepEqual(await freeIn(world), [59, 0, 1]);
      await storedLeases.release(lease, { amounts: { parallel: 1 } });
      assert.deepEqual(await freeIn(world), [59, 1, 2]);
      await storedLeases.settle(lease);
      assert.deepEqual(await freeIn(world), [59, 2, 3]);
    });

    test("an extension renews the slots, also of another process, and what was given up meanwhile is lost", async (t) => {
      const world = await openWorld(t, openStore);
      await withSlots(world);
      const { storedLeases, clock, store, options } = world;
      const other = (await openStoredLeases(store, clock, options)).storedLeases;
      const lease = id(await storedLeases.acquire(one()));
      await clock.advance(50_000);
      assert.equal((await other.extend(lease, { holdMs: 60_000 })).expiresAtMs, T0 + 110_000);
      const cut = await other.extend(lease, { holdMs: 90_000 });
      assert.equal(cut.expiresAtMs, T0 + 120_000, "not longer than its slots, which end with their slice");
      await clock.advance(55_000);
      assert.deepEqual(await freeIn(world), [59, 1, 2], "it is held past its first time");
      assert.equal((await storedLeases.extend(lease, { holdMs: 60_000 })).expiresAtMs, T0 + 165_000);
      await clock.advance(30_000);
      await other.settle(lease);
      assert.deepEqual(await freeIn(world), [59, 2, 3]);
    });

    test("a lease that takes a slot later, or whose limit is changed, ends no later than its slots", async (t) => {
      const world = await openWorld(t, openStore);
      await withSlots(world);
      const { storedLeases, clock, limiter } = world;
      const lease = id(await storedLeases.acquire(taking({ rpm: 1 })));
      const { lease: later } = await storedLeases.consume(lease, { amounts: { parallel: 1 } });
      assert.ok((later.expiresAtMs ?? 0) <= T0 + 75_000, "the limit holds for a minute");
      const other = id(await storedLeases.acquire(one()));
      await limiter.setResourceDefaults("gpt-4", [
        still("rpm", 60),
        Limit.concurrent("parallel", 2, { holdMs: 8_000 }),
      ]);
      for (let s = 0; s < 100; s++) {
        const open = [];
        for (const one of [lease, other]) if ((await storedLeases.get(one)).status === "open") open.push(one);
        const taken = await storedLeases.tryAcquire(one({ holdMs: 1_000 }));
        if ("lease" in taken) open.push(id(taken));
        assert.ok(open.length <= 2, `${open.length} of 2 at once, ${s} s later`);
        if (taken.ok) await storedLeases.rollback(id(taken));
        if (s === 5) await storedLeases.extend(other, { holdMs: 60_000 }).catch(isCode("hold_lost", 409));
        await clock.advance(1_000);
      }
    });

    for (const rival of ["settle", "rollback", "extend", "consume"] as const) {
      test(`an extension beside ${rival} leaves nothing held, and loses nothing`, async (t) => {
        const world = await openWorld(t, openStore);
        await withSlots(world);
        const { clock, store, options } = world;
        const other = (await openStoredLeases(store, clock, options)).storedLeases;
        for (const [round, rivals] of [world.storedLeases, other, world.storedLeases, other].entries()) {
          // Somebody else's slot is in the slice that it leaves.
          const stranger = id(await world.storedLeases.acquire(one({ entityId: "key-1" })));
          const lease = id(await world.storedLeases.acquire(one()));
          await clock.advance(20_000 + 7_000 * round);
          const racing = Promise.allSettled([
            world.storedLeases.extend(lease, { holdMs: 60_000 }),
            rival === "settle"
              ? rivals.settle(lease)
              : rival === "rollback"
                ? rivals.rollback(lease)
                : rival === "extend"
                  ? rivals.extend(lease, { holdMs: 59_000 })
                  : rivals.consume(lease, { amounts: { rpm: 1 } }),
          ]);
          let isOver = false;
          void racing.then(() => {
            isOver = true;
          });
          for (let ms = 0; ms < 6_000 && !isOver; ms += 10) await clock.advance(10);
          const codes = (await racing).map((one) => (one.status === "rejected" ? one.reason.code : "done"));
          assert.ok(codes[1] === "done" && ["done", "lease_closed"].includes(codes[0]), codes.join(", "));
          if (rival === "extend" || rival === "consume") await other.settle(lease);
          const [, free] = await freeIn(world);
          assert.equal(free, 1, "the stranger's is held, and no other");
          await world.storedLeases.settle(stranger);
          const [, all] = await freeIn(world);
          assert.equal(all, 2);
        }
      });
    }

    test("slots that were reset cannot be renewed, and the lease stays as it was", async (t) => {
      const world = await openWorld(t, openStore);
      await withSlots(world);
      const { storedLeases, limiter } = world;
      const lease = id(await storedLeases.acquire(one()));
      await limiter.resetBucket({ entityId: "key-1", resource: "gpt-4", limits: ["parallel"] });
      await assert.rejects(storedLeases.extend(lease, { holdMs: 30_000 }), isCode("hold_lost", 409));
      assert.equal((await storedLeases.get(lease)).expiresAtMs, T0 + 60_000);
      await storedLeases.acquire(one());
      await storedLeases.acquire(one({ entityId: "key-1" }));
      await storedLeases.settle(lease);
      const [, free] = await freeIn(world);
      assert.equal(free, 0, "a late give-back frees nobody's slot");
    });

    for (const onExpiry of ["charge", "refund"] as const) {
      test(`at the end of its hold slots are free, whatever becomes of the rest: ${onExpiry}`, async (t) => {
        const world = await openWorld(t, openStore);
        await withSlots(world);
        const { storedLeases, clock } = world;
        const lease = id(await storedLeases.acquire(one({ holdMs: 20_000, onExpiry })));
        await clock.advance(20_000);
        assert.equal(await storedLeases.expireDue(), 1);
        assert.deepEqual(await freeIn(world), [onExpiry === "charge" ? 59 : 60, 2, 3]);
        assert.equal((await storedLeases.get(lease)).status, "expired");
      });
    }

    test("a repeat under a key holds no further slot", async (t) => {
      const world = await openWorld(t, openStore);
      await withSlots(world);
      const { storedLeases } = world;
      const first = await storedLeases.acquire(one({ idempotencyKey: "k" }));
      const again = await storedLeases.acquire(one({ idempotencyKey: "k" }));
      assert.deepEqual([again.replayed, id(again)], [true, id(first)]);
      assert.deepEqual(await freeIn(world), [59, 1, 2]);
    });
  });
}
