import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { type Lease, Limit } from "../../src/entry/index.ts";
import { runs } from "../depth.ts";
import { fc } from "../properties.ts";
import { openWorld, still, taking } from "../stored-leases/kit.ts";
import { EVERY_STORE } from "./every-store.ts";

// A limit of slots that refuses nothing changes no answer: programs of leases are played with and without one, side by side.

type Opened = Awaited<ReturnType<typeof openWorld>>;

const step = fc.record({
  act: fc.constantFrom(
    ...["acquire", "acquire", "store", "store", "consume", "adjust", "release", "renew", "keep", "signal", "reset"],
    ...["settle", "rollback", "advance", "advance", "look"],
  ),
  lease: fc.nat(3),
  tokens: fc.constantFrom<Record<string, number>>(
    { rpm: 1 },
    { rpm: 1, parallel: 1 },
    { parallel: 1 },
    { requests: 1 },
    { rpm: 2 },
  ),
  holdMs: fc.constantFrom(undefined, 0, 1_000, 15_000, 120_000, 30_000),
  ms: fc.constantFrom(500, 3_000, 9_000, 25_000, 70_000),
  sign: fc.constantFrom(1, -1),
});
type Step = typeof step extends fc.Arbitrary<infer Value> ? Value : never;

const extra = fc.record({
  kind: fc.constantFrom("shadow", "soft"),
  slots: fc.constantFrom(1, 2, 50),
  counts: fc.constantFrom("requests", "rpm", "parallel"),
  holdMs: fc.constantFrom(2_000, 20_000, 60_000),
  of: fc.constantFrom("key", "parent", "total"),
});
type Extra = typeof extra extends fc.Arbitrary<infer Value> ? Value : never;

async function prepared({ limiter }: Opened, more: Extra | undefined): Promise<void> {
  const slots = more && [
    Limit.concurrent("atOnce", more.slots, { holdMs: more.holdMs, counts: more.counts, [more.kind]: true }),
  ];
  const calls = Limit.perMinute("calls", 1_000, { counts: "requests" });
  const parallel = Limit.concurrent("parallel", 2, { holdMs: 20_000 });
  const own = [still("rpm", 60), calls, parallel];
  await limiter.setResourceDefaults("gpt-4", [...own, ...((more?.of === "key" && slots) || [])]);
  await limiter.setLimits("proj-1", [still("rpm", 500), ...((more?.of === "parent" && slots) || [])], {
    resource: "gpt-4",
  });
  await limiter.setTotals("key-1", [
    Limit.perMinute("all", 1_000, { counts: "rpm" }),
    ...((more?.of === "total" && slots) || []),
  ]);
}

/** Plays a program, and answers what every call was answered. */
async function played(
  t: TestContext,
  openStore: (typeof EVERY_STORE)[number][1],
  steps: readonly Step[],
  more?: Extra,
) {
  const world = await openWorld(t, openStore);
  const { limiter, storedLeases, clock } = world;
  await prepared(world, more);
  const leases: Lease[] = [];
  const stored: string[] = [];
  const told: unknown[] = [];
  const tell = async (what: string, work: () => unknown) => {
    try {
      told.push([what, await work()]);
    } catch (error) {
      const { code, retryAfterMs } = error as { code?: string; retryAfterMs?: number };
      told.push([what, code ?? String(error), retryAfterMs]);
    }
  };
  const seen = ({ consumed, status, holdsUntilMs, degraded }: Lease) => [consumed, status, holdsUntilMs, degraded];
  const shown = ({ consumed, status, expiresAtMs }: Record<string, unknown>) => [consumed, status, expiresAtMs];
  for (const { act, lease: index, tokens, holdMs, ms, sign } of steps) {
    const lease = leases[index];
    const id = stored[index];
    const asked = taking(tokens, holdMs === undefined ? {} : { holdMs });
    if (act === "acquire")
      await tell(act, async () => {
        const own = await limiter.acquire(asked);
        leases.unshift(own);
        return seen(own);
      });
    if (act === "store")
      await tell(act, async () => {
        const { lease: own } = await storedLeases.acquire(asked);
        if (own.leaseId !== null) stored.unshift(own.leaseId);
        return shown({ ...own });
      });
    const amounts = tokens;
    if (lease !== undefined) {
      if (act === "consume" || act === "release") await tell(act, () => lease[act](amounts));
      if (act === "adjust") {
        const delta = Object.fromEntries(Object.entries(amounts).map(([name, n]) => [name, sign * n]));
        await tell(act, () => lease.adjust(delta));
      }
      if (act === "renew" || act === "keep" || act === "settle" || act === "rollback")
        await tell(act, () => lease[act]());
      if (act === "signal") await tell(act, () => lease.signal.aborted);
      await tell("lease", () => seen(lease));
    }
    if (id !== undefined) {
      if (act === "consume" || act === "release")
        await tell(act, () => storedLeases[act](id, { amounts }).then(({ lease }) => shown({ ...lease })));
      if (act === "adjust")
        await tell(act, () => storedLeases.adjust(id, { delta: amounts }).then(({ lease }) => shown({ ...lease })));
      if (act === "renew")
        await tell(act, () => storedLeases.extend(id, { holdMs: 30_000 }).then((lease) => shown({ ...lease })));
      if (act === "settle" || act === "rollback")
        await tell(act, () => storedLeases[act](id).then((lease) => shown({ ...lease })));
      if (act === "look") await tell(act, () => storedLeases.get(id).then((lease) => shown({ ...lease })));
    }
    if (act === "reset" && more !== undefined) {
      const on = { entityId: more.of === "parent" ? "proj-1" : "key-1", resource: more.of === "total" ? "*" : "gpt-4" };
      await limiter.resetBucket({ ...on, limits: ["atOnce"] });
    }
    if (act === "advance") await clock.advance(ms);
  }
  for (const lease of leases) await tell("in the end", () => [...seen(lease), lease.signal.aborted]);
  return told;
}

for (const [name, openStore] of EVERY_STORE) {
  test(`slots that refuse nothing change no answer of any call on ${name}`, async (t) => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 8, maxLength: 30 }), extra, async (steps, more) => {
        const without = await played(t, openStore, steps);
        assert.deepEqual(await played(t, openStore, steps, more), without);
      }),
      { numRuns: runs(25) },
    );
  });
}
