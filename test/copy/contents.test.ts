import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { type AuditEvent, Limit, LimiterError, type RateLimiter } from "../../src/entry/index.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { runs } from "../depth.ts";
import { describePostgres } from "../postgres/postgres.ts";
import { fc } from "../properties.ts";
import { copyAndCompare, HOUR_MS, memoryPlace, type OpenPlace, START_MS, sqlitePlace } from "./kit.ts";
import { postgresPlace } from "./places.ts";

// Whatever somebody has made of a namespace goes there and back, and is what it was.

const IDS = ["a", "b", "c", "d"];
const RESOURCES = ["chat", "jobs"];
const PLANS = ["free", "pro"];
const DAILY = { cron: "0 0 * * *", tz: "Europe/Berlin" };

const id = fc.constantFrom(...IDS);
const resource = fc.constantFrom(...RESOURCES);
const planId = fc.constantFrom(...PLANS);
const maybe = <Value>(of: fc.Arbitrary<Value>) => fc.option(of, { nil: undefined });

const limit = fc.oneof(
  fc.integer({ min: 1, max: 500 }).map((n) => Limit.perMinute("rpm", n)),
  fc.integer({ min: 2, max: 90 }).map((n) => Limit.perMinute("rpm", n, { burst: 3 * n, soft: true })),
  fc.integer({ min: 1, max: 900 }).map((n) => Limit.quota("day", n, { reset: DAILY, counts: "rpm", notifyAt: [50] })),
  fc.integer({ min: 1, max: 900 }).map((n) => Limit.quota("session", n, { resetAfterMs: 3 * HOUR_MS, counts: "rpm" })),
  fc.integer({ min: 1, max: 4 }).map((n) => Limit.perHour("calls", n, { counts: "requests", shadow: true })),
  fc.integer({ min: 1, max: 5 }).map((n) => Limit.concurrent("slots", n, { holdMs: 2 * HOUR_MS })),
);
const limits = fc.uniqueArray(limit, { minLength: 1, maxLength: 3, selector: ({ name }) => name });
const options = fc.record({ inherit: fc.boolean(), appliesTo: fc.constantFrom("everyone", "callers") } as const);
const scope = fc.oneof(fc.record({ entityId: id }), fc.record({ resource }), fc.record({ entityId: id, resource }));

/** What a set says of an end: how long it counts, or that what has one goes on. */
const end = fc.oneof(
  fc.constant({}),
  fc.constant({ keepOverride: true }),
  fc.constantFrom(500, 60_000, 2 * HOUR_MS, 20 * HOUR_MS).map((forMs) => ({ forMs })),
);
type End = { readonly forMs?: number; readonly keepOverride?: boolean };

function until({ forMs, ...rest }: End, clock: SimulatedClock) {
  return forMs === undefined ? rest : { untilMs: clock.now() + forMs };
}

/** Access has no base that is set under what has an end. */
function accessUntil({ forMs }: End, clock: SimulatedClock) {
  return forMs === undefined ? {} : { untilMs: clock.now() + forMs };
}

type Step = (limiter: RateLimiter, clock: SimulatedClock) => Promise<unknown>;

