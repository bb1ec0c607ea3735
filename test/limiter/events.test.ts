import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { Tokens } from "../../src/domain/charge/amounts.ts";
import { CHANNELS, Limit, RateLimiter, RateLimiterUnavailable } from "../../src/entry/index.ts";
import { openMemory } from "../../src/entry/memory.ts";
import { StoredLeases } from "../../src/leases/stored-leases.ts";
import { FaultStore } from "../../src/testing/fault-store.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { runs } from "../depth.ts";
import { fc } from "../properties.ts";
import { EVERY_STORE } from "./every-store.ts";
import { gpt, openLimiter } from "./limiter-kit.ts";
import { heard } from "./listening.ts";

const T0 = Date.UTC(2026, 2, 15, 12);
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const COUNTED = /^(rpm|tpm|slots|seen|all)$/;
const ENTITIES = ["org", "proj", "key", "alone", "free"] as const;

/** What somebody does next; numbers choose a lease, an entity, amounts. */
type Step =
  | {
      readonly do: "take";
      readonly entity: number;
      readonly tpm: number;
      readonly also: boolean;
      readonly stored: boolean;
    }
  | { readonly do: "adjust" | "consume" | "release"; readonly lease: number; readonly tpm: number }
  | { readonly do: "settle" | "rollback"; readonly lease: number }
  | { readonly do: "body"; readonly entity: number; readonly tpm: number; readonly fails: boolean }
  | { readonly do: "wait"; readonly ms: number };

const lease = fc.nat({ max: 9 });
const entity = fc.nat({ max: ENTITIES.length - 1 });
const tpm = fc.integer({ min: 0, max: 700 });
const anyStep: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ do: fc.constant("take" as const), entity, tpm, also: fc.boolean(), stored: fc.boolean() }),
  fc.record({ do: fc.constant("adjust" as const), lease, tpm: fc.integer({ min: -700, max: 700 }) }),
  fc.record({ do: fc.constantFrom("consume" as const, "release" as const), lease, tpm }),
  fc.record({ do: fc.constantFrom("settle" as const, "rollback" as const), lease }),
  fc.record({ do: fc.constant("body" as const), entity, tpm, fails: fc.boolean() }),
  fc.record({ do: fc.constant("wait" as const), ms: fc.integer({ min: 1, max: 40 * 60_000 }) }),
);

/** Sums by entity, resource and limit; what comes to nothing is left out. */
class Ledger {
  readonly #sums = new Map<string, number>();

  add({ entityId, resource }: { entityId: string; resource: string }, amounts: Record<string, number>, sign: 1 | -1) {
    for (const [limit, tokens] of Object.entries(amounts)) {
      const place = `${entityId} ${resource} ${limit}`;
      this.#sums.set(place, (this.#sums.get(place) ?? 0) + sign * tokens);
    }
  }

