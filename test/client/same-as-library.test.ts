import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { ClientLimiter } from "../../src/client/client.ts";
import { type Lease, Limit, LimiterError, RateLimiter } from "../../src/entry/index.ts";
import { createService } from "../../src/entry/server.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { atDepth } from "../depth.ts";
import { fc } from "../properties.ts";

// The same requests to a limiter, and to a client of a service on a store of its own: what comes out is compared, word for word
// but for messages.

const START_MS = 1_800_000_000_000;
const ENTITIES = ["org", "key-1", "key-2", "stranger"] as const;
const RESOURCES = ["gpt-4", "batch", "unlimited"] as const;

interface Side {
  readonly limiter: RateLimiter | ClientLimiter;
  readonly clock: SimulatedClock;
  readonly leases: Lease[];
}

type Step = (side: Side) => unknown;

const who = fc.constantFrom(...ENTITIES);
const where = fc.constantFrom(...RESOURCES);
const on = fc.record({ entityId: who, resource: where });
/** What is disabled and has no limits either is told as the one by the library, and as the other by an explanation. */
const limited = fc.record({ entityId: who, resource: fc.constantFrom("gpt-4", "batch") });
const amount = fc.oneof(
  { weight: 8, arbitrary: fc.integer({ min: 0, max: 60 }) },
  { weight: 1, arbitrary: fc.constantFrom(-5, 1.5, 1_000_000, Number.NaN, undefined as never, "7" as never) },
);
const amounts = fc.dictionary(fc.constantFrom("rpm", "tpm", "day", "requests", "other"), amount, { maxKeys: 3 });
const request = fc.record(
  { entityId: who, resource: where, consume: amounts },
  { requiredKeys: ["entityId", "resource"] },
);
const also = fc.constantFrom(undefined, undefined, { batch: { rpm: 1 } });
const nth = fc.nat({ max: 5 });

const shownLease = (lease: Lease | undefined) =>
  lease && {
    ...{ status: lease.status, consumed: lease.consumed, resources: lease.resources, degraded: lease.degraded },
    ...{ overdrawn: lease.overdrawn, bypassed: lease.bypassed, remaining: lease.remaining },
  };

/** Takes, and keeps the lease for later steps. */
const taking = (side: Side, lease: Lease) => {
  side.leases.push(lease);
  return shownLease(lease);
};