const step: fc.Arbitrary<Step> = fc.oneof(
  fc.tuple(id, maybe(id), maybe(planId), fc.boolean()).map(
    ([one, parentId, plan, cascade]): Step =>
      (limiter) =>
        limiter.createEntity({
          ...{ id: one, name: `Name of ${one} ☂`, metadata: { city: "Łódź" } },
          ...(parentId === undefined ? {} : { parentId, cascade }),
          ...(plan === undefined ? {} : { planId: plan }),
        }),
  ),
  planId.map(
    (plan): Step =>
      (limiter) =>
        limiter.createPlan({ id: plan }, { principal: "ops@example.org" }),
  ),
  fc.tuple(id, maybe(planId)).map(
    ([one, plan]): Step =>
      (limiter) =>
        limiter.updateEntity(one, { planId: plan ?? null }),
  ),
  id.map(
    (one): Step =>
      (limiter) =>
        limiter.deleteEntity(one),
  ),
  fc.tuple(id, maybe(resource), limits, options, end).map(
    ([one, on, set, how, ends]): Step =>
      (limiter, clock) =>
        limiter.setLimits(one, set, { ...how, ...until(ends, clock), ...(on === undefined ? {} : { resource: on }) }),
  ),
  fc.tuple(planId, maybe(resource), limits, options, end).map(
    ([one, on, set, how, ends]): Step =>
      (limiter, clock) =>
        limiter.setPlanLimits(one, set, {
          ...how,
          ...until(ends, clock),
          ...(on === undefined ? {} : { resource: on }),
        }),
  ),
  fc.tuple(resource, limits, options, end).map(
    ([on, set, how, ends]): Step =>
      (limiter, clock) =>
        limiter.setResourceDefaults(on, set, { ...how, ...until(ends, clock) }),
  ),
  fc.tuple(limits, fc.constantFrom("allow", "block")).map(
    ([set, onUnavailable]): Step =>
      (limiter) =>
        limiter.setSystemDefaults(set, { onUnavailable } as { onUnavailable: "allow" }),
  ),
  fc.tuple(id, limits, end).map(
    ([one, set, ends]): Step =>
      (limiter, clock) =>
        limiter.setTotals(one, set, until(ends, clock)),
  ),
  fc.tuple(planId, limits, end).map(
    ([one, set, ends]): Step =>
      (limiter, clock) =>
        limiter.setPlanTotals(one, set, until(ends, clock)),
  ),
  fc.tuple(limits, end).map(
    ([set, ends]): Step =>
      (limiter, clock) =>
        limiter.setSystemTotals(set, until(ends, clock)),
  ),
  fc.tuple(id, resource, fc.boolean()).map(
    ([one, on, override]): Step =>
      (limiter) =>
        limiter.deleteLimits(one, { resource: on, override }),
  ),
  resource.map(
    (on): Step =>
      (limiter) =>
        limiter.deleteResourceDefaults(on),
  ),
  fc.tuple(scope, fc.constantFrom("disabled", "bypass", "enforce", "inherit"), end).map(
    ([where, mode, ends]): Step =>
      (limiter, clock) =>
        limiter.setAccess(where, mode as "disabled", accessUntil(ends, clock)),
  ),
  fc.tuple(scope, fc.constantFrom(true, false, "inherit")).map(
    ([where, mode]): Step =>
      (limiter) =>
        limiter.setCascade(where, mode as true),
  ),
  fc.tuple(id, resource, fc.integer({ min: 1, max: 40 }), maybe(fc.constant({ slots: 1 }))).map(
    ([entityId, on, rpm, slots]): Step =>
      (limiter) =>
        limiter.tryAcquire({ entityId, resource: on, consume: { rpm, ...slots } }),
  ),
  fc.tuple(id, resource, fc.integer({ min: 1, max: 40 })).map(
    ([entityId, on, day]): Step =>
      (limiter) =>
        limiter.topUp({ entityId, resource: on, amounts: { day } }),
  ),
  fc.constantFrom(1, 777, 61_000, HOUR_MS, 15 * HOUR_MS).map(
    (ms): Step =>
      (_, clock) =>
        clock.advance(ms),
  ),
);

/** Does the steps; one that does not apply is refused, and changes nothing. */
async function perform(steps: readonly Step[], limiter: RateLimiter, clock: SimulatedClock): Promise<void> {
  for (const each of steps) {
    try {
      await each(limiter, clock);
    } catch (error) {
      if (!(error instanceof LimiterError)) throw error;
    }
  }
}

/** Everything that a limiter says of its namespace but what buckets hold, which loses a millitoken each time. */
async function contentsOf(limiter: RateLimiter) {
  const audit: AuditEvent[] = [];
  for await (const event of limiter.auditEvents()) audit.push(event);
  const explained: unknown[] = [];
  const policies: unknown[] = [];
  for (const on of RESOURCES) policies.push(await limiter.getPolicy({ resource: on }));
  for (const entityId of IDS) {
    policies.push(await limiter.getPolicy({ entityId }), [...(await limiter.listLimits(entityId))]);
    for (const on of RESOURCES) {
      policies.push(await limiter.getPolicy({ entityId, resource: on }));
      explained.push(await limiter.explain({ entityId, resource: on }).catch((error: LimiterError) => error.code));
    }
  }
  const asOf = { window: "hourly", fromMs: 0, limit: 1_000 } as const;
  const said = {
    entities: await limiter.listEntities({ limit: 100 }),
    plans: await limiter.listPlans({ limit: 100 }),
    buckets: await limiter.listBuckets({ limit: 100 }),
    system: await limiter.getSystemDefaults(),
    totals: await Promise.all(IDS.map((entityId) => limiter.getTotals(entityId))),
    usage: await limiter.usage(asOf),
    refusals: await limiter.refusals(asOf),
    audit: audit.filter(({ action }) => action !== "namespace_copied"),
    ...{ explained, policies },
  };
  return JSON.parse(JSON.stringify(said, (name, value) => (name === "available" ? undefined : value)));
}

/** Whole tokens that the buckets hold, in the order of their keys. */
async function heldIn(limiter: RateLimiter): Promise<readonly number[]> {
  const buckets = await limiter.listBuckets({ limit: 100 });
  return buckets.flatMap(({ limits: held }) => held.map(({ available }) => available));
}

