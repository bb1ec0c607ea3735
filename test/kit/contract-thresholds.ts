import assert from "node:assert/strict";
import { PLAIN_TICKET } from "../../src/domain/bucket/give-back.ts";
import { Limit } from "../../src/domain/limits/limit.ts";
import { limitSet } from "../../src/domain/limits/limit-set.ts";
import type { Crossed } from "../../src/domain/limits/thresholds.ts";
import {
  amountsOf,
  claim,
  DAY_MS,
  HOUR_MS,
  Kinds,
  MINUTE_MS,
  type Suite,
  T0,
  type TestedNamespace,
} from "./contract-kit.ts";
import { leaseOn } from "./contract-leases.ts";

const NOTIFY = { notifyAt: [80, 95] };
const daily = [Kinds.quota("day", 100, { reset: { cron: "0 0 * * *", tz: "UTC" }, ...NOTIFY })];
const session = [Kinds.quota("burst", 100, { resetAfterMs: HOUR_MS, ...NOTIFY })];
const rpm = [Limit.perMinute("rpm", 100, NOTIFY)];
const MIDNIGHT = T0 + 12 * HOUR_MS;

/** Hears what one process is told, as `limit percent`. */
function listening(place: TestedNamespace): { now(): Promise<readonly string[]>; all: readonly Crossed[] } {
  const { buckets } = place.scope;
  assert.ok(buckets.watchThresholds !== undefined, "a store that keeps marks tells them");
  const all: Crossed[] = [];
  let heard = 0;
  buckets.watchThresholds((crossed) => all.push(crossed));
  return {
    all,
    now: async () => {
      await buckets.thresholdsTold?.();
      const since = all.slice(heard);
      heard = all.length;
      return since.map(({ limit, percent }) => `${limit} ${percent}`);
    },
  };
}