  sums(): Record<string, number> {
    return Object.fromEntries([...this.#sums].filter(([, sum]) => sum !== 0).sort());
  }
}

describe("acquired and charged less what was given back is what usage shows, token for token", () => {
  const stores = EVERY_STORE.filter(([name]) => !name.includes(" with a ") && !name.includes(" that remember "));
  for (const [name, openStore] of stores) {
    test(`on ${name}, whatever leases go through`, async (t) => {
      const acquired = heard(t, CHANNELS.acquired);
      const charged = heard(t, CHANNELS.charged);
      const gaveBack = heard(t, CHANNELS.gaveBack);
      let namespaces = 0;
      const clock = new SimulatedClock(T0);
      const { store, options } = openStore(clock, t);
      const root = await RateLimiter.open({ store, clock, ...options });
      t.after(() => root.close());
      await fc.assert(
        fc.asyncProperty(fc.array(anyStep, { minLength: 1, maxLength: 30 }), async (steps) => {
          for (const events of [acquired, charged, gaveBack]) events.length = 0;
          const tenant = `tenant-${++namespaces}`;
          await root.registerNamespace(tenant);
          const limiter = root.namespace(tenant);
          await play(limiter, clock, steps);
          const told = new Ledger();
          for (const event of acquired) told.add(event, event.consumed, 1);
          for (const event of charged) told.add(event, event.amounts, 1);
          for (const event of gaveBack) {
            // What a request took that was refused was never told as acquired.
            if (event.confirmed && event.reason !== "refused") told.add(event, event.amounts, -1);
          }
          const stored = new Ledger();
          for (const on of [{}, { resource: "*" }]) {
            for await (const snapshot of limiter.usage({ window: "hourly", ...on })) {
              const tokens = Object.entries(snapshot.counters).filter(([counter]) => COUNTED.test(counter));
              stored.add(snapshot, Object.fromEntries(tokens), 1);
            }
          }
          assert.deepEqual(told.sums(), stored.sums());
        }),
        { numRuns: runs(name === "memory" ? 60 : 30) },
      );
    });
  }
});

/** A lease, whether it lives in this process or in the store. */
type AnyLease = Record<"adjust" | "consume" | "release", (tokens: Tokens) => Promise<unknown>> &
  Record<"settle" | "rollback", () => Promise<unknown>>;

function storedLease(leases: StoredLeases, leaseId: string): AnyLease {
  return {
    adjust: (delta) => leases.adjust(leaseId, { delta }),
    consume: (amounts) => leases.consume(leaseId, { amounts }),
    release: (amounts) => leases.release(leaseId, { amounts }),
    settle: () => leases.settle(leaseId),
    rollback: () => leases.rollback(leaseId),
  };
}

/** Leases of a chain of three, of one that stands alone and of one that is let through, on one resource or two. */
async function play(limiter: RateLimiter, clock: SimulatedClock, steps: readonly Step[]): Promise<void> {
  await limiter.createEntity({ id: "org" });
  await limiter.createEntity({ id: "proj", parentId: "org", cascade: true });
  await limiter.createEntity({ id: "key", parentId: "proj", cascade: true });
  await limiter.setResourceDefaults("gpt-4", [
    Limit.perHour("rpm", 30),
    Limit.perHour("tpm", 4_000),
    Limit.perHour("seen", 300, { counts: "tpm", shadow: true }),
  ]);
  await limiter.setResourceDefaults("gpu", [Limit.perHour("slots", 8, { soft: true })]);
  await limiter.setLimits("org", [Limit.perHour("tpm", 3_000)], { resource: "gpt-4" });
  await limiter.setTotals("proj", [Limit.perHour("all", 500, { counts: "tpm", shadow: true })]);
  await limiter.setAccess({ entityId: "free" }, "bypass");
  const leases: AnyLease[] = [];
  const kept = new StoredLeases(limiter, {
    holdMs: HOUR_MS,
    holdMaxMs: DAY_MS,
    onExpiry: "charge",
    onChange: () => {},
  });
  const about = (index: number) => ({ entityId: ENTITIES[index] as string, resource: "gpt-4" });
  for (const step of steps) {
    const held = "lease" in step ? leases[step.lease % Math.max(1, leases.length)] : undefined;
    // Refusals and closed leases are part of it.
    await (async () => {
      switch (step.do) {
        case "take": {
          const also = step.also ? { also: { gpu: { slots: 3 } } } : {};
          const consume = step.entity === 0 ? { tpm: step.tpm } : { rpm: 1, tpm: step.tpm };
          const asked = { ...about(step.entity), consume, ...also };
          if (step.stored) {
            const { leaseId } = (await kept.acquire(asked)).lease;
            leases.push(storedLease(kept, leaseId as string));
            return;
          }
          const outcome = await limiter.tryAcquire(asked);
          if (outcome.ok) leases.push(outcome.lease);
          return;
        }
        case "body":
          return limiter.withLease({ ...about(step.entity), consume: { tpm: 100 } }, async (one) => {
            await Promise.all([one.adjust({ tpm: step.tpm }), one.release({ tpm: 50 })]);
            if (step.fails) throw new Error("the work failed");
          });
        case "wait":
          return clock.advance(step.ms);
        case "settle":
        case "rollback":
          return held?.[step.do]();
        default:
          return held?.[step.do]({ tpm: step.tpm });
      }
    })().catch(() => {});
  }
}

test("charged says whom, what and why, at every level", async (t) => {
  const { limiter } = await openLimiter();
  await limiter.createEntity({ id: "proj" });
  await limiter.createEntity({ id: "key-1", parentId: "proj", cascade: true });
  const charged = heard(t, CHANNELS.charged);
  const taken = await limiter.acquire({ ...gpt, consume: { rpm: 1 } });
  await taken.adjust({ tpm: 250 });
  await taken.adjust({ tpm: -50 });
  await taken.consume({ rpm: 2 });
  const told = { namespace: "default", resource: "gpt-4" };
  assert.deepEqual(charged, [
    { ...told, entityId: "key-1", amounts: { tpm: 250 }, reason: "adjust" },
    { ...told, entityId: "proj", amounts: { tpm: 250 }, reason: "adjust" },
    { ...told, entityId: "key-1", amounts: { rpm: 2 }, reason: "consume" },
    { ...told, entityId: "proj", amounts: { rpm: 2 }, reason: "consume" },
  ]);
});

test("acquired is told for every level and resource, and one of its events stands for the request", async (t) => {
  const { limiter } = await openLimiter();
  await limiter.createEntity({ id: "proj" });
  await limiter.createEntity({ id: "key-1", parentId: "proj", cascade: true });
  await limiter.setResourceDefaults("gpu", [Limit.perMinute("slots", 4)]);
  const acquired = heard(t, CHANNELS.acquired);
  await limiter.acquire({ ...gpt, consume: { rpm: 1, tpm: 5 }, also: { gpu: { slots: 2 } }, requestId: "r-1" });
  assert.deepEqual(
    acquired.map(({ entityId, resource, consumed, role, requestId }) => [
      entityId,
      resource,
      consumed,
      role,
      requestId,
    ]),
    [
      ["key-1", "gpt-4", { rpm: 1, tpm: 5 }, "entity", "r-1"],
      ["proj", "gpt-4", { rpm: 1, tpm: 5 }, "parent", "r-1"],
      ["key-1", "gpu", { slots: 2 }, "also", "r-1"],
      ["proj", "gpu", { slots: 2 }, "also", "r-1"],
    ],
  );
});

test("an outage that blocks is told as unavailable, one that lets through as degraded", async (t) => {
  const unavailable = heard(t, CHANNELS.unavailable);
  const degraded = heard(t, CHANNELS.degraded);
  const store = new FaultStore(openMemory(), {});
  const limiter = await RateLimiter.open({ store });
  await limiter.setResourceDefaults("gpt-4", [Limit.perMinute("rpm", 60)]);
  store.failNext("take", "refused");
  await assert.rejects(limiter.acquire({ ...gpt, consume: { rpm: 1 }, requestId: "r-1" }), RateLimiterUnavailable);
  const taken = await limiter.acquire({ ...gpt, consume: { rpm: 1 } });
  store.failNext("take", "refused");
  await assert.rejects(taken.consume({ rpm: 1 }), RateLimiterUnavailable);
  assert.deepEqual(
    unavailable.map(({ entityId, resource, reason, requestId }) => [entityId, resource, reason, requestId]),
    [
      ["key-1", "gpt-4", "simulated fault: take refused", "r-1"],
      ["key-1", "gpt-4", "simulated fault: take refused", undefined],
    ],
  );
  assert.deepEqual(degraded, []);
  const lenient = await RateLimiter.open({ store, onUnavailable: "allow" });
  store.failNext("take", "refused");
  await lenient.acquire({ ...gpt, consume: { rpm: 1 } });
  assert.equal(unavailable.length, 2);
  assert.equal(degraded.length, 1);
});

test("events of a limit called constructor say its tokens as a number", async (t) => {
  const acquired = heard(t, CHANNELS.acquired);
  const gaveBack = heard(t, CHANNELS.gaveBack);
  const { limiter } = await openLimiter();
  await limiter.setResourceDefaults("gpt-4", [Limit.perMinute("constructor", 60)]);
  await (await limiter.acquire({ ...gpt, consume: { constructor: 3 } as Record<string, number> })).rollback();
  assert.deepEqual(
    acquired.map(({ consumed }) => Object.entries(consumed)),
    [[["constructor", 3]]],
  );
  assert.deepEqual(
    gaveBack.map(({ amounts }) => Object.entries(amounts)),
    [[["constructor", 3]]],
  );
});