test("a bucket that has met three changes of one millisecond meets none of them again in a copy", async (t) => {
  const clock = new SimulatedClock(START_MS);
  let from = await (await memoryPlace(t)).open(clock);
  for (const [n, burst] of [
    [1, 1],
    [2, 6],
    [3, 9],
  ] as const) {
    await from.setSystemDefaults([Limit.perMinute("rpm", n, { burst })]);
  }
  await from.acquire({ entityId: "a", resource: "chat", consume: { rpm: 1 } });
  for (const open of [sqlitePlace, memoryPlace]) {
    const to = await (await open(t)).open(clock);
    await copyAndCompare(from, to);
    assert.deepEqual(await heldIn(to), [8]);
    from = to;
  }
  assert.equal((await from.tryAcquire({ entityId: "a", resource: "chat", consume: { rpm: 8 } })).ok, true);
});

/** What each bucket holds in a copy: as much, or a token less for a millitoken. */
function assertOneLess(copied: readonly number[], held: readonly number[]): void {
  const lacks = copied.map((available, i) => (held[i] ?? Number.NaN) - available);
  assert.deepEqual(
    lacks.filter((lack) => lack !== 0 && lack !== 1),
    [],
  );
}

test("what has an end keeps it in a copy, with what comes then and what ended before", async (t) => {
  const clock = new SimulatedClock(START_MS);
  let from = await (await memoryPlace(t)).open(clock);
  const rpm = (n: number) => [Limit.perMinute("rpm", n, { burst: 1_000 })];
  const untilMs = START_MS + HOUR_MS;
  await from.createPlan({ id: "pro" });
  await from.createEntity({ id: "a", planId: "pro" });
  await from.setResourceDefaults("chat", rpm(1));
  await from.setPlanLimits("pro", rpm(2), { resource: "chat" });
  await from.setSystemTotals([Limit.perHour("rpm", 9_000)], { untilMs });
  await from.setPlanTotals("pro", [Limit.perHour("rpm", 8_000)], { untilMs: untilMs + HOUR_MS });
  await from.setLimits("b", rpm(3), { resource: "chat", untilMs: START_MS + 60_000 });
  await from.setAccess({ entityId: "c" }, "disabled", { untilMs });
  for (const entityId of ["a", "b"]) await from.acquire({ entityId, resource: "chat", consume: { rpm: 1_000 } });
  await clock.advance(1);
  await from.setPlanLimits("pro", rpm(10), { resource: "chat", untilMs });
  await clock.advance(30 * 60_000 - 1);
  for (const open of [sqlitePlace, memoryPlace]) {
    const to = await (await open(t)).open(clock);
    await copyAndCompare(from, to);
    assert.deepEqual(await to.getTotals("a"), await from.getTotals("a"));
    from = to;
  }
  const held = async (entityId: string) =>
    Object.fromEntries(
      (await from.available({ entityId, resource: "chat" })).map((one) => [one.resource, one.available]),
    ).chat;
  const { levels } = await from.explain({ entityId: "a", resource: "chat" });
  assert.equal(levels[0]?.limits[0]?.untilMs, untilMs);
  // Ten a minute for half an hour; three in the minute of an override that was over before the copy, and one from there on.
  const whole = [Math.round((await held("a")) ?? 0), Math.round((await held("b")) ?? 0)];
  assert.deepEqual(whole, [299, 32]);
  await clock.advance(90 * 60_000);
  assert.equal(Math.round((await held("a")) ?? 0), 599 + 60 * 2);
  assert.deepEqual(await from.getPolicy({ entityId: "c" }), {});
});

function testThereAndBack(name: string, times: number, ...places: readonly OpenPlace[]): void {
  test(`${name}: any content goes there and back, and is what it was`, async (t) => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 10, maxLength: 60 }), async (steps) => {
        const clock = new SimulatedClock(START_MS);
        const first = await (await memoryPlace(t)).open(clock);
        let from = first;
        await perform(steps, from, clock);
        const [contents, held] = [await contentsOf(from), await heldIn(from)];
        for (const open of places) {
          const to = await (await open(t as TestContext)).open(clock);
          await copyAndCompare(from, to);
          from = to;
        }
        assert.deepEqual(await contentsOf(from), contents);
        assertOneLess(await heldIn(from), held);
        // Whatever has an end in the source has the same one in the copy.
        await clock.advance(21 * HOUR_MS);
        assert.deepEqual(await contentsOf(from), { ...(await contentsOf(first)), audit: contents.audit });
        assertOneLess(await heldIn(from), await heldIn(first));
      }),
      { numRuns: times },
    );
  });
}

testThereAndBack("memory and SQLite", runs(60), sqlitePlace, memoryPlace);
testThereAndBack("from file to file", runs(20), sqlitePlace, sqlitePlace);

await describePostgres("PostgreSQL", (postgres) => {
  testThereAndBack("SQLite and PostgreSQL", runs(20), sqlitePlace, postgresPlace(postgres), memoryPlace);
});
