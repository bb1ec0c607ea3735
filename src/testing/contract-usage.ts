import assert from "node:assert/strict";
import { Limit } from "../domain/limit.ts";
import type { UsageSnapshot, UsageWindow } from "../domain/usage.ts";
import { allPages, claim, DAY_MS, HOUR_MS, type Place, type Suite, samePaged, T0 } from "./contract-kit.ts";

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
    const times = [APRIL - 1, APRIL, APRIL - HOUR_MS - 1, MARCH, MARCH - 1];
    for (const [i, atMs] of times.entries()) await place.take([claim("a", both, { rpm: 10 ** i % 999 })], atMs);
    assert.deepEqual(await counted(place, "hourly"), [
      [MARCH - HOUR_MS, 10_000 % 999],
      [MARCH, 1_000 % 999],
      [APRIL - 2 * HOUR_MS, 100],
      [APRIL - HOUR_MS, 1],
      [APRIL, 10],
    ]);
    assert.deepEqual(await counted(place, "daily"), [
      [MARCH - DAY_MS, 10_000 % 999],
      [MARCH, 1_000 % 999],
      [APRIL - DAY_MS, 101],
      [APRIL, 10],
    ]);
    assert.deepEqual(await counted(place, "monthly"), [
      [Date.UTC(2026, 1, 1), 10_000 % 999],
      [MARCH, 101 + (1_000 % 999)],
      [APRIL, 10],
    ]);
    const [, march] = await usage(place, "monthly");
    assert.equal(march?.windowEndMs, APRIL);
  });

  suite.test("usage belongs to the hour of the event, also when the bucket lives on for hours", async (place) => {
    for (let hour = 0; hour < 4; hour++) await place.take([claim("a", both, { rpm: hour + 1 })], T0 + hour * HOUR_MS);
    // A clock that is behind counts where it thinks it is.
    await place.debit(claim("a", both, {}), { rpm: 10 }, T0 + HOUR_MS);
    await place.credit(claim("a", both, {}), { rpm: 1 }, T0 + 2 * HOUR_MS);
    assert.deepEqual(await counted(place, "hourly"), [
      [T0, 1],
      [T0 + HOUR_MS, 12],
      [T0 + 2 * HOUR_MS, 2],
      [T0 + 3 * HOUR_MS, 4],
    ]);
  });

  suite.test("usage of a limit that was changed or removed meanwhile is not lost", async (place) => {
    await place.take([claim("a", both, { rpm: 2, tpm: 3 })], T0);
    const rpm = [Limit.perMinute("rpm", 10)];
    await place.take([claim("a", rpm, { rpm: 4 }, { origin: { asOfMs: T0 + 1, generation: 2 } })], T0 + 1);
    const [snapshot] = await usage(place, "daily");
    assert.deepEqual(snapshot?.counters, { rpm: 6, tpm: 3 });
    assert.equal(snapshot.requests, 2);
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
      [1, "b", "x"],
      [0, "b", "y"],
      [0, "b", "x"],
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

  suite.test("a hundred takes at once are a hundred requests", async (place) => {
    await Promise.all(Array.from({ length: 100 }, () => place.take([claim("a", both, { rpm: 1, tpm: 2 })], T0)));
    const [snapshot] = await usage(place, "hourly");
    assert.deepEqual([snapshot?.requests, snapshot?.counters], [100, { rpm: 100, tpm: 200 }]);
  });
}

function usage(place: Place, window: UsageWindow): Promise<UsageSnapshot[]> {
  const query = { window, fromMs: 0, toMs: Number.MAX_SAFE_INTEGER };
  return allPages((page) => place.scope.usage.query(query, page), 100);
}

async function counted(place: Place, window: UsageWindow): Promise<(readonly [number, number | undefined])[]> {
  return (await usage(place, window)).map(({ windowStartMs, counters }) => [windowStartMs, counters.rpm] as const);
}
