import assert from "node:assert/strict";
import { PLAIN_TICKET } from "../../src/domain/bucket/give-back.ts";
import type { UsageSnapshot } from "../../src/domain/charge/usage.ts";
import type { LeaseRecord } from "../../src/domain/lease/lease-record.ts";
import { Limit } from "../../src/domain/limits/limit.ts";
import type { Answer, Claim } from "../../src/ports/bucket-store.ts";
import {
  amountsOf,
  claim,
  HOUR_MS,
  Kinds,
  kinds,
  MINUTE_MS,
  type Suite,
  T0,
  type TestedNamespace,
} from "./contract-kit.ts";

const shadow = [Limit.perMinute("tpm", 100, { shadow: true })];
const both = [Limit.perMinute("rpm", 10), ...shadow];

/** Limits that decide like hard ones and refuse nothing. */
export function shadowContract(suite: Suite): void {
  suite.test("what fits is taken, and what does not passes untaken, is named and is counted", async (place) => {
    const ask = (tpm: number) => claim("a", shadow, { tpm });
    assert.deepEqual(await shadowedBy(place, ask(60), T0), []);
    assert.deepEqual(await shadowedBy(place, ask(41), T0), ["tpm"]);
    assert.equal(await place.level("a", "tpm", T0), 40_000);
    assert.deepEqual(await shadowedBy(place, ask(40), T0), []);
    assert.deepEqual(await shadowedBy(place, ask(1), T0), ["tpm"]);
    assert.equal(await place.level("a", "tpm", T0), 0);
    const usage = await usageOf(place, "a");
    assert.deepEqual(usage.wouldRefuse, { tpm: 2 });
    assert.deepEqual(usage.counters, { tpm: 100 });
    assert.equal(usage.requests, 4);
  });

  suite.test("it drips like a hard one: to the millisecond", async (place) => {
    await place.take([claim("a", shadow, { tpm: 100 })], T0);
    assert.deepEqual(await shadowedBy(place, claim("a", shadow, { tpm: 1 }), T0 + 599), ["tpm"]);
    assert.deepEqual(await shadowedBy(place, claim("a", shadow, { tpm: 1 }), T0 + 600), []);
    assert.equal(await place.level("a", "tpm", T0 + 600), 0);
    // Longer ago than an epoch may be old: it is full, and not more than that.
    assert.deepEqual(await shadowedBy(place, claim("a", shadow, { tpm: 101 }), T0 + 3 * HOUR_MS), ["tpm"]);
    assert.equal(await place.holds(claim("a", shadow, {}), "tpm", T0 + 3 * HOUR_MS), 100_000);
  });

  suite.test("more than it ever holds is let through, from the first request on", async (place) => {
    assert.deepEqual(await shadowedBy(place, claim("a", both, { rpm: 1, tpm: 1_000 }), T0), ["tpm"]);
    assert.equal(await place.level("a", "tpm", T0), 100_000);
    assert.equal(await place.level("a", "rpm", T0), 9_000);
    assert.deepEqual((await usageOf(place, "a")).wouldRefuse, { tpm: 1 });
  });

  suite.test("a hard limit that refuses takes nothing from a shadow beside it, and counts nothing", async (place) => {
    await place.take([claim("a", both, { rpm: 10, tpm: 60 })], T0);
    for (const tpm of [10, 50]) {
      const [answer] = await place.take([claim("a", both, { rpm: 1, tpm })], T0);
      assert.equal(answer?.kind, "short");
    }
    assert.equal(await place.level("a", "tpm", T0), 40_000);
    const usage = await usageOf(place, "a");
    assert.equal(usage.wouldRefuse.tpm ?? 0, 0);
    assert.equal(usage.requests, 1);
  });

  suite.test("several shadows are decided one by one", async (place) => {
    const two = [...both, Limit.perHour("day", 50, { shadow: true })];
    assert.deepEqual(await shadowedBy(place, claim("a", two, { rpm: 1, tpm: 60, day: 60 }), T0), ["day"]);
    assert.deepEqual(await shadowedBy(place, claim("a", two, { rpm: 1, tpm: 60, day: 50 }), T0), ["tpm"]);
    assert.deepEqual(await shadowedBy(place, claim("a", two, { rpm: 1, tpm: 60, day: 1 }), T0), ["tpm", "day"]);
    const levels = await Promise.all(["rpm", "tpm", "day"].map((name) => place.level("a", name, T0)));
    assert.deepEqual(levels, [7_000, 40_000, 0]);
    assert.deepEqual((await usageOf(place, "a")).wouldRefuse, { tpm: 2, day: 2 });
  });

  suite.test("a request that is refused at another level is not counted at this one", async (place) => {
    const org = [Limit.perMinute("rpm", 5)];
    await place.take([claim("org", org, { rpm: 5 })], T0);
    await place.take([claim("a", both, { rpm: 1, tpm: 100 })], T0);
    for (const tpm of [1, 0]) {
      const claims = [claim("a", both, { rpm: 1, tpm }), claim("org", org, { rpm: 1 })];
      const answers = await place.take(claims, T0);
      assert.ok(!kinds(answers).every((kind) => kind === "taken"));
      await undone(place, claims, answers, T0);
    }
    assert.equal(await place.level("a", "rpm", T0), 9_000);
    assert.equal(await place.level("a", "tpm", T0), 0);
    const usage = await usageOf(place, "a");
    assert.equal(usage.wouldRefuse.tpm ?? 0, 0);
    assert.equal(usage.requests, 1);
  });

  suite.test("each level has its own", async (place) => {
    const org = [Limit.perMinute("tpm", 30, { shadow: true })];
    const claims = [claim("a", shadow, { tpm: 40 }), claim("org", org, { tpm: 40 })];
    const answers = await place.take(claims, T0);
    assert.deepEqual(answers.map(namesIn), [[], ["tpm"]]);
    assert.equal(await place.level("a", "tpm", T0), 60_000);
    assert.equal(await place.level("org", "tpm", T0), 30_000);
    assert.deepEqual((await usageOf(place, "a")).wouldRefuse, {});
    assert.deepEqual((await usageOf(place, "org")).wouldRefuse, { tpm: 1 });
  });

  suite.test("a debit and a give-back change it like a hard one, into debt too", async (place) => {
    await place.take([claim("a", shadow, { tpm: 80 })], T0);
    assert.equal((await place.debit(claim("a", shadow, {}), { tpm: 50 }, T0)).kind, "applied");
    assert.equal(await place.level("a", "tpm", T0), -30_000);
    // A hard one in debt refuses a request for nothing.
    assert.deepEqual(await shadowedBy(place, claim("a", shadow, { tpm: 0 }), T0), ["tpm"]);
    assert.equal((await place.credit(claim("a", shadow, {}), { tpm: 50 }, T0)).kind, "applied");
    assert.deepEqual(await shadowedBy(place, claim("a", shadow, { tpm: 20 }), T0), []);
    assert.deepEqual((await usageOf(place, "a")).wouldRefuse, { tpm: 1 });
  });

  suite.test(
    "made hard, it goes on from what it holds; made a shadow, it refuses nothing from then on",
    async (place) => {
      const asOf = (limits: readonly Limit[], ms: number, tpm: number) =>
        claim("a", limits, { tpm }, { origin: { asOfMs: T0 + ms, generation: ms + 1 } });
      // Nothing drips in: where limits are changed the epoch may move on by a moment.
      const still = { capacity: 100, refillAmount: 1, refillPeriodMs: 1_000_000_000_000 };
      const [hard, made] = [[Limit.custom("tpm", still)], [Limit.custom("tpm", { ...still, shadow: true })]];
      await place.take([asOf(made, 0, 70)], T0);
      await place.take([asOf(made, 0, 70)], T0);
      assert.equal(await place.grants(asOf(hard, 1, 31), T0), false);
      assert.equal(await place.grants(asOf(hard, 1, 30), T0), true);
      assert.equal(await place.grants(asOf(hard, 1, 1), T0), false);
      assert.deepEqual(await shadowedBy(place, asOf(made, 2, 1), T0), ["tpm"]);
      assert.equal(await place.level("a", "tpm", T0), 0);
    },
  );

  suite.test("soft debt is forgiven where a soft limit becomes a shadow", async (place) => {
    const soft = [Limit.perMinute("tpm", 100, { soft: true })];
    await place.take([claim("a", soft, { tpm: 300 })], T0);
    const later = { origin: { asOfMs: T0 + 1, generation: 2 } };
    assert.deepEqual(await shadowedBy(place, claim("a", shadow, { tpm: 0 }, later), T0 + 1), []);
    assert.deepEqual(await shadowedBy(place, claim("a", shadow, { tpm: 5 }, later), T0 + 1), ["tpm"]);
  });

  suite.test("a quota is full again at its reset, and a session begins with what was taken of it", async (place) => {
    const month = [Kinds.quota("month", 10, { reset: { cron: "0 13 * * *", tz: "UTC" }, shadow: true })];
    assert.deepEqual(await shadowedBy(place, claim("q", month, { month: 8 }), T0), []);
    assert.deepEqual(await shadowedBy(place, claim("q", month, { month: 8 }), T0 + MINUTE_MS), ["month"]);
    assert.deepEqual(await shadowedBy(place, claim("q", month, { month: 8 }), T0 + HOUR_MS), []);
    const session = [Kinds.quota("burst", 10, { resetAfterMs: HOUR_MS, shadow: true })];
    // What passed untaken does not open the window.
    assert.deepEqual(await shadowedBy(place, claim("s", session, { burst: 11 }), T0), ["burst"]);
    assert.deepEqual(await shadowedBy(place, claim("s", session, { burst: 10 }), T0 + MINUTE_MS), []);
    assert.deepEqual(await shadowedBy(place, claim("s", session, { burst: 1 }), T0 + HOUR_MS), ["burst"]);
    assert.deepEqual(await shadowedBy(place, claim("s", session, { burst: 1 }), T0 + HOUR_MS + MINUTE_MS), []);
  });

  suite.test("a shadow goes by the floor of a request, and not by a bypass", async (place) => {
    const low = { ...claim("a", shadow, { tpm: 60 }), leavePercent: 50 };
    assert.deepEqual(await shadowedBy(place, low, T0), ["tpm"]);
    assert.deepEqual(await shadowedBy(place, { ...low, take: amountsOf({ tpm: 50 }) }, T0), []);
    assert.equal(await place.level("a", "tpm", T0), 50_000);
    assert.deepEqual(await shadowedBy(place, claim("b", shadow, { tpm: 500 }, { bypass: true }), T0), []);
    assert.deepEqual((await usageOf(place, "b")).wouldRefuse, {});
  });

  suite.test("takes that are under way together are decided one after the other", async (place) => {
    await place.take([claim("a", shadow, { tpm: 5 })], T0);
    const sizes = [30, 50, 20, 30, 10, 40, 5, 5, 3];
    const answers = await Promise.all(sizes.map((tpm) => place.take([claim("a", shadow, { tpm })], T0)));
    const passed = answers.map(([answer]) => namesIn(answer as Answer).length > 0);
    const taken = sizes.reduce((sum, tpm, i) => sum + (passed[i] ? 0 : tpm), 0);
    const left = 95 - taken;
    assert.equal(await place.level("a", "tpm", T0), left * 1_000);
    // None passed that would have fitted even after all of the others.
    for (const [i, tpm] of sizes.entries())
      if (passed[i]) assert.ok(tpm > left, `${tpm} passed where ${left} are left`);
    const usage = await usageOf(place, "a");
    assert.equal(usage.wouldRefuse.tpm ?? 0, passed.filter(Boolean).length);
    assert.equal(usage.counters.tpm, 5 + taken);
    assert.equal(usage.requests, 1 + sizes.length);
  });

  suite.test("counts stay with their hour", async (place) => {
    await place.take([claim("a", shadow, { tpm: 100 })], T0);
    for (const atMs of [T0 + 1, T0 + 2, T0 + HOUR_MS, T0 + 2 * HOUR_MS]) {
      assert.deepEqual(await shadowedBy(place, claim("a", shadow, { tpm: 101 }), atMs), ["tpm"]);
    }
    const query = { entityId: "a", window: "hourly", fromMs: T0, toMs: T0 + 3 * HOUR_MS } as const;
    const { items } = await place.scope.usage.query(query, { limit: 10 });
    assert.deepEqual(
      items.map(({ windowStartMs, wouldRefuse }) => [windowStartMs, wouldRefuse.tpm ?? 0]),
      [
        [T0, 2],
        [T0 + HOUR_MS, 1],
        [T0 + 2 * HOUR_MS, 1],
      ],
    );
  });

  suite.test("configuration keeps it, at every level", async (place) => {
    const month = Kinds.quota("month", 10, { reset: { cron: "0 0 1 * *", tz: "UTC" }, shadow: true });
    const limits = [...both, month];
    await place.set({ level: "entity", entityId: "a", resource: "api" }, limits);
    assert.deepEqual((await place.resolve("a", "api")).limits, limits);
    await place.set({ level: "systemTotal" }, shadow);
    assert.deepEqual((await place.scope.config.get({ level: "systemTotal" }))?.limits, shadow);
    await place.set({ level: "entity", entityId: "a", resource: "api" }, [Limit.perMinute("tpm", 100)]);
    assert.deepEqual((await place.resolve("a", "api")).limits, [Limit.perMinute("tpm", 100)]);
  });

  suite.test("a stored lease keeps what passed by its shadows", async (place) => {
    const origin = { asOfMs: T0, generation: 1 };
    const passed = [{ limit: "tpm", milli: 500_000 }];
    const levels = [
      { entityId: "a", limits: both, origin, bypass: false, seen: [], passed },
      { entityId: "org", limits: both, charged: ["tpm"], origin, bypass: false, seen: [], passed },
    ];
    const record: LeaseRecord = {
      ...{ leaseId: "l_1", version: 1, writer: "w", status: "open", entityId: "a" },
      resources: [{ resource: "api", overdrawn: [], levels }],
      holdings: [{ at: [0, 0], ticket: PLAIN_TICKET, held: [{ limit: "rpm", milli: 1_000 }] }],
      ...{ openedAtMs: T0, expiresAtMs: T0 + HOUR_MS, onExpiry: "charge", closing: undefined },
      ...{ requestId: undefined, idempotencyKey: undefined },
    };
    assert.equal((await place.scope.leases.create({ record, finish: undefined }, T0)).kind, "stored");
    assert.deepEqual(await place.scope.leases.get("l_1"), record);
  });
}