/** Percentages of a limit that are told when they are reached: `notifyAt`. */
export function thresholdsContract(suite: Suite): void {
  const story = (sentence: string, tell: (place: TestedNamespace) => Promise<void>) =>
    suite.test(sentence, async (place) => {
      if (suite.gaps.has("thresholds")) {
        assert.equal(place.store.tellsThresholds, undefined, "a store that says that it tells has no such gap");
        return;
      }
      assert.equal(place.store.tellsThresholds, true);
      await tell(place);
    });

  story("a quota tells each percentage when so much is used, with what is used of what", async (place) => {
    const told = listening(place);
    await place.take([claim("a", daily, { day: 79 })], T0);
    assert.deepEqual(await told.now(), []);
    await place.take([claim("a", daily, { day: 1 })], T0 + 1);
    assert.deepEqual(await told.now(), ["day 80"]);
    await place.take([claim("a", daily, { day: 16 })], T0 + 2);
    assert.deepEqual(await told.now(), ["day 95"]);
    const { bucket } = claim("a", daily, {});
    assert.deepEqual(told.all, [
      { bucket, limit: "day", percent: 80, used: 80, capacity: 100, atMs: T0 + 1, resetsAtMs: MIDNIGHT },
      { bucket, limit: "day", percent: 95, used: 96, capacity: 100, atMs: T0 + 2, resetsAtMs: MIDNIGHT },
    ]);
    const state = await place.state("a");
    assert.equal(state?.limits[0]?.told, 95);
  });

  story("a first take that reaches several tells all of them, the lowest first", async (place) => {
    const told = listening(place);
    await place.take([claim("a", daily, { day: 100 })], T0);
    assert.deepEqual(await told.now(), ["day 80", "day 95"]);
  });

  story("a quota tells once a period, also after give-backs, and again in the next", async (place) => {
    const told = listening(place);
    const wanted = claim("a", daily, { day: 85 });
    await place.take([wanted], T0);
    assert.deepEqual(await told.now(), ["day 80"]);
    await place.credit(wanted, { day: 85 }, T0 + 1);
    assert.deepEqual(await told.now(), [], "a give-back tells nothing");
    await place.take([claim("a", daily, { day: 90 })], T0 + 2);
    assert.deepEqual(await told.now(), []);
    await place.take([claim("a", daily, { day: 79 })], MIDNIGHT);
    assert.deepEqual(await told.now(), []);
    await place.take([claim("a", daily, { day: 17 })], MIDNIGHT + 1);
    assert.deepEqual(await told.now(), ["day 80", "day 95"]);
  });

  story("a quota that was given back in full is told once a period all the same", async (place) => {
    const told = listening(place);
    const wanted = claim("a", daily, { day: 80 });
    await place.take([wanted], T0);
    await place.credit(wanted, { day: 80 }, T0 + 1);
    // Others come and go meanwhile; a store may sweep what is idle.
    for (let i = 0; i < 40; i++) await place.take([claim(`b${i}`, rpm, { rpm: 1 })], T0 + 2 * HOUR_MS + i);
    await place.take([claim("a", daily, { day: 80 })], T0 + 3 * HOUR_MS);
    assert.deepEqual(await told.now(), ["day 80"]);
  });

  story("a session tells once a window", async (place) => {
    const told = listening(place);
    await place.take([claim("a", session, { burst: 80 })], T0);
    assert.deepEqual(await told.now(), ["burst 80"]);
    assert.equal(told.all[0]?.resetsAtMs, T0 + HOUR_MS);
    await place.take([claim("a", session, { burst: 5 })], T0 + HOUR_MS - 1);
    assert.deepEqual(await told.now(), []);
    await place.take([claim("a", session, { burst: 95 })], T0 + HOUR_MS);
    assert.deepEqual(await told.now(), ["burst 80", "burst 95"]);
    assert.equal(told.all[1]?.resetsAtMs, T0 + 2 * HOUR_MS);
  });

  story("a reset by hand begins anew", async (place) => {
    const told = listening(place);
    await place.take([claim("a", daily, { day: 95 })], T0);
    assert.deepEqual(await told.now(), ["day 80", "day 95"]);
    await place.reset(claim("a", daily, {}), undefined, T0 + 1);
    await place.take([claim("a", daily, { day: 80 })], T0 + 2);
    assert.deepEqual(await told.now(), ["day 80"]);
    await place.reset(claim("a", daily, {}), ["day"], T0 + 3);
    await place.take([claim("a", daily, { day: 80 })], T0 + 3);
    assert.deepEqual(await told.now(), ["day 80"]);
  });

  story("what refills is told again once it was seen ten points below, and not before", async (place) => {
    const told = listening(place);
    // Ten points are six seconds.
    await place.take([claim("a", rpm, { rpm: 80 })], T0);
    assert.deepEqual(await told.now(), ["rpm 80"]);
    assert.equal(told.all[0]?.resetsAtMs, undefined);
    // It was never seen below 71.
    await place.take([claim("a", rpm, { rpm: 9 })], T0 + 5_400);
    assert.deepEqual(await told.now(), []);
    await place.take([claim("a", rpm, { rpm: 10 })], T0 + 11_400);
    assert.deepEqual(await told.now(), ["rpm 80"], "80 - 10 were used before, 80 are now");
    await place.take([claim("a", rpm, { rpm: 15 })], T0 + 11_400);
    assert.deepEqual(await told.now(), ["rpm 95"]);
    // 95 was seen at 85, 80 was not seen at 70.
    await place.take([claim("a", rpm, { rpm: 10 })], T0 + 17_400);
    assert.deepEqual(await told.now(), ["rpm 95"]);
    await place.take([claim("a", rpm, { rpm: 1 })], T0 + 2 * MINUTE_MS);
    assert.deepEqual(await told.now(), []);
    await place.take([claim("a", rpm, { rpm: 96 })], T0 + 2 * MINUTE_MS);
    assert.deepEqual(await told.now(), ["rpm 80", "rpm 95"]);
  });

  story("a percentage below ten is told again once nothing was used", async (place) => {
    const told = listening(place);
    const five = [Limit.perMinute("rpm", 100, { notifyAt: [5] })];
    await place.take([claim("a", five, { rpm: 5 })], T0);
    await place.take([claim("a", five, { rpm: 5 })], T0 + 2_999);
    assert.deepEqual(await told.now(), ["rpm 5"]);
    await place.take([claim("a", five, { rpm: 5 })], T0 + MINUTE_MS);
    assert.deepEqual(await told.now(), ["rpm 5"]);
  });

  story("slots are told when so many are held, and again once fewer were", async (place) => {
    if (suite.gaps.has("slots")) return;
    const told = listening(place);
    const slots = [Limit.concurrent("parallel", 10, { notifyAt: [80] })];
    const eight = claim("a", slots, { parallel: 8 });
    const ticket = await place.ticket(eight, T0);
    assert.deepEqual(await told.now(), ["parallel 80"]);
    assert.deepEqual([told.all[0]?.used, told.all[0]?.capacity, told.all[0]?.resetsAtMs], [8, 10, undefined]);
    await place.take([claim("a", slots, { parallel: 1 })], T0 + 1);
    assert.deepEqual(await told.now(), []);
    await place.giveBack(eight, ticket, { parallel: 8 }, T0 + 2);
    await place.take([claim("a", slots, { parallel: 8 })], T0 + 3);
    assert.deepEqual(await told.now(), ["parallel 80"]);
    // Another number of slots is no other limit: what was told stays told.
    const more = [Limit.concurrent("parallel", 11, { notifyAt: [80] })];
    await place.take([claim("a", more, { parallel: 1 }, { origin: { asOfMs: T0 + 4, generation: null } })], T0 + 4);
    assert.deepEqual(await told.now(), []);
  });

  story("debits are told; refusals, bypasses and purchases are not", async (place) => {
    const told = listening(place);
    await place.take([claim("a", daily, { day: 70 })], T0);
    assert.equal(await place.grants(claim("a", daily, { day: 31 }), T0), false);
    await place.take([claim("a", daily, { day: 50 }, { bypass: true })], T0);
    assert.deepEqual(await told.now(), []);
    await place.debit(claim("a", daily, {}), { day: 12 }, T0);
    assert.deepEqual(await told.now(), ["day 80"]);
    await place.debit(claim("a", daily, {}), { day: 40 }, T0);
    assert.deepEqual(await told.now(), ["day 95"]);
    assert.deepEqual([told.all[1]?.used, told.all[1]?.capacity], [122, 100]);
    await place.topUp(claim("a", daily, {}), { day: 20 }, T0);
    assert.deepEqual(await told.now(), []);
  });

  story("what was bought is part of the capacity", async (place) => {
    const told = listening(place);
    await place.topUp(claim("a", daily, {}), { day: 100 }, T0);
    await place.take([claim("a", daily, { day: 159 })], T0 + 1);
    assert.deepEqual(await told.now(), []);
    await place.take([claim("a", daily, { day: 1 })], T0 + 1);
    assert.deepEqual(await told.now(), ["day 80"]);
    assert.deepEqual([told.all[0]?.used, told.all[0]?.capacity], [160, 200]);
  });

  story("so is what a window changes", async (place) => {
    const told = listening(place);
    const schedule = [{ cron: "* 13 * * *", tz: "UTC", capacity: 10, refillAmount: 10 }];
    const night = [Kinds.perMinute("rpm", 100, { schedule, ...NOTIFY })];
    await place.take([claim("a", night, { rpm: 70 })], T0);
    await place.take([claim("a", night, { rpm: 7 })], T0 + HOUR_MS);
    assert.deepEqual(await told.now(), []);
    await place.take([claim("a", night, { rpm: 1 })], T0 + HOUR_MS);
    assert.deepEqual(await told.now(), ["rpm 80"]);
    assert.deepEqual([told.all[0]?.used, told.all[0]?.capacity], [8, 10]);
  });

  story("each limit of a bucket, and each level of a request, tells its own", async (place) => {
    const told = listening(place);
    const both = [...rpm, ...daily, Limit.perMinute("tpm", 1_000)];
    for (const [atomic, atMs] of [
      [false, T0],
      [true, T0 + DAY_MS],
    ] as const) {
      const claims = [claim("a", both, { rpm: 80, day: 40, tpm: 990 }), claim("org", daily, { day: 96 })];
      await place.take(claims, atMs, { atomic });
      await place.take([claim("a", both, { day: 40 })], atMs);
      assert.deepEqual((await told.now()).toSorted(), ["day 80", "day 80", "day 95", "rpm 80"]);
      const whose = told.all.slice(-4).map(({ bucket: { entityId }, limit }) => `${entityId} ${limit}`);
      assert.deepEqual(whose.toSorted(), ["a day", "a rpm", "org day", "org day"]);
    }
  });

  story("a limit that drips is looked at by every take, also of several levels in one", async (place) => {
    const told = listening(place);
    const org = [Limit.perMinute("rpm", 1_000)];
    const both = (tokens: number) => [claim("a", rpm, { rpm: tokens }), claim("org", org, { rpm: tokens })];
    await place.take(both(80), T0, { atomic: true });
    assert.deepEqual(await told.now(), ["rpm 80"]);
    await place.take(both(1), T0 + 30_000, { atomic: true });
    await place.take(both(50), T0 + 30_000, { atomic: true });
    assert.deepEqual(await told.now(), ["rpm 80"]);
  });

  story("of several processes one tells", async (place) => {
    const places = [place, await place.another(), await place.another()];
    const told = places.map(listening);
    for (let round = 0; round < 12; round++) {
      await Promise.all(places.map((one) => one.take([claim("a", daily, { day: 3 })], T0 + round)));
    }
    const heard = (await Promise.all(told.map((one) => one.now()))).flat();
    assert.deepEqual(heard.toSorted(), ["day 80", "day 95"]);
  });

  story("changed limits tell no percentage of a period twice", async (place) => {
    const told = listening(place);
    const reset = { cron: "0 0 * * *", tz: "UTC" };
    const given = (generation: number, capacity: number, notifyAt?: readonly number[]) => {
      const limits = [Kinds.quota("day", capacity, { reset, ...(notifyAt === undefined ? {} : { notifyAt }) })];
      return (tokens: number) =>
        claim("a", limits, { day: tokens }, { origin: { asOfMs: T0 + generation, generation } });
    };
    await place.take([given(1, 100, [80])(85)], T0 + 1);
    assert.deepEqual(await told.now(), ["day 80"]);
    await place.take([given(2, 1_000, [80])(700)], T0 + 2);
    assert.deepEqual(await told.now(), [], "a raised capacity is the same period");
    await place.take([given(3, 1_000)(150)], T0 + 3);
    await place.take([given(4, 1_000, [80, 90])(1)], T0 + 4);
    assert.deepEqual(await told.now(), ["day 90"], "80 was told before it was asked for no more, and 90 is reached");
    await place.take([given(5, 1_000, [80, 90])(1)], MIDNIGHT);
    await place.take([given(5, 1_000, [80, 90])(900)], MIDNIGHT);
    assert.deepEqual(await told.now(), ["day 80", "day 90"]);
  });

  story("other percentages count from the next take on, also in a period in which some were told", async (place) => {
    const told = listening(place);
    const reset = { cron: "0 0 * * *", tz: "UTC" };
    const given = (entityId: string, generation: number, notifyAt: readonly number[]) => (tokens: number) => {
      const limits = [Kinds.quota("day", 100, { reset, notifyAt })];
      return claim(entityId, limits, { day: tokens }, { origin: { asOfMs: T0 + generation, generation } });
    };
    const stories: readonly (readonly [string, readonly number[], number, string[], readonly number[], string[]])[] = [
      ["nothing was told, and a lower one is reached already", [95], 60, [], [50, 95], ["day 50"]],
      ["a higher one is reached already", [50], 85, ["day 50"], [80], ["day 80"]],
      ["a higher one is not reached", [50], 60, ["day 50"], [80], []],
      ["a lower one was passed with the one that was told", [80], 85, ["day 80"], [50, 80], []],
      ["of several lower and higher ones", [80], 92, ["day 80"], [50, 80, 90, 95], ["day 90"]],
    ];
    for (const [why, first, tokens, before, second, after] of stories) {
      await place.take([given(why.replaceAll(/\W/g, "-"), 1, first)(tokens)], T0 + 1);
      assert.deepEqual(await told.now(), before, why);
      await place.take([given(why.replaceAll(/\W/g, "-"), 2, second)(1)], T0 + 2);
      assert.deepEqual(await told.now(), after, why);
      await place.take([given(why.replaceAll(/\W/g, "-"), 2, second)(1)], T0 + 3);
      assert.deepEqual(await told.now(), [], why);
    }
  });

  story("other percentages of a limit that refills count likewise", async (place) => {
    const told = listening(place);
    const given = (generation: number, notifyAt: readonly number[]) => (tokens: number) =>
      claim("a", [Limit.perMinute("rpm", 100, { notifyAt })], { rpm: tokens }, { origin: { asOfMs: T0, generation } });
    await place.take([given(1, [95])(60)], T0);
    assert.deepEqual(await told.now(), []);
    await place.take([given(2, [50, 95])(1)], T0);
    assert.deepEqual(await told.now(), ["rpm 50"]);
    await place.take([given(3, [80])(20)], T0);
    assert.deepEqual(await told.now(), ["rpm 80"]);
    await place.take([given(4, [50, 80])(1)], T0);
    assert.deepEqual(await told.now(), [], "50 was told, and 80 includes it");
  });

  story("what refills and was reset by hand is told again once it was seen ten points below, too", async (place) => {
    const told = listening(place);
    const given = (generation: number, capacity: number) => (tokens: number) =>
      claim(
        "a",
        [Limit.perDay("rpd", capacity, { notifyAt: [80] })],
        { rpd: tokens },
        { origin: { asOfMs: T0, generation } },
      );
    await place.take([given(1, 100)(90)], T0);
    assert.deepEqual(await told.now(), ["rpd 80"]);
    // 10 are all that there is room for: they are what it has of 100 again.
    await place.reset(given(2, 10)(0), undefined, T0 + 1);
    await place.take([given(3, 100)(1)], T0 + 2);
    assert.deepEqual(await told.now(), [], "no take saw less than 90 used");
    await place.reset(given(3, 100)(0), ["rpd"], T0 + 3);
    await place.take([given(3, 100)(80)], T0 + 4);
    assert.deepEqual(await told.now(), ["rpd 80"]);
  });

  story("what is deleted and made anew tells anew", async (place) => {
    const told = listening(place);
    await place.create({ id: "a" });
    await place.take([claim("a", daily, { day: 80 })], T0);
    await place.scope.buckets.thresholdsTold?.();
    await place.scope.entities.delete("a", place.event("entity_deleted", "a"));
    await place.create({ id: "a" }, T0 + 1);
    await place.take([claim("a", daily, { day: 80 })], T0 + 1);
    assert.deepEqual(await told.now(), ["day 80", "day 80"]);
  });

  story("what a stored lease is charged on top is told with its change", async (place) => {
    const told = listening(place);
    const wanted = claim("a", daily, { day: 60 });
    const ticket = await place.ticket(wanted, T0);
    const { leases } = place.scope;
    if (leases.change === undefined) return;
    const record = leaseOn(wanted, ticket, "l_1");
    assert.deepEqual(await leases.create({ record, finish: undefined }, T0), { kind: "stored" });
    const { bucket, origin } = wanted;
    const held = { bucket, origin, set: limitSet(daily), bypass: false, ticket: PLAIN_TICKET };
    const debits = [{ held, amounts: amountsOf({ day: 25 }) }];
    const next = { ...record, version: 2, writer: "changes" };
    const change = { leaseId: "l_1", version: 1, writer: "changes", key: undefined } as const;
    const moves = { kind: "difference", debits, credits: [] } as const;
    const writeOf = () => ({ record: next, finish: undefined });
    const reply = await leases.change({ ...change, moves, writeOf }, { nowMs: T0, timeoutMs: 10_000 });
    assert.equal(reply.kind, "stored");
    assert.deepEqual(await told.now(), ["day 80"]);
  });

  story("percentages are stored with the limits of a level", async (place) => {
    const limits = [...daily, ...session, ...rpm, Limit.perMinute("plain", 10)];
    await place.set({ level: "resource", resource: "api" }, limits);
    assert.deepEqual((await place.scope.config.get({ level: "resource", resource: "api" }))?.limits, limits);
    assert.deepEqual((await place.resolve("a", "api")).limits, limits);
  });

  story("marks are read back with the bucket, whatever else it has", async (place) => {
    const all = [...rpm, ...session, ...daily, Limit.perMinute("plain", 10)];
    await place.take([claim("a", all, { rpm: 80, burst: 95, day: 10 })], T0);
    await place.scope.buckets.thresholdsTold?.();
    const seen = await (await place.another()).state("a");
    const marks = new Map(seen?.limits.map(({ name, told }) => [name, told]));
    assert.deepEqual(
      ["rpm", "burst", "day", "plain"].map((name) => marks.get(name)),
      [80, 95, undefined, undefined],
    );
  });
}