const withLease =
  (n: number, work: (lease: Lease) => Promise<unknown>): Step =>
  async ({ leases }) => {
    const lease = leases[n % Math.max(1, leases.length)];
    if (lease === undefined) return "none";
    await work(lease);
    const { status, consumed } = lease;
    // A service goes on naming what was given back, with 0.
    return { status, consumed: Object.fromEntries(Object.entries(consumed).filter(([, tokens]) => tokens !== 0)) };
  };

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.tuple(request, also).map(
      ([asked, more]): Step =>
        async (side) =>
          taking(side, await side.limiter.acquire({ ...asked, ...(more && { also: more }) })),
    ),
  },
  {
    weight: 4,
    arbitrary: request.map(
      (asked): Step =>
        async (side) => {
          const outcome = await side.limiter.tryAcquire(asked);
          return outcome.ok ? taking(side, outcome.lease) : outcome;
        },
    ),
  },
  { weight: 3, arbitrary: fc.tuple(nth, amounts).map(([n, delta]) => withLease(n, (lease) => lease.adjust(delta))) },
  { weight: 2, arbitrary: fc.tuple(nth, amounts).map(([n, more]) => withLease(n, (lease) => lease.consume(more))) },
  { weight: 2, arbitrary: fc.tuple(nth, amounts).map(([n, less]) => withLease(n, (lease) => lease.release(less))) },
  { weight: 2, arbitrary: fc.tuple(nth, amounts).map(([n, all]) => withLease(n, (lease) => lease.settle(all))) },
  { weight: 2, arbitrary: nth.map((n) => withLease(n, (lease) => lease.settle())) },
  { weight: 2, arbitrary: nth.map((n) => withLease(n, (lease) => lease.rollback())) },
  {
    weight: 2,
    arbitrary: on.map(
      (asked): Step =>
        ({ limiter }) =>
          limiter.available(asked),
    ),
  },
  {
    weight: 2,
    arbitrary: request.map(
      (asked): Step =>
        ({ limiter }) =>
          limiter.timeUntilAvailable(asked),
    ),
  },
  {
    weight: 2,
    arbitrary: request.map(
      (asked): Step =>
        ({ limiter }) =>
          limiter.explain(asked),
    ),
  },
  {
    weight: 1,
    arbitrary: fc.tuple(on, amounts).map(
      ([asked, bought]): Step =>
        ({ limiter }) =>
          limiter.topUp({ ...asked, amounts: bought }),
    ),
  },
  {
    weight: 1,
    arbitrary: on.map(
      (asked): Step =>
        ({ limiter }) =>
          limiter.resetBucket(asked),
    ),
  },
  {
    weight: 1,
    arbitrary: on.map(
      (asked): Step =>
        ({ limiter }) =>
          limiter.listBuckets(asked),
    ),
  },
  {
    weight: 1,
    arbitrary: on.map(
      ({ entityId, resource }): Step =>
        ({ limiter }) =>
          limiter.resolveLimits(entityId, resource),
    ),
  },
  {
    weight: 1,
    arbitrary: who.map(
      (id): Step =>
        ({ limiter }) =>
          limiter.getEntity(id),
    ),
  },
  {
    weight: 1,
    arbitrary: fc.tuple(who, fc.constantFrom("a", "", 5 as never)).map(
      ([id, name]): Step =>
        ({ limiter }) =>
          limiter.updateEntity(id, { name }),
    ),
  },
  {
    weight: 1,
    arbitrary: fc.tuple(who, fc.option(who, { nil: undefined })).map(
      ([id, parentId]): Step =>
        ({ limiter }) =>
          limiter.createEntity({ id: `new-${id}`, ...(parentId && { parentId }) }),
    ),
  },
  {
    weight: 1,
    arbitrary: who.map(
      (id): Step =>
        ({ limiter }) =>
          limiter.deleteEntity(`new-${id}`),
    ),
  },
  {
    weight: 1,
    arbitrary: who.map(
      (id): Step =>
        ({ limiter }) =>
          limiter.listLimits(id),
    ),
  },
  {
    weight: 1,
    arbitrary: fc.tuple(who, fc.integer({ min: 1, max: 90 })).map(
      ([id, rate]): Step =>
        ({ limiter }) =>
          limiter.setLimits(id, [Limit.perMinute("rpm", rate)], { resource: "batch" }),
    ),
  },
  {
    weight: 1,
    arbitrary: who.map(
      (id): Step =>
        ({ limiter }) =>
          limiter.deleteLimits(id, { resource: "batch" }),
    ),
  },
  {
    weight: 1,
    arbitrary: fc.tuple(limited, fc.constantFrom("disabled", "bypass", "inherit", "odd" as never)).map(
      ([asked, mode]): Step =>
        ({ limiter }) =>
          limiter.setAccess(asked, mode),
    ),
  },
  {
    weight: 1,
    arbitrary: on.map(
      (asked): Step =>
        ({ limiter }) =>
          limiter.getPolicy(asked),
    ),
  },
  {
    weight: 1,
    arbitrary: who.map(
      (entityId): Step =>
        ({ limiter }) =>
          limiter.usage({ entityId, window: "hourly" }),
    ),
  },
  { weight: 1, arbitrary: fc.constant<Step>(({ limiter }) => limiter.usageSummary({ window: "daily" })) },
  {
    weight: 2,
    arbitrary: fc.integer({ min: 1, max: 5_000 }).map(
      (ms): Step =>
        ({ clock }) =>
          clock.advance(ms),
    ),
  },
);

