import assert from "node:assert/strict";
import { test } from "node:test";
import { createCalendar } from "../adapters/system/calendar.ts";
import { partsOfLease } from "../engine/lease/lease.ts";
import { standingsOfParts } from "../engine/refusal/standing.ts";
import { type AcquireRequest, Limit, RateLimiter } from "../entry/index.ts";
import { SimulatedClock } from "../testing/simulated-clock.ts";
import { answerAtOnce } from "./at-once.ts";

const calendar = createCalendar();
const ABOUT = { namespace: "default", entityId: "key-1", onExpiry: "charge" } as const;

test("an answer that is made in one walk says what the lease says of itself", async (t) => {
  const clock = new SimulatedClock(Date.UTC(2026, 2, 15, 12));
  const limiter = await RateLimiter.open({ store: "memory", clock });
  t.after(() => limiter.close());
  await limiter.createEntity({ id: "org" });
  await limiter.createEntity({ id: "key-1", parentId: "org" });
  await limiter.setSystemDefaults([Limit.perMinute("rpm", 100), Limit.perMinute("heavy", 60, { counts: "tpm" })]);
  await limiter.setLimits("org", [Limit.perDay("tpd", 50, { counts: "tpm", soft: true })]);
  await limiter.setTotals("key-1", [Limit.perDay("all", 1_000, { counts: "tpm" })]);
  await limiter.setLimits("exempt", [Limit.perMinute("tpm", 10)]);
  await limiter.setAccess({ entityId: "exempt" }, "bypass");
  const requests: Readonly<Record<string, AcquireRequest>> = {
    alone: { entityId: "solo", resource: "api", consume: { rpm: 2, tpm: 3 } },
    "alone, not all limits": { entityId: "solo", resource: "api", consume: { rpm: 2 } },
    "with a parent and a total": { entityId: "key-1", resource: "api", consume: { rpm: 1, tpm: 20 } },
    "a soft limit overdrawn": { entityId: "key-1", resource: "api", consume: { rpm: 1, tpm: 40 } },
    "several resources": { entityId: "key-1", resource: "a", consume: { tpm: 1 }, also: { b: { tpm: 2 } } },
    "limits of the request": {
      entityId: "given",
      resource: "api",
      consume: { own: 1 },
      limits: [Limit.perHour("own", 9)],
    },
    bypassed: { entityId: "exempt", resource: "api", consume: { tpm: 70 } },
  };
  const shown = new Map<string, readonly string[]>();
  for (const [name, request] of Object.entries(requests)) {
    const outcome = await limiter.tryAcquire(request);
    assert.ok(outcome.ok, name);
    const { lease } = outcome;
    const { lease: view, standings } = answerAtOnce(lease, ABOUT, calendar);
    const of = lease.resources.map((resource) => lease.resource(resource));
    const left = of.flatMap(({ remaining }) => remaining);
    const once = new Map(left.map((one) => [`${one.entityId} ${one.resource} ${one.limit}`, one]));
    assert.deepEqual(view.limits, [...once.values()], name);
    assert.deepEqual(standings, standingsOfParts(partsOfLease(lease), calendar), name);
    const { resource, consumed, overdrawn, bypassed, degraded, also } = view;
    assert.deepEqual(
      [resource, consumed, overdrawn, bypassed, degraded],
      [request.resource, lease.consumed, lease.overdrawn, lease.bypassed, false],
      name,
    );
    assert.deepEqual(Object.keys(also), lease.resources.slice(1));
    shown.set(name, [...standings.map(({ limit, level }) => `${limit}^${level}`), ...overdrawn]);
    await clock.advance(100);
  }
  assert.deepEqual(shown.get("alone"), ["rpm^0", "heavy^0"]);
  assert.deepEqual(shown.get("a soft limit overdrawn"), ["rpm^0", "heavy^0", "all^0", "tpd^1", "tpd^1"]);
});
