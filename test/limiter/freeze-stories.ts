import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { partsOf } from "../../src/engine/limiter/limiter-parts.ts";
import { type Lease, Limit, LimiterError, ResourceDisabled } from "../../src/entry/index.ts";
import { StoredLeases } from "../../src/leases/stored-leases.ts";
import type { TwoLimiters } from "./switch-stories.ts";

const LLM = "llm";
const KEY = { entityId: "key", resource: LLM } as const;
const CONFIG_TTL_MS = 60_000;
const MOVING = { reason: "moving to another store", principal: "ops@example.org" };

interface Frozen extends TwoLimiters {
  /** Lets the worker hear that a namespace was frozen: at once, or once what it remembers is too old. */
  heard(): Promise<void>;
  /** Lets what the worker remembers become too old: nothing tells it that a namespace was unfrozen. */
  thawed(): Promise<void>;
}

/** What a namespace at rest refuses in every process, and what it lets through. */
export function tellFreezeStories(open: (t: TestContext) => Promise<TwoLimiters>): void {
  const story = (sentence: string, tell: (told: Frozen) => Promise<void>) =>
    test(sentence, async (t) => {
      const two = await open(t);
      const { admin, worker, clock } = two;
      try {
        await admin.createEntity({ id: "org" });
        await admin.createEntity({ id: "key", parentId: "org", cascade: true });
        // Of what is taken, a minute brings back less than a token.
        await admin.setLimits("key", [Limit.perDay("rpm", 100)], { resource: LLM });
        await admin.setResourceDefaults("gpu", [Limit.concurrent("slots", 4, { holdMs: 3_600_000 })]);
        const knowsAtOnce = partsOf(worker).deps.scope.config.generation() !== undefined;
        const thawed = () => clock.advance(CONFIG_TTL_MS);
        await tell({ ...two, thawed, heard: async () => (knowsAtOnce ? undefined : thawed()) });
      } finally {
        await two.close();
      }
    });

  story(
    "a frozen namespace grants nothing, above every enforce, and says why",
    async ({ admin, worker, heard, thawed }) => {
      await admin.setAccess(KEY, "enforce");
      await admin.setAccess({ entityId: "free" }, "bypass");
      const asked = [KEY, { entityId: "free", resource: LLM }, { entityId: "new", resource: "gpu" }] as const;
      const limits = [Limit.perMinute("rpm", 5)];
      assert.equal(await outcomeOf(worker.acquire({ ...KEY, consume: { rpm: 1 } })), "granted");
      assert.equal(await admin.freezeNamespace("default", MOVING), true);
      assert.equal(await admin.freezeNamespace("default", MOVING), false, "it is frozen for that reason already");
      for (const limiter of [admin, worker]) {
        for (const one of asked) {
          assert.equal(await outcomeOf(limiter.acquire({ ...one, consume: { rpm: 1 }, limits })), "namespace_frozen");
          assert.equal(
            await outcomeOf(limiter.tryAcquire({ ...one, consume: { rpm: 1 }, limits })),
            "namespace_frozen",
          );
        }
        const all = { ...KEY, consume: { rpm: 1 } };
        assert.equal(await outcomeOf(limiter.acquire({ ...all, also: { gpu: { slots: 1 } } })), "namespace_frozen");
        assert.equal(await outcomeOf(limiter.acquire({ ...all, atomic: true })), "namespace_frozen");
        assert.equal(await outcomeOf(limiter.acquire({ ...all, wait: { maxMs: 5_000 } })), "namespace_frozen");
        assert.equal(await outcomeOf(limiter.topUp({ ...KEY, amounts: { rpm: 1 } })), "namespace_frozen");
        assert.equal(await outcomeOf(limiter.resetBucket(KEY)), "namespace_frozen");
        assert.equal(await limiter.timeUntilAvailable(all), Number.POSITIVE_INFINITY);
        const { outcome, frozen, reason = "", levels } = await limiter.explain(all);
        assert.deepEqual([outcome, frozen, levels[0]?.access], ["disabled", { reason: MOVING.reason }, "enforce"]);
        assert.match(reason, /frozen \(moving to another store\).*unfreezeNamespace/);
        assert.deepEqual(await limiter.getPolicy(KEY), { access: "enforce", frozen: { reason: MOVING.reason } });
        assert.deepEqual(await limiter.getPolicy({ resource: LLM }), { frozen: { reason: MOVING.reason } });
        assert.equal((await limiter.available(KEY))[0]?.available, 99, "a question is answered");
        await heard();
      }
      const error = await worker.acquire({ ...KEY, consume: { rpm: 1 } }).catch((thrown: unknown) => thrown);
      assert.ok(error instanceof ResourceDisabled);
      const { code, httpStatus, level, entityId, resource, reason } = error;
      assert.deepEqual(
        { code, httpStatus, level, entityId, resource, reason },
        { ...{ code: "namespace_frozen", httpStatus: 403, level: "system" }, ...KEY, reason: MOVING.reason },
      );
      assert.doesNotMatch(String(error.toProblem().detail), /moving/, "callers of a middleware are told no reason");
      assert.equal(await admin.freezeNamespace("default"), true, "without a reason");
      await thawed();
      await assert.rejects(worker.acquire({ ...KEY, consume: { rpm: 1 } }), { message: /^The namespace is frozen: / });
      assert.equal(await admin.unfreezeNamespace("default"), true);
      assert.equal(await admin.unfreezeNamespace("default"), false);
      await thawed();
      assert.equal(await outcomeOf(worker.acquire({ ...KEY, consume: { rpm: 1 } })), "granted");
      assert.equal("frozen" in (await worker.explain(KEY)), false);
      assert.deepEqual(await worker.getPolicy(KEY), { access: "enforce" });
    },
  );

  story("an open lease takes no more of a frozen namespace, and ends as ever", async ({ admin, worker, thawed }) => {
    const leases: Lease[] = [];
    for (let i = 0; i < 3; i++) leases.push(await worker.acquire({ ...KEY, consume: { rpm: 10 } }));
    const slots = await worker.acquire({ entityId: "key", resource: "gpu", consume: { slots: 2 } });
    const [used, undone, changed] = leases as [Lease, Lease, Lease];
    await used.consume({ rpm: 1 });
    await admin.freezeNamespace("default", MOVING);
    await thawed();
    for (const lease of leases) assert.equal(await outcomeOf(lease.consume({ rpm: 1 })), "namespace_frozen");
    await slots.renew();
    await changed.adjust({ rpm: 3 });
    await changed.release({ rpm: 1 });
    await changed.adjust({ rpm: -2 });
    await used.settle();
    await undone.rollback();
    await slots.settle();
    assert.deepEqual([used.status, undone.status], ["settled", "rolledBack"]);
    await changed.settle({ rpm: 12 });
    const left = async (resource: string) => (await worker.available({ entityId: "key", resource }))[0]?.available;
    assert.deepEqual([await left(LLM), await left("gpu")], [77, 4]);
    await admin.unfreezeNamespace("default");
    await thawed();
    const lease = await worker.acquire({ ...KEY, consume: { rpm: 1 } });
    await lease.consume({ rpm: 1 });
  });

  story("so does a lease that is stored, whichever process goes on with it", async ({ admin, worker, heard }) => {
    const options = { ...{ holdMs: 600_000, holdMaxMs: 3_600_000 }, onExpiry: "charge", onChange: () => {} } as const;
    const [first, second] = [new StoredLeases(admin, options), new StoredLeases(worker, options)];
    const { lease } = await first.acquire({ ...KEY, consume: { rpm: 10 } });
    const id = lease.leaseId ?? "";
    await second.consume(id, { amounts: { rpm: 1 } });
    await admin.freezeNamespace("default", MOVING);
    await heard();
    await assert.rejects(second.consume(id, { amounts: { rpm: 1 } }), { code: "namespace_frozen" });
    await second.adjust(id, { delta: { rpm: -1 } });
    assert.equal((await second.settle(id)).status, "settled");
    assert.equal((await worker.available(KEY))[0]?.available, 90);
  });

  story("limits, plans and switches change while a namespace is frozen", async ({ admin, worker, heard, thawed }) => {
    await admin.setSystemDefaults([Limit.perMinute("rpm", 9)], { onUnavailable: "allow" });
    await admin.freezeNamespace("default", MOVING);
    const system = { limits: [Limit.perMinute("rpm", 9)], onUnavailable: "allow" };
    assert.deepEqual(await admin.getSystemDefaults(), system, "it is no part of what limits");
    assert.equal(await admin.setSystemDefaults(system.limits, { onUnavailable: "block" }), true);
    assert.equal(await admin.setLimits("key", [Limit.perDay("rpm", 7)], { resource: LLM }), true);
    assert.equal(await admin.setAccess(KEY, "bypass"), true);
    assert.equal(await admin.setAccess(KEY, "enforce"), true);
    assert.equal(await admin.deleteSystemDefaults(), true);
    await heard();
    assert.equal(await outcomeOf(worker.acquire({ ...KEY, consume: { rpm: 1 } })), "namespace_frozen");
    await admin.unfreezeNamespace("default");
    await thawed();
    assert.equal(await outcomeOf(worker.acquire({ ...KEY, consume: { rpm: 1 } })), "granted");
    assert.equal((await worker.available(KEY))[0]?.available, 6);
  });

  story("only the namespace that is named is frozen, and its log says so", async ({ admin, worker, heard, thawed }) => {
    await admin.registerNamespace("tenant");
    const tenant = worker.namespace("tenant");
    await tenant.setResourceDefaults(LLM, [Limit.perMinute("rpm", 5)]);
    const ask = () => outcomeOf(tenant.acquire({ ...KEY, consume: { rpm: 1 } }));
    assert.equal(await ask(), "granted");
    await admin.freezeNamespace("tenant", MOVING);
    await heard();
    assert.equal(await ask(), "namespace_frozen");
    assert.equal(await outcomeOf(worker.acquire({ ...KEY, consume: { rpm: 1 } })), "granted");
    await admin.unfreezeNamespace("tenant", { principal: "ops@example.org" });
    await thawed();
    assert.equal(await ask(), "granted");
    const { events } = await tenant.auditEvents({ entityId: "$NAMESPACE:tenant" });
    assert.deepEqual(events.map(({ action, principal, details }) => [action, principal, details]).reverse(), [
      ["namespace_frozen", "ops@example.org", { reason: MOVING.reason }],
      ["namespace_unfrozen", "ops@example.org", {}],
    ]);
    await assert.rejects(admin.freezeNamespace("nobody"), { code: "namespace_not_found" });
    for (const reason of ["", "a\nb", "x".repeat(257), 7]) {
      await assert.rejects(admin.freezeNamespace("tenant", { reason: reason as string }), { code: "option_invalid" });
    }
    await assert.rejects(admin.unfreezeNamespace("tenant", MOVING), { code: "option_unknown" });
    assert.equal(await ask(), "granted");
  });

  story("who waits for tokens is refused when the namespace is frozen", async ({ admin }) => {
    await admin.setResourceDefaults("slow", [Limit.perMinute("rpm", 100)]);
    const slow = { entityId: "key", resource: "slow" };
    await admin.acquire({ ...slow, consume: { rpm: 100 } });
    const waiting = outcomeOf(admin.acquire({ ...slow, consume: { rpm: 50 }, wait: { maxMs: 600_000 } }));
    // It is asked for, refused, and waits.
    await new Promise((resolve) => setImmediate(resolve));
    await admin.freezeNamespace("default", MOVING);
    assert.equal(await waiting, "namespace_frozen");
  });
}

/** `granted`, or the code of the error; the tokens stay taken. */
async function outcomeOf(asked: Promise<unknown>): Promise<string> {
  return asked.then(
    () => "granted",
    (error: unknown) => {
      assert.ok(error instanceof LimiterError, String(error));
      return error.code;
    },
  );
}