/** What came of a step: the value, or the class and code of its error. */
async function outcomeOf(work: Step, side: Side): Promise<unknown> {
  try {
    const value = await work(side);
    return { value: value === undefined ? null : value };
  } catch (error) {
    if (!(error instanceof LimiterError)) throw error;
    const { name, code, httpStatus } = error;
    const { statuses, primary, retryAfterMs, leaseStatus } = error as unknown as Record<string, unknown>;
    return { name, code, httpStatus, statuses, primary, retryAfterMs, leaseStatus };
  }
}

/**
 * A value of a wrong type is refused by the schema of the service, which has one code for all of them. Of two mistakes at once, the
 * client sees an amount that is none before anything else.
 */
function withCodeOf(got: unknown, expected: unknown): unknown {
  const { code, name } = got as { readonly code?: string; readonly name?: string };
  const other = expected as { readonly code?: string; readonly name?: string };
  if (code === "amount_invalid" && other.code !== undefined) return expected;
  return code === "request_invalid" && name === other.name ? { ...(got as object), code: other.code } : got;
}

async function furnish(limiter: RateLimiter | ClientLimiter): Promise<void> {
  await limiter.createEntity({ id: "org" });
  await limiter.createEntity({ id: "key-1", parentId: "org" });
  await limiter.createEntity({ id: "key-2", parentId: "org", cascade: false });
  await limiter.setResourceDefaults("gpt-4", [
    Limit.perMinute("rpm", 60),
    Limit.perMinute("tpm", 100, { burst: 150 }),
    Limit.quota("day", 200, { reset: { cron: "0 0 * * *" }, soft: true }),
  ]);
  await limiter.setResourceDefaults("batch", [
    Limit.perMinute("rpm", 30),
    Limit.perMinute("calls", 50, { counts: "requests" }),
  ]);
  await limiter.setTotals("key-1", [Limit.perHour("tpm", 300)]);
}

async function sides(t: TestContext, storeOf: (name: string) => string): Promise<{ library: Side; client: Side }> {
  const made = async (name: string) => {
    const clock = new SimulatedClock(START_MS);
    const options = { clock, configTtlMs: 0, denyMemoryMs: 0, unnamedLimits: "allow" } as const;
    const limiter = await RateLimiter.open({ store: storeOf(name), ...options });
    t.after(() => limiter.close());
    return { clock, limiter };
  };
  const own = await made("own");
  const served = await made("served");
  const service = await createService({ limiter: served.limiter, log: () => {} });
  const { url, close } = await service.listen({ port: 0 });
  t.after(close);
  // No lease is to expire: those of a limiter do not.
  const client = new ClientLimiter({ url, holdMs: 86_400_000, timeoutMs: 60_000 }, served.clock);
  await furnish(own.limiter);
  await furnish(client);
  return { library: { ...own, leases: [] }, client: { clock: served.clock, limiter: client, leases: [] } };
}

const SEEDS = atDepth(
  { memory: [1, 2, 3, 4], sqlite: [7] },
  { memory: [1, 2, 3, 4, 5, 6, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20], sqlite: [7, 8, 9, 10] },
);
const STEPS = 120;

for (const [store, seeds] of Object.entries(SEEDS)) {
  for (const seed of seeds) {
    test(`a client answers as the library does on ${store}: outcomes, errors, leases, seed ${seed}`, async (t) => {
      const folder = mkdtempSync(join(tmpdir(), "same-"));
      t.after(() => rmSync(folder, { recursive: true, force: true }));
      const storeOf = (name: string) => (store === "memory" ? "memory" : `sqlite:${join(folder, `${name}.db`)}`);
      const { library, client } = await sides(t, storeOf);
      const kinds = new Set<string>();
      for (const [i, work] of fc.sample(step, { seed, numRuns: STEPS }).entries()) {
        const expected = await outcomeOf(work, library);
        const got = await outcomeOf(work, client);
        assert.deepEqual(withCodeOf(got, expected), expected, `step ${i} of seed ${seed}`);
        kinds.add(String((expected as { code?: string }).code));
      }
      assert.ok(kinds.size > 4, `only ${[...kinds].join()} came of it`);
    });
  }
}
