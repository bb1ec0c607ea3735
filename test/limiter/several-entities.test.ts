import assert from "node:assert/strict";
import { describe, type TestContext, test } from "node:test";
import { CHANNELS, Limit, RateLimiter, ValidationError } from "../../src/entry/index.ts";
import { StoredLeases } from "../../src/leases/stored-leases.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { EVERY_STORE } from "./every-store.ts";
import { heard } from "./listening.ts";

const T0 = Date.UTC(2026, 5, 15, 10);
const tpm = (amount: number) => Limit.perHour("tpm", amount);
const month = (amount: number) => Limit.quota("month", amount, { counts: "tpm", reset: "monthly" });
const hold = { holdMs: 60_000, holdMaxMs: 600_000, onExpiry: "refund", onChange: () => {} } as const;

for (const [name, openStore] of EVERY_STORE) {
  const open = async (t: TestContext) => {
    const clock = new SimulatedClock(T0);
    const { store, options } = openStore(clock, t);
    const limiter = await RateLimiter.open({ store, clock, ...options });
    t.after(() => limiter.close());
    const left = async (entityId: string, resource = "gpt") => {
      const all = await limiter.available({ entityId, resource });
      return Object.fromEntries(
        all
          .filter((one) => one.entityId === entityId && one.resource === resource)
          .map(({ limit, available }) => [limit, available]),
      );
    };
    const used = async (entityId: string, resource = "gpt") => {
      const rows = await limiter.usage({ entityId, resource, window: "hourly" });
      return Object.fromEntries(Object.entries(rows[0]?.counters ?? {}).filter(([, tokens]) => tokens !== 0));
    };
    return { limiter, clock, left, used };
  };

  describe(`one request for several entities: ${name}`, () => {
    test("a list takes from every entity or from none, and the refused one is named", async (t) => {
      const { limiter, left } = await open(t);
      await limiter.setLimits("key-1", [tpm(10)]);
      await limiter.setLimits("key-2", [tpm(5)]);
      const ask = (tokens: number) =>
        limiter.tryAcquire({
          entityId: "key-1",
          resource: "gpt",
          consume: { tpm: tokens },
          also: [{ entityId: "key-2", resource: "gpt", consume: { tpm: tokens } }],
        });
      assert.equal((await ask(4)).ok, true);
      const refused = await ask(2);
      assert.ok(!refused.ok);
      assert.deepEqual([refused.primary.entityId, refused.primary.limit], ["key-2", "tpm"]);
      assert.deepEqual(refused.levels, ["key-1"]);
      assert.deepEqual([await left("key-1"), await left("key-2")], [{ tpm: 6 }, { tpm: 1 }]);
    });

    test("a common parent and its total are charged the sum, each entity as a request of its own", async (t) => {
      const { limiter, left } = await open(t);
      await limiter.createEntity({ id: "team" });
      await limiter.createEntity({ id: "a", parentId: "team", cascade: true });
      await limiter.createEntity({ id: "b", parentId: "team", cascade: true });
      await limiter.setSystemDefaults([tpm(100), Limit.perHour("rph", 50, { counts: "requests" })]);
      for (const id of ["team", "a", "b"]) {
        await limiter.setTotals(id, [Limit.perDay("rpd", 40, { counts: "requests" }), month(1_000)]);
      }
      const lease = await limiter.acquire({
        entityId: "a",
        resource: "gpt",
        consume: { tpm: 3 },
        also: [
          { resource: "images", consume: { tpm: 1 } },
          { entityId: "b", resource: "gpt", consume: { tpm: 5 } },
          { entityId: "b", resource: "images", consume: { tpm: 2 } },
        ],
      });
      // Each entity's parts are a request on each resource, and one request of its totals.
      assert.deepEqual(await left("team"), { tpm: 92, rph: 48 });
      assert.deepEqual(await left("team", "images"), { tpm: 97, rph: 48 });
      assert.deepEqual(await left("team", "*"), { rpd: 38, month: 989 });
      assert.deepEqual(await left("a", "*"), { rpd: 39, month: 996 });
      assert.deepEqual(await left("b", "*"), { rpd: 39, month: 993 });
      await lease.rollback();
      assert.deepEqual(await left("team", "*"), { rpd: 40, month: 1_000 });
      assert.deepEqual(
        [await left("team"), await left("b")],
        [
          { tpm: 100, rph: 50 },
          { tpm: 100, rph: 50 },
        ],
      );
    });

    test("exactly as many as a common parent holds are granted, however many come at once in whatever order", async (t) => {
      const { limiter, left } = await open(t);
      await limiter.createEntity({ id: "team" });
      for (const id of ["a", "b", "c"]) await limiter.createEntity({ id, parentId: "team", cascade: true });
      await limiter.setLimits("team", [tpm(20)]);
      const ids = ["a", "b", "c"];
      const asked = Array.from({ length: 30 }, (_, i) => {
        const [entityId = "", other = ""] = [ids[i % 3], ids[(i + 1 + (i % 2)) % 3]];
        return limiter.tryAcquire({
          ...{ entityId, resource: "gpt", consume: { tpm: 1 } },
          also: [{ entityId: other, resource: "gpt", consume: { tpm: 1 } }],
        });
      });
      const outcomes = await Promise.all(asked);
      assert.equal(outcomes.filter(({ ok }) => ok).length, 10);
      assert.deepEqual(await left("team"), { tpm: 0 });
    });

    test("a lease holds each part, and settles all of them by a list", async (t) => {
      const { limiter, left } = await open(t);
      await limiter.setSystemDefaults([tpm(100)]);
      const request = {
        ...{ entityId: "a", resource: "gpt", consume: { tpm: 10 } },
        also: [
          { resource: "images", consume: { tpm: 1 } },
          { entityId: "b", resource: "gpt", consume: { tpm: 20 } },
        ],
      };
      const lease = await limiter.acquire(request);
      assert.deepEqual(lease.resources, ["gpt", "images"]);
      const b = { entityId: "b", resource: "gpt" };
      assert.deepEqual(lease.parts, [{ entityId: "a", resource: "gpt" }, { entityId: "a", resource: "images" }, b]);
      assert.deepEqual([lease.part(b).consumed, lease.resource("images").consumed], [{ tpm: 20 }, { tpm: 1 }]);
      assert.equal(lease.part({ entityId: "a", resource: "gpt" }), lease);
      assert.throws(() => lease.part({ entityId: "c", resource: "gpt" }), { code: "resource_unknown" });
      await lease.part(b).adjust({ tpm: 5 });
      assert.deepEqual(await left("b"), { tpm: 75 });
      await lease.settle({ tpm: 12 }, { also: [{ ...b, consume: { tpm: 30 } }] });
      assert.deepEqual([await left("a"), await left("b")], [{ tpm: 88 }, { tpm: 70 }]);
    });

    test("a stored lease shows its parts, and is changed part by part", async (t) => {
      const { limiter, left } = await open(t);
      await limiter.createEntity({ id: "team" });
      for (const id of ["a", "b"]) await limiter.createEntity({ id, parentId: "team", cascade: true });
      await limiter.setSystemDefaults([tpm(100)]);
      const leases = new StoredLeases(limiter, hold);
      const b = { entityId: "b", resource: "gpt" };
      const { lease } = await leases.acquire({
        ...{ entityId: "a", resource: "gpt", consume: { tpm: 10 } },
        also: [{ ...b, consume: { tpm: 20 } }],
      });
      const parts = (a: number, other: number) => [
        { entityId: "a", resource: "gpt", consumed: { tpm: a } },
        { ...b, consumed: { tpm: other } },
      ];
      assert.deepEqual([lease.consumed, lease.also, lease.parts], [{ tpm: 10 }, {}, parts(10, 20)]);
      assert.deepEqual(
        lease.limits.map(({ entityId, available }) => [entityId, available]),
        [
          ["a", 90],
          ["team", 70],
          ["b", 80],
        ],
      );
      const id = lease.leaseId as string;
      await leases.adjust(id, { delta: {}, also: [{ ...b, consume: { tpm: 5 } }] });
      await leases.consume(id, { amounts: { tpm: 1 }, also: [{ ...b, consume: { tpm: 1 } }] });
      const released = await leases.release(id, { amounts: {}, also: [{ ...b, consume: { tpm: 6 } }] });
      assert.deepEqual(released.lease.parts, parts(11, 20));
      const settled = await leases.settle(id, { consumed: { tpm: 4 }, also: [{ ...b, consume: { tpm: 8 } }] });
      assert.deepEqual(settled.parts, parts(4, 8));
      assert.deepEqual([await left("a"), await left("b"), await left("team")], [{ tpm: 96 }, { tpm: 92 }, { tpm: 88 }]);
    });

    test("a part named twice, and a list that is too long, are refused before anything is taken", async (t) => {
      const { limiter, left } = await open(t);
      await limiter.setSystemDefaults([tpm(100)]);
      const ask = (also: readonly { entityId?: string; resource: string }[]) =>
        limiter.acquire({
          ...{ entityId: "a", resource: "gpt", consume: { tpm: 1 } },
          also: also.map((part) => ({ ...part, consume: { tpm: 1 } })),
        });
      const wrong = [
        [{ resource: "gpt" }],
        [{ entityId: "a", resource: "gpt" }],
        [
          { entityId: "b", resource: "gpt" },
          { entityId: "b", resource: "gpt" },
        ],
        Array.from({ length: 16 }, (_, i) => ({ entityId: `e${i}`, resource: "gpt" })),
      ];
      for (const also of wrong) await assert.rejects(ask(also), { code: "also_invalid" });
      await assert.rejects(ask([{ resource: "*" }]), { code: "resource_invalid" });
      await assert.rejects(ask([{ entityId: "b", resorce: "gpt" } as never]), ValidationError);
      assert.deepEqual(await left("a"), { tpm: 100 });
      await ask(Array.from({ length: 15 }, (_, i) => ({ entityId: `e${i}`, resource: "gpt" })));
      assert.deepEqual([await left("a"), await left("e14")], [{ tpm: 99 }, { tpm: 99 }]);
    });
  });

  describe(`without a lease: ${name}`, () => {
    test("a charge goes into debt, at every level that counts the measure", async (t) => {
      const { limiter, left, used } = await open(t);
      await limiter.createEntity({ id: "team" });
      await limiter.createEntity({ id: "a", parentId: "team", cascade: true });
      await limiter.setLimits("a", [tpm(10)]);
      await limiter.setLimits("team", [tpm(100), month(1_000)]);
      const events = heard(t, CHANNELS.charged);
      const answer = await limiter.charge({ entityId: "a", resource: "gpt", amounts: { tpm: 30 } });
      assert.deepEqual(answer, { entityId: "a", resource: "gpt", amounts: { tpm: 30 }, repeated: false });
      assert.deepEqual([await left("a"), await left("team")], [{ tpm: -20 }, { tpm: 70, month: 970 }]);
      assert.deepEqual([await used("a"), await used("team")], [{ tpm: 30 }, { tpm: 30, month: 30 }]);
      assert.deepEqual(events.map(({ entityId, amounts, reason }) => [entityId, amounts, reason]).sort(), [
        ["a", { tpm: 30 }, "charge"],
        ["team", { tpm: 30, month: 30 }, "charge"],
      ]);
      assert.equal((await limiter.tryAcquire({ entityId: "a", resource: "gpt", consume: { tpm: 0 } })).ok, false);
    });

    test("a give-back never lifts a limit above its capacity, nor a quota above what was used", async (t) => {
      const { limiter, clock, left, used } = await open(t);
      await limiter.setLimits("a", [tpm(60), month(1_000)]);
      await (await limiter.acquire({ entityId: "a", resource: "gpt", consume: { tpm: 40 } })).settle();
      await clock.advance(30 * 60_000);
      // 30 came back by time: 10 are missing of the rate, 40 were used of the quota.
      const events = heard(t, CHANNELS.gaveBack);
      const back = await limiter.giveBack({ entityId: "a", resource: "gpt", amounts: { tpm: 100 } });
      assert.deepEqual(back.amounts, { tpm: 40 });
      assert.deepEqual(await left("a"), { tpm: 60, month: 1_000 });
      assert.deepEqual(
        events.map(({ amounts, reason, confirmed }) => [amounts, reason, confirmed]),
        [[{ tpm: 10, month: 40 }, "refund", true]],
      );
      assert.deepEqual(await used("a"), { tpm: 30 });
      assert.deepEqual((await limiter.giveBack({ entityId: "a", resource: "gpt", amounts: { tpm: 1 } })).amounts, {
        tpm: 0,
      });
      await assert.rejects(limiter.giveBack({ entityId: "a", resource: "gpt", amounts: {} }), {
        code: "consume_empty",
      });
    });

    test("give-backs at once give back together what is missing, and no more", async (t) => {
      const { limiter, left, used } = await open(t);
      await limiter.setLimits("a", [month(100)]);
      await (await limiter.acquire({ entityId: "a", resource: "gpt", consume: { tpm: 25 } })).settle();
      const all = await Promise.all(
        Array.from({ length: 10 }, () => limiter.giveBack({ entityId: "a", resource: "gpt", amounts: { tpm: 4 } })),
      );
      assert.equal(
        all.reduce((sum, { amounts }) => sum + (amounts.tpm ?? 0), 0),
        25,
      );
      assert.deepEqual([await left("a"), await used("a")], [{ month: 100 }, {}]);
    });

    test("a repeat under its key does nothing, and gets the first answer", async (t) => {
      const { limiter, left } = await open(t);
      await limiter.setLimits("a", [tpm(100)]);
      const asked = { entityId: "a", resource: "gpt", amounts: { tpm: 30 }, idempotencyKey: "report-1" };
      assert.equal((await limiter.charge(asked)).repeated, false);
      assert.deepEqual(await limiter.charge(asked), {
        ...{ entityId: "a", resource: "gpt", amounts: { tpm: 30 } },
        repeated: true,
      });
      assert.deepEqual(await left("a"), { tpm: 70 });
      await assert.rejects(limiter.charge({ ...asked, amounts: { tpm: 31 } }), { code: "idempotency_key_reused" });
      const back = { ...asked, amounts: { tpm: 20 }, idempotencyKey: "refund-1" };
      assert.deepEqual((await limiter.giveBack(back)).amounts, { tpm: 20 });
      assert.deepEqual([(await limiter.giveBack(back)).repeated, await left("a")], [true, { tpm: 90 }]);
    });

    test("several entities are corrected in one call", async (t) => {
      const { limiter, left } = await open(t);
      await limiter.setSystemDefaults([tpm(100)]);
      const asked = {
        ...{ entityId: "a", resource: "gpt", amounts: { tpm: 10 } },
        also: [
          { entityId: "b", resource: "gpt", consume: { tpm: 20 } },
          { resource: "images", consume: { tpm: 30 } },
        ],
      };
      await limiter.charge(asked);
      assert.deepEqual(
        [await left("a"), await left("b"), await left("a", "images")],
        [{ tpm: 90 }, { tpm: 80 }, { tpm: 70 }],
      );
      await limiter.giveBack(asked);
      assert.deepEqual(
        [await left("a"), await left("b"), await left("a", "images")],
        [{ tpm: 100 }, { tpm: 100 }, { tpm: 100 }],
      );
      await assert.rejects(limiter.charge({ ...asked, amounts: { rpm: 1 } }), { code: "limit_unknown" });
      await assert.rejects(limiter.giveBack({ ...asked, amounts: { tpm: -1 } }), { code: "amount_invalid" });
    });
  });
}