/** The shadows that would have refused a claim, which must have been taken. */
async function shadowedBy(place: TestedNamespace, asked: Claim, nowMs: number): Promise<readonly string[]> {
  const [answer] = await place.take([asked], nowMs);
  return namesIn(answer as Answer);
}

function namesIn(answer: Answer): readonly string[] {
  assert.ok(answer.kind === "taken", `answered with ${answer.kind}`);
  assert.deepEqual(answer.ticket.shadowed, answer.shadowed, "the ticket names them too");
  return answer.shadowed;
}

/** As a limiter gives back what was taken of a request that is refused. */
async function undone(
  place: TestedNamespace,
  claims: readonly Claim[],
  answers: readonly Answer[],
  nowMs: number,
): Promise<void> {
  for (const [i, answer] of answers.entries()) {
    if (answer.kind !== "taken") continue;
    const { bucket, set, origin, take, bypass } = claims[i] as Claim;
    const due = take.filter(({ limit, milli }) => milli > 0 && !answer.shadowed.includes(limit));
    const held = { bucket, set, origin, bypass, ticket: answer.ticket };
    await place.scope.buckets.credit(held, due, { nowMs, timeoutMs: 10_000, undoes: "request" });
  }
}

async function usageOf(place: TestedNamespace, entityId: string): Promise<UsageSnapshot> {
  const query = { entityId, window: "hourly", fromMs: 0, toMs: Number.MAX_SAFE_INTEGER } as const;
  const { items } = await place.scope.usage.query(query, { limit: 10 });
  assert.equal(items.length, 1);
  return items[0] as UsageSnapshot;
}
