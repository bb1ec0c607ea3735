import assert from "node:assert/strict";
import type { UsageSnapshot, UsageWindow, Windows, ZonedWindow } from "../../src/domain/charge/usage.ts";
import { Limit } from "../../src/domain/limits/limit.ts";
import { allPages, claim, DAY_MS, HOUR_MS, type Suite, samePaged, T0, type TestedNamespace } from "./contract-kit.ts";

const both = [Limit.perMinute("rpm", 1_000), Limit.perMinute("tpm", 1_000)];
const MIDNIGHT = Date.UTC(2026, 2, 15);
const MARCH = Date.UTC(2026, 2, 1);
const APRIL = Date.UTC(2026, 3, 1);

/** What was consumed, per hour, day and month of UTC, by the time of the event. */
export function usageContract(suite: Suite): void {
  suite.test("takes and debits count up, give-backs count down, refusals not at all", async (place) => {
    await place.take([claim("a", both, { rpm: 1, tpm: 500 })], T0);
    await place.take([claim("a", both, { rpm: 1, tpm: 100 })], T0 + 1);
    await place.take([claim("a", both, { rpm: 1, tpm: 900 })], T0 + 2);
    await place.debit(claim("a", both, {}), { tpm: 50 }, T0 + 3);
    await place.credit(claim("a", both, {}), { rpm: 1, tpm: 120 }, T0 + 4);
    const [snapshot, ...rest] = await usage(place, "hourly");
    assert.deepEqual(rest, []);
    assert.deepEqual(snapshot, {
      entityId: "a",
      resource: "api",
      window: "hourly",
      windowStartMs: T0,
      windowEndMs: T0 + HOUR_MS,
      counters: { rpm: 1, tpm: 530 },
      requests: 2,
      overdrafts: {},
      bypassed: {},
      wouldRefuse: {},
      heldMs: {},
    });
  });

  suite.test("activity in the first hour after midnight shows in that hour once and in its day once", async (place) => {
    await place.take([claim("a", both, { rpm: 3 })], MIDNIGHT);
    await place.take([claim("a", both, { rpm: 4 })], MIDNIGHT + HOUR_MS - 1);
    await place.take([claim("a", both, { rpm: 5 })], MIDNIGHT + 5 * HOUR_MS);
    assert.deepEqual(await counted(place, "hourly"), [
      [MIDNIGHT, 7],
      [MIDNIGHT + 5 * HOUR_MS, 5],
    ]);
    assert.deepEqual(await counted(place, "daily"), [[MIDNIGHT, 12]]);
  });

  suite.test("hours, days and months are told apart at their UTC edges", async (place) => {
    const times = [MARCH - 1, MARCH, APRIL - HOUR_MS - 1, APRIL - 1, APRIL];
    for (const [i, atMs] of times.entries()) await place.take([claim("a", both, { rpm: 2 ** i })], atMs);
    assert.deepEqual(await counted(place, "hourly"), [
      [MARCH - HOUR_MS, 1],
      [MARCH, 2],
      [APRIL - 2 * HOUR_MS, 4],
      [APRIL - HOUR_MS, 8],
      [APRIL, 16],
    ]);
    assert.deepEqual(await counted(place, "daily"), [
      [MARCH - DAY_MS, 1],
      [MARCH, 2],
      [APRIL - DAY_MS, 12],
      [APRIL, 16],
    ]);
    assert.deepEqual(await counted(place, "monthly"), [
      [Date.UTC(2026, 1, 1), 1],
      [MARCH, 14],
      [APRIL, 16],
    ]);
    const [, march] = await usage(place, "monthly");
    assert.equal(march?.windowEndMs, APRIL);
  });

  suite.test("usage belongs to the hour of the event, also when the bucket lives on for hours", async (place) => {
    for (let hour = 0; hour < 4; hour++) {
      await place.take([claim("a", both, { rpm: hour + 1 })], T0 + hour * HOUR_MS);
      await place.debit(claim("a", both, {}), { rpm: 10 }, T0 + hour * HOUR_MS + 1);
    }
    // Given back after the hour of its take: it counts when it comes back, and an hour may be negative.
    await place.credit(claim("a", both, {}), { rpm: 3 }, T0 + 5 * HOUR_MS);
    assert.deepEqual(await counted(place, "hourly"), [
      [T0, 11],
      [T0 + HOUR_MS, 12],
      [T0 + 2 * HOUR_MS, 13],
      [T0 + 3 * HOUR_MS, 14],
      [T0 + 5 * HOUR_MS, -3],
    ]);
  });

  suite.test(
    "what is given back long after it was taken is not used, also where its bucket is forgotten",
    async (place) => {
      const length = Math.min(300, suite.repeatsMax);
      const crowd = (name: string) => Array.from({ length }, (_, i) => claim(`${name}-${i}`, both, { tpm: 1 }));
      const free = claim("b", both, { tpm: 40 }, { bypass: true });
      await place.take([claim("a", both, { tpm: 700 })], T0);
      await place.take([free], T0);
      await Promise.all(crowd("early").map((one) => place.take([one], T0)));
      // Full for hours; and others come, with whom a store may sweep.
      await Promise.all(crowd("late").map((one) => place.take([one], T0 + 3 * HOUR_MS)));
      await place.credit(claim("a", both, {}), { tpm: 600 }, T0 + 3 * HOUR_MS);
      await place.credit(free, { tpm: 40 }, T0 + 3 * HOUR_MS);
      const told = (await usage(place, "daily")).filter(({ entityId }) => entityId.length === 1);
      assert.deepEqual(
        told.map(({ entityId, requests, counters, bypassed }) => [entityId, requests, counters, bypassed.tpm ?? 0]),
        [
          ["a", 1, { tpm: 100 }, 0],
          ["b", 1, { tpm: 0 }, 0],
        ],
      );
      assert.equal(await place.grants(claim("a", both, { tpm: 1_000 }), T0 + 3 * HOUR_MS), true, "as full as it was");
      assert.equal(await place.grants(claim("a", both, { tpm: 1 }), T0 + 3 * HOUR_MS), false, "and no fuller");
    },
  );

  suite.test("what is given back to an entity that was deleted does not bring its usage back", async (place) => {
    await place.create({ id: "a" });
    await place.take([claim("a", both, { rpm: 5 })], T0);
    await place.scope.entities.delete("a", place.event("entity_deleted", "a"));
    await place.credit(claim("a", both, {}), { rpm: 5 }, T0 + 1);
    assert.deepEqual(await usage(place, "hourly"), []);
  });

  const where = suite.gaps.has("pastHours") ? "in the hour that is open" : "where it thinks it is";
  suite.test(`a clock that is behind counts ${where}, and nothing is lost`, async (place) => {
    for (let hour = 0; hour < 3; hour++) await place.take([claim("a", both, { rpm: hour + 1 })], T0 + hour * HOUR_MS);
    await place.debit(claim("a", both, {}), { rpm: 10 }, T0 + HOUR_MS);
    await place.credit(claim("a", both, {}), { rpm: 1 }, T0);
    const [first, second, third] = suite.gaps.has("pastHours") ? [1, 2, 12] : [0, 12, 3];
    const due = [[T0, first] as const, [T0 + HOUR_MS, second] as const, [T0 + 2 * HOUR_MS, third] as const];
    assert.deepEqual(await counted(place, "hourly"), due);
    assert.deepEqual(await counted(place, "daily"), [[MIDNIGHT, 15]]);
  });

  suite.test("what was let through is usage too, also where it is given back", async (place) => {
    const free = claim("a", both, { rpm: 5 }, { bypass: true });
    await place.take([free], T0);
    await place.debit(free, { rpm: 2 }, T0 + 1);
    await place.credit(free, { rpm: 1 }, T0 + 2);
    const [snapshot] = await usage(place, "hourly");
    assert.deepEqual([snapshot?.requests, snapshot?.counters, snapshot?.bypassed], [1, { rpm: 6 }, { rpm: 6 }]);
  });

  suite.test("a request that leaves a soft limit below zero is counted, each by itself", async (place) => {
    const soft = [Limit.perDay("soft", 3, { soft: true })];
    await Promise.all(Array.from({ length: 5 }, () => place.take([claim("a", soft, { soft: 1 })], T0)));
    await place.debit(claim("a", soft, {}), { soft: 1 }, T0 + 1);
    await place.take([claim("a", soft, { soft: 1 })], T0 + HOUR_MS);
    const told = (await usage(place, "hourly")).map(({ requests, counters, overdrafts }) => [
      requests,
      counters,
      overdrafts,
    ]);
    assert.deepEqual(told, [
      [5, { soft: 6 }, { soft: 2 }],
      [1, { soft: 1 }, { soft: 1 }],
    ]);
  });

  suite.test("a request that was refused elsewhere is as if it had never been", async (place) => {
    const soft = [Limit.perDay("soft", 3, { soft: true })];
    const chain = [claim("a", soft, { soft: 5 }), claim("b", [Limit.perDay("rpd", 1)], { rpd: 2 })];
    const answers = await place.take(chain, T0);
    for (const [i, answer] of answers.entries()) {
      if (answer.kind !== "taken") continue;
      const one = chain[i] as (typeof chain)[number];
      const held = { ...one, ticket: answer.ticket };
      await place.scope.buckets.credit(held, one.take, { nowMs: T0 + 1, timeoutMs: 60_000, undoes: "request" });
    }
    await place.take([claim("a", soft, { soft: 1 })], T0 + 2);
    const told = (await usage(place, "hourly")).map(({ entityId, requests, overdrafts, counters }) => {
      const counted = Object.entries(overdrafts).filter(([, count]) => count !== 0);
      return [entityId, requests, counted, counters];
    });
    assert.deepEqual(told, [["a", 1, [], { soft: 1 }]]);
  });

  suite.test("an entity that is deleted takes its usage with it", async (place) => {
    for (const id of ["a", "b"]) await place.create({ id });
    for (let hour = 0; hour < 3; hour++) {
      for (const id of ["a", "b"]) await place.take([claim(id, both, { rpm: 1 })], T0 + hour * HOUR_MS);
    }
    await place.scope.entities.delete("a", place.event("entity_deleted", "a"));
    assert.deepEqual(
      (await usage(place, "daily")).map(({ entityId, counters }) => [entityId, counters]),
      [["b", { rpm: 3 }]],
    );
  });

  suite.test("usage of a limit that was changed or removed meanwhile is not lost", async (place) => {
    await place.take([claim("a", both, { rpm: 2, tpm: 3 })], T0);
    const rpm = [Limit.perMinute("rpm", 10)];
    const later = { origin: { asOfMs: T0 + 1, generation: 2 } };
    await place.take([claim("a", rpm, { rpm: 4 }, later)], T0 + 1);
    // By then the limit that went is full again, and forgotten; an hour later the hour is closed.
    await place.take([claim("a", rpm, {}, later)], T0 + HOUR_MS / 2);
    await place.debit(claim("a", rpm, {}, later), { rpm: 0 }, T0 + HOUR_MS);
    const [snapshot] = await usage(place, "daily");
    assert.deepEqual(snapshot?.counters, { rpm: 6, tpm: 3 });
    assert.equal(snapshot.requests, 3);
  });

  suite.test("a query picks entity, resource and the windows that start in its span", async (place) => {
    for (const entityId of ["a", "b"]) {
      for (const resource of ["api", "web"]) {
        for (let hour = 0; hour < 3; hour++) {
          await place.take([claim(entityId, both, { rpm: 1 }, { resource })], T0 + hour * HOUR_MS);
        }
      }
    }
    const query = (filter: { entityId?: string; resource?: string; fromMs?: number; toMs?: number }) =>
      allPages(
        (page) =>
          place.scope.usage.query({ window: "hourly", fromMs: 0, toMs: Number.MAX_SAFE_INTEGER, ...filter }, page),
        5,
      );
    assert.equal((await query({})).length, 12);
    assert.equal((await query({ entityId: "a" })).length, 6);
    assert.equal((await query({ resource: "web" })).length, 6);
    assert.equal((await query({ entityId: "a", resource: "web" })).length, 3);
    const middle = await query({ entityId: "a", resource: "web", fromMs: T0 + HOUR_MS, toMs: T0 + 2 * HOUR_MS });
    assert.deepEqual(
      middle.map(({ windowStartMs }) => windowStartMs),
      [T0 + HOUR_MS],
    );
  });

  suite.test("snapshots are listed by window, then entity, then resource, page by page", async (place) => {
    for (const [hour, entityId, resource] of [
      [0, "b", "x"],
      [1, "b", "x"],
      [0, "b", "y"],
      [0, "a", "z"],
      [25, "a", "z"],
    ] as const) {
      await place.take([claim(entityId, both, { rpm: 1 }, { resource })], T0 + hour * HOUR_MS);
    }
    const listed = (window: UsageWindow) => async (page: { limit: number; cursor?: string }) => {
      const query = { window, fromMs: 0, toMs: Number.MAX_SAFE_INTEGER };
      const { items, ...rest } = await place.scope.usage.query(query, page);
      return { ...rest, items: items.map((one) => [one.windowStartMs, one.entityId, one.resource]) };
    };
    await samePaged(listed("hourly"), [
      [T0, "a", "z"],
      [T0, "b", "x"],
      [T0, "b", "y"],
      [T0 + HOUR_MS, "b", "x"],
      [T0 + 25 * HOUR_MS, "a", "z"],
    ]);
    await samePaged(listed("daily"), [
      [MIDNIGHT, "a", "z"],
      [MIDNIGHT, "b", "x"],
      [MIDNIGHT, "b", "y"],
      [MIDNIGHT + DAY_MS, "a", "z"],
    ]);
  });

  suite.test("days of a zone have the hours that begin in them, also where the clock changes", async (place) => {
    // Berlin: the night of 29 March has an hour less. Lord Howe: its days begin at half past, or at the hour, by the season.
    const zones: readonly (readonly [tz: string, midnights: readonly string[]])[] = [
      ["Europe/Berlin", ["2026-03-27T23:00Z", "2026-03-28T23:00Z", "2026-03-29T22:00Z", "2026-03-30T22:00Z"]],
      ["Australia/Lord_Howe", ["2026-04-03T13:00Z", "2026-04-04T13:00Z", "2026-04-05T13:30Z", "2026-04-06T13:30Z"]],
    ];
    for (const [tz, texts] of zones) {
      const midnights = texts.map((text) => Date.parse(text));
      const [firstMs = 0, ...others] = midnights;
      const untilMs = others.at(-1) as number;
      const entityId = tz.replace("/", "-");
      for (let atMs = Math.ceil(firstMs / HOUR_MS) * HOUR_MS - HOUR_MS; atMs <= untilMs + HOUR_MS; atMs += HOUR_MS) {
        for (const resource of ["api", "web"])
          await place.take([claim(entityId, both, { rpm: 1 }, { resource })], atMs);
      }
      const days = daysAt(tz, [firstMs - DAY_MS, ...midnights, untilMs + DAY_MS]);
      const hours = [firstMs, ...others].slice(0, -1).map((startMs, i) => {
        const endMs = others[i] as number;
        return [startMs, endMs, Math.ceil(endMs / HOUR_MS) - Math.ceil(startMs / HOUR_MS)] as const;
      });
      for (const about of [{ entityId }, { entityId, resource: "web" }, {}]) {
        const asked = { window: days, fromMs: firstMs, toMs: untilMs, ...about };
        const found = await allPages((page) => place.scope.usage.query(asked, page), 3);
        const own = found.filter((one) => one.entityId === entityId && one.resource === "web");
        assert.deepEqual(
          own.map(({ windowStartMs, windowEndMs, counters }) => [windowStartMs, windowEndMs, counters.rpm]),
          hours,
          `${tz} of ${JSON.stringify(about)}`,
        );
        assert.ok(own.every((one) => one.tz === tz && one.window === "daily"));
        await samePaged((page) => place.scope.usage.query(asked, page), found);
      }
    }
  });

  suite.test("a hundred takes at once are a hundred requests", async (place) => {
    await Promise.all(Array.from({ length: 100 }, () => place.take([claim("a", both, { rpm: 1, tpm: 2 })], T0)));
    const [snapshot] = await usage(place, "hourly");
    assert.deepEqual([snapshot?.requests, snapshot?.counters], [100, { rpm: 100, tpm: 200 }]);
  });
}

/** The days between midnights; earlier and later ones are of no concern. */
function daysAt(tz: string, midnights: readonly number[]): ZonedWindow {
  return {
    length: "daily",
    tz,
    startOf: (atMs) => midnights.findLast((startMs) => startMs <= atMs) ?? Number.MIN_SAFE_INTEGER,
    endOf: (startMs) => midnights.find((endMs) => endMs > startMs) ?? Number.MAX_SAFE_INTEGER,
  };
}

function usage(place: TestedNamespace, window: Windows): Promise<UsageSnapshot[]> {
  const query = { window, fromMs: 0, toMs: Number.MAX_SAFE_INTEGER };
  return allPages((page) => place.scope.usage.query(query, page), 100);
}

async function counted(
  place: TestedNamespace,
  window: UsageWindow,
): Promise<(readonly [number, number | undefined])[]> {
  return (await usage(place, window)).map(({ windowStartMs, counters }) => [windowStartMs, counters.rpm] as const);
}
