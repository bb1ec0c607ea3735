import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import { copyStore } from "../../src/entry/copy.ts";
import { type AuditEvent, type Lease, Limit, type OpenOptions, RateLimiter } from "../../src/entry/index.ts";
import { applyManifest, driftOf, parseManifest, planManifest } from "../../src/entry/manifest.ts";
import { openMemory } from "../../src/entry/memory.ts";
import type { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { tempFile } from "../sqlite/temp-store.ts";

export const HOUR_MS = 3_600_000;
/** In the middle of an hour, a day and a month. */
export const START_MS = Date.UTC(2026, 4, 12, 9, 40);

/** A kind of store, made anew for each test. */
export interface Place {
  open(clock: SimulatedClock, options?: OpenOptions): Promise<RateLimiter>;
}

export type OpenPlace = (t: TestContext) => Place | Promise<Place>;

export const memoryPlace: OpenPlace = () => {
  const store = openMemory();
  return { open: (clock, options) => RateLimiter.open({ ...options, store, clock }) };
};

export const sqlitePlace: OpenPlace = (t) => {
  const store = `sqlite:${tempFile(t)}`;
  return closedAfter(t, (clock, options) => RateLimiter.open({ ...options, store, clock }));
};

/** Closes what was opened when the test is over. */
export function closedAfter(t: TestContext, open: Place["open"]): Place {
  return {
    open: async (clock, options) => {
      const limiter = await open(clock, options);
      t.after(() => limiter.close());
      return limiter;
    },
  };
}

const MANIFEST = `
owner: billing
resources:
  mail: { limits: { rpm: 60/min } }
entities:
  globex:
    name: Globex
    resources: { chat: { limits: { tpm: 5000/min } } }
`;

const MONTHLY = { reset: { cron: "0 0 1 * *", tz: "Europe/Berlin" } };

/** Tells a namespace a story with something of everything; answers a lease that is still open. */
export async function tellStory(limiter: RateLimiter, clock: SimulatedClock): Promise<Lease> {
  const by = { principal: "ops@example.org" };
  const onChat = { ...by, resource: "chat" };
  await limiter.createPlan({ id: "pro", name: "Pro", metadata: { tier: "2" } }, by);
  await limiter.createPlan({ id: "free" }, by);
  await limiter.createEntity({ id: "acme", name: "Acme", planId: "free", metadata: { city: "Łódź" } }, by);
  await limiter.createEntity({ id: "acme.key", parentId: "acme", cascade: true }, by);
  await limiter.setSystemDefaults([Limit.perMinute("rpm", 100)], { ...by, onUnavailable: "allow" });
  await limiter.setResourceDefaults("chat", [Limit.perMinute("rpm", 30), Limit.perDay("tpd", 10_000)], by);
  await limiter.setPlanLimits("pro", [Limit.perMinute("rpm", 90), Limit.quota("month", 50_000, MONTHLY)], onChat);
  await limiter.setLimits("acme", [session(400), Limit.perMinute("rpm", 50)], onChat);
  await limiter.setTotals(
    "acme",
    [Limit.quota("requests", 1_000, { reset: { cron: "0 0 * * *" }, notifyAt: [1, 50] })],
    by,
  );
  const slots = Limit.concurrent("slots", 4, { holdMs: 2 * HOUR_MS });
  await limiter.setLimits("acme", [slots, Limit.perHour("rph", 6, { shadow: true })], { ...by, resource: "jobs" });
  await limiter.setLimits("solo", [Limit.perMinute("rpm", 3, { soft: true })], onChat);
  await limiter.setAccess({ entityId: "banned" }, "disabled", by);
  await applyManifest(limiter, await planManifest(limiter, parseManifest(MANIFEST)), { principal: "ci" });
  const use = (entityId: string, resource: string, consume: Record<string, number>) =>
    limiter.tryAcquire({ entityId, resource, consume });
  for (let i = 0; i < 5; i++) await use("acme.key", "chat", { rpm: 1, session: 20, tpd: 300 });
  await clock.advance(HOUR_MS + 60_000);
  await use("globex", "chat", { tpm: 1_234 });
  await use("globex", "chat", { tpm: 4_999 });
  await use("solo", "chat", { rpm: 5 });
  await use("anybody", "search", { rpm: 7 });
  await use("plain", "chat", { rpm: 7, tpd: 2_000 });
  const limits = [Limit.perMinute("burst", 9)];
  await limiter.tryAcquire({ entityId: "own", resource: "api", consume: { burst: 3 }, limits });
  for (let i = 0; i < 7; i++) await use("acme", "jobs", { rph: 1 });
  await limiter.setLimits("acme", [session(700), Limit.perMinute("rpm", 20)], onChat);
  await limiter.topUp({
    entityId: "acme",
    resource: "chat",
    amounts: { session: 55 },
    idempotencyKey: "bought-1",
    ...by,
  });
  await limiter.updateEntity("acme", { planId: "pro" }, by);
  await limiter.setLimits("former", [Limit.perMinute("rpm", 4)], onChat);
  await use("former", "chat", { rpm: 3 });
  await limiter.deleteLimits("former", onChat);
  await clock.advance(20_000);
  for (let i = 0; i < 40; i++) await use("acme.key", "chat", { rpm: 1, session: 3, tpd: 1 });
  await limiter.setResourceDefaults("search", [Limit.perMinute("rpm", 12)], by);
  const lease = await limiter.acquire({ entityId: "acme", resource: "jobs", consume: { slots: 3, rph: 1 } });
  await clock.advance(7_000);
  return lease;
}

function session(tokens: number): Limit {
  return Limit.quota("session", tokens, { resetAfterMs: 5 * HOUR_MS });
}

/** Everything that a limiter says of its namespace, as of one instant. */
export async function everythingOf(limiter: RateLimiter) {
  const audit: AuditEvent[] = [];
  for await (const event of limiter.auditEvents()) audit.push(event);
  const resolved: unknown[] = [];
  for (const [entityId, resource] of ASKED) resolved.push(await limiter.resolveLimits(entityId, resource));
  return {
    entities: await limiter.listEntities({ limit: 1_000 }),
    plans: await limiter.listPlans({ limit: 1_000 }),
    buckets: await limiter.listBuckets({ limit: 1_000 }),
    drift: (await driftOf(limiter, { owner: "billing" })).drift,
    usage: await limiter.usage({ window: "hourly", fromMs: 0, limit: 1_000 }),
    refusals: await limiter.refusals({ window: "hourly", fromMs: 0, limit: 1_000 }),
    refusalLog: await limiter.refusalLog({ pageSize: 1_000 }),
    audit: audit.filter(({ action }) => !["namespace_copied", "namespace_purged"].includes(action)),
    policy: await limiter.getPolicy({ entityId: "banned" }),
    system: await limiter.getSystemDefaults(),
    resolved,
  };
}

export const ASKED = [
  ["acme", "chat", { rpm: 2, session: 90 }],
  ["acme.key", "chat", { rpm: 2, session: 90, tpd: 10 }],
  ["acme", "jobs", { slots: 1, rph: 1 }],
  ["globex", "chat", { tpm: 900 }],
  ["globex", "mail", { rpm: 2 }],
  ["solo", "chat", { rpm: 2 }],
  ["former", "chat", { rpm: 2, tpd: 1 }],
  ["anybody", "search", { rpm: 2 }],
  ["plain", "chat", { rpm: 2, tpd: 1 }],
] as const;

/** What a process is answered when takes go on, hour after hour. */
export async function goOn(limiter: RateLimiter, clock: SimulatedClock): Promise<readonly unknown[]> {
  const answers: unknown[] = [];
  for (const waitMs of [0, 900, 61_000, HOUR_MS, 3 * HOUR_MS, 20 * HOUR_MS]) {
    await clock.advance(waitMs);
    for (const [entityId, resource, consume] of ASKED) {
      const { ok } = await limiter.tryAcquire({ entityId, resource, consume });
      answers.push([waitMs, ok, await limiter.available({ entityId, resource })]);
    }
  }
  return answers;
}

/** Copies, and holds both sides together by what their limiters say. */
export async function copyAndCompare(from: RateLimiter, to: RateLimiter) {
  const report = await copyStore({ from, to });
  for (const { name, active, differences, moved } of report.namespaces) {
    assert.deepEqual({ name, active, differences, moved }, { name, active: true, differences: [], moved: 0 });
  }
  return report;
}
