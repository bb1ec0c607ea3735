import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { LeaseRecord } from "../../src/domain/lease/lease-record.ts";
import { leaseText } from "../../src/domain/lease/stored-lease.ts";
import { partsOf } from "../../src/engine/limiter/limiter-parts.ts";
import { standingsIn } from "../../src/engine/refusal/refused.ts";
import {
  LeaseClosed,
  Limit,
  NotFoundError,
  RateLimitExceeded,
  ValidationError,
  VersionError,
} from "../../src/entry/index.ts";
import { overriding } from "../../src/testing/fault-store.ts";
import { EVERY_STORE } from "../limiter/every-store.ts";
import { DAY_MS, FULL, key1, openStoredLeases, openWorld, T0, taking } from "./kit.ts";

const id = ({ lease }: { readonly lease: { readonly leaseId: string | null } }): string => lease.leaseId as string;
const isCode = (code: string, status: number) => (error: unknown) => {
  const { code: is, httpStatus } = error as { code: string; httpStatus: number };
  assert.deepEqual({ code: is, httpStatus }, { code, httpStatus: status });
  return true;
};

/** Two of these are more than one amount may be. */
const FEW_TRILLIONS = 5_000_000_000_000;

for (const [name, openStore] of EVERY_STORE) {
  describe(`stored leases on ${name}`, () => {
    test("an acquire answers with the lease, what is left at every level, and how each limit stands", async (t) => {
      const { storedLeases, changes } = await openWorld(t, openStore);
      const { lease, standings, replayed } = await storedLeases.acquire(
        taking({ rpm: 1, tpm: 500 }, { onExpiry: "refund" }),
      );
      assert.match(id({ lease }), /^l_[A-Za-z0-9_-]{22}$/);
      const { leaseId } = lease;
      const limits = [
        { ...key1, limit: "rpm", counts: "rpm", available: 59, capacity: 60 },
        { ...key1, limit: "tpm", counts: "tpm", available: 5_500, capacity: 6_000 },
        { entityId: "proj-1", resource: "gpt-4", limit: "tpm", counts: "tpm", available: 8_500, capacity: 9_000 },
      ];
      const view = {
        ...{ leaseId, namespace: "default", ...key1, status: "open", consumed: { rpm: 1, tpm: 500 }, also: {} },
        ...{
          degraded: false,
          overdrawn: [],
          shadowed: [],
          bypassed: false,
          expiresAtMs: T0 + 300_000,
          onExpiry: "refund",
          limits,
        },
      };
      assert.deepEqual({ lease, replayed }, { lease: view, replayed: false });
      assert.deepEqual(
        standings.map(({ limit, level, available, capacity }) => ({ limit, level, available, capacity })),
        limits.map(({ entityId, limit, available, capacity }) => ({
          ...{ limit, level: entityId === "key-1" ? 0 : 1, available, capacity },
        })),
      );
      assert.deepEqual(await storedLeases.get(id({ lease })), view);
      assert.deepEqual(changes, [view]);
    });

    test("a lease that takes more of several resources takes their sum of a total, or nothing", async (t) => {
      const { storedLeases, limiter } = await openWorld(t, openStore);
      await limiter.setSystemDefaults([Limit.perDay("tpm", FEW_TRILLIONS)]);
      await limiter.setLimits("key-1", [Limit.perDay("tpm", FEW_TRILLIONS)]);
      await limiter.setTotals("proj-1", [Limit.perDay("tpm", 10)]);
      const left = async () => {
        const [total] = await limiter.available({ entityId: "proj-1", resource: "*" });
        return total?.available;
      };
      const leaseId = id(await storedLeases.acquire(taking({ tpm: 1 }, { also: { web: { tpm: 1 } } })));
      await storedLeases.consume(leaseId, { amounts: { tpm: 3 }, also: { web: { tpm: 2 } } });
      assert.equal(await left(), 3);
      await assert.rejects(
        storedLeases.consume(leaseId, { amounts: { tpm: 2 }, also: { web: { tpm: 2 } } }),
        (error) => {
          assert.ok(error instanceof RateLimitExceeded);
          const { entityId, resource, limit, requested } = error.primary;
          assert.deepEqual([entityId, resource, limit, requested], ["proj-1", "*", "tpm", 4]);
          return true;
        },
      );
      assert.equal(await left(), 3);
      const most = { amounts: { tpm: FEW_TRILLIONS }, also: { web: { tpm: FEW_TRILLIONS } }, idempotencyKey: "most" };
      await assert.rejects(storedLeases.consume(leaseId, most), isCode("amount_invalid", 400));
      await assert.rejects(storedLeases.consume(leaseId, most), isCode("amount_invalid", 400));
      assert.equal(await left(), 3);
      const { consumed, also } = await storedLeases.get(leaseId);
      assert.deepEqual([consumed, also], [{ tpm: 4 }, { web: { tpm: 3 } }]);
      await storedLeases.rollback(leaseId);
      assert.equal(await left(), 10);
    });

    test("a lease says what it holds by the nearest level that it is charged to, not by one for callers only", async (t) => {
      const { storedLeases, limiter } = await openWorld(t, openStore);
      await limiter.createEntity({ id: "org" });
      await limiter.updateEntity("proj-1", { parentId: "org", cascade: true });
      await limiter.setLimits("org", [Limit.perDay("tpm", 9_000)]);
      await limiter.setLimits("key-1", [Limit.perDay("rpm", 60)], { resource: "gpt-4" });
      const how = { resource: "gpt-4", inherit: true, appliesTo: "callers" } as const;
      await limiter.setLimits("proj-1", [Limit.perDay("tpm", 9_000)], how);
      const { lease } = await storedLeases.acquire(taking({ rpm: 1, tpm: 500 }));
      assert.deepEqual(lease.consumed, { rpm: 1, tpm: 500 });
      const settled = await storedLeases.settle(id({ lease }), { consumed: { tpm: 700 } });
      assert.deepEqual(settled.consumed, { rpm: 1, tpm: 700 });
      const left = await limiter.available({ entityId: "org", resource: "gpt-4" });
      assert.equal(left[0]?.available, 8_300);
    });

    test("a stored lease charges totals no request of a further resource, also when it is settled with some", async (t) => {
      const { storedLeases, limiter } = await openWorld(t, openStore);
      const requests = (name: string) => [Limit.perDay(name, 50, { counts: "requests" })];
      await limiter.setTotals("key-1", requests("calls"));
      await limiter.setResourceDefaults("gpu-pool", requests("slots"));
      const { lease } = await storedLeases.acquire(taking({ rpm: 1, tpm: 1 }, { also: { "gpu-pool": {} } }));
      await storedLeases.settle(id({ lease }), { consumed: {}, also: { "gpu-pool": { requests: 3 } } });
      const left = await limiter.available({ entityId: "key-1", resource: "gpu-pool" });
      assert.deepEqual(
        left.filter(({ entityId }) => entityId === "key-1").map(({ limit, available }) => [limit, available]),
        [
          ["slots", 47],
          ["calls", 49],
        ],
      );
    });

    test("a stored lease names the soft limits of all levels that are below zero", async (t) => {
      const { storedLeases, limiter } = await openWorld(t, openStore);
      await limiter.setLimits("proj-1", [Limit.quota("tpm", 600, { reset: "daily", soft: true })], {
        resource: "gpt-4",
      });
      await limiter.setLimits("key-1", [Limit.quota("tpm", 900, { reset: "daily", soft: true })], {
        resource: "gpt-4",
      });
      const { lease } = await storedLeases.acquire(taking({ tpm: 500 }));
      assert.deepEqual(lease.overdrawn, []);
      assert.deepEqual((await storedLeases.adjust(id({ lease }), { delta: { tpm: 200 } })).lease.overdrawn, ["tpm^1"]);
      assert.deepEqual((await storedLeases.adjust(id({ lease }), { delta: { tpm: 400 } })).lease.overdrawn, [
        "tpm",
        "tpm^1",
      ]);
      assert.deepEqual((await storedLeases.get(id({ lease }))).overdrawn, ["tpm", "tpm^1"]);
      assert.deepEqual((await storedLeases.acquire(taking({ tpm: 1 }))).lease.overdrawn, ["tpm", "tpm^1"]);
    });

    test("the record of a lease on quotas does not grow with what is adjusted and consumed, nor with the days", async (t) => {
      const { storedLeases, limiter, clock } = await openWorld(t, openStore);
      const daily = Limit.quota("day", 1_000_000, { reset: { cron: "0 0 * * *" } });
      await limiter.setLimits("key-1", [daily, Limit.perDay("tpm", 1_000_000)], { resource: "gpt-4" });
      const { lease } = await storedLeases.acquire(taking({ day: 1 }, { holdMs: DAY_MS }));
      const { leases } = partsOf(limiter).deps.scope;
      const record = async () => (await leases.get(id({ lease }))) as LeaseRecord;
      const change = async (times: number) => {
        for (let i = 0; i < times; i++) {
          await storedLeases.adjust(id({ lease }), { delta: { day: 1 } });
          await storedLeases.consume(id({ lease }), { amounts: { day: 1, tpm: 1 } });
        }
        await storedLeases.extend(id({ lease }), { holdMs: DAY_MS });
      };
      await change(5);
      const early = leaseText(await record()).length;
      await change(50);
      assert.ok(leaseText(await record()).length <= early + 20, "some more digits");
      for (let day = 0; day < 5; day++) {
        await clock.advance(DAY_MS - 1);
        await change(5);
      }
      const { holdings } = await record();
      assert.ok(holdings.filter(({ at }) => at[1] === 0).length <= 2, JSON.stringify(holdings));
      assert.deepEqual((await storedLeases.get(id({ lease }))).consumed, { day: 161, tpm: 80 });
      await storedLeases.rollback(id({ lease }));
      const [left] = await limiter.available(key1);
      assert.equal(left?.available, 1_000_000, "what was taken today came back");
    });

    test("a hold of nothing charges at once, makes no lease, and tells of none", async (t) => {
      const { storedLeases, changes, left } = await openWorld(t, openStore);
      const { lease } = await storedLeases.acquire(taking({ tpm: 500 }, { holdMs: 0 }));
      const { leaseId, expiresAtMs, status, consumed } = lease;
      assert.deepEqual(
        { leaseId, expiresAtMs, status, consumed },
        {
          ...{ leaseId: null, expiresAtMs: null, status: "settled", consumed: { tpm: 500 } },
        },
      );
      assert.deepEqual((await storedLeases.list()).length, 0);
      assert.deepEqual(changes, []);
      assert.equal((await left())["key-1.tpm"], 5_500);
    });

    test("settling by totals charges or gives back the difference at every level, and may be repeated", async (t) => {
      const { storedLeases, left, changes } = await openWorld(t, openStore);
      const more = id(await storedLeases.acquire(taking({ rpm: 1, tpm: 500 })));
      const settled = await storedLeases.settle(more, { consumed: { tpm: 730 } });
      assert.deepEqual([settled.status, settled.consumed], ["settled", { rpm: 1, tpm: 730 }]);
      assert.equal(settled.limits.find(({ limit }) => limit === "tpm")?.available, 5_270);
      assert.deepEqual(await left(), { ...FULL, "key-1.rpm": 59, "key-1.tpm": 5_270, "proj-1.tpm": 8_270 });
      for (const also of [{}, []]) {
        assert.deepEqual(await storedLeases.settle(more, { consumed: { tpm: 730 }, also }), settled);
      }
      assert.equal((await left())["key-1.tpm"], 5_270, "charged once");
      for (const other of [{}, { consumed: { tpm: 731 } }, { consumed: { tpm: 730, rpm: 1 } }]) {
        await assert.rejects(storedLeases.settle(more, other), isCode("lease_closed", 409));
      }
      const less = id(await storedLeases.acquire(taking({ tpm: 1_000 })));
      const given = await storedLeases.settle(less, { consumed: { tpm: 300, rpm: 2 } });
      assert.deepEqual(given.consumed, { tpm: 300, rpm: 2 });
      assert.deepEqual(await left(), { ...FULL, "key-1.rpm": 57, "key-1.tpm": 4_970, "proj-1.tpm": 7_970 });
      assert.equal(given.limits.find(({ limit }) => limit === "tpm")?.available, 4_970);
      assert.deepEqual(
        changes.map(({ status }) => status),
        ["open", "settled", "open", "settled"],
      );
    });

    test("a total above what is there goes into debt: the work is done", async (t) => {
      const { storedLeases, left } = await openWorld(t, openStore);
      const lease = id(await storedLeases.acquire(taking({ tpm: 5_000 })));
      await storedLeases.settle(lease, { consumed: { tpm: 7_000 } });
      assert.equal((await left())["key-1.tpm"], -1_000);
    });

    test("a rollback gives everything back, once, and may be repeated", async (t) => {
      const { storedLeases, left } = await openWorld(t, openStore);
      const asked = taking({ rpm: 1, tpm: 500 }, { also: { "gpu-pool": { slots: 2 } } });
      const { lease } = await storedLeases.acquire(asked);
      assert.deepEqual(lease.also, { "gpu-pool": { slots: 2 } });
      assert.ok(lease.limits.some(({ resource, available }) => resource === "gpu-pool" && available === 2));
      const rolledBack = await storedLeases.rollback(id({ lease }));
      assert.deepEqual([rolledBack.status, rolledBack.consumed], ["rolledBack", { rpm: 0, tpm: 0 }]);
      assert.deepEqual(await storedLeases.rollback(id({ lease })), rolledBack);
      assert.deepEqual(await left(), FULL);
      await assert.rejects(storedLeases.settle(id({ lease })), (error) => {
        assert.ok(error instanceof LeaseClosed);
        assert.deepEqual([error.leaseStatus, error.toProblem().leaseStatus], ["rolledBack", "rolledBack"]);
        return true;
      });
    });

    test("adjust, consume and release keep account of what is held, also of further resources", async (t) => {
      const { storedLeases, left } = await openWorld(t, openStore);
      const lease = id(await storedLeases.acquire(taking({ tpm: 500 }, { also: { "gpu-pool": { slots: 1 } } })));
      const pool = (slots: number) => ({ "gpu-pool": { slots } });
      const adjusted = await storedLeases.adjust(lease, { delta: { tpm: 100, rpm: 2 }, also: pool(1) });
      assert.deepEqual([adjusted.lease.consumed, adjusted.lease.also], [{ tpm: 600, rpm: 2 }, pool(2)]);
      const consumed = await storedLeases.consume(lease, { amounts: { tpm: 400 }, also: pool(1) });
      assert.deepEqual([consumed.lease.consumed, consumed.lease.also], [{ tpm: 1_000, rpm: 2 }, pool(3)]);
      assert.ok(consumed.standings.length > 0);
      assert.deepEqual(await left(), { "key-1.rpm": 58, "key-1.tpm": 5_000, "proj-1.tpm": 8_000, "key-1.slots": 1 });
      const refused = await storedLeases
        .consume(lease, { amounts: { tpm: 1 }, also: pool(2) })
        .catch((error: unknown) => error);
      assert.ok(refused instanceof RateLimitExceeded);
      assert.ok(
        standingsIn(refused).some(
          ({ limit, available, capacity }) => limit === "slots" && available === 1 && capacity === 4,
        ),
      );
      assert.equal((await left())["key-1.tpm"], 5_000, "all of it or nothing");
      const released = await storedLeases.release(lease, { amounts: { tpm: 5_000 }, also: pool(1) });
      assert.deepEqual(
        [released.lease.consumed, released.lease.also],
        [{ tpm: 0, rpm: 2 }, pool(2)],
        "at most what is held",
      );
      assert.deepEqual(await left(), { "key-1.rpm": 58, "key-1.tpm": 6_000, "proj-1.tpm": 9_000, "key-1.slots": 2 });
      await storedLeases.consume(lease, { amounts: {}, also: pool(1) });
      assert.deepEqual((await storedLeases.get(lease)).also, pool(3));
      await storedLeases.rollback(lease);
      assert.deepEqual(await left(), FULL);
    });

    test("what is named wrongly changes nothing", async (t) => {
      const { storedLeases, left } = await openWorld(t, openStore);
      const lease = id(await storedLeases.acquire(taking({ tpm: 500 })));
      const before = [await storedLeases.get(lease), await left()];
      const wrong: readonly (readonly [string, () => Promise<unknown>])[] = [
        ["limit_unknown", () => storedLeases.settle(lease, { consumed: { rmp: 1 } })],
        ["amount_invalid", () => storedLeases.settle(lease, { consumed: { tpm: -1 } })],
        ["amount_invalid", () => storedLeases.adjust(lease, { delta: { tpm: 0.5 } })],
        ["resource_unknown", () => storedLeases.adjust(lease, { delta: {}, also: { "gpu-pool": { slots: 1 } } })],
        ["consume_empty", () => storedLeases.consume(lease, { amounts: {} })],
        ["hold_invalid", () => storedLeases.extend(lease, { holdMs: 999 })],
        ["hold_invalid", () => storedLeases.extend(lease, { holdMs: DAY_MS + 1 })],
        ["hold_invalid", () => storedLeases.acquire(taking({ tpm: 1 }, { holdMs: 500 }))],
        ["on_expiry_invalid", () => storedLeases.acquire(taking({ tpm: 1 }, { onExpiry: "keep" as "charge" }))],
        ["option_unknown", () => storedLeases.acquire({ ...taking({ tpm: 1 }), hold: 5 } as never)],
        ["option_unknown", () => storedLeases.settle(lease, { consume: { tpm: 1 } } as never)],
        ["idempotency_key_invalid", () => storedLeases.acquire(taking({ tpm: 1 }, { idempotencyKey: "" }))],
        ["idempotency_key_invalid", () => storedLeases.adjust(lease, { delta: { tpm: 1 }, idempotencyKey: "ü" })],
        ["limit_unknown", () => storedLeases.acquire(taking({ rmp: 1 }))],
      ];
      for (const [code, call] of wrong) {
        await assert.rejects(
          async () => call(),
          (error) => error instanceof ValidationError && error.code === code,
          code,
        );
      }
      assert.deepEqual([await storedLeases.get(lease), await left()], before);
    });

    test("an unknown lease, and one of another namespace, is not found", async (t) => {
      const { storedLeases, limiter, store, clock } = await openWorld(t, openStore);
      const lease = id(await storedLeases.acquire(taking({ tpm: 500 })));
      await limiter.registerNamespace("tenant-b");
      const { storedLeases: other } = await openStoredLeases(store, clock, { namespace: "tenant-b" });
      for (const call of [() => storedLeases.get("l_unknown"), () => other.get(lease), () => other.rollback(lease)]) {
        await assert.rejects(call, (error) => error instanceof NotFoundError && error.code === "lease_not_found");
      }
    });

    test("a lease that nobody ends stays charged or is given back, counted at the end of its hold", async (t) => {
      const { storedLeases, left, clock, changes } = await openWorld(t, openStore);
      const charged = id(await storedLeases.acquire(taking({ tpm: 500 }, { holdMs: 10_000 })));
      const refunded = id(await storedLeases.acquire(taking({ tpm: 200 }, { holdMs: 20_000, onExpiry: "refund" })));
      await clock.advance(9_999);
      assert.equal((await storedLeases.get(charged)).status, "open");
      assert.equal(await storedLeases.expireDue(), 0);
      await clock.advance(1);
      // Whoever comes first counts it: nobody has to have swept.
      await assert.rejects(storedLeases.settle(charged, { consumed: { tpm: 1 } }), isCode("lease_closed", 409));
      assert.equal((await storedLeases.get(charged)).status, "expired");
      await clock.advance(10_000);
      assert.deepEqual((await storedLeases.list()).length, 0);
      assert.equal((await left())["key-1.tpm"], 5_300);
      assert.equal(await storedLeases.expireDue(), 1);
      assert.equal(await storedLeases.expireDue(), 0);
      assert.equal((await left())["key-1.tpm"], 5_500);
      const ended = await storedLeases.get(refunded);
      assert.deepEqual([ended.status, ended.consumed], ["expired", { tpm: 0 }]);
      assert.deepEqual((await storedLeases.get(charged)).consumed, { tpm: 500 });
      assert.deepEqual(
        changes.map(({ status }) => status),
        ["open", "open", "expired", "expired"],
      );
    });

    test("a lease whose record cannot be read does not keep others from expiring", async (t) => {
      const { storedLeases, store, clock, left } = await openWorld(t, openStore);
      for (const tpm of [1, 2, 3]) await storedLeases.acquire(taking({ tpm }, { holdMs: 1_000, onExpiry: "refund" }));
      const { leases } = store.scope("default");
      const [damaged] = (await leases.findDue(T0 + 1_000, 10)).map(({ leaseId }) => leaseId);
      const broken = overriding(store, {
        scope: (id: string) => {
          const scope = store.scope(id);
          const get = (leaseId: string) => {
            if (leaseId === damaged) throw new VersionError("stored_form_unknown", "damaged");
            return scope.leases.get(leaseId);
          };
          return { ...scope, leases: overriding(scope.leases, { get }) };
        },
      });
      const { storedLeases: other } = await openStoredLeases(broken, clock);
      await clock.advance(1_000);
      const held = 6 - Number((await leases.get(damaged as string))?.holdings[0]?.held[0]?.milli) / 1000;
      await assert.rejects(other.expireDue(), isCode("stored_form_unknown", 503));
      assert.equal((await left())["key-1.tpm"], 5_994 + held, "all but the damaged one");
    });

    test("an open lease whose end nobody wrote down for days is given back then, and forgotten", async (t) => {
      const { storedLeases, clock, left } = await openWorld(t, openStore);
      const lease = id(await storedLeases.acquire(taking({ tpm: 500 }, { holdMs: 1_000, onExpiry: "refund" })));
      await clock.advance(DAY_MS + 1_000);
      await assert.rejects(storedLeases.get(lease), isCode("lease_not_found", 404));
      assert.equal((await left())["key-1.tpm"], 6_000);
    });

    test("a lease that is extended is held from then on, and no longer", async (t) => {
      const { storedLeases, clock } = await openWorld(t, openStore);
      const lease = id(await storedLeases.acquire(taking({ tpm: 500 }, { holdMs: 10_000 })));
      await clock.advance(9_000);
      assert.equal((await storedLeases.extend(lease, { holdMs: 5_000 })).expiresAtMs, T0 + 14_000);
      await clock.advance(4_999);
      assert.equal(await storedLeases.expireDue(), 0);
      await clock.advance(1);
      assert.equal(await storedLeases.expireDue(), 1);
      await assert.rejects(storedLeases.extend(lease, { holdMs: 5_000 }), isCode("lease_closed", 409));
    });

    test("a closed lease is known for a day and then forgotten", async (t) => {
      const { storedLeases, clock } = await openWorld(t, openStore);
      const lease = id(await storedLeases.acquire(taking({ tpm: 500 })));
      await storedLeases.settle(lease);
      await clock.advance(DAY_MS - 1);
      assert.equal((await storedLeases.settle(lease)).status, "settled");
      await clock.advance(1);
      await assert.rejects(storedLeases.settle(lease), isCode("lease_not_found", 404));
    });

    test("another process settles, adjusts and gives back what this one took", async (t) => {
      const { storedLeases, store, clock, left } = await openWorld(t, openStore);
      const { storedLeases: other } = await openStoredLeases(store, clock);
      const one = id(await storedLeases.acquire(taking({ rpm: 1, tpm: 500 })));
      const two = id(await storedLeases.acquire(taking({ rpm: 1, tpm: 500 })));
      await other.adjust(one, { delta: { tpm: 250 } });
      await other.consume(one, { amounts: { tpm: 50 } });
      assert.deepEqual((await storedLeases.get(one)).consumed, { rpm: 1, tpm: 800 });
      await other.rollback(two);
      await other.settle(one, { consumed: { tpm: 100 } });
      assert.deepEqual(await left(), { ...FULL, "key-1.rpm": 59, "key-1.tpm": 5_900, "proj-1.tpm": 8_900 });
    });

    test("of many that end one lease at once, one credits", async (t) => {
      const { storedLeases, store, clock, left } = await openWorld(t, openStore);
      const { storedLeases: other } = await openStoredLeases(store, clock);
      const lease = id(await storedLeases.acquire(taking({ tpm: 1_000 })));
      const ends = await Promise.allSettled([
        ...[storedLeases.rollback(lease), other.rollback(lease), storedLeases.settle(lease, { consumed: { tpm: 0 } })],
        ...[other.settle(lease, { consumed: { tpm: 0 } }), storedLeases.rollback(lease)],
      ]);
      const status = (await storedLeases.get(lease)).status;
      for (const end of ends) if (end.status === "fulfilled") assert.equal(end.value.status, status);
      assert.ok(ends.some((end) => end.status === "fulfilled"));
      assert.deepEqual(await left(), FULL);
    });

    test("open leases are listed, of an entity or all", async (t) => {
      const { storedLeases } = await openWorld(t, openStore);
      const own = id(await storedLeases.acquire(taking({ tpm: 1 })));
      await storedLeases.acquire(taking({ tpm: 1 }, { entityId: "proj-1" }));
      await storedLeases.settle(id(await storedLeases.acquire(taking({ tpm: 1 }))));
      assert.equal((await storedLeases.list()).length, 2);
      assert.deepEqual(
        (await storedLeases.list({ entityId: "key-1" })).map(({ leaseId }) => leaseId),
        [own],
      );
      assert.deepEqual((await storedLeases.list({ resource: "gpu-pool" })).length, 0);
      const first = await storedLeases.list({ limit: 1 });
      const cursor = first.cursor as string;
      assert.equal(
        new Set([...first, ...(await storedLeases.list({ limit: 1, cursor }))].map((one) => one.leaseId)).size,
        2,
      );
    });

    test("a request may wait, and is refused with everything that stood in the way", async (t) => {
      const { storedLeases, clock } = await openWorld(t, openStore);
      const held = id(await storedLeases.acquire(taking({ tpm: 6_000 })));
      const refused = await storedLeases.tryAcquire(taking({ tpm: 10 }));
      assert.ok("ok" in refused && !refused.ok && refused.primary.limit === "tpm");
      assert.ok(standingsIn(refused).some(({ limit, level }) => limit === "tpm" && level === 1));
      const waiting = storedLeases.acquire(taking({ tpm: 10 }, { wait: { maxMs: 20_000 } }));
      await clock.advance(8_000);
      await storedLeases.rollback(held);
      const { lease } = await waiting;
      assert.deepEqual([lease.consumed, lease.expiresAtMs], [{ tpm: 10 }, clock.now() + 300_000]);
    });
  });
}
